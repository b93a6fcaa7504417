"""Reads scripts that train with `FP16_Optimizer` of `apex.fp16_utils`, from before `apex.amp`.

The wrapper holds float32 copies of float16 weights, scales the loss and looks for overflows: what `amp.initialize` and
`amp.scale_loss` did later at O2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.bindings import Binding, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.names.reaching import reaching
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.catalog.apex_rules import MODELS_CAST
from amp_migrate.plan.code import Code, Hole, code
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Apex
from amp_migrate.steps.apex.initialize.branches import place_of
from amp_migrate.steps.apex.initialize.initialize_calls import STATIC, STAYED, Initialize, static_unless
from amp_migrate.steps.apex.uses.apex_calls import wrapper_calls
from amp_migrate.steps.apex.uses.norm_limits import norm_limits
from amp_migrate.steps.model.training_step import Backward
from amp_migrate.steps.scaler.checkpoint_entries import loads_optimizer
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.tables.apex_names import DYNAMIC_SCALE, FP16_OPTIMIZER, FP16_UTILS, HALF_NETWORKS, USE_SHIM, WRAPPERS
from amp_migrate.trees.nodes import Block, is_constant, walk
from amp_migrate.trees.own_calls import named_arguments

# What a wrapper has of its own, and neither its optimizer nor the scaler can answer; all else is its optimizer's.
_OWN = frozenset(
    (
        "all_fp16_params all_fp32_from_fp16_params all_fp32_from_fp32_params clip_grad_norm cur_iter cur_scale "
        "dynamic_loss_scale first_closure_call_this_step fp16_groups fp16_groups_flat fp32_from_fp16_groups "
        "fp32_from_fp32_groups fp32_groups_flat inspect_master_grad_data last_overflow_iter loss_scaler maybe_print "
        "overflow overflow_buf scale_factor scale_window verbose"
    ).split()
)
_BACKWARD = ("loss", "update_master_grads", "retain_graph")
_NOTE = MODELS_CAST["FP16_Optimizer"]
_CLIPS = "max_grad_norm clipped the gradients of each group in FusedAdam's step: the script clips them itself now"
_OLD_CHECKPOINTS = "a checkpoint with the state of an FP16_Optimizer holds objects of Apex, and cannot be loaded"


def read_wrappers(file: File, apex_o2: Apex, files: Iterable[File]) -> Iterator[Initialize | Refusal]:
    """What each wrapper of a file says: the optimizer, the loss scale, the condition.

    Args:
        files: those of its script.
        apex_o2: whether float16 weights may become float32 ones.
    """
    for call in wrapper_calls(file):
        if apex_o2 is Apex.SHIM:
            yield Refusal(file, call, "FP16_Optimizer is for float16 weights, which were asked to stay", USE_SHIM)
            continue
        statement = file.tree.statement(call)
        arguments = named_arguments(call, FP16_OPTIMIZER)
        target = _target(file, call)
        if arguments is None or target is None or "init_optimizer" not in arguments:
            yield Refusal(file, call, "FP16_Optimizer is made in a way that is not understood", USE_SHIM)
            continue
        growth = _growth(file, arguments.get("dynamic_loss_args", cst.Name("None")))
        if growth is None:
            at = arguments["dynamic_loss_args"]
            yield Refusal(file, at, "dynamic_loss_args= of FP16_Optimizer is not a plain dictionary", USE_SHIM)
            continue
        optimizer = arguments["init_optimizer"]
        home, conditions = place_of(file, statement, target)
        is_renamed = file.tree.code(target) != file.tree.code(optimizer)
        notes: tuple[str, ...] = (_NOTE, _OLD_CHECKPOINTS) if any(map(loads_optimizer, files)) else (_NOTE,)
        notes += (_CLIPS,) if any(True for _ in norm_limits(file)) else ()
        init_scale = _scale(file, arguments, growth.pop("init_scale", None))
        dynamic = arguments.get("dynamic_loss_scale", cst.Name("False"))
        if is_constant(dynamic, "False"):
            growth = dict(STATIC)
        elif not is_constant(dynamic, "True"):
            growth = static_unless(file.tree.code(dynamic), growth)
        notes += () if is_constant(dynamic, "True") else (STAYED,)
        yield Initialize(
            file=file,
            call=call,
            statement=statement,
            home=home,
            replaces_home=home is statement,
            switch=conditions,
            init_scale=init_scale,
            setting=None,
            optimizers=optimizer,
            rebinds=(_rebind(file, target, optimizer),) if is_renamed else (),
            notes=notes,
            what="FP16_Optimizer",
            growth=tuple(growth.items()),
            has_masters=True,
        )


def read_backwards(file: File, body: Block) -> list[Backward | Refusal]:
    """The calls `optimizer.backward(loss)` of a body."""
    found: list[Backward | Refusal] = []
    for statement, call in backward_calls(body):
        assert isinstance(call.func, cst.Attribute)
        if not call.args or not is_optimizer(file, call.func.value):
            continue
        first = call.args[0]
        others = [_BACKWARD[1] if arg.keyword is None else arg.keyword.value for arg in call.args[1:]]
        is_plain = isinstance(statement, cst.Expr) and statement.value is call and not any(a.star for a in call.args)
        is_known = set(others) <= set(_BACKWARD) and len(others) == len(set(others))
        if is_plain and first.keyword is None and is_known:
            found.append(Backward(statement, call, first.value, wrapped=True))
        else:
            found.append(Refusal(file, call, "FP16_Optimizer goes backward in a way that is not understood", USE_SHIM))
    return found


def not_understood(file: File, roles: Roles) -> Iterator[Refusal]:
    """Uses of `apex.fp16_utils`, and of its wrapper, that have no native form."""
    for node in file.tree.every(cst.Name, cst.Attribute):
        full = file.names.full(node)
        if type(file.tree.parents[node]) in (cst.Attribute, cst.ImportAlias, cst.AsName, cst.ImportFrom):
            continue
        if full.startswith(FP16_UTILS + ".") and not _is_converted(file, node, full):
            yield Refusal(file, node, f"{full.removeprefix('apex.')} has no native form here", USE_SHIM)
    for _, attribute in wrapper_attributes(file, roles):
        name = attribute.attr.value
        if name in _OWN or name[0] == "_" or isinstance(file.tree.parents[attribute], cst.AssignTarget):
            yield Refusal(file, attribute, f"FP16_Optimizer's {name} has no native form here", USE_SHIM)
        elif name == "update_master_grads" and _copies(file, attribute) is None:
            yield Refusal(file, attribute, "FP16_Optimizer copies gradients in a way that is not understood", USE_SHIM)


def copies_of_gradients(file: File, roles: Roles) -> Iterator[cst.Expr]:
    """The statements that have a wrapper copy gradients to its own weights, which native AMP has none beside."""
    for _, attribute in wrapper_attributes(file, roles):
        statement = _copies(file, attribute)
        if statement is not None:
            yield statement


def _copies(file: File, attribute: cst.Attribute) -> cst.Expr | None:
    call = file.tree.parents[attribute]
    statement = file.tree.parents[call]
    is_call = isinstance(call, cst.Call) and call.func is attribute and not call.args
    is_copy = attribute.attr.value == "update_master_grads" and is_call
    return statement if is_copy and isinstance(statement, cst.Expr) else None


def wrapper_attributes(file: File, roles: Roles) -> Iterator[tuple[cst.BaseExpression, cst.Attribute]]:
    """Whatever a file that wraps its optimizers, or is given them wrapped, asks of them, each with the optimizer."""
    wrapped = {dotted(_target(file, call)) for call in wrapper_calls(file)}
    if not wrapped:
        wrapped = {dotted(each) for each in wrapped_receivers(file)}
    for name in {path.rpartition(".")[2] for path in wrapped if path is not None}:
        for node in file.uses.get(name, ()):
            parent = file.tree.parents[node]
            is_asked = isinstance(parent, cst.Attribute) and parent.value is node and is_optimizer(file, node)
            if is_asked and not _is_own_object(file, roles, node):
                yield node, cst.ensure_type(parent, cst.Attribute)


def _is_own_object(file: File, roles: Roles, node: cst.BaseExpression) -> bool:
    """Whether a name stands for an object of a class of the project's, wherever it gets its value."""
    made = [each.value for each in roles.bindings(file, node)]
    return bool(made) and all(isinstance(each, cst.Call) and _makes_own_object(file, roles, each) for each in made)


