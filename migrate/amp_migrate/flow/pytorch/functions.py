"""Functions and classes of PyTorch and of other packages, by their full names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial, reduce
from itertools import count, takewhile
from operator import or_

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Atom,
    Class,
    Const,
    DeviceOf,
    External,
    Func,
    Obj,
    Opaque,
    Part,
    Some,
    Tup,
    Value,
    const,
    constant,
    join,
    join_all,
    many,
    one,
    only,
    some,
    tensor_of,
    tensors_in,
    tup,
)
from amp_migrate.flow.domain.dtypes import LIMITS, TENSOR_TYPES
from amp_migrate.flow.domain.tensor import (
    ANYWHERE,
    BOOL,
    BUFFER,
    COMPLEX,
    CPU,
    CUT,
    DEVICE,
    F32,
    F64,
    FLOWS,
    HUGE,
    INT,
    NOTHING,
    OTHER,
    ROUGH,
    SCALAR,
    SHAPED,
    SIGNED,
    SOME_TENSOR,
    SPARSE,
    Tensor,
    made,
)
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import attributes, builtins, containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import arrays, distributions, gradients, modules, ranges, ranks, switches, tensors, unread
from amp_migrate.flow.pytorch.operators import operate
from amp_migrate.tables import operators as table
from amp_migrate.tables.apex_names import EITHER_FP16_UTILS
from amp_migrate.tables.library_transforms import TRANSFORMS
from amp_migrate.tables.quantization import CONFIGURATIONS, PREPARATIONS, Preparation
from amp_migrate.tables.torch_names import (
    CLIPS_BY_VALUE,
    DATA_PARALLEL_CALLS,
    GRAD_SCALER,
    GRADIENT_COLLECTIVES,
    HOROVOD_COLLECTIVES,
    SAYING_NO_PLACE,
    SCHEDULER_FACTORIES,
    is_module_name,
)

SCALERS = GRAD_SCALER | {"torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"}
_CLIPS = frozenset(
    f"torch.nn.utils.{name}"
    for name in (
        "clip_grad_norm_",
        CLIPS_BY_VALUE,
        "clip_grad_norm",
        "get_total_norm",
        "clip_grads_with_norm_",
        "clip_grad.clip_grad_norm_",
    )
)
_SAME_OBJECT = frozenset(
    (
        "copy.copy torch.compile torch.jit.script torch.nn.SyncBatchNorm.convert_sync_batchnorm "
        "torch.nn.utils.weight_norm torch.nn.utils.spectral_norm torch.nn.utils.parametrizations.spectral_norm "
        "torch.nn.utils.parametrizations.weight_norm apex.parallel.convert_syncbn_model "
        "torch.jit.ignore torch.cuda.amp.autocast_mode._cast "
        # What steps the optimizer that it gets, and shows its parameters as its own.
        "apex.parallel.LARC apex.parallel.LARC.LARC amp_shim.parallel.LARC amp_shim.parallel.larc.LARC "
        "horovod.torch.DistributedOptimizer"
    ).split()
)
_HOROVOD_WAITS = "horovod.torch.synchronize"
_OPERATORS = (
    *(table.RESULT, table.SEVERAL, table.AUTOCAST),
    *(table.NO_HALF_KERNEL, table.MAKING_COMPLEX, table.MAKING_REAL),
)
_READY = frozenset(("torch.cuda.is_available", "torch.backends.cudnn.is_available", "torch.cuda.is_bf16_supported"))
_SILENT = (
    "logging.",
    "os.",
    "sys.",
    "time.",
    "random.",
    "math.",
    "json.",
    "re.",
    "argparse.",
    "warnings.",
    "datetime.",
    "pathlib.",
    "shutil.",
    "glob.",
    "typing.",
)
_HISTOGRAMS = frozenset(("numpy.histogram", "numpy.histogram_bin_edges"))
_OVERFLOW_TESTS = frozenset(f"{module}.{name}" for module in ("math", "numpy") for name in table.OVERFLOW_TESTS)
_STATELESS_PREFIXES = ("torch.", "numpy.", "builtins.", *_SILENT)


def call(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """A call of something of another package."""
    known = _BY_NAME.get(name)
    if known is not None:
        return known(frame, args, node)
    analysis = frame.analysis
    if name in _OVERFLOW_TESTS:
        analysis.pytorch.tests(args.positional, node)
    if name in SCALERS:
        kind = External("torch.amp.GradScaler" if name in GRAD_SCALER else name)
        scaler = Obj(frame.site(node), frame.context_of_objects, kind)
        if frame.runs_often:
            analysis.many.add(scaler)
        gradients.make_scaler(frame, scaler, name, args, node)
        return one(scaler)
    if switches.is_switch(name):
        return switches.made(frame, name, args, node)
    if switches.switch(frame, name, args, node):
        return NONE_VALUE
    if name in _CLIPS:
        last = name.rpartition(".")[2]
        limit = args.get(1, "clip_value" if last == CLIPS_BY_VALUE else "max_norm") or NEVER
        units = gradients.measured(frame, args.get(0, "parameters") or UNKNOWN, limit, node, last)
        return one(made(F32, SCALAR, units=units, reads=frozenset({frame.site(node)})))
    if gradients.is_optimizer_class(name):
        optimizer = Obj(frame.site(node), frame.context_of_objects, External(name))
        if frame.runs_often:
            analysis.many.add(optimizer)
        gradients.make_optimizer(frame, optimizer, args, node)
        return one(optimizer)
    if name.startswith(SCHEDULER_FACTORIES):
        made_here = Obj(frame.site(node), frame.context_of_objects, External(name))
        frame.write(made_here, "optimizer", args.get(0, "optimizer") or UNKNOWN, strong=False)
        return one(made_here)
    if name in _READY:
        # What autocast is for is there: it switches itself off where it is not.
        return const(True)
    if name.startswith("tqdm."):
        return _progress(frame, name, args)
    if name in _SAME_OBJECT:
        limited = (args.get(0, "module") or NEVER) if name.endswith(".spectral_norm") else NEVER
        for each in (atom for atom in limited if isinstance(atom, Obj)):
            frame.analysis.pytorch.limited |= modules.leaves(frame, each)
        return args.get(0, "optimizer") or UNKNOWN
    if is_module_name(name) or (name == modules.SOME_LAYER and not args.positional):
        return modules.make(frame, name, args, node)
    if name in HOROVOD_COLLECTIVES or name == _HOROVOD_WAITS:
        return _of_all_processes(frame, name, args, node)
    if distributions.is_distribution(name):
        return distributions.make(frame, name, args, node)
    if name.startswith("torch."):
        return _of_torch(frame, name, args, node)
    if name.startswith("numpy."):
        return _of_numpy(frame, name, args, node)
    return _foreign(frame, name, args, node)


def _progress(frame: Frame, name: str, args: Arguments) -> Value:
    """A progress bar is taken for what it goes through, which has the bar's own methods besides."""
    if name.endswith("range"):  # `trange(n)`, and `tnrange(n)` of a notebook
        return some("range")
    shown = args.get(0, "iterable") or UNKNOWN
    for each in shown:
        if isinstance(each, Obj):
            frame.write(each, attributes.MORE, TRUTHS, strong=False)
    return shown


