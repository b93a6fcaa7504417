"""A loss is computed in float16, and its backward pass, or the gradients that are taken of it, are not scaled."""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.atoms import NEVER, Atom, Class, Const, External, Func, Method, Native, Value, tensors_in
from amp_migrate.flow.domain.machine import TRUE
from amp_migrate.flow.domain.tensor import F16, HALVED, LOW, PERHAPS_HALVED, PURE, Tensor
from amp_migrate.flow.events import Act, Event
from amp_migrate.hazards.seen.autocast_regions import FLOAT16, AutocastRegion
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.nodes import find, subscript_key, written_string

RULE = Rule(
    code="AMP629",
    name="float16-without-scaler",
    summary="a loss computed in float16 goes backward without a scaler",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
        -     loss.backward()
        -     optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "Gradients of a float16 forward are float16 on their way: what is smaller than 6e-8 is zero. A scaler "
        "multiplies the loss so that they are not; bfloat16 does not need one. One that is enabled for bfloat16 alone "
        "is off where it is needed, and so is one that another option than that of the region asks for. What "
        "`torch.autograd.grad` takes of a loss that is not scaled is lost alike, though a scaler scales the loss "
        "beside it; and so is a loss of its own that goes backward unscaled, as the discriminator's of a GAN."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
# Whoever may scale, or set the dtype, without being seen.
_OTHERS = re.compile(r"loss_scale|scale_loss|accelerat|deepspeed|fabric|set_autocast", re.IGNORECASE)
# Whoever scales, if it is PyTorch's, is followed.
_SCALERS = re.compile(r"scaler|^scale$", re.IGNORECASE)
_LEAVING: tuple[type[cst.CSTNode], ...] = (cst.Return, cst.Continue, cst.Break, cst.Raise)

# What dtypes are called in settings, and by PyTorch.
_BFLOAT16 = frozenset({"bfloat16", "bf16", "torch.bfloat16"})
_FLOAT16 = frozenset({"float16", "fp16", "half", *FLOAT16})


def detect(script: Script) -> Iterator[Hazard]:
    """Every plain backward through float16 that an optimizer steps on, and every scaler that is off in float16.

    So is one that is scaled by another option than that of its region. And all gradients that are taken of a plain
    loss where a scaler scales another.
    """
    yield from _off_in_float16(script)
    yield from _unscaled(script)
    yield from _by_another_option(script)
    yield from _taken(script)


def _taken(script: Script) -> Iterator[Hazard]:
    """Every `torch.autograd.grad()` through float16 of a plain loss, in a file with a scaler or in what it calls there.

    With `create_graph=True` it may be of a penalty, whose gradients are scaled with the loss that it is a part of.
    """
    flowing, questions = script.flowing, script.flowing.questions
    steps = questions.events(Act.SCALER_STEP)
    own = [each for each in steps if flowing.interpreted.node_at(script.file, each.site) is not None]
    for event in questions.events(Act.OWN_GRADIENT) if steps else ():
        place = flowing.interpreted.place(event.site)
        if place is None or event.why or event.units != PURE or not all(event.sure_in.values()):
            continue
        is_halved = all(isinstance(each, Tensor) and each.tags & HALVED for each in event.subject)
        is_beside = place[0] is script.file or any(True for each in own for _ in flowing.chains.to(event, each.code))
        if event.subject and is_halved and questions.is_halved(event) is True and is_beside:
            file, node = place
            yield Hazard(
                node,
                f"{file.tree.quote(node)} takes gradients of a float16 loss that is not scaled",
                "multiply the loss by the scaler's get_scale() and divide by it, or compute it in float32 or bfloat16",
                file=file,
            )


def _unscaled(script: Script) -> Iterator[Hazard]:
    """Every plain backward through float16 that an optimizer steps on, where nothing scales, or what does is another's.

    Where each dtype is one of those that a conditional gives, and none of them is float32, float16 may be meant.
    """
    file, flowing = script.file, script.flowing
    is_perhaps = any(_is_chosen(script, region) for region in script.regions.values())
    is_float16 = is_perhaps or any(_is_float16(script, each) for each in script.regions.values())
    if not is_float16 or any(map(_OTHERS.search, file.uses)):
        return
    has_scaler = any(map(_SCALERS.search, file.uses))
    if has_scaler and not _sees_scalers(script):
        return
    tags = HALVED | PERHAPS_HALVED if is_perhaps else HALVED
    stepped = {each for event in flowing.questions.events(Act.STEP) for each in event.optimizer}
    for event in flowing.questions.events(Act.BACKWARD):
        call = flowing.interpreted.node_at(file, event.site)
        halved = [each.tags & tags for each in tensors_in(event.subject)]
        if call is not None and any(halved) and event.units == PURE and event.optimizer & stepped:
            if has_scaler and not _is_left_out(script, event, call):
                continue
            what = "float16 loss" if any(each & HALVED for each in halved) else "loss that may be in float16"
            yield Hazard(
                call,
                f"{file.tree.quote(call)} is the backward of a {what}, and nothing scales it",
                "scale it and step through a GradScaler, or compute in bfloat16",
            )


def _sees_scalers(script: Script) -> bool:
    """Whether all that is called a scaler in a file, or multiplies by a scale, is one of PyTorch's that is in sight.

    One that is switched off for good says that nothing is to be scaled.
    """
    file, flowing = script.file, script.flowing
    registered = flowing.questions.analysis.pytorch.registry.scalers
    called = [node for name, nodes in file.uses.items() if _SCALERS.search(name) for node in nodes]
    for node in called:
        of = node.value if isinstance(node, cst.Attribute) and node.attr.value == "scale" else node
        value = flowing.value_of(file, of)
        if not all(each in registered or _is_in_sight(each) for each in value):
            return False
    return bool(registered) and not any(map(flowing.questions.is_never_on, registered))


def _is_in_sight(atom: Atom | Tensor) -> bool:
    """Whether something that is called a scaler is no more than a way to one, a flag, or none."""
    if isinstance(atom, Const):
        return atom.kind in ("NoneType", "bool", "str")
    return isinstance(atom, (Class, Func, Method, Native)) or (isinstance(atom, External) and atom.name in GRAD_SCALER)


def _is_left_out(script: Script, backward: Event, call: cst.CSTNode) -> bool:
    """Whether a backward is come to wherever its region is, and an optimizer steps on its plain gradients.

    In a branch that the region is not in, it may be meant for where the region is off: another scales in its place.
    """
    file = script.file
    function, tests = file.tree.function(call), _tests(script, call)
    before = [each for each in script.regions.values() if file.tree.position(each.node) < file.tree.position(call)]
    regions = [each for each in before if file.tree.function(each.node) is function]
    is_always = any(_is_float16(script, each) and tests <= _tests(script, each.node) for each in regions)
    steps = script.flowing.questions.events(Act.STEP) if is_always and not backward.scaler else ()
    ways = ((machine, about & backward.optimizer) for each in steps for machine, _, about, _ in each.reached)
    grads = (machine.grad(each) for machine, about in ways for each in about)
    return any(each is not None and each.kind == TRUE for each in grads)


def _tests(script: Script, node: cst.CSTNode) -> set[cst.CSTNode]:
    """The branches that a node of a function stands in, and the tests before it that may have left, for another way.

    One that ends a round, or the script, is none if nothing of the program runs there: it leaves out a bad loss.
    """
    tree = script.file.tree
    found = set[cst.CSTNode]()
    below = node
    for around in tree.ancestors(node):
        if isinstance(around, (cst.FunctionDef, cst.Lambda)):
            break
        if isinstance(around, (cst.If, cst.IfExp)) and below is not around.test:
            found.add(below)
        elif isinstance(around, (cst.ExceptHandler, cst.MatchCase, cst.BooleanOperation)):
            found.add(around)
        if isinstance(around, (cst.IndentedBlock, cst.Module)):
            before = itertools.takewhile(partial(operator.is_not, below), around.body)
            found.update(each for each in before if isinstance(each, cst.If) and _trains_elsewhere(script, each))
        below = around
    return found


def _trains_elsewhere(script: Script, test: cst.If) -> bool:
    """Whether an `if` may leave behind something that the program runs."""
    file, flowing = script.file, script.flowing
    if not any(True for kind in _LEAVING for _ in find(test, kind)):
        return False
    sites = {flowing.interpreted.node_at(file, each.site) for each in flowing.questions.events(Act.BACKWARD)}
    return any(each in sites or flowing.is_followed(file, each) for each in find(test, cst.Call))


def _by_another_option(script: Script) -> Iterator[Hazard]:
    """Every plain backward in the `else` of an option that scales, of a region that another option switches on.

    Both are attributes or entries of one object, which nothing in sight sets, and no test brings together.
    """
    file, flowing = script.file, script.flowing
    given = [file.names.argument(each.call, "enabled") for each in script.regions.values()]
    switches = {None if each is None else file.tree.code(each): each for each in given}
    switch = next(iter(switches.values())) if len(switches) == 1 else None
    if switch is None or not all(_is_float16(script, each) for each in script.regions.values()):
        return
    losses = [(each, flowing.interpreted.node_at(file, each.site)) for each in flowing.questions.events(Act.BACKWARD)]
    for event, call in losses:
        choice = None if call is None else next((e for e in file.tree.ancestors(call) if isinstance(e, cst.If)), None)
        if call is None or choice is None or event.units != PURE or choice.orelse not in [*file.tree.ancestors(call)]:
            continue
        is_halved = any(each.tags & HALVED for each in tensors_in(event.subject))
        scaled = (each for other, each in losses if other.scaler and other.optimizer & event.optimizer and each)
        is_chosen = is_halved and any(choice.body in [*file.tree.ancestors(each)] for each in scaled)
        if is_chosen and _are_apart(script, _option(switch), _option(choice.test)):
            yield Hazard(
                call,
                f"{file.tree.quote(call)} is the backward of a float16 loss, and nothing scales it, where "
                f"`{file.tree.quote(switch)}` is on and `{file.tree.quote(choice.test)}` is off",
                "let one option switch both on",
            )


def _option(node: cst.BaseExpression) -> tuple[str, str]:
    """The object that an option is asked of, and its name there; empty for what is none."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        asked = written_string(node.args[0].value) if node.func.attr.value == "get" and node.args else None
        return dotted(node.func.value) or "", asked or ""
    if isinstance(node, cst.Subscript):
        return dotted(node.value) or "", written_string(subscript_key(node)) or ""
    of, _, name = (dotted(node) or "").rpartition(".")
    return of, name


def _are_apart(script: Script, switch: tuple[str, str], option: tuple[str, str]) -> bool:
    """Whether two options of one object may be chosen apart, as far as the files of the script show."""
    (of, one), (other, two) = switch, option
    if not (of and one and two) or of != other or of == "self" or one == two:
        return False
    analysis = script.flowing.questions.analysis
    for node in (each for module in analysis.modules.values() if module for each in nodes_in(module.tree)):
        is_set = isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store)
        if is_set and _asked_for(node.slice if isinstance(node, ast.Subscript) else node) in (one, two):
            return False
        tested = node.test if isinstance(node, (ast.If, ast.IfExp, ast.Assert, ast.While)) else None
        tested = node if isinstance(node, (ast.BoolOp, ast.Compare)) else tested
        if tested is not None and {one, two} <= {*map(_asked_for, nodes_in(tested))}:
            return False
    return True


def _asked_for(node: ast.AST) -> object:
    """The name of an attribute, or what may be that of an entry."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)


def _is_float16(script: Script, region: AutocastRegion) -> bool:
    """Whether a region may compute in float16: for its dtype, or by default on what may be a GPU."""
    if region.is_float16 or region.device or script.file.names.argument(region.call, "dtype") is not None:
        return region.is_float16
    return script.may_be_on_cuda(region)


def _is_chosen(script: Script, region: AutocastRegion) -> bool:
    """Whether a region computes in float16 or bfloat16 for certain, as a choice of the script has it."""
    given = script.file.names.argument(region.call, "dtype")
    precision = None if given is None else script.flowing.precision_of(script.file, given)
    return precision is not None and precision & F16 != 0 and not precision & ~LOW


def _off_in_float16(script: Script) -> Iterator[Hazard]:
    """Every scaler that is off for good, or on for bfloat16 alone, which needs none, where a loss may be in float16."""
    file, questions = script.file, script.flowing.questions
    halved = [
        event
        for event in questions.events(Act.BACKWARD)
        if any(each.tags & (HALVED | PERHAPS_HALVED) for each in tensors_in(event.subject))
    ]
    for event in questions.events(Act.SCALER_MADE) if halved else ():
        call = script.flowing.interpreted.node_at(file, event.site)
        enabled = file.names.argument(call, "enabled") if isinstance(call, cst.Call) else None
        scales = any(each.units == PURE or each.scaler & event.scaler for each in halved)
        if call is not None and enabled is not None and scales and _excludes_float16(script, enabled):
            yield Hazard(
                call,
                f"{file.tree.quote(call)} is switched off in float16, which needs it, and on in bfloat16",
                "enable it where the region computes in float16",
            )
        elif call is not None and _is_off_for_good(script, event.scaler, halved):
            yield Hazard(
                call,
                f"{file.tree.quote(call)} is switched off, and steps on gradients of a float16 loss, which needs it",
                "enable it, or compute in bfloat16",
            )


def _is_off_for_good(script: Script, scalers: Value, halved: Sequence[Event]) -> bool:
    """Whether scalers that are never on step optimizers by the gradients of losses that are in float16 for certain."""
    questions = script.flowing.questions
    if not all(map(questions.is_never_on, scalers)) or not any(_is_float16(script, e) for e in script.regions.values()):
        return False
    # The step of a scaler that is off is the optimizer's own.
    calls = [(each, each.node) for each in questions.events(Act.STEP)]
    funcs = ((each, call.func) for each, call in calls if isinstance(call, ast.Call))
    asked = ((each, func.value) for each, func in funcs if isinstance(func, ast.Attribute))
    by_them = (each.optimizer for each, by in asked if scalers & questions.analysis.values.get(by, NEVER))
    stepped = frozenset[object]().union(*by_them)
    losses = (e for e in halved if e.units == PURE and any(each.tags & HALVED for each in tensors_in(e.subject)))
    return any(each.optimizer & stepped for each in losses)


def _excludes_float16(script: Script, test: cst.BaseExpression) -> bool:
    """Whether a test is that for bfloat16, or that for anything but float16."""
    if not isinstance(test, cst.Comparison):
        values = [each.value for each in script.roles.bindings(script.file, test)]
        tests = [each for each in values if isinstance(each, cst.Comparison)]
        return len(tests) == len(values) > 0 and all(_excludes_float16(script, each) for each in tests)
    if len(test.comparisons) != 1:
        return False
    (target,) = test.comparisons
    sides = {written_string(each) or script.file.names.full(each) for each in (test.left, target.comparator)}
    if isinstance(target.operator, (cst.Equal, cst.Is)):
        return not sides.isdisjoint(_BFLOAT16)
    return isinstance(target.operator, (cst.NotEqual, cst.IsNot)) and not sides.isdisjoint(_FLOAT16)
