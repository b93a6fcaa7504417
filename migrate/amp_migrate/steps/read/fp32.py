"""Plain FP32 training: steps are found from their calls of `backward()`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import fits
from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings, object_path
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import GRAD, Roles
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.catalog.step_rules import OTHER_PRECISION
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.gradients.steppers import Steppers, optimizer_steps
from amp_migrate.steps.model.training_step import Backward, OptimizerStep
from amp_migrate.steps.read.gather import Gathered, Gatherer
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.statements.amp_signs import switched_off, unused_scaler, uses_amp
from amp_migrate.steps.statements.bodies import backward_calls, bodies, outermost_loop
from amp_migrate.tables.apex_names import LOSS_SCALERS
from amp_migrate.tables.torch_names import GRAD_SCALER, OTHER_FRAMEWORKS, TRAINED_WITH_AMP
from amp_migrate.trees.nodes import Block, Statement, block_of, find, inner_statements, is_constant, nested_statements
from amp_migrate.trees.own_calls import argument, calls_in

# Objects whose `backward(loss)` is a framework's own: its precision is a switch of that framework.
_FRAMEWORK_NAME = re.compile(r"(^|[._])(accelerator|fabric|engine|model_engine|manager|booster|trainer|strategy)$")
# A loss scale of the script's own, which comes with float16 of its own; `kl_loss_scale` only weighs a loss.
_LOSS_SCALE = re.compile(r"(^|\.)loss_?scale$", re.IGNORECASE)
_BEHIND = "no optimizer steps behind this backward()"
_STAYS = "it trains as before; to have its forward in half precision, put that into a region by hand"
_GRADIENTS = frozenset({"gradient", "grad_tensors"})
_WITHOUT_IT = "delete that scaler, or use it and autocast, and run again"
_BACKWARD_KEYWORDS = frozenset({"gradient", "grad_tensors", "retain_graph", "create_graph", "inputs"})


def read_steps(
    file: File,
    roles: Roles,
    steppers: Steppers | None,
    unfit: Callable[[File], Refusal | None],
    left_alone: frozenset[Statement] = frozenset(),
) -> Iterator[Gathered | Refusal]:
    """What each function of a file that goes backward has of an FP32 training step, in source order.

    Args:
        steppers: knows functions that step for others; None where nobody has to know of steps.
        unfit: why no step of a file is to be moved. What such a step computes is not looked for: it takes the project.
        left_alone: the statements of trainings that stay as they are.
    """
    imported = {each.partition(".")[0] for each in file.imported}
    knows_torch = "torch" in imported
    if not knows_torch and imported & OTHER_FRAMEWORKS:
        return
    values = None if steppers is None else steppers.values
    for function, body in bodies(file):
        own = ((s, call) for s, call in backward_calls(body) if s not in left_alone)
        calls = [(s, call) for s, call in own if not _is_other_function(file, roles, call, values)]
        by_hand = _by_hand(file, roles, body) if not calls and not uses_amp(file, body, function) else None
        if by_hand is not None:
            yield unfit(file) or by_hand
        if not knows_torch and not any(isinstance(s, cst.Expr) and _is_of_torch(file, call) for s, call in calls):
            continue  # somebody else's `backward`
        if not calls or uses_amp(file, body, function):
            idle = _in_vain(file, body) if calls else None
            if idle is not None:
                yield replace(idle, left=tuple((file, statement) for statement, _ in calls))
            continue
        refused = unfit(file)
        stepped = () if refused is not None else _stepped(file, body, steppers, left_alone)
        is_asked = steppers is not None and refused is None and len(calls) > 1
        steps = [*optimizer_steps(roles, file, body), *stepped] if is_asked else []
        behind = _behind_training(file, body, steps)
        beside = [each for each, _ in calls if each in behind]
        for statement in beside:
            yield Refusal(file, statement, _BEHIND, _STAYS, left=((file, statement),))
        gatherer = _gatherer(file, roles, steppers, left_alone | behind if beside else left_alone)
        backwards: list[Backward] = []
        left: list[Statement] = []
        refusal: Refusal | None = None
        for statement, call in calls:
            if statement in behind:
                continue
            read = _read(file, roles, statement, call)
            if isinstance(read, Backward) and values is not None:
                read = _of_own_class(file, _run_by(file, roles, call, values), read) or read
            if isinstance(read, Refusal):
                refusal = refusal or read
            elif read is not None:
                backwards.append(read)
            if read is not None:
                left.append(statement)
        if refusal is not None or backwards:
            found: Gathered | Refusal | None = refusal or refused
            if found is None:
                found = gatherer.gather(function, backwards, stepped_elsewhere=stepped)
            yield replace(found, left=tuple((file, e) for e in left)) if isinstance(found, Refusal) else found


def _behind_training(file: File, body: Block, steps: Sequence[OptimizerStep]) -> frozenset[Statement]:
    """What runs behind the last loop of a body that steps an optimizer, where that goes backward, too.

    Such gradients are what a loop moves parameters by, or what a picture shows; no optimizer gets them, nor a scaler.
    """
    order = file.tree.order
    last = max((each.statement for each in steps), key=lambda each: order[each], default=None)
    loop = None if last is None else outermost_loop(file, last)
    inside = {*inner_statements(loop)} if loop is not None else set[Statement]()
    if last not in inside or not any(each in inside for each, _ in backward_calls(body)):
        return frozenset()
    return frozenset(each for each in nested_statements(body) if order[each] > order[last] and each not in inside)


def _by_hand(file: File, roles: Roles, body: Block) -> Refusal | None:
    """Why a step is left whose gradients are taken by `torch.autograd.grad`, and given to its parameters by hand."""
    calls = calls_in(body) if "autograd" in file.tree.text else ()
    taking = next((call for _, call in calls if file.names.callee(call) == GRAD), None)
    if taking is None or not any(map(_gives_gradient, nested_statements(body))):
        return None
    if not any(True for _ in optimizer_steps(roles, file, body)):
        return None
    reason = "its gradients are taken by torch.autograd.grad(), and given to parameters by hand"
    hint = "put forward and loss into torch.amp.autocast(...) by hand; in float16 take the gradients of "
    return Refusal(file, taking, reason, f"{hint}scaler.scale(loss), and step through the scaler")


def _gives_gradient(statement: Statement) -> bool:
    """Whether a statement gives something a gradient: `p.grad = g`."""
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    names = {each.target.attr.value for each in targets if isinstance(each.target, cst.Attribute)}
    return isinstance(statement, cst.Assign) and "grad" in names and not is_constant(statement.value, "None")


def _in_vain(file: File, body: Block) -> Refusal | None:
    """Why a body with AMP in it, which trains in float32 for all of that, is left; None where it may train with AMP."""
    unused = unused_scaler(file, body)
    if unused is not None:
        return Refusal(file, unused, "a GradScaler is made beside it that nothing uses", _WITHOUT_IT)
    off = switched_off(file, body)
    return None if off is None else _switched_off(file, off)


def _switched_off(file: File, off: cst.Call) -> Refusal:
    if file.names.meanings(off.func) & GRAD_SCALER:
        return Refusal(file, off, "a GradScaler is made beside it that is switched off already", "migrate it by hand")
    return Refusal(file, off, "autocast is switched off already in what may be part of it", "migrate it by hand")


def _is_of_torch(file: File, call: cst.Call) -> bool:
    """Whether a `backward` looks just like a tensor's, or like that of a framework which is given a loss."""
    return not call.args or (_is_of_framework(file, call) and "loss" in (dotted(call.args[0].value) or "").lower())