def _makes_own_object(file: File, roles: Roles, call: cst.Call) -> bool:
    function = roles.project.called(file, call)
    if function is None or function.name != "__init__" or function.owner is None:
        return False
    lineage = roles.project.lineage(function.file, function.owner)
    return not any(where.names.full(base.value) in WRAPPERS for where, owner in lineage for base in owner.bases)


def wrapped_receivers(file: File) -> Iterator[cst.BaseExpression]:
    """The optimizers that go backward by themselves in a file: `optimizer.backward(loss)`."""
    for _, body in bodies(file) if ".backward(" in file.tree.text else ():
        for _, call in backward_calls(body):
            receiver = cst.ensure_type(call.func, cst.Attribute).value
            if call.args and is_optimizer(file, receiver):
                yield receiver


def half_networks(file: File, roles: Roles) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """The calls that make a network's weights float16, each with the network."""
    for call in file.calls:
        func = call.func
        if file.names.callee(call) in HALF_NETWORKS and len(call.args) == 1:
            yield call, call.args[0].value
        elif isinstance(func, cst.Attribute) and func.attr.value == "half" and roles.is_module(file, func.value):
            yield call, func.value


def trained_networks(file: File, roles: Roles) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """The same without `teacher.half()`, whose float16 weights nobody trains: they stay what they are."""
    for call, network in half_networks(file, roles):
        if file.names.callee(call) in HALF_NETWORKS or not is_never_stepped(file, roles, network):
            yield call, network


