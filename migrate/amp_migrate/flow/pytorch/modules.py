"""Modules of PyTorch: their parameters, and what running one gives."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Atom,
    Call,
    Class,
    Const,
    Dtype,
    External,
    Func,
    Method,
    Native,
    Obj,
    Opaque,
    Part,
    Share,
    Tup,
    Value,
    Wrapped,
    by_path,
    const,
    constant,
    join,
    join_all,
    many,
    one,
    some,
    tensor_of,
    tensors_in,
    tup,
    whole_of,
    wholes,
)
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.domain.dtypes import DTYPE_OF, DTYPES
from amp_migrate.flow.domain.state import meet
from amp_migrate.flow.domain.tensor import (
    A_PIECE,
    ANYWHERE,
    BUFFER,
    CPU,
    CUT,
    DEVICE,
    F32,
    F64,
    FLOWS,
    LEARNED,
    LOW,
    NOTHING,
    OTHER,
    PURE,
    SHAPED,
    SIGNED,
    SPARSE,
    Tensor,
    few_leaves,
    join_tensors,
    made,
)
from amp_migrate.flow.events import LIKE_A_RESULT, OF_SPECTRA, Act
from amp_migrate.flow.python import attributes, containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.classes import MODULE, external_bases, has_unread_base, is_module_class
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import gradients, unread, weight_casts
from amp_migrate.flow.pytorch.operators import halved, learned, may_be_weights, normed_of, operate
from amp_migrate.flow.source import Site, word_called
from amp_migrate.tables import library_models, library_transforms
from amp_migrate.tables import operators as table
from amp_migrate.tables.torch_names import DATA_PARALLEL, MODULE_BASES, is_module_name, takes_gradients

WRAPPERS = frozenset(
    (
        "torch.nn.DataParallel torch.nn.parallel.DataParallel torch.nn.parallel.DistributedDataParallel "
        "torch.nn.parallel.distributed.DistributedDataParallel apex.parallel.DistributedDataParallel"
    ).split()
)
_DICTS = frozenset(("torch.nn.ModuleDict", "torch.nn.ParameterDict"))
_CHAINS = frozenset(("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ParameterList")).union(_DICTS)
_SLICED = frozenset(("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ParameterList"))
_HANDS_BACK = frozenset(
    "to cuda cpu float double half bfloat16 train eval requires_grad_ apply type xpu compile share_memory".split()
)
_SAYING_DTYPE = ("dtype", "torch_dtype")
_CHANGES_WEIGHTS = _HANDS_BACK - frozenset("train eval apply compile share_memory".split())
_PARAMETERS = frozenset("parameters named_parameters".split())
_BUFFERS = frozenset("buffers named_buffers".split())
_INSIDE = frozenset("modules named_modules children named_children".split())
_IN_PLACE = ("torch.nn.", "torchvision.models.", "timm.")
OF_EVERY_MODULE = _HANDS_BACK | _PARAMETERS | _BUFFERS | _INSIDE | {"zero_grad", "state_dict", "load_state_dict"}
HOOKS = "<hooks>"
REGISTERING = "register_forward_hook"
DTYPE, PLACE, FROZEN, QUANTIZER = "<dtype>", "<place>", "<frozen>", "<quantizer>"
CAST_PARTS = "<cast parts>"
# What is given all models of a registry gives parameters of any of them, of which nothing can be said.
_MOST_SHARED = 16


_OF_OTHERS = frozenset(("Compose", "RandomApply", "RandomChoice", "RandomOrder"))
_GIVEN = ("<0>", "<transforms>", "<lambd>")  # what a transform is made of


# What `getattr(nn, name)` gives: without arguments, it makes a loss or an activation.
SOME_LAYER = "torch.nn.?"
SOME_LOSS = "a loss that a word chooses, which may be BCELoss"


def takes(name: str, count: int) -> bool:
    """Whether a call of a layer of PyTorch's may have so many arguments: with others it raises."""
    layer = name.removeprefix("torch.nn.")
    return count > 1 if layer in table.COMPARING else count == 1 or layer not in table.OF_ONE_TENSOR