def _is_of_framework(file: File, call: cst.Call) -> bool:
    """Whether a framework's own object takes a loss backward: `self.accelerator.backward(loss)`.

    That is an object of a class of such a package, whatever it is called.
    """
    if not call.args or not isinstance(call.func, cst.Attribute):
        return False
    receiver = call.func.value
    made = (file.names.callee(each) for each in _values(file, receiver) if isinstance(each, cst.Call))
    packages = TRAINED_WITH_AMP - {"torch"}
    is_object = any(each.partition(".")[0] in packages and each.rpartition(".")[2][:1].isupper() for each in made)
    return is_object or _FRAMEWORK_NAME.search(dotted(receiver) or "") is not None


def gather_again(
    file: File,
    function: cst.FunctionDef | None,
    backwards: list[Backward],
    roles: Roles,
    steppers: Steppers | None,
    left_alone: frozenset[Statement] = frozenset(),
) -> Gathered | Refusal:
    """What a function has of a step, when some of its calls are known to go backward."""
    body = file.tree.module if function is None else block_of(function)
    if uses_amp(file, body, function):
        off = switched_off(file, body)
        if off is not None:
            return _switched_off(file, off)
        return Refusal(file, backwards[0].statement, "mixed precision is in use here already", "migrate it by hand")
    stepped = _stepped(file, body, steppers, left_alone)
    return _gatherer(file, roles, steppers, left_alone).gather(function, backwards, stepped_elsewhere=stepped)


def _gatherer(file: File, roles: Roles, steppers: Steppers | None, left_alone: frozenset[Statement]) -> Gatherer:
    values = None if steppers is None else steppers.values
    return Gatherer(file, roles, left_alone, scales=steppers is not None, values=values)


def _stepped(
    file: File, body: Block, steppers: Steppers | None, left_alone: frozenset[Statement]
) -> list[OptimizerStep]:
    """The calls of a body that step in other functions, but for those of trainings that stay as they are."""
    every = () if steppers is None else steppers.calls(file, body)
    return [each for each in every if each.statement not in left_alone]