def is_never_stepped(file: File, roles: Roles, network: cst.BaseExpression) -> bool:
    """Whether a network has been made for itself, and the optimizers of a file are seen to be of others."""
    made = _bindings(file, network) if dotted(network) is not None else []
    if not made or any(each.value is None for each in made):
        return False
    own = _modules_in(file, roles, network)
    stepped = [_modules_in(file, roles, call.args[0].value) for call in wrapper_calls(file) if call.args]
    return bool(stepped) and all(others and own.isdisjoint(others) for others in stepped)


def _modules_in(file: File, roles: Roles, node: cst.BaseExpression) -> frozenset[tuple[str, cst.CSTNode | None]]:
    """The modules that go into a value, through any number of names, each by where its name gets it.

    A name that gets another module later is none of those before.
    """
    found: dict[tuple[str, cst.CSTNode | None], bool] = {}
    todo = [node]
    while todo:
        for each in walk(todo.pop()):
            path = dotted(each)
            if not isinstance(each, (cst.Name, cst.Attribute)) or path is None:
                continue
            bindings: list[Binding | None] = [*_bindings(file, each)]
            for given in bindings or [None]:
                key = path, None if given is None else given.node
                if key not in found:
                    found[key] = roles.is_module(file, each)
                    value = None if given is None else given.source if given.value is None else given.value
                    todo += [] if value is None else [value]
    return frozenset(key for key, is_module in found.items() if is_module)


def _bindings(file: File, node: cst.BaseExpression) -> list[Binding]:
    """Where something gets the values that it may have at a place."""
    return reaching(file.names, node) if isinstance(node, cst.Name) else object_bindings(file, node)


def _is_converted(file: File, node: cst.CSTNode, full: str) -> bool:
    call = file.tree.parents[node]
    if not isinstance(call, cst.Call):
        return False
    return full in WRAPPERS or (full in HALF_NETWORKS and len(call.args) == 1)


def _target(file: File, call: cst.Call) -> cst.BaseExpression | None:
    """What is assigned just the wrapper."""
    statement = file.tree.parents[call]
    return statement.targets[0].target if isinstance(statement, cst.Assign) else None


def _rebind(file: File, target: cst.BaseExpression, optimizer: cst.BaseExpression) -> str | Code:
    """The line that gives the wrapper's name to the optimizer; one that is made in it changes as it would elsewhere."""
    if dotted(optimizer) is not None:
        return f"{file.tree.code(target)} = {file.tree.code(optimizer)}"
    return code("{} = {}", file.tree.code(target), Hole(optimizer, bare=True))


def _growth(file: File, given: cst.BaseExpression) -> dict[str, str] | None:
    """What `dynamic_loss_args` says, as GradScaler's arguments; None where that cannot be seen."""
    if is_constant(given, "None"):
        return {}
    said: dict[str, cst.BaseExpression] = {}
    if isinstance(given, cst.Dict):
        pairs = [each for each in given.elements if isinstance(each, cst.DictElement)]
        keys = [str(each.key.evaluated_value) if isinstance(each.key, cst.SimpleString) else "" for each in pairs]
        said = dict(zip(keys, (each.value for each in pairs), strict=True))
        is_whole = len(said) == len(given.elements)
    else:
        is_dict = isinstance(given, cst.Call) and dotted(given.func) == "dict"
        args = given.args if is_dict and isinstance(given, cst.Call) else ()
        said = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
        is_whole = is_dict and len(said) == len(args)
    if not is_whole or not set(said) <= {"init_scale", "scale_factor", "scale_window"}:
        return None
    code = {name: file.tree.code(value) for name, value in said.items()}
    found = {"init_scale": f"float({code['init_scale']})"} if "init_scale" in code else {}
    if "scale_factor" in code:
        found |= {"growth_factor": code["scale_factor"], "backoff_factor": f"1 / ({code['scale_factor']})"}
    return found | ({"growth_interval": code["scale_window"]} if "scale_window" in code else {})


def _scale(file: File, arguments: dict[str, cst.BaseExpression], first: str | None) -> str | None:
    """GradScaler's `init_scale` as code; None where Apex chose the scale. `first` is what a dynamic one begins with."""
    static = arguments.get("static_loss_scale")
    code = "1.0" if static is None else f"float({file.tree.code(static)})"
    if isinstance(static, (cst.Integer, cst.Float)):
        code = str(float(static.evaluated_value))
    dynamic = arguments.get("dynamic_loss_scale")
    if dynamic is None or is_constant(dynamic, "False"):
        return code
    if is_constant(dynamic, "True"):
        return first
    return f"{first or DYNAMIC_SCALE} if {file.tree.code(dynamic)} else {code}"