def _of_all_processes(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """Horovod makes of a tensor that of all processes: another, or it changes this one; a handle stands for it."""
    given = args.get(0, "tensors" if "grouped_" in name else "handle" if name == _HOROVOD_WAITS else "tensor")
    if given is None:
        return UNKNOWN
    is_new = not name.endswith("_") and bool(given) and all(isinstance(each, Tensor) for each in given)
    return operate(frame, "clone", [given], node, args) if is_new else given


def operator_name(name: str) -> str:
    """The operator behind a full name: `softmax` for `torch.nn.functional.softmax`."""
    for prefix in ("torch.nn.functional.", "torch.Tensor.", "torch.special.", "torch.functional.", "torch._C._nn."):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name.removeprefix("torch.")


def _of_torch(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    op = operator_name(name)
    default = args.get(0, "device") if op == "set_default_device" else None
    is_known = default is not None and frame.analysis.pytorch.place_of(default) is not None
    says_where = op.startswith(("cuda.", "set_default_")) and op.removeprefix("cuda.") not in SAYING_NO_PLACE
    if says_where and not is_known:
        frame.analysis.pytorch.note_place(ANYWHERE)  # perhaps for tensors that are made elsewhere
    if op in table.CREATED:
        return _new(frame, op, args, node)
    by_type = TENSOR_TYPES.get(name)
    if by_type is not None:  # which takes no tensor of another place
        place = DEVICE if op.startswith("cuda.") else CPU
        tags = _tags_of_data(frame, args.get(0, "data") or NEVER, node)
        return one(made(by_type, SHAPED, place, tags=tags, born=frozenset({frame.site(node)})))
    if op in table.OF_VALUES:
        return _of_values(frame, op, args, node)
    if op in table.LIKE:
        like = tensor_of(args.positional[0]) if args.positional else None
        return tensors.like(frame, like or SOME_TENSOR, args, op, node)
    base = op[:-1] if op.endswith("_") and op[:-1] in table.RESULT else op
    if any(base in names for names in _OPERATORS):
        return _operator(frame, base, args, node, in_place=base != op)
    if op == "_foreach_zero_":
        gradients.cleared_together(frame, args.get(0, "self") or NEVER, node)
        return NONE_VALUE
    if name in GRADIENT_COLLECTIVES and constant(args.keywords.get("async_op") or const(False)) is False:
        return NONE_VALUE
    last = name.rpartition(".")[2]
    if last in (
        "manual_seed",
        "seed",
        "synchronize",
        "empty_cache",
        "set_device",
        "barrier",
        "init_process_group",
        "save",
        "set_default_dtype",
        "set_default_tensor_type",
    ):
        for value in args.positional[:1]:
            if last == "save":
                _saved(frame, value, node)
            elif last.startswith("set_default") and frame.analysis.pytorch.precision_of(value) == F64:
                frame.analysis.event(frame, Act.DOUBLED, node)
        return NONE_VALUE
    if last in ("is_tensor", "is_floating_point", "is_grad_enabled", "is_autocast_enabled"):
        return TRUTHS
    if last in ("device_count", "get_rank", "get_world_size", "current_device", "numel"):
        return some("int")
    if (
        name.startswith(("torch.utils.data.", "torch.distributed.", "torch.profiler", "torch.cuda."))
        or last[:1].isupper()
    ):
        owner = Obj(frame.site(node), frame.context_of_objects, External(name))
        modules.hold_arguments(frame, owner, args)
        if args.rest or args.others:
            frame.write(owner, _MORE, join(args.rest, args.others), strong=False)
        return one(owner)
    return modules.unknown_result(frame, NEVER, args, node, name=name)


def _saved(frame: Frame, value: Value, node: ast.AST) -> None:
    gradients.gauge(frame, value, node, "saved")
    registry = frame.analysis.pytorch.registry
    held = gradients.all_in(frame, value)
    for whole in held:  # not its state, but all of it: `torch.save([model, optimizer], path)`
        for each in tensors_in(one(whole)):
            if unread.is_of_model(frame, whole) and each.may_be_low and each.regions:
                frame.analysis.event(frame, Act.SAVED, node, tensor=each, subject=held, why="a low value")
        if whole in registry.optimizers:
            frame.analysis.event(frame, Act.SAVED, node, optimizer=one(whole))
        elif whole in registry.scalers:
            frame.analysis.event(frame, Act.SAVED, node, scaler=one(whole))


_MORE = "<*>"  # what is given by stars
_LOADER, _OF_TENSORS = "torch.utils.data.DataLoader", "torch.utils.data.TensorDataset"
# What may make other batches than of rows: a sampler of batches, a function that puts them together, stars.
_OTHERWISE = ("<4>", "<batch_sampler>", "<6>", "<collate_fn>", _MORE)
_LIST_OPERANDS = frozenset(
    "cat concat concatenate stack hstack vstack dstack row_stack column_stack block_diag meshgrid "
    "broadcast_tensors cartesian_prod einsum chain_matmul linalg.multi_dot".split()
)


def _operator(frame: Frame, op: str, args: Arguments, node: ast.AST, *, in_place: bool) -> Value:
    """An operator of PyTorch, by its table."""
    if op in _LIST_OPERANDS:
        given: list[Value] = []
        for value in args.positional:
            for atom in value:
                if isinstance(atom, (Tup,)) or (isinstance(atom, Obj) and atom.made_of is containers.LIST):
                    items, rest = containers.sequence(frame, one(atom), node)
                    given += [*items, *([rest] if rest else [])]
                elif isinstance(atom, (Tensor, Opaque)):
                    given.append(one(atom))
        if "tensors" in args.keywords:
            given.append(containers.elements(frame, args.keywords["tensors"], node))
        return operate(frame, op, given or [UNKNOWN], node, args)
    operands = [*args.positional]
    named = tensors.named_operands(args)
    if not operands and named:
        operands, named = named[:1], named[1:]
    if op not in tensors.FIRST_ONLY:
        operands += named
    if args.rest or args.others:
        operands.append(join(args.rest, args.others))
    if op in ("where",) and len(operands) == 1:
        return many(one(made(INT, SHAPED)))
    if op in ("where", "lerp_", "masked_fill") and len(operands) > 1:
        operands = operands[1:] if op == "where" else operands[:1]
    if op in ("embedding", "embedding_bag"):
        operands = operands[1:2]
    if op in (
        "gather",
        "index_select",
        "scatter",
        "scatter_add",
        "index_add",
        "take",
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
    ) and op not in ("scatter_add",):
        operands = operands[:1] if op != "binary_cross_entropy" else operands[:2]
    out = args.keywords.get("out")
    found = operate(frame, op, operands or [UNKNOWN], node, args, in_place=in_place)
    if out is None or out == NONE_VALUE:
        return found
    for each in tensors_in(out):
        gradients.replaced(frame, each, [found], node)
        gradients.overwritten(frame, each)
    return out


def _of_values(frame: Frame, op: str, args: Arguments, node: ast.AST) -> Value:
    """A sparse tensor, which has the precision and the gradients of its values."""
    given = args.get(table.OF_VALUES[op], "values") or UNKNOWN
    values = tensor_of(given)
    if values is None:
        precision, _, place = _data(frame, given, node)
        values = made(precision, SHAPED, CPU if place is None else place)
    where = frame.analysis.pytorch.place_of(args.keywords.get("device", NEVER))
    return operate(frame, op, [one(values if where is None else values.but(place=where))], node, args)


def _new(frame: Frame, op: str, args: Arguments, node: ast.AST) -> Value:
    """A new tensor."""
    pytorch = frame.analysis.pytorch
    out = args.keywords.get("out")
    if out is not None and out != NONE_VALUE:
        return out
    said = pytorch.precision_of(args.keywords["dtype"]) if "dtype" in args.keywords else None
    device = args.keywords.get("device", NEVER)
    where = pytorch.place_of(device)
    if where is None and any(isinstance(each, Opaque) for each in device):  # which is no tensor here
        where = ANYWHERE
        pytorch.note_place(where)
    rank, regions = SHAPED, tensors.regions_of(args.keywords.get("dtype", NEVER))
    precision, tags = F32, 0
    first = args.positional[0] if args.positional else NEVER
    place = CPU if where is None else where
    if op in ("tensor", "as_tensor", "from_numpy", "scalar_tensor"):
        precision, rank, inherited = _data(frame, first, node)
        if where is None and inherited is not None and op != "from_numpy":
            place = inherited
        tags = _tags_of_data(frame, first, node)
    elif op in ("randint", "randperm", "tril_indices", "triu_indices"):
        precision = INT
    elif op in ("arange", "range"):
        kinds = {each.kind for value in args.positional for each in value if isinstance(each, (Const, Some))}
        sure = all(isinstance(each, (Const, Some)) for value in args.positional for each in value)
        precision = F32 if "float" in kinds else INT if sure and kinds <= {"int", "bool"} else INT | F32
    elif op == "full":
        value = args.get(1, "fill_value") or NEVER
        ranges.note_numbers(frame, value, node)
        tags = ranges.of_numbers(frame, node) & HUGE
        kinds = {each.kind if isinstance(each, (Const, Some)) else "?" for each in value}
        precision = (
            F32 if kinds == {"float"} else INT if kinds == {"int"} else BOOL if kinds == {"bool"} else INT | F32 | BOOL
        )
    elif op == "normal" and (given := _tensors_of(args.get(0, "mean"), args.get(1, "std"))):  # they say where, too
        precision, place, regions = given[0].precision, given[0].place, regions | given[0].regions
        distributions.note_drawn(frame, given[0], node)
    if op in table.NEW or op == "full":
        rank = _rank_of_new(op, args)
    if said is None and any(isinstance(each, Opaque) for each in args.keywords.get("dtype", NEVER)):
        said = precision | OTHER
    precision = precision if said is None else said
    fresh = made(precision, rank, place, tags=tags, regions=regions, born=frozenset({frame.site(node)}))
    pytorch.note_filled(op, frame.site(node))
    return one(tensors.asked_for_gradient(frame, fresh, args, node))


def _tags_of_data(frame: Frame, data: Value, node: ast.AST) -> int:
    """What the numbers say that a tensor is made of."""
    ranges.note_numbers(frame, gradients.all_in(frame, data), node)
    return ranges.of_numbers(frame, node) | (HUGE if arrays.has_huge(frame, [data]) else 0)


def batch(frame: Frame, loader: Obj, node: ast.AST) -> Value:
    """What a loader gives of a `TensorDataset`: a list of rows of its tensors. Nothing where it may be another."""
    sets, sizes = (
        frame.read(loader, f"<{place}>") | frame.read(loader, f"<{word}>")
        for place, word in enumerate(("dataset", "batch_size"))
    )
    data = next(iter(sets)) if len(sets) == 1 else None
    if not isinstance(data, Obj) or data.external != _OF_TENSORS or loader.external != _LOADER:
        return NEVER
    said = [each for name in _OTHERWISE for each in frame.read(loader, name) - NONE_VALUE]
    whole = [*takewhile(bool, (frame.read(data, f"<{place}>") for place in count()))]
    if said or sizes >= NONE_VALUE or frame.read(data, _MORE) or not whole:
        return NEVER
    rows = [frozenset(_rows(each) for each in value if isinstance(each, Tensor)) for value in whole]
    if any(len(own) < len(value) for own, value in zip(rows, whole, strict=True)):
        return NEVER
    return builtins.call(frame, "list", Arguments([tup(rows)]), node)


def some_rows(frame: Frame, loader: Obj, node: ast.AST) -> Tensor:
    """What is known of the rows that a loader gives: where its data holds them, and code of the project brings them.

    What that code makes is on the CPU, and sparse where it makes it so.
    """
    data, collate = (
        frame.read(loader, f"<{place}>") | frame.read(loader, f"<{word}>")
        for place, word in ((0, "dataset"), (6, "collate_fn"))
    )
    own = [each for each in data if isinstance(each, Obj) and isinstance(each.made_of, Class)]
    kept = (frame.read(each, name) for each in own for name in frame.analysis.heap.names(each, frame.task))
    held = gradients.all_in(frame, join_all((data, *kept)))
    making = frozenset(each for each in (*own, *collate) if _makes_otherwise(each))
    made = join_all(
        frame.analysis.get_item(frame, each, some("int"), node) for each in making - collate if isinstance(each, Obj)
    )
    if making & collate:
        made = frame.analysis.call(frame, making & collate, Arguments([many(made or UNKNOWN)]), node)
    frame.is_dead = False
    rows = [*tensors_in(gradients.all_in(frame, made))]
    place = reduce(or_, (each.place for each in (*tensors_in(held), *rows)), CPU if own or making else 0) or CPU
    return SOME_TENSOR.but(place=place, flows=1, tags=reduce(or_, (each.tags & SPARSE for each in rows), 0))


def _makes_otherwise(atom: Atom | Tensor) -> bool:
    """Whether code of the project may make something sparse, or bring it somewhere."""
    kind = atom.made_of if isinstance(atom, Obj) else atom
    words = kind.code.words if isinstance(kind, (Class, Func)) else ()
    return any("sparse" in word or word in ("to", "cuda", "device") for word in words)


def _rows(tensor: Tensor) -> Tensor:
    return tensor.but(rank=SHAPED, leaf=NOTHING, reach=tensor.reach | tensor.leaf, surely=tensor.sure_leaves)


def _tensors_of(*values: Value | None) -> list[Tensor]:
    """What is known of those values that may be tensors."""
    return [each for value in values if value is not None and (each := tensor_of(value)) is not None]


def _rank_of_new(op: str, args: Arguments) -> int:
    if op not in ("rand", "randn", "zeros", "ones", "empty"):
        given = args.positional[:1] if op == "full" else []
        return SHAPED if op != "full" else ranks.of_sizes(given)
    if args.rest or "size" in args.keywords:
        return SCALAR | SHAPED
    return ranks.of_sizes(args.positional) if args.positional else SCALAR


def _data(frame: Frame, value: Value, node: ast.AST, around: tuple[Atom, ...] = ()) -> tuple[int, int, int | None]:
    """The precision and rank of a tensor that is made of data, and its place where that is a tensor's.

    Args:
        around: the containers that the data is in; what is known of a list as a whole may be in itself.
    """
    precision, rank, place = 0, 0, None
    for atom in value:
        if isinstance(atom, (Const, Some)):
            kinds = {"int": INT, "float": F32, "bool": BOOL, "number": INT | F32}
            precision |= kinds.get(atom.kind, OTHER)
            rank |= SCALAR if atom.kind in kinds else SCALAR | SHAPED
        elif isinstance(atom, Tensor):
            precision, rank, place = precision | atom.precision, rank | atom.rank, atom.place
        elif atom in around:
            rank |= SHAPED
        elif isinstance(atom, Tup) or (isinstance(atom, Obj) and atom.made_of is containers.LIST):
            inner, _, _ = _data(frame, containers.elements(frame, one(atom), node), node, (*around, atom))
            # Of numbers of several kinds, the highest kind decides.
            precision |= (
                F32 if inner & F32 and not inner & OTHER and not inner & ~(F32 | INT | BOOL) else inner
            ) or F32
            rank |= SHAPED
        else:
            precision, rank = precision | OTHER, SCALAR | SHAPED
    return precision or OTHER, rank or SCALAR | SHAPED, place


def _of_numpy(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    for value in args.all():
        to_numpy(frame, value, node)
        if name not in _OVERFLOW_TESTS:
            gradients.gauge(frame, value, node, "given to NumPy")
    if name in _HISTOGRAMS:
        gradients.histogram(frame, args.get(0, "a") or NEVER, args.get(2, "range"), node)
    return arrays.function(frame, name, args, node)


def to_numpy(frame: Frame, value: Value, node: ast.AST) -> None:
    """Note that NumPy makes an array of a low value."""
    for each in tensors_in(value):
        if each.may_be_low and each.regions:
            frame.analysis.event(frame, Act.TO_NUMPY, node, tensor=each)


def _mixed(frame: Frame, name: str, args: Arguments, node: ast.AST) -> None:
    """A kernel that is compiled for one type: autograd's functions hand theirs what autocast has made of a model.

    What may be low, for all that is known of the code that has computed it, is enough: nobody can cast for a kernel.
    """
    context = frame.now.context
    if not context.in_gradient or not context.cuda.may_be_on or name.startswith(_STATELESS_PREFIXES):
        return
    given = [each for value in args.all() for each in tensors_in(value)]
    low = [each for each in given if each.may_be_low and each.regions]
    if low and any(each.precision == F32 for each in given):
        frame.analysis.event(frame, Act.MISMATCH, node, tensor=low[0], why=name.lstrip("."), is_sure=True)


def _compiled(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """An extension that is compiled when the program starts."""
    return one(External("compiled"))


def _foreign(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """Code of another package: nobody follows what it does with what it is given."""
    analysis = frame.analysis
    last = name.rpartition(".")[2]
    for value in args.all():
        if name not in _OVERFLOW_TESTS:
            gradients.gauge(frame, value, node, f"given to {name}")
        if not name.startswith(_SILENT) and "schedul" not in name.lower() and "lr" not in last.lower():
            gradients.handed_on(frame, value, node)
        analysis.escaped(frame, value, "" if unread.is_known(name) else name)
    _mixed(frame, name, args, node)
    if not name.startswith(_SILENT):
        arrays.given(frame, args.all(), node, name)
        given = [tensor for value in args.all() for tensor in tensors_in(value)]
        gets_low = not unread.is_known(name) and any(each.is_low for each in given)
        for each in () if unread.is_meant(frame, name) else given:
            autocast, _ = frame.now.context.low(each.place)
            if each.may_be_low or (autocast.may_be_on and each.precision & (F32 | OTHER)):
                is_sure = gets_low or each.is_low
                analysis.event(frame, Act.FOREIGN, node, tensor=each, why=name, is_sure=is_sure)
    if last[:1].isupper():
        owner = Obj(frame.site(node), frame.context_of_objects, External(name))
        modules.hold_arguments(frame, owner, args)
        unread.noted(frame, name, node)
        unread.note_of_model(frame, args.all(), node)
        if name.startswith((*_SILENT, "contextlib.", *TRANSFORMS, *AS_LAYERS)):
            return one(owner)
        found = join(one(owner), one(Opaque((frame.call_at(node), last))))
        gradients.made_of_leaves(frame, found, args.get(0, "params") or NEVER, node)
        return found
    if name.startswith("math."):
        return some("float")
    if unread.gives_no_tensors(name):
        return one(Opaque((frame.call_at(node), "()")))
    return modules.unknown_result(frame, NEVER, args, node, name=name)


# By name


def _partial(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    owner = Obj(frame.site(node), frame.context_of_objects, External("functools.partial"))
    frame.analysis.partials[owner] = args.without_first()
    if args.positional:
        frame.write(owner, "func", args.positional[0], strong=False)
    return one(owner)


def _namedtuple(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """The class that `namedtuple("T", "a b")` makes."""
    made_class = Obj(frame.site(node), frame.context_of_objects, External(NAMED_TUPLE))
    frame.write(made_class, FIELDS, args.get(1, "field_names") or UNKNOWN, strong=False)
    return one(made_class)


def named_tuple(frame: Frame, kind: Obj, args: Arguments, node: ast.AST) -> Value:
    """An object of such a class, which is a tuple; of names that nobody knows it has none."""
    given = frame.read(kind, FIELDS)
    text = constant(given)
    words = text.replace(",", " ").split() if isinstance(text, str) else []
    if not words:
        known, rest = containers.sequence(frame, given, node)
        found = [] if rest else [constant(each) for each in known]
        words = [each for each in found if isinstance(each, str)]
    if args.rest or args.others or len(words) != len(args.positional) + len(args.keywords):
        return one(Tup((), join_all(args.all()))) if list(args.all()) else UNKNOWN
    items = [args.get(index, word) for index, word in enumerate(words)]
    return one(Tup(tuple(each if each is not None else UNKNOWN for each in items), None, tuple(words)))


def _data_parallel(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`data_parallel(module, inputs, ...)` runs the module on its inputs: several of them, or one that is no tuple."""
    module, inputs = args.get(0, "module"), args.get(1, "inputs")
    if module is None or inputs is None:
        return UNKNOWN
    frame.analysis.pytorch.scatters = True
    if frame.now.context.cuda.may_be_on:
        frame.analysis.event(frame, Act.REPLICAS, node)
    known, rest = containers.sequence(frame, inputs, node)
    is_several = any(isinstance(each, Tup) for each in inputs) and not rest
    return frame.analysis.call(frame, module, Arguments(known if is_several else [inputs]), node)


def _checkpoint(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """Activation checkpointing runs what it is given."""
    if not args.positional:
        return UNKNOWN
    rest = args.without_first()
    rest.keywords = {
        word: value
        for word, value in rest.keywords.items()
        if word not in ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug")
    }
    return frame.analysis.call(frame, args.positional[0], rest, node)


def _checkpoint_sequential(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return (
        frame.analysis.call(frame, args.positional[0], Arguments(args.positional[2:3]), node)
        if len(args.positional) > 2
        else UNKNOWN
    )


def _parameter(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    given = tensor_of(args.get(0, "data") or NEVER)
    owner = Obj(frame.site(node), frame.context_of_objects, External("torch.nn.Parameter"))
    base = given or made(F32, SHAPED)
    is_frozen = constant(args.get(1, "requires_grad") or const(True)) is False
    place = base.place if base.place != CPU else 4
    if given is not None:
        if given.may_be_low and given.regions and not is_frozen:
            frame.analysis.event(frame, Act.LOW_LEAF, node, tensor=given, leaves=frozenset({Part(owner, "")}))
        modules.made_low(frame, [owner], one(given), node)
        if given.precision & COMPLEX and not is_frozen:
            frame.write(owner, gradients.MADE_OF, one(given))
        if given.place != CPU:  # where it stays, unless it is moved with its module
            frame.write(owner, modules.PLACE, const(given.place), strong=False)
    # What sums up products is no weight that is trained, nor what is made of such: the codes of a codebook.
    running = frame.analysis.pytorch.running
    is_running = base.tags & (BUFFER | ROUGH) or any(isinstance(e, Part) and e.owner in running for e in base.reach)
    if is_running:
        running.add(owner)
    tags = (base.tags & ROUGH | BUFFER) if is_running else base.tags & SIGNED if is_frozen else 0
    flows = CUT if is_frozen else FLOWS
    return one(made(base.precision, base.rank, place, flows=flows, tags=tags, leaf=frozenset({Part(owner, "")})))


def _variable(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`Variable(x)` is `x`, and has a gradient of its own where that is asked for."""
    given = args.get(0, "data") or UNKNOWN
    if constant(args.get(1, "requires_grad") or const(False)) is not True:
        return given
    return frozenset(tensors.as_leaf(frame, each, node) if isinstance(each, Tensor) else each for each in given)


def _autograd_grad(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return gradients.gradient_of(frame, args, node)


def _autograd_backward(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    gradients.backward_all(frame, args.get(0, "tensors") or UNKNOWN, args.get(1, "grad_tensors"), node)
    return NONE_VALUE


def _embedding(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    weight = args.get(1, "weight") or UNKNOWN
    return operate(frame, "index", [weight], node)


def _spawn(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`mp.spawn(f, args=(...))` runs `f(rank, ...)`."""
    given = args.get(1, "args")
    more, rest = ([], NEVER) if given is None else containers.sequence(frame, given, node)
    if args.positional:
        frame.analysis.call(frame, args.positional[0], Arguments([some("int"), *more], rest), node)
        frame.is_dead = False
    return UNKNOWN


def _thread(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    target = args.keywords.get("target")
    given = args.keywords.get("args")
    if target is not None:
        more, rest = ([], NEVER) if given is None else containers.sequence(frame, given, node)
        frame.analysis.call(frame, target, Arguments(more, rest), node)
        frame.is_dead = False
    return UNKNOWN


def _reduce(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    inside = containers.elements(frame, args.positional[1], node)
    found = frame.analysis.call(frame, args.positional[0], Arguments([inside, inside]), node)
    frame.is_dead = False
    return join(found, inside)


def _like(kind: str) -> Callable[[Frame, Arguments, ast.AST], Value]:
    return lambda frame, args, node: builtins.call(frame, kind, args, node)


def _defaultdict(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    made_here = builtins.call(frame, "dict", args.without_first(), node)
    for each in made_here:
        assert isinstance(each, Obj)
        frame.write(each, containers.FACTORY, args.positional[0] - NONE_VALUE if args.positional else NEVER)
    return made_here


def _read_data(frame: Frame, args: Arguments, node: ast.AST, name: str) -> Value:
    """What a file of JSON, YAML or TOML says: dictionaries, lists, texts, numbers and truths, which are no tensors.

    Of what the caller makes of it, nobody knows.
    """
    said = args.get(1, "Loader") if name.startswith("yaml.") else None
    is_plain_yaml = said is None or all(isinstance(each, External) and each.name in _YAML_LOADERS for each in said)
    if not is_plain_yaml or args.others or any(word in _MAKING_ANYTHING for word in args.keywords):
        return _foreign(frame, name, args, node)
    kinds = containers.DICT, containers.LIST
    made_here = [each for kind in kinds for each in containers.new(frame, node, kind) if isinstance(each, Obj)]
    found = join_all((frozenset(made_here), some("str"), some("number"), TRUTHS, NONE_VALUE))
    for each in made_here:
        frame.write(each, "<length>", some("int"))
        containers.put(frame, each, found)
    containers.note_key(frame, made_here[0], some("str"))
    return found


_YAML_LOADERS = frozenset(
    f"yaml.{prefix}{name}" for prefix in ("", "C") for name in ("Loader", "FullLoader", "SafeLoader", "BaseLoader")
)
_MAKING_ANYTHING = frozenset("cls object_hook object_pairs_hook parse_float parse_int parse_constant".split())
_DATA = (
    *("json.load", "json.loads", "yaml.load", "yaml.safe_load", "yaml.full_load"),
    *(f"{package}.{name}" for package in ("toml", "tomli", "tomllib") for name in ("load", "loads")),
)


def _getter(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return UNKNOWN


def _device(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    value = args.get(0, "device") or UNKNOWN
    frame.analysis.pytorch.place_of(value)
    known = [each for each in value if isinstance(each, Const)]
    named = {
        each if isinstance(each, DeviceOf) else Const("device", str(each.value).partition(":")[0])
        for each in known
        if each.kind in ("str", "device")
    }
    is_known = named and len(named) == len(known) == len(value)
    return frozenset(named) if is_known else join(frozenset(named), one(Some("device")))


def _finfo(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """What a dtype has for numbers, where the dtype is written there."""
    dtype = only(args.get(0, "type") or args.get(0, "dtype") or NEVER, External)
    if dtype is None or dtype.name not in LIMITS:
        return one(Opaque((frame.call_at(node), "()")))
    return one(External(f"torch.finfo.{dtype.name}"))


def _rnn_pack(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return args.get(0, "input") or UNKNOWN


def _rnn_unpack(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return tup([args.get(0, "sequence") or UNKNOWN, one(made(INT, SHAPED))])


def _pad_sequence(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return containers.elements(frame, args.get(0, "sequences") or UNKNOWN, node)


def _exit(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    frame.may_raise()
    frame.is_dead = True
    return NEVER


def _closing(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return one(Obj(frame.site(node), frame.context_of_objects, External("contextlib.nullcontext")))


def _apex_initialize(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`amp.initialize`: what it is given, as it is; models alone where there is no optimizer."""
    models, optimizers = args.get(0, "models") or UNKNOWN, args.get(1, "optimizers") or NONE_VALUE
    return models if optimizers == NONE_VALUE else tup([models, optimizers])


def _fp16_network(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`network_to_half` and its like: what is given, with its weights of a dtype, or in half precision."""
    given, dtype = args.get(0, "network") or UNKNOWN, args.get(1, "dtype")
    method, told = ("half", []) if dtype is None else ("to", [dtype or UNKNOWN])
    for each in (atom for atom in given if isinstance(atom, Atom)):
        modules.moved(frame, each, method, Arguments(told), node)
    return given


def _fp16_kept(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`BN_convert_float`: what is given; only its batch norms are float32 then."""
    return args.get(0, "module") or UNKNOWN


def _apex_scale_loss(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`amp.scale_loss`: the loss, for behind the `with` its gradients are true ones, whatever they were in it."""
    made_here = Obj(frame.site(node), frame.context_of_objects, External(switches.APEX_SCALED))
    frame.write(made_here, switches.APEX_LOSS, args.get(0, "loss") or UNKNOWN, strong=False)
    return one(made_here)


def _parameters_to_vector(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return containers.elements(frame, args.get(0, "parameters") or UNKNOWN, node)


def _einops(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`rearrange` and `repeat` show a tensor in another shape; of a list they make one."""
    given = args.get(0, "tensor") or UNKNOWN
    is_listed = any(isinstance(each, (Tup, Obj)) for each in given)
    return _operator(frame, "stack" if is_listed else "reshape", Arguments([given]), node, in_place=False)


def _einops_reduce(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`reduce` sums up, or takes one of each group, as it is told."""
    op = constant(args.get(2, "reduction") or NEVER)
    if op not in ("sum", "mean", "max", "min", "prod"):
        return _foreign(frame, "einops.reduce", args, node)
    return _operator(
        frame,
        f"a{op}" if op in ("max", "min") else op,
        Arguments([args.get(0, "tensor") or UNKNOWN]),
        node,
        in_place=False,
    )


def _deepcopy(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """A copy: of a module, one of the same kind with weights of its own."""
    made: dict[Obj, Obj] = {}
    return frozenset(_copied(frame, each, node, made) for each in args.get(0, "x") or UNKNOWN)


def _averaged(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """What holds a copy of a model, whose weights it averages."""
    copied = _deepcopy(frame, Arguments([args.get(0, "model") or UNKNOWN]), node)
    return modules.make(frame, "torch.nn.DataParallel", Arguments([copied]), node)


def _copied(frame: Frame, atom: Atom | Tensor, node: ast.AST, made: dict[Obj, Obj]) -> Atom | Tensor:
    if isinstance(atom, Tensor) and atom.leaf:
        leaves = [each for each in atom.leaf if isinstance(each, Part) and isinstance(each.owner, Obj)]
        own = frozenset(Part(_twin(frame, each.owner, node), each.name) for each in leaves)  # type: ignore[arg-type]
        return atom.but(leaf=own or atom.leaf)
    if isinstance(atom, Opaque) and atom.path and frame.analysis.pytorch.is_used_as_module(frame, atom):
        return _copied_unread(frame, atom, node)
    if not isinstance(atom, Obj) or not attributes.is_module(frame, atom):
        return atom
    if atom not in made:
        twin = made[atom] = _twin(frame, atom, node)
        for name in frame.analysis.heap.names(atom, frame.task):
            inside = frozenset(_copied(frame, each, node, made) for each in frame.read(atom, name))
            frame.write(twin, name, inside, strong=False)
    return made[atom]


def _copied_unread(frame: Frame, model: Opaque, node: ast.AST) -> Opaque:
    """A copy of a model whose code nobody knows: by weights of its own, and told by the name of that code."""
    if name := unread.name_of(frame, one(model)):
        frame.analysis.pytorch.called.setdefault(frame.site(node), name)
    twin = Opaque((frame.call_at(node), model.name.strip(".[]()") or "()"), model.tensor, model.hint, model.is_chosen)
    for each in frame.analysis.heap.names(model, frame.task):
        frame.write(twin, each, frame.read(model, each), strong=False)
    return twin


def _prepared(preparation: Preparation, frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """A model in which, from here on, a quantizer gets what every layer gives."""
    model = args.get(0, "model") or UNKNOWN
    inplace = preparation.inplace
    if inplace is not None and constant(args.get(inplace, "inplace") or const(False)) is False:
        model = _deepcopy(frame, args, node)
    whole: list[Atom] = []
    for atom in model:
        if isinstance(atom, Atom):
            whole += modules.inside(frame, atom) or [modules.bare(atom)]
    said = [args.get(1, "qconfig_mapping") or args.get(1, "qconfig_dict") or NEVER] if inplace is None else []
    said += [frame.read(each, "qconfig") for each in whole]
    known = {CONFIGURATIONS.get(_last_name(frame, each)) for value in said for each in value} - {None}
    for quantizer in (known or {preparation.quantizer}) if preparation.quantizer else ():
        for each in whole:
            frame.write(each, modules.QUANTIZER, const(quantizer), strong=False)
    return model


def _last_name(frame: Frame, atom: Atom | Tensor) -> str:
    """The last part of the name of something of another package, or of what has given it; empty where it has none."""
    name = atom.name if isinstance(atom, External) else unread.name_of(frame, one(atom))
    return name.partition("(")[0].rpartition(".")[2]


def _twin(frame: Frame, owner: Obj, node: ast.AST) -> Obj:
    """An object that stands for another's copy."""
    context = (*frame.context_of_objects, owner.site)[-frame.analysis.longest_context :]
    found = Obj(frame.site(node), context, owner.made_of)
    if frame.runs_often or owner.context or owner in frame.analysis.many:
        frame.analysis.many.add(found)
    return found


# Layers that are functions, with what these take behind the tensor.
AS_LAYERS = {
    "einops.layers.torch.Rearrange": ("einops.rearrange", ("pattern",)),
    "einops.layers.torch.Reduce": ("einops.reduce", ("pattern", "reduction")),
}
NAMED_TUPLE = "collections.namedtuple"
FIELDS = "<fields>"
_FP16_UTILS = [f"{each}{inner}" for each in EITHER_FP16_UTILS for inner in ("", ".fp16util")]
_FP16_NETWORKS = ("network_to_half", "FP16Model", "convert_network")
_BY_NAME: dict[str, Callable[[Frame, Arguments, ast.AST], Value]] = {
    "copy.deepcopy": _deepcopy,
    "torch.optim.swa_utils.AveragedModel": _averaged,
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    **dict.fromkeys(DATA_PARALLEL_CALLS, _data_parallel),
    "torch.utils.checkpoint.checkpoint": _checkpoint,
    "torch.utils.cpp_extension.load": _compiled,
    "torch.utils.cpp_extension.load_inline": _compiled,
    "torch.utils.checkpoint.checkpoint_sequential": _checkpoint_sequential,
    "torch.nn.Parameter": _parameter,
    "torch.autograd.Variable": _variable,
    "torch.nn.parameter.Parameter": _parameter,
    "torch.autograd.grad": _autograd_grad,
    "torch.autograd.backward": _autograd_backward,
    **dict.fromkeys(distributions.DIVERGENCES, distributions.divergence),
    "torch.nn.functional.embedding": _embedding,
    "torch.multiprocessing.spawn": _spawn,
    "threading.Thread": _thread,
    "multiprocessing.Process": _thread,
    "torch.multiprocessing.Process": _thread,
    NAMED_TUPLE: _namedtuple,
    **dict.fromkeys(("collections.OrderedDict", "collections.UserDict"), _like("dict")),
    "collections.defaultdict": _defaultdict,
    **dict.fromkeys(("collections.deque", "collections.UserList"), _like("list")),
    "torch.device": _device,
    **dict.fromkeys(("torch.finfo", "numpy.finfo"), _finfo),
    "torch.nn.utils.rnn.pack_padded_sequence": _rnn_pack,
    "torch.nn.utils.rnn.pad_packed_sequence": _rnn_unpack,
    "torch.nn.utils.rnn.pad_sequence": _pad_sequence,
    "sys.exit": _exit,
    "os._exit": _exit,
    "contextlib.nullcontext": _closing,
    "contextlib.suppress": _closing,
    "torch.nn.utils.parameters_to_vector": _parameters_to_vector,
    **{f"{package}.initialize": _apex_initialize for package in ("apex.amp", "amp_shim.amp")},
    **{f"{package}.scale_loss": _apex_scale_loss for package in ("apex.amp", "amp_shim.amp")},
    **{f"{package}.{name}": _fp16_network for package in _FP16_UTILS for name in _FP16_NETWORKS},
    **{f"{package}.{name}": _fp16_kept for package in _FP16_UTILS for name in ("BN_convert_float", "convert_module")},
    "operator.itemgetter": _getter,
    **dict.fromkeys(("random.sample", "random.choices"), _like("sorted")),
    **{name: partial(_read_data, name=name) for name in _DATA},
    **dict.fromkeys(("einops.rearrange", "einops.repeat"), _einops),
    "einops.reduce": _einops_reduce,
    **{name: partial(_prepared, preparation) for name, preparation in PREPARATIONS.items()},
}