def _is_stepped(file: File, receiver: cst.BaseExpression) -> bool:
    """Whether what goes backward steps somewhere, too, as no tensor does: a wrapper with model and optimizer in it."""
    path = object_path(receiver)
    return path is not None and "step" in file.called_on(receiver)


def _goes_on(file: File, roles: Roles, call: cst.Call, given: Sequence[cst.Arg]) -> bool:
    """Whether a call goes on with the backward pass that runs a module or autograd function, from gradients it gets."""
    owner, body = file.tree.owner_class(call), file.tree.body(call)
    if owner is None or all(arg.keyword is not None and arg.keyword.value not in _GRADIENTS for arg in given):
        return False
    is_inside = roles.is_module_class(file, owner) or _is_in_function(file, call)
    methods = (each.func.attr.value for each in find(body, cst.Call) if isinstance(each.func, cst.Attribute))
    return is_inside and "step" not in methods


def _is_in_function(file: File, call: cst.Call) -> bool:
    """Whether a call stands in a function of autograd's own, which gets gradients, and no loss."""
    owner = file.tree.owner_class(call)
    bases = () if owner is None else owner.bases
    return any(file.names.full(base.value) == "torch.autograd.Function" for base in bases)


def _is_scaled(loss: cst.BaseExpression) -> bool:
    """Whether an expression is a loss times a loss scale."""
    if not isinstance(loss, cst.BinaryOperation) or not isinstance(loss.operator, cst.Multiply):
        return False
    return any(_LOSS_SCALE.search(dotted(each) or "") or _is_scaled(each) for each in (loss.left, loss.right))