def make(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """A new module of a class of PyTorch's, or of another package's factory."""
    owner = Obj(frame.site(node), frame.context_of_objects, External(name))
    if frame.runs_often:
        frame.analysis.many.add(owner)
    if name in WRAPPERS:
        frame.write(owner, "module", args.get(0, "module") or UNKNOWN, strong=False)
        ids = args.get(1, "device_ids")
        frame.write(owner, "device_ids", NONE_VALUE if ids is None else ids, strong=False)
    elif name == "torch.nn.Sequential":
        fill(frame, owner, args)
    elif name in _DICTS and args.positional:
        containers.merge_pairs(frame, owner, args.positional[0], node)
    elif name in _CHAINS and args.positional:
        given = args.positional[0]
        for each in given:
            if containers.is_dict(each):
                containers.merge_dict(frame, owner, one(each))
            else:
                items, rest = containers.sequence(frame, one(each), node)
                _number(frame, owner, items, rest)
    else:
        hold_arguments(frame, owner, args)
        for word, layers in library_models.parts(name).items():
            frame.write(owner, word, _chain_of(frame, owner, word, layers), strong=False)
    return one(owner)


def hold_arguments(frame: Frame, owner: Obj, args: Arguments) -> None:
    """Keep what something is made of, of which nobody knows where that goes."""
    unread.note_told(frame, args, owner.site)
    for word, value in (*enumerate(args.positional), *args.keywords.items()):
        frame.write(owner, f"<{word}>", value, strong=False)


def _chain_of(frame: Frame, owner: Obj, word: str, layers: Iterable[str]) -> Value:
    """A chain in a model that is made as a whole: what has no weights is one layer wherever it stands."""

    def inner(place: str, kind: str) -> Obj:
        made = Obj(owner.site, (*owner.context, Site(place, 0, 0, 0, 0)), External(f"torch.nn.{kind}"))
        if owner in frame.analysis.many:
            frame.analysis.many.add(made)
        return made

    chain = inner(word, "Sequential")
    for index, kind in enumerate(layers):
        has_weights = table.LAYERS.get(kind) in table.WEIGHTED or kind == "BatchNorm2d"
        place = f"{word}.{index}" if has_weights else f"{word}.{kind}"
        frame.write(chain, f"[{index}]", one(inner(place, kind)), strong=False)
    return one(chain)


def fill(frame: Frame, owner: Obj, args: Arguments) -> None:
    """The modules that a chain is made of."""
    if len(args.positional) == 1 and any(containers.is_dict(each) for each in args.positional[0]):
        for name, value in containers.keyword_pairs(frame, args.positional[0]):
            frame.write(owner, f"[{name!r}]" if name else containers.REST, value, strong=False)
        return
    _number(frame, owner, args.positional, args.rest)


def _number(frame: Frame, owner: Obj, items: list[Value], rest: Value) -> None:
    for index, value in enumerate(items):
        frame.write(owner, f"[{index}]", value, strong=False)
    if rest:
        frame.write(owner, containers.REST, join(rest, frame.read(owner, containers.REST)), strong=False)


def parts(frame: Frame, owner: Obj) -> list[Value]:
    """Everything that a module holds: attributes, and what is in a chain or list of modules."""
    return [
        frame.read(owner, name) for name in frame.analysis.heap.names(owner, frame.task) if not name.startswith("<")
    ]


def inside(frame: Frame, start: Atom) -> list[Obj]:
    """A module and all modules in it."""
    return list(_with_parts(frame, start))


def _with_parts(frame: Frame, start: Atom) -> Mapping[Obj, list[Value]]:
    """A module and all modules in it, each with everything that it holds."""
    return frame.kept(_find_parts, start)


def _find_parts(frame: Frame, start: Atom) -> dict[Obj, list[Value]]:
    found: dict[Obj, list[Value]] = {}
    stack: list[Atom] = [start]
    while stack:
        atom = stack.pop()
        if not isinstance(atom, Obj) or atom in found:
            continue
        held = frame.kept(_parts_of_module, atom)
        if held is not None:
            found[atom], objects = held
            stack += objects
    return found


def _parts_of_module(frame: Frame, atom: Atom) -> tuple[list[Value], list[Obj]] | None:
    """Everything that a module holds, and the objects among that; None for what is no module."""
    if not isinstance(atom, Obj) or not attributes.is_module(frame, atom):
        return None
    held = parts(frame, atom)
    return held, [each for value in held for each in value if isinstance(each, Obj)]


def leaves(frame: Frame, start: Atom) -> frozenset[Atom]:
    """The leaves of gradients that a module's parameters are."""
    return frozenset({whole_of(start)}) if isinstance(start, Opaque) else frame.kept(_find_leaves, start)


def _find_leaves(frame: Frame, start: Atom) -> frozenset[Atom]:
    found: set[Atom] = set()
    for each, held in _with_parts(frame, start).items():
        names = [each.external] if each.external else [name for name in _bases(frame, each) if _is_layer(name)]
        for name in (name for name in names if name not in _CHAINS and name not in WRAPPERS):
            op = table.LAYERS.get(name.rpartition(".")[2])
            if op is None or op in table.WEIGHTED or name.rpartition(".")[2] == "Embedding":
                found.add(whole_of(each))
        if has_unread_base(frame, each.made_of):
            found.add(whole_of(Opaque((each,))))
        found.update(_own_leaves(held))
        found |= {whole_of(atom) for value in held for atom in value if isinstance(atom, Opaque) and atom.path}
    return frozenset(found)


def _own_leaves(held: Iterable[Value]) -> Iterator[Part]:
    """The parameters that a module keeps as its own, and not in a layer, among all that it holds."""
    for leaf in (leaf for value in held for each in value if isinstance(each, Tensor) for leaf in each.leaf):
        is_own = isinstance(leaf, Part) and isinstance(leaf.owner, Obj)
        if is_own and leaf.owner.external == "torch.nn.Parameter":
            yield leaf


def weights(frame: Frame, owner: Obj, name: str = "*") -> Tensor:
    """The parameters of a layer as one tensor."""
    precision = frame.analysis.pytorch.precision_of(frame.read(owner, DTYPE))
    frozen = constant(frame.read(owner, FROZEN))
    return made(
        precision or F32,
        SHAPED,
        _place_of(frame, owner),
        tags=reduce(or_, (each.tags for each in tensors_in(frame.read(owner, "weight"))), 0) & SIGNED,
        flows=FLOWS if frozen is None else CUT | FLOWS,
        leaf=frozenset({Part(owner, name)}),
    )


def _place_of(frame: Frame, owner: Atom) -> int:
    """Where the weights of a layer are, or a parameter is."""
    place = 0
    for each in frame.read(owner, PLACE):
        if isinstance(each, Const) and isinstance(each.value, int):
            place |= each.value
    return DEVICE if place & DEVICE else place or ANYWHERE


def placed(frame: Frame, value: Value) -> Value:
    """An attribute of a module: a parameter of its own is where the module has been moved to."""
    if not any(isinstance(each, Tensor) and each.leaf and each.place == ANYWHERE for each in value):
        return value
    return frozenset(_placed(frame, each) if isinstance(each, Tensor) else each for each in value)


def _placed(frame: Frame, tensor: Tensor) -> Tensor:
    owners = {leaf.owner for leaf in _own_leaves([one(tensor)])}
    places = {_place_of(frame, each) for each in owners}
    return tensor.but(place=places.pop()) if tensor.place == ANYWHERE and len(places) == 1 else tensor


# Running a module


def run(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """A module of the project is called: its hooks and its `forward` run."""
    analysis = frame.analysis
    kind = owner.made_of
    assert isinstance(kind, Class)
    forward = attributes.load_of_class(frame, kind, owner, owner, "forward")
    projects: Value = frozenset(each for each in forward if isinstance(each, (Method, Func, Opaque, Wrapped)))
    own = frame.read(owner, "forward")
    if own:
        projects = join(projects, own)
    if projects:
        found = analysis.call(frame, projects, args, node)
    else:
        native = next((each.name for each in forward if isinstance(each, Native)), "")
        found = _run_base(frame, owner, native, args, node)
    return _hooked(frame, owner, args, found, node)


def _run_base(frame: Frame, owner: Obj, native: str, args: Arguments, node: ast.AST) -> Value:
    """A class of the project that inherits its `forward` from PyTorch."""
    for name in _bases(frame, owner):
        if name in ("torch.nn.Sequential",):
            return _chain(frame, owner, args, node)
        if is_module_name(name) and name != "torch.nn.Module":
            _replicated(frame, name, NEVER, node, owner.site)
            return _layer(frame, owner, name, args, node)
    return unknown_result(frame, one(owner), args, node, is_module=True)


def _bases(frame: Frame, owner: Obj) -> list[str]:
    return list(external_bases(frame, owner.made_of))


def bare(atom: Atom) -> Atom:
    """Something by what it is told apart by: of what nobody knows, the object that it is of, or where it came from."""
    if isinstance(atom, Opaque) and atom.path and isinstance(atom.path[0], Obj):
        return atom.path[0]
    return by_path(atom)


def _is_layer(name: str) -> bool:
    """Whether a class of this name is one of PyTorch's layers, and not what all modules derive from."""
    return is_module_name(name) and name not in MODULE_BASES


def _quantized(frame: Frame, owner: Atom, node: ast.AST, *, is_sure: bool) -> None:
    """What a layer makes low goes to the quantizer that it was prepared with: nobody can cast in between."""
    for each in frame.read(bare(owner), QUANTIZER):
        if isinstance(each, Const) and each.value in table.NO_HALF_KERNEL:
            frame.analysis.event(frame, Act.NO_KERNEL, node, why=each.value, is_sure=is_sure)


def _hooked(frame: Frame, owner: Obj, args: Arguments, result: Value, node: ast.AST) -> Value:
    for each in result if owner.external else ():
        if isinstance(each, Tensor) and each.may_be_low:
            _quantized(frame, owner, node, is_sure=each.is_low)
    hooks = frame.read(owner, HOOKS)
    if not hooks:
        return result
    given = frame.analysis.call(frame, hooks, Arguments([one(owner), tup(args.positional), result]), node)
    frame.is_dead = False
    changed = frozenset(each for each in given if each != Const("NoneType", None))
    return join(result, changed)


def hook_unread(frame: Frame, part: Opaque, args: Arguments) -> None:
    """A hook is registered with a part of a model that nobody has read: whatever runs some of that may run it."""
    frame.write(Opaque(part.path[:1]), HOOKS, args.get(0, "hook") or UNKNOWN, strong=False)


def run_hooks_of_unread(frame: Frame, callee: Opaque, args: Arguments, result: Value, node: ast.AST) -> None:
    """Something is called of which nobody knows the code: its parts may run their hooks with what they compute."""
    hooks = frame.read(Opaque(callee.path[:1]), HOOKS) if callee.path else NEVER
    given = frozenset(of_a_part for each in result if hooks for of_a_part in _of_a_part(each))
    if given and any(isinstance(each, (Tensor, Opaque)) for value in args.all() for each in value):
        before = frame.now.copy()
        frame.analysis.call(frame, hooks, Arguments([one(Opaque(callee.path)), many(given), given]), node)
        frame.state = meet(before, None if frame.is_dead else frame.state) or before
        frame.is_dead = False


def _of_a_part(whole: Atom | Tensor) -> Iterator[Atom | Tensor]:
    """What a part of a model gives, by what all of it does: something else, and no loss."""
    if isinstance(whole, Tensor):
        yield whole.but(piece=A_PIECE, unread=NOTHING)
    elif isinstance(whole, Opaque) and whole.tensor is not None:
        yield whole.part("[]").with_tensor(whole.tensor.but(piece=A_PIECE, unread=NOTHING))


def _replicated(frame: Frame, name: str, device_ids: Value, node: ast.AST, site: Site) -> None:
    """Note that a region runs what computes in threads, unless it has one GPU only and runs there as it is."""
    frame.analysis.pytorch.scatters = True
    devices = [containers.sequence(frame, one(each), node) for each in device_ids]
    has_one = bool(devices) and all(len(known) == 1 and not rest for known, rest in devices)
    if name in DATA_PARALLEL and frame.now.context.cuda.may_be_on and not has_one:
        frame.analysis.event(frame, Act.REPLICAS, node, site=site)


def _wrapped(frame: Frame, wrapper: Obj) -> Value:
    """What wrappers hold in the end: after `self.net = DataParallel(self.net)` one may seem to hold itself."""
    waiting, met = [wrapper], {wrapper}
    found: Value = NEVER
    while waiting:
        for atom in frame.read(waiting.pop(), "module"):
            if not isinstance(atom, Obj) or atom.external not in WRAPPERS:
                found = join(found, one(atom))
            elif atom not in met:
                met.add(atom)
                waiting.append(atom)
    return found


def call_object(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """Calling an object of a class of PyTorch's, or of another package's."""
    name = owner.external
    if name in WRAPPERS:
        _replicated(frame, name, frame.read(owner, "device_ids"), node, owner.site)
        return frame.analysis.call(frame, _wrapped(frame, owner), args, node)
    if name == "torch.nn.Sequential":
        return _hooked(frame, owner, args, _chain(frame, owner, args, node), node)
    if is_module_name(name):
        own = frame.read(owner, "forward")  # `module.forward = f`
        replaced = frame.analysis.call(frame, own, args, node) if own else NEVER
        frame.is_dead = False
        result = join(replaced, _layer(frame, owner, name, args, node))
        frame.is_dead &= not own
        return _hooked(frame, owner, args, result, node)
    if name == SOME_LAYER and len(args.positional) > 1:
        if frame.now.context.cuda.may_be_on:
            frame.analysis.event(frame, Act.REFUSED, node, why=SOME_LOSS, is_sure=False)
        return operate(frame, "mse_loss", args.positional[:2], node, args)
    if name.startswith(("builtins.", "contextlib.")):
        return NEVER
    if name.startswith(library_transforms.TRANSFORMS):
        return _transformed(frame, owner, args, node)
    for value in () if unread.is_meant(frame, name) else args.all():
        for each in tensors_in(value):
            if each.may_be_low:
                frame.analysis.event(frame, Act.FOREIGN, node, tensor=each, why=name)
    return unknown_result(frame, one(owner), args, node)


def _transformed(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """What a transform gives: none has parameters, but for those of what it is made of, and calls."""
    kind = owner.external.rpartition(".")[2]
    called: list[Value] = []
    if kind in _OF_OTHERS:
        given, rest = containers.sequence(frame, join_all(frame.read(owner, each) for each in _GIVEN), node)
        called = [each for each in (*given, rest) if each]
    if kind == "Lambda":
        called = [join_all(frame.read(owner, each) for each in _GIVEN)]
    value = args.get(0, "img") or join_all(args.keywords.values()) or UNKNOWN
    if not called:
        _multiplied(frame, owner.external, value, node)
        return unknown_result(frame, NEVER, args, node, name=owner.external)
    if kind != "Compose" or rest:
        return _in_any_order(frame, join_all(called), value, node)[1]
    for each in called:
        value = frame.analysis.call(frame, each, Arguments([value]), node)
        if frame.is_dead:
            return NEVER
    return value


def _multiplied(frame: Frame, name: str, value: Value, node: ast.AST) -> None:
    """A transform multiplies what it gets by constants of its own: samples, or their powers."""
    tensor = tensor_of(value)
    if tensor is None or not frame.now.context.low(tensor.place)[0].may_be_on:
        return
    if name in library_transforms.OF_SPECTRA:
        frame.analysis.event(frame, Act.RISK, node, tensor=tensor, why=OF_SPECTRA, is_sure=True)
    elif op := library_transforms.operator(name):
        operate(frame, op, [value, one(made(F32, SHAPED, ANYWHERE))], node)


def _chain(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """A chain of modules, be it a part of another one."""
    turn = weight_casts.turn_of_chain(frame, owner, node)
    if turn is None:
        return _one_after_another(frame, owner, args, node)
    frame.turns.append(turn)
    result = _one_after_another(frame, owner, args, node)
    frame.turns.pop()
    return result


def _one_after_another(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """A chain of modules, one after the other; of an unknown number, each may come after each."""
    value = args.get(0, "input") or UNKNOWN
    names = frame.analysis.heap.names(owner, frame.task)
    numbered = [name for name in names if name.startswith("[") and name != containers.REST]
    for name in numbered:
        value = frame.analysis.call(frame, _as_layers(frame.read(owner, name)), Arguments([value]), node)
        if frame.is_dead:
            return NEVER
    rest = _as_layers(join(frame.read(owner, containers.REST), _added(frame, owner, names)))
    if rest:
        given, value = _in_any_order(frame, rest, value, node)
        # Each of them has run at some time: behind those that leave the least open, only the others may come.
        each_gives = [_run_some(frame, one(each), value, node) for each in rest if len(rest) > 1]
        least = min(map(_openness, each_gives), default=_openness(value))
        if least[0] < _openness(value)[0]:
            behind = join_all(each for each in each_gives if _openness(each) == least)
            _, given = _in_any_order(frame, rest, behind, node)
        return frozenset(_through_all(frame, each, rest) if isinstance(each, Tensor) else each for each in given)
    return value


def _as_layers(held: Value) -> Value:
    """What a chain holds: what nobody knows of it is a module, too."""
    return frozenset(
        Opaque(each.path, each.tensor, MODULE, each.is_chosen, each.shares)
        if isinstance(each, Opaque) and not each.hint
        else each
        for each in held
    )


def _in_any_order(frame: Frame, modules: Value, value: Value, node: ast.AST) -> tuple[Value, Value]:
    """What modules give that come one after the other, and what each of them may be given or give."""
    for _ in range(6):
        before = value
        given = _run_some(frame, modules, value, node)
        value = join(value, given)
        if value == before:
            break
    return given, value


def _run_some(frame: Frame, modules: Value, value: Value, node: ast.AST) -> Value:
    given = frame.analysis.call(frame, modules, Arguments([value]), node)
    frame.is_dead = False
    return given


def _openness(value: Value) -> tuple[int, int]:
    """How many precisions a value may have, the lowest first; every one where it is no tensor, or not known."""
    found = reduce(or_, (each.precision if isinstance(each, Tensor) else OTHER for each in value), 0)
    return found.bit_count() if found and not found & OTHER else OTHER.bit_length(), found


def _through_all(frame: Frame, result: Tensor, modules: Value) -> Tensor:
    """What comes out of a chain: it has been through all of its modules, whichever was the last."""
    own = NOTHING.union(*(leaves(frame, each) for each in modules if isinstance(each, Atom))) & result.reach
    if not own or not result.flows & FLOWS or frame.now.context.gradients != ON:
        return result
    return result.but(flows=FLOWS, surely=result.surely | own)


def _added(frame: Frame, owner: Obj, names: Iterable[str]) -> Value:
    """The modules that a chain got by name: `chain.add_module("head", Head())`, `self.conv = nn.Conv2d(...)`.

    What cannot be known is one where nothing but modules is put into attributes: in a chain that no class is made of.
    """
    is_plain = owner.external == "torch.nn.Sequential"
    held = (each for name in names if name[:1] not in "[<" for each in frame.read(owner, name))
    return frozenset(
        each for each in held if attributes.is_module(frame, each) or (is_plain and isinstance(each, Opaque))
    )


def _layer(frame: Frame, owner: Obj, name: str, args: Arguments, node: ast.AST) -> Value:
    last = name.rpartition(".")[2]
    given = [*args.positional, *args.keywords.values()]
    if not (args.rest or args.others or takes(name, len(given))):
        frame.is_dead = True
        return NEVER
    given = given or [args.rest or UNKNOWN]
    if last == "Embedding":
        weight = weights(frame, owner)
        return operate(frame, "index", [one(weight.but(leaf=NOTHING, reach=weight.leaf, surely=weight.leaf))], node)
    is_of_apex = name.startswith("apex.normalization.")
    op = "layer_norm" if is_of_apex else table.LAYERS.get(last)
    if op is None or not (is_of_apex or name.startswith("torch.")):
        # A head that a script has put into it counts, too.
        return depending_on(frame, unknown_result(frame, one(owner), args, node, is_module=True), owner)
    # The state of an LSTM is a pair.
    given = [given[0], *(part for each in given[1:] for part in _parts(each))]
    operands = list(given)
    if op == "sigmoid" and any(map(_is_not_float, tensors_in(join_all(given)))):
        frame.analysis.pytorch.not_float.add(owner.site)
    if op in table.WEIGHTED:
        operands = (
            [given[0], one(weights(frame, owner)), *given[1:]]
            if op != "multi_head_attention_forward"
            else [given[0], one(weights(frame, owner))]
        )
    whole = Arguments(operands)
    reduction = frame.read(owner, "<reduction>")
    if reduction:
        whole.keywords["reduction"] = reduction
    if op in ("batch_norm", "instance_norm"):
        # Its weights stay in float32, and what comes out is what went in.
        return operate(frame, op, operands[:2], node, whole)
    found, cuda = operate(frame, op, operands, node, whole), frame.now.context.cuda
    if not (is_of_apex and cuda.may_be_on):
        return found
    # Apex casts in a region what its kernel gets; one that did not know of regions gave what PyTorch's gives.
    return frozenset(
        each.but(precision=each.precision | cuda.dtype, regions=each.regions | cuda.regions)
        if isinstance(each, Tensor)
        else each
        for each in found
    )


def _parts(value: Value) -> list[Value]:
    """What a value is, and each item of the tuples that it may be."""
    tuples = [each for each in value if isinstance(each, Tup)]
    return [value.difference(tuples), *(part for each in tuples for part in (*each.items, each.rest or NEVER))]


def _is_not_float(tensor: Tensor) -> bool:
    """Whether a tensor is, for all that is known, of more or less than float32 where no region makes it low."""
    return bool(tensor.precision & F64) or (tensor.may_be_low and not tensor.regions)


def _is_handed_in(callee: Atom | Tensor) -> bool:
    """Whether something unknown is what nobody in sight gives for a parameter, or is taken from that."""
    if not isinstance(callee, Opaque) or len(callee.path) < 2 or not isinstance(callee.path[0], Site):
        return False
    return str(callee.path[1]).isidentifier()


def _place_of_result(frame: Frame, callee: Value, given: int, *, is_of_weights: bool) -> int:
    """Where what something unknown gives may be: where a module is that was moved, or anywhere.

    A model of some libraries is where what it is given is, and moves nothing by itself. What weights on the CPU have
    given a function is taken to stay there: wherever that brings it, no region for a GPU reaches these.

    Args:
        given: where what it is given may be.
        is_of_weights: whether that is computed with weights.
    """
    if not callee and given == CPU and is_of_weights:
        return CPU
    models = [each for each in callee if isinstance(each, Obj) and each.external.startswith(_IN_PLACE)]
    if any(weights(frame, each).place == DEVICE for each in models):
        return DEVICE
    return given if 0 < len(callee) == len(models) else given | ANYWHERE


def unknown_result(
    frame: Frame,
    callee: Value,
    args: Arguments,
    node: ast.AST,
    *,
    is_module: bool = False,
    computes: bool = True,
    name: str = "",
    owner: Value = NEVER,
) -> Value:
    """What something unknown gives: nobody knows its shape; its tensors may be low where autocast is on.

    Args:
        is_module: whether it is a module, whose result depends on its parameters.
        computes: whether it may compute anything that autocast casts.
        name: its full name, where it is of another package, and `callee` does not say so.
        owner: what it is a method of, where `callee` does not say so.
    """
    in_float64 = is_module and bool(callee) and all(_is_in_float64(frame, each) for each in callee)
    if in_float64:
        frame.analysis.pytorch.in_float64 |= frame.now.context.cuda.regions
    elif computes:
        frame.analysis.pytorch.works(frame)
    given = [each for value in args.all() for each in tensors_in(value)]
    whole: Tensor | None = None
    for each in given:
        whole = each if whole is None else join_tensors(whole, each)
    of_given = ANYWHERE if whole is None else whole.place
    is_of_weights = any(each.reach for each in given)
    place = _place_of_result(frame, callee, of_given, is_of_weights=is_of_weights)
    autocast, _ = frame.now.context.low(place if place == DEVICE else of_given)
    precision, regions = F64 if in_float64 else OTHER, NOTHING
    if autocast.may_be_on and not in_float64:
        # What a module computes in a region is floating, though nobody knows what it is.
        rest = F32 if is_module and autocast.on == ON else OTHER
        precision, regions = rest | autocast.dtype, autocast.regions
        for atom in callee:
            if isinstance(atom, (Obj, Opaque)):
                _quantized(frame, atom, node, is_sure=autocast.on == ON)
    if whole is not None:
        precision |= whole.precision & LOW
        regions |= whole.regions
    is_of_sparse = computes and any(each.tags & SPARSE for each in given)
    if is_of_sparse and autocast.may_be_on:
        called = unread.name_of(frame, callee) or name or ast.unparse(node.func if isinstance(node, ast.Call) else node)
        why = f"{called} of a sparse tensor"
        frame.analysis.event(frame, Act.NO_KERNEL, node, why=why, is_sure=autocast.on == ON)
    is_of_sparse |= isinstance(node, ast.Call) and word_called(node) in table.MAKING_SPARSE
    flows = (FLOWS if is_module else FLOWS | CUT) if frame.now.context.gradients & ON else CUT
    weights = frozenset({whole_of(each) for each in callee if isinstance(each, (Opaque, Obj))})
    own = weights if flows & FLOWS else NOTHING
    for region in autocast.regions if is_module and autocast.may_be_on else ():
        frame.analysis.pytorch.of_unread.add(region)
        frame.analysis.pytorch.weighing[region] |= weights
    if autocast.may_be_on and flows & FLOWS and any(map(_is_handed_in, callee)):
        frame.analysis.event(frame, Act.GIVEN, node)
    is_chosen = any(isinstance(each, Opaque) and each.is_chosen for each in callee)
    if autocast.may_be_on and is_chosen:
        frame.analysis.event(frame, Act.NOT_ALL, node)
    own_name = unread.name_of(frame, callee)
    if any(isinstance(each, (Opaque, Obj)) for each in callee):
        unread.note_small(frame, own_name, args, node)
    unread.note_told(frame, args, frame.site(node))
    unread.note_given(frame, name or own_name, args, node)
    unseen = unread.noted(frame, name or own_name, node)
    gets_data = any(isinstance(each, (Tensor, Opaque)) for value in args.all() for each in value)
    if gets_data and frame.now.context.cuda.may_be_on:
        unread.note_kernels(frame, name or own_name, args, node)
    models = callee if is_module else _owning_models(frame, callee) if gets_data else NEVER
    held = models or (_like_parts(frame, callee) if gets_data else NEVER)
    if unseen and held:
        why = unread.name_of(frame, held)
        frame.analysis.event(frame, Act.UNREAD_MODEL, node, subject=held, why=why, is_sure=bool(models))
    elif unseen and gets_data and (run := _run_by_unread(frame, callee | owner, args, node)):
        why = name or unread.name_of(frame, callee)
        frame.analysis.event(frame, Act.UNREAD_MODEL, node, subject=run, why=why, is_sure=True)
    unread.note_of_model(frame, (callee, models, owner, *args.all()), node)
    reach = own | (NOTHING.union(*(each.reach | each.leaf for each in given)) if flows & FLOWS else NOTHING)
    # What an object that nobody has read makes of tensors may be computed with weights; a function has none.
    is_learned = is_module or (gets_data and bool(callee))
    is_learned |= any(may_be_weights(frame, each) for each in callee if isinstance(each, Atom))
    tags = LEARNED if is_learned else learned(frame, given)
    tensor = made(
        precision,
        SHAPED | 1,
        place,
        tags=tags | (halved(frame, given, reach, autocast) if flows & FLOWS else 0) | (SPARSE if is_of_sparse else 0),
        flows=flows,
        regions=regions,
        reach=few_leaves(reach),
        surely=reach if is_module and len(callee) == 1 else frozenset({reach}) if reach else NOTHING,
        units=PURE if whole is None else whole.units,
        reads=NOTHING if whole is None else whole.reads,
        born=frozenset({frame.site(node)}),
        unread=unseen,
        normed=few_leaves(normed_of(given)) if flows & FLOWS else NOTHING,
    )
    for module in callee if is_module else ():
        if isinstance(module, Obj) or (isinstance(module, Opaque) and module.path):
            weight_casts.cast_of_unknown(frame, module, node)
    # What gets tensors computes with them; else, or where it is of a class of modules, it may make what computes.
    shares = _shares_of(frame, callee, name, args, node)
    origin = frame.site(node) if given and not _is_of_class(frame, callee) else frame.call_at(node)
    return one(Opaque((origin, "()"), tensor, "", is_chosen and not given, shares))


def _is_in_float64(frame: Frame, module: Atom | Tensor) -> bool:
    """Whether the parameters of a module were cast to float64, which autocast leaves."""
    named = frame.read(by_path(module), DTYPE) if isinstance(module, Atom) else NEVER
    return frame.analysis.pytorch.precision_of(named) == F64


def _run_by_unread(frame: Frame, callee: Value, args: Arguments, node: ast.AST) -> Value:
    """What code that nobody has read is given, now or when it was made, and may run: of what that gives it decides.

    That is what computes with weights: a solver of differential equations takes the rounding of a model for its error.
    """
    owners = [each for called in callee for each in (called, unread.owner_of(called)) if isinstance(each, Obj)]
    names = frame.analysis.heap.names
    kept = [frame.read(each, name) for each in owners for name in names(each, frame.task) if name.startswith("<")]
    found: Value = NEVER
    for each in join_all((*args.all(), *kept)):
        is_partial = isinstance(each, Obj) and each.external == "functools.partial"
        if isinstance(each, (Func, Method, Wrapped)) or is_partial or (isinstance(each, Obj) and leaves(frame, each)):
            before = frame.now.copy()
            given = frame.analysis.call(frame, one(each), Arguments(rest=UNKNOWN, others=UNKNOWN), node)
            frame.is_dead, frame.state = False, before
            if learned(frame, tensors_in(given)):
                found |= one(each)
    return found


def _owning_models(frame: Frame, methods: Value) -> Value:
    """What nobody knows, is used as a module, and has some methods."""
    owners = frozenset(owner for each in methods if (owner := unread.owner_of(each)) is not None)
    like = frame.analysis.pytorch.is_like_module
    return frozenset(each for each in owners if isinstance(each, Opaque) and like(frame, each))


def _is_of_class(frame: Frame, callee: Value) -> bool:
    """Whether each thing that is called is a method of a class of modules that nobody has read: it may make these."""
    owners = [each.path[0] if isinstance(each, Opaque) and len(each.path) == 2 else None for each in callee]
    return all(isinstance(each, Class) and is_module_class(frame, each) for each in owners)


def _like_parts(frame: Frame, callee: Value) -> Value:
    """What nobody knows, was made by a call, or kept by a module, and is called, or has the methods that are.

    It may have weights, or constants that it multiplies with.
    """
    own = frozenset(each for called in callee for each in (called, unread.owner_of(called)))
    of = frame.analysis.pytorch
    unknown = (each for each in own if isinstance(each, Opaque))
    return frozenset(each for each in unknown if _is_made(each) or of.is_kept(frame, each) or of.is_moved(frame, each))


def _is_made(unknown: Opaque) -> bool:
    """Whether something unknown was made by a call, or is of what was, and by none that computed it in a region."""
    is_result = isinstance(unknown.made_in, Call) or unknown.path[1:2] == ("()",)
    return is_result and not (unknown.tensor and unknown.tensor.unread)


def depending_on(frame: Frame, result: Value, owner: Atom) -> Value:
    """What an unknown forward of a known module gives: it depends on the module's parameters."""
    own = leaves(frame, owner)
    return frozenset(
        each.with_tensor(each.tensor.but(reach=few_leaves(each.tensor.reach | own), surely=each.tensor.surely | own))
        if isinstance(each, Opaque) and each.tensor is not None and each.tensor.flows & FLOWS
        else each
        for each in result
    )


# Attributes and methods


def attribute(frame: Frame, owner: Obj, name: str) -> Value:
    """An attribute of a module of PyTorch's own."""
    if name in ("weight", "bias", "in_proj_weight", "weight_ih_l0", "weight_hh_l0"):
        return one(weights(frame, owner, name))
    if name in ("running_mean", "running_var"):
        return one(made(F32, SHAPED, ANYWHERE, tags=BUFFER))
    if name == "_modules":  # is asked for what the module is
        return one(owner)
    if name == "training":
        return TRUTHS
    if name in (
        "in_features",
        "out_features",
        "in_channels",
        "out_channels",
        "num_features",
        "embedding_dim",
        "num_embeddings",
    ):
        return some("int")
    return one(Native(name, owner))


def method(frame: Frame, owner: Atom, name: str, args: Arguments, node: ast.AST) -> Value:
    """A call of a method that every module has."""
    analysis = frame.analysis
    if name in _HANDS_BACK:
        moved(frame, owner, name, args, node)
        if name == "apply" and args.positional:
            inner = frozenset(each for each in inside(frame, owner)) or one(owner)
            analysis.call(frame, args.positional[0], Arguments([inner]), node)
            frame.is_dead = False
        return one(owner)
    if name in _PARAMETERS:
        return _listed(name, frame.kept(_parameters, owner))
    if name in _BUFFERS:
        return _listed(name, one(made(OTHER, SHAPED, ANYWHERE, tags=BUFFER)))
    if name in _INSIDE:
        found: list[Atom] = list(inside(frame, owner))
        if "children" in name and not _is_foreign(owner):
            found = found[1:]
        return _listed(name, join_all(one(each) for each in found or [owner]))
    if name == "zero_grad":
        gradients.clear_leaves(frame, leaves(frame, owner), node)
        return NONE_VALUE
    if name in ("state_dict", "load_state_dict"):
        analysis.event(frame, Act.SAVED if name == "state_dict" else Act.LOADED, node, subject=one(owner))
        return gradients.state_at(frame, node)
    if name == "register_buffer":
        value = args.get(1, "tensor") or UNKNOWN
        # It goes where its module goes, as a parameter does.
        marked = frozenset(
            each.but(
                tags=each.tags | BUFFER,
                place=ANYWHERE if each.place == CPU else each.place,
                born=each.born or frozenset({frame.site(node)}),
            )
            if isinstance(each, Tensor)
            else each
            for each in value
        )
        _set(frame, owner, args.get(0, "name"), marked)
        return NONE_VALUE
    if name in ("register_parameter", "add_module", "register_module"):
        _set(frame, owner, args.get(0, "name"), args.get(1, "module") or args.get(1, "param") or UNKNOWN)
        return NONE_VALUE
    if name in (REGISTERING, "register_forward_pre_hook"):
        if name == REGISTERING:
            frame.write(owner, HOOKS, args.get(0, "hook") or UNKNOWN, strong=False)
        return UNKNOWN
    if takes_gradients(name):
        return gradients.register(frame, owner, name, args, node, leaves(frame, owner))
    if name in ("append", "extend", "insert", "update"):
        value = args.positional[-1] if args.positional else UNKNOWN
        inner = value if name in ("append", "insert") else containers.elements(frame, value, node)
        frame.write(owner, containers.REST, join(inner, frame.read(owner, containers.REST)), strong=False)
        return one(owner)
    if name in ("keys",):
        return many(some("str"))
    if name in ("values", "items"):
        whole = join_all(parts(frame, owner)) if isinstance(owner, Obj) else UNKNOWN
        return many(whole) if name == "values" else many(tup([some("str"), whole]))
    if name in ("__init__", "extra_repr", "_init_weights"):
        return NONE_VALUE
    if name in ("no_sync", "join"):
        return one(Obj(frame.site(node), frame.context_of_objects, External("contextlib.nullcontext")))
    if name in ("forward", "__call__") and isinstance(owner, Obj):
        if isinstance(owner.made_of, Class):
            # What `super()` has of a method is PyTorch's own: that of a call runs the forward that the object has.
            return run(frame, owner, args, node) if name == "__call__" else _run_base(frame, owner, name, args, node)
        return call_object(frame, owner, args, node)
    if name in ("get_submodule", "get_parameter"):
        return join_all(one(each) for each in inside(frame, owner)[:20])
    if isinstance(owner, Obj) and owner.external and _is_foreign(owner) and any(args.all()):
        # A part of it, as `model.backbone(x)`, or a method that runs some.
        return depending_on(frame, unknown_result(frame, one(owner), args, node, is_module=True), owner)
    return UNKNOWN


def _is_foreign(owner: Atom) -> bool:
    """Whether nobody knows what is in a module, so that it stands for each of its parts as well."""
    return not isinstance(owner, Obj) or bool(owner.external and not owner.external.startswith("torch.nn."))


def _listed(name: str, inside_it: Value) -> Value:
    """What a method of a module lists: by themselves, or with their names."""
    return many(tup([some("str"), inside_it])) if name.startswith("named_") else many(inside_it)


def _set(frame: Frame, owner: Atom, name: Value | None, value: Value) -> None:
    known = None if name is None else constant(name)
    frame.write(owner, known if isinstance(known, str) else containers.ANY_ATTRIBUTE, value, strong=False)


def _parameters(frame: Frame, owner: Atom) -> Value:
    """What any of the parameters of a module may be."""
    return join_all(one(_parameter(frame, leaf)) for leaf in leaves(frame, owner))


def _parameter(frame: Frame, leaf: Atom) -> Tensor:
    assert isinstance(leaf, Part)
    if isinstance(leaf.owner, Obj) and leaf.owner.external != "torch.nn.Parameter":
        return weights(frame, leaf.owner, leaf.name)
    precision = F32 if isinstance(leaf.owner, Obj) else OTHER
    return made(precision, SHAPED, ANYWHERE, flows=FLOWS, leaf=frozenset({leaf}))


def moved(frame: Frame, owner: Atom, name: str, args: Arguments, node: ast.AST) -> None:
    """A module is moved to a device, or its weights are cast."""
    pytorch = frame.analysis.pytorch
    place = {"cuda": DEVICE, "cpu": CPU}.get(name)
    pytorch.note_place(place or 0)
    if name in ("to", "type"):
        place = pytorch.place_told(args)
    within = _with_parts(frame, owner) if name in _CHANGES_WEIGHTS else {}
    unread = [each for held in within.values() for value in held for each in value if isinstance(each, Opaque)]
    cast_weights(frame, [*within, *unread], name, args, node)
    kept = (leaf.owner for held in within.values() for leaf in _own_leaves(held))
    for part in () if place is None else (*within, *kept, *map(by_path, unread)):
        frame.write(part, PLACE, const(place), strong=False)
    for each in within if name == "requires_grad_" else ():
        gradients.note_switched(frame, frozenset({whole_of(each)}))


def cast_weights(frame: Frame, owners: Sequence[Atom], name: str, args: Arguments, node: ast.AST) -> None:
    """A method casts the weights of modules, or freezes them; nobody looks into some of these."""
    pytorch = frame.analysis.pytorch
    precision = DTYPES.get(table.DTYPE_METHODS.get(name, ""))
    for value in [*args.positional, *args.keywords.values()] if name in ("to", "type") else ():
        precision = pytorch.precision_of(value) if pytorch.precision_of(value) is not None else precision
        # `module.to(x)` gives it the dtype of `x`, too.
        like = [each for each in value if isinstance(each, (Dtype, Tensor)) and each.precision & LOW]
        precision = reduce(or_, (each.precision for each in like), 0) or precision
        regions = NOTHING.union(*(each.regions for each in like))
        # What nobody looks into may be a tensor: of a module that is trained it is noted with its gradients.
        if precision is not None and regions and any(isinstance(each, Obj) for each in owners):
            low = made(precision, SHAPED, regions=regions)
            frame.analysis.event(frame, Act.LOW_LEAF, node, tensor=low, why=LIKE_A_RESULT)
    is_frozen = name == "requires_grad_" and constant(args.get(0, "") or const(True)) is False
    known = _known_by_path(owners)
    if precision is not None:
        become(frame, known, precision, node)
    for each in known if is_frozen else ():
        frame.write(each, FROZEN, const(True), strong=False)


def made_in_dtype(frame: Frame, found: Value, args: Arguments, node: ast.AST) -> None:
    """Code that nobody has read makes a model in the dtype that it is given: `from_pretrained(path, dtype=...)`."""
    words = [word for word in _SAYING_DTYPE if word in args.keywords]
    precision = reduce(or_, (_dtype_of_weights(frame, args.keywords[word]) for word in words), 0)
    if precision & LOW:
        within = [part for each in found if isinstance(each, Obj) for part in _with_parts(frame, each)]
        become(frame, [*within, *(each for each in found if isinstance(each, Opaque))], precision, node)


def _dtype_of_weights(frame: Frame, value: Value) -> int:
    """The precision that weights are said to be made in: `"auto"` is that of a file, which may be any."""
    texts = (str(each.value) for each in value if isinstance(each, Const))
    named = (F32 | LOW if text == "auto" else DTYPES.get(f"torch.{text}", 0) for text in texts)
    return reduce(or_, named, frame.analysis.pytorch.precision_of(value) or 0)


def become(frame: Frame, owners: Iterable[Atom], precision: int, node: ast.AST) -> None:
    """The weights of modules get another precision, on some way."""
    known = _known_by_path(owners)
    dtypes = frozenset(External(name) for bit, name in DTYPE_OF.items() if bit & precision) or some("dtype")
    if precision == F64 or precision & LOW:
        frame.analysis.event(frame, Act.DOUBLED if precision == F64 else Act.HALVED, node, subject=frozenset(known))
    for owner in known:
        frame.write(owner, DTYPE, dtypes, strong=False)
        for whole in wholes(owner) if isinstance(owner, Opaque) else ():
            frame.write(whole, CAST_PARTS, one(owner), strong=False)


def made_low(frame: Frame, owners: Iterable[Atom], value: Value, node: ast.AST) -> None:
    """Modules or parameters are given what may be low, and was made so by no region: `weight.data.half()`."""
    precision = reduce(or_, (each.precision for each in tensors_in(value) if not each.regions), 0)
    if precision & LOW:
        become(frame, owners, precision, node)


def _known_by_path(owners: Iterable[Atom]) -> list[Atom]:
    """Modules by where they are, but for those that nothing tells from others."""
    return [each for each in map(by_path, owners) if not isinstance(each, Opaque) or each.path]


def with_low_weights(frame: Frame, owner: Atom) -> list[Atom]:
    """A module, if its parameters may be in half precision, and the parts of it that nobody looks into and that may."""
    parts = frame.read(by_path(owner), CAST_PARTS)
    return [each for each in (owner, *parts) if isinstance(each, Atom) and _has_low_weights(frame, each)]


def _has_low_weights(frame: Frame, owner: Atom) -> bool:
    """Whether the parameters of a module were cast to half precision, be it on one way only.

    What nobody looks into is cast with what it is a part of.
    """
    if isinstance(owner, Obj):
        return weights(frame, owner).may_be_low
    path = owner.path if isinstance(owner, Opaque) else ()
    known = [Opaque(path[:end]) for end in range(1, len(path) + 1)]
    precision_of = frame.analysis.pytorch.precision_of
    is_cast = any((precision_of(frame.read(each, DTYPE)) or 0) & LOW for each in known)
    return is_cast and not any(frame.read(each, FROZEN) for each in known)


def get_item(frame: Frame, owner: Obj, index: Value, node: ast.AST) -> Value:
    """An element of a list, dictionary or chain of modules; of a slice, a list or chain of those in it."""
    kind = next((name for name in (owner.external, *_bases(frame, owner)) if name in _SLICED), None)
    if kind is not None and containers.is_slice(index):
        return _sliced(frame, owner, kind, node)
    name = containers.key(index)
    if name is not None and not name.startswith("[-"):
        rest = frame.read(owner, containers.REST)
        # The numbered ones are first, then those that it got by name.
        found = frame.read(owner, name) or _added(frame, owner, frame.analysis.heap.names(owner, frame.task))
        if found or rest:
            return join(found, rest)
    return iterate(frame, owner)


def _sliced(frame: Frame, owner: Obj, kind: str, node: ast.AST) -> Value:
    """A list or chain of some modules of another one: all of them, where nobody knows which."""
    made = Obj(frame.site(node), frame.context_of_objects, External(kind))
    if frame.runs_often:
        frame.analysis.many.add(made)
    names = frame.analysis.heap.names(owner, frame.task)
    numbered = [name for name in names if name.startswith("[") and name != containers.REST]
    rest = join(frame.read(owner, containers.REST), _added(frame, owner, names))
    bounds = containers.bounds(node) if not rest else None
    if bounds is None:
        _number(frame, made, [], join(rest, containers.contents(frame, owner)) or UNKNOWN)
    else:
        _number(frame, made, [frame.read(owner, name) for name in numbered][bounds], NEVER)
    return one(made)


def iterate(frame: Frame, owner: Obj) -> Value:
    """The elements of a list or chain of modules, in any order, those that it got by name among them."""
    added = _added(frame, owner, frame.analysis.heap.names(owner, frame.task))
    return join(containers.contents(frame, owner), added) or UNKNOWN


def _shares_of(frame: Frame, callee: Value, name: str, args: Arguments, node: ast.AST) -> frozenset[Share]:
    """The parameters that something gives which nobody has read: some of what it is given, or of what it is a method.

    It gives the same ones wherever it is given the same.

    Args:
        name: the full name of what is called, where it is of another package, and `callee` does not say so.
    """
    methods = (each for each in callee if not isinstance(each, Opaque) or each.name.startswith("."))
    owners = frozenset(by_path(owner) for each in methods if (owner := unread.owner_of(each)) is not None)
    given = {value: frame.kept(_parameters_in, value) for value in args.all()}
    found = NOTHING.union(*given.values(), *(_parameters_of(frame, each) for each in owners))
    if not found - {gradients.UNKNOWN_PARAMETERS}:
        found = owners
    # What a call gives comes to it again in a loop, or in `self.x = wrap(self.x)`: each round would be of the last one.
    known = frame.analysis.pytorch.registry.shares.setdefault(frame.site(node), set())
    first = gradients.behind(found, known)
    if not first or len(first) > _MOST_SHARED:
        return NOTHING
    is_same = first == found and not (args.rest or args.others)
    is_same = is_same and all(
        isinstance(each, Const) or (of and gradients.UNKNOWN_PARAMETERS not in of)
        for value, of in given.items()
        for each in value
    )
    called = (name, frozenset(by_path(each) for each in callee if isinstance(each, Atom)))
    call = (*called, tuple(args.positional), frozenset(args.keywords.items())) if is_same else (frame.site(node),)
    share = Share(call, first)
    known.add(share)
    return frozenset({share})


def _parameters_in(frame: Frame, value: Value) -> frozenset[Atom]:
    return NOTHING.union(*(_parameters_of(frame, each) for each in gradients.all_in(frame, value)))


def _parameters_of(frame: Frame, atom: Atom | Tensor) -> frozenset[Atom]:
    """The modules or leaves that something is, of which a call may give parameters."""
    if isinstance(atom, Tensor):
        return atom.leaf
    if isinstance(atom, Opaque) and atom.shares:
        return gradients.parts_of(atom.shares)
    if isinstance(atom, Opaque) and frame.analysis.pytorch.is_like_module(frame, atom):
        return frozenset({by_path(atom)})
    if attributes.is_module(frame, atom):
        return frozenset({atom})
    is_plain = atom.made_of in containers.KINDS if isinstance(atom, Obj) else not isinstance(atom, (Opaque, Func))
    return NOTHING if is_plain else frozenset({gradients.UNKNOWN_PARAMETERS})