def _values(file: File, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a name is given, where it is given one value only."""
    bindings = object_bindings(file, node)
    return [each.value for each in bindings if each.value is not None and len(bindings) == 1]


def _is_other_function(file: File, roles: Roles, call: cst.Call, values: ValueCalls | None) -> bool:
    """Whether `backward` is a kernel's own function, a method of the class that calls it, or one that does not scale.

    What such a method has of a step is read where it is defined.
    """
    full = file.names.callee(call)
    if (bool(full) and not full.startswith("torch.")) or roles.project.own_method(file, call) is not None:
        return True
    methods = _run_by(file, roles, call, values)
    if not methods or not all(each and (_goes_by_apex(each) or _leaves_scale(each, roles)) for each in methods):
        return False
    return roles.project.called(file, call) is not None or _is_seen(methods, call, values)


def _is_seen(methods: Sequence[FunctionRef | None], call: cst.Call, values: ValueCalls | None) -> bool:
    """Whether a call is among all those of the methods that values tell it to run: these can be given a scaler."""
    found = ((values.together(each) if values and each else None) or {} for each in methods)
    return all(any(site.call is call for sites in each.values() for site in sites) for each in found)


def _run_by(file: File, roles: Roles, call: cst.Call, values: ValueCalls | None) -> list[FunctionRef | None]:
    """What a call of `backward` may run of the project: by names, or by values where a class has one that takes it.

    None stands in it for what else it may run, as a tensor's; it is empty where that is all.
    """
    method = roles.project.called(file, call)
    if method is not None or values is None:
        return [method] if method is not None else []
    if not any(True for _ in _named_so(roles, call)):
        return []
    found = values.meant(file, call)
    return found if any(found) else []


def _named_so(roles: Roles, call: cst.Call) -> Iterator[FunctionRef]:
    """The methods of the project that a call of `backward` may run by its name, and by what it gives."""
    project = roles.project
    for file in project.library.defining("backward"):
        methods = (project.reference(file, each) for each in file.methods.get("backward", ()))
        yield from (each for each in methods if fits(each.node, call, bound=each.is_bound))


def _unscaling(file: File, roles: Roles, call: cst.Call) -> str | None:
    """The class of the project with a `backward` that a call may run by its name, and which has no loss scale."""
    around = file.tree.function(call)
    if around is not None and around.name.value == "backward":
        return None  # which hands on what it is given
    for method in _named_so(roles, call):
        if method.owner is not None and _leaves_scale(method, roles):
            return method.owner.name.value
    return None


def _of_own_class(file: File, methods: Sequence[FunctionRef | None], backward: Backward) -> Refusal | None:
    """Why a loss cannot be scaled that may be an object of a class of the project: `scale()` takes tensors alone."""
    method = next((each for each in methods if each is not None and each.is_bound and each.owner), None)
    if method is None or method.owner is None or backward.given:
        return None
    code, name = file.tree.quote(backward.loss), method.owner.name.value
    reason = f"{code} may be an object of {name}, whose backward() is no tensor's, and a scaler scales tensors alone"
    hint = f"give {name}.backward() the scaler by hand, for what it takes backward"
    return Refusal(file, backward.call, reason, hint, covered=(method.node,))


def _goes_by_apex(method: FunctionRef) -> bool:
    scaling = set(amp_calls(method.file, "scale_loss"))
    return any(call in scaling for call in find(method.node, cst.Call))


def _leaves_scale(method: FunctionRef, roles: Roles) -> bool:
    """Whether all that a method takes backward is tensors as they are: it has no loss scale of its own."""
    body = block_of(method.node)
    calls = list(backward_calls(body))
    if uses_amp(method.file, body, method.node):
        return False
    read = [_read(method.file, roles, statement, call) for statement, call in calls]
    found = [each for each in read if each is not None]
    return bool(found) and all(isinstance(each, Backward) for each in found)


def is_of_engine(file: File, roles: Roles, call: cst.Call) -> bool:
    """Whether a wrapper of an optimizer, or of a model, is handed the loss, and scales it by itself."""
    method = cst.ensure_type(call.func, cst.Attribute)
    receiver = method.value
    is_one = is_optimizer(file, receiver) or roles.is_module(file, receiver) or _is_stepped(file, receiver)
    return bool(call.args) and is_one and not roles.project.is_missing(file, method)


def _read(file: File, roles: Roles, statement: Statement, call: cst.Call) -> Backward | Refusal | None:
    """What a call of `backward` is; None for that of a kernel, which gives something back, as a tensor's does not.

    None, too, where there is no such method: what raises before as after is no part of a step.
    """
    assert isinstance(call.func, cst.Attribute)
    receiver = call.func.value
    if call.args and roles.project.is_missing(file, call.func):
        return None
    code = file.tree.quote(call)
    path = dotted(receiver) or ""
    full = file.names.full(receiver)
    if full == "torch.autograd" and _goes_on(file, roles, call, call.args[1:]):
        return None
    given = _given_to_autograd(call) if full == "torch.autograd" else None
    if full.startswith("torch.") and given is None:
        return Refusal(
            file, call, f"{code} is not the backward of one loss", "call backward() on the sum of the losses instead"
        )
    loss = receiver if given is None else given.value
    others = [arg for arg in call.args if arg is not given]
    if _is_of_framework(file, call) or (call.args and path == "self"):
        return Refusal(
            file,
            call,
            f"{code} is a framework's own backward",
            "switch mixed precision on in that framework instead",
            code=OTHER_PRECISION.code,
        )
    if _is_in_function(file, call) and _goes_on(file, roles, call, others):
        return None
    if is_of_engine(file, roles, call):
        if (own := _unscaling(file, roles, call)) is not None:
            return Refusal(
                file,
                call,
                f"{code} may be of {own}, which scales nothing, and whose it is cannot be seen",
                "give the files that call this function, too, or scale the loss in there by hand",
            )
        return Refusal(
            file,
            call,
            f"{code} is the backward of a wrapper that scales the loss by itself",
            "switch mixed precision on in that wrapper instead",
            code=OTHER_PRECISION.code,
        )
    values = [loss, *_values(file, loss)]
    made = [file.names.callee(each) for each in values if isinstance(each, cst.Call)]
    if any(map(_is_scaled, values)) or not LOSS_SCALERS.isdisjoint(made):
        return Refusal(
            file,
            call,
            f"the loss of {code} is multiplied by a loss scale of the script's own",
            "take the script's own float16 out by hand, and run again",
            code=OTHER_PRECISION.code,
        )
    if _goes_on(file, roles, call, others):
        return None
    if isinstance(statement, cst.Assign) and statement.value is call and any(arg.keyword is None for arg in others):
        return None
    if any(arg.star or (arg.keyword is not None and arg.keyword.value not in _BACKWARD_KEYWORDS) for arg in others):
        return Refusal(file, call, f"the arguments of {code} are not those of Tensor.backward()", "migrate it by hand")
    if isinstance(statement, cst.Try):
        return Refusal(file, call, f"{code} stands where an exception is handled", "let it stand behind the try")
    if not (isinstance(statement, cst.Expr) and statement.value is call):
        return Refusal(file, call, f"{code} is part of a longer expression", "make it a statement of its own")
    return Backward(statement, call, loss, given=given is not None)


def _given_to_autograd(call: cst.Call) -> cst.Arg | None:
    """What `torch.autograd.backward` is given, if without gradients: a loss, or several, each of which is to be scaled.

    None where that is a generator: it would compute behind the region that it is made in.
    """
    given = argument(call, "tensors", 0)
    gradients = argument(call, "grad_tensors", 1)
    is_alone = gradients is None or (isinstance(gradients, cst.Name) and gradients.value == "None")
    if given is None or isinstance(given, cst.GeneratorExp) or not is_alone:
        return None
    return next(arg for arg in call.args if arg.value is given)
