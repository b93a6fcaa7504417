"""A scaler steps an optimizer whose weights are float16 themselves."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.autocast_regions import FLOAT16
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.torch_names import HANDS_BACK
from amp_migrate.trees.nodes import find, last_word, walk

RULE = Rule(
    code="AMP612",
    name="half-weights",
    summary="a scaler steps an optimizer whose weights are float16",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        model.half()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    after=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    why=(
        'A scaler refuses float16 gradients ("Attempting to unscale FP16 gradients"). Autocast casts what needs to be '
        "cast by itself: the weights stay in float32."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_HANDS_BACK = HANDS_BACK | {"bfloat16", "double", "half"}


def detect(script: Script) -> Iterator[Hazard]:
    """Every `model.half()` on the way to a step of the model's optimizer."""
    file = script.file
    for course in script.courses:
        for event in course.of(Act.SCALER_STEP):
            for model in _models(script, event):
                cast_call = _last_cast(file, course, event, model)
                if cast_call is not None:
                    yield Hazard(
                        cast_call,
                        f"{file.tree.quote(cast_call)} makes weights float16, which {course.scaler} refuses to unscale",
                        "remove it: autocast casts what needs to be cast",
                    )


def _models(script: Script, event: Event) -> set[str]:
    """The modules whose parameters an optimizer is made with, as they are written."""
    assert isinstance(event.node, cst.Call)
    if not event.node.args:
        return set()
    made = [each.value for each in script.roles.bindings(script.file, event.node.args[0].value)]
    calls = [call for value in made if isinstance(value, cst.Call) for call in find(value, cst.Call)]
    return {
        path
        for call in calls
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "parameters"
        if (path := dotted(call.func.value)) is not None
    }


def _last_cast(file: File, course: Course, event: Event, model: str) -> cst.Call | None:
    """The cast of a module to float16 that always runs before a step, with no later cast that takes it back."""
    tree = file.tree
    found: cst.Call | None = None
    for call in find(course.body, cst.Call):
        parent = tree.parents[call]
        is_inner = isinstance(parent, cst.Attribute) and last_word(parent) in _HANDS_BACK
        if tree.order[call] > tree.order[event.node] or is_inner:
            continue
        chain, root = _chained(call)
        is_assigned = isinstance(parent, cst.Assign) and [dotted(each.target) for each in parent.targets] == [model]
        cast_call = next((each for each in chain if _is_cast(file, each)), None)
        if (is_assigned or dotted(root) == model) and cast_call is not None:
            always = tree.block(tree.statement(call)) in tree.ancestors(event.statement)
            found = cast_call if always and _is_to_half(file, cast_call) else None
        elif is_assigned and not any(
            dotted(each) == model for each in walk(call) if isinstance(each, cst.BaseExpression)
        ):
            found = None  # another module
    return found


def _chained(call: cst.Call) -> tuple[list[cst.Call], cst.BaseExpression]:
    """The calls of a chain that hand back their module, the last of them first, and the module: `net.half().cuda()`."""
    chain: list[cst.Call] = []
    node: cst.BaseExpression = call
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _HANDS_BACK:
        chain.append(node)
        node = node.func.value
    return chain, node


def _is_cast(file: File, call: cst.Call) -> bool:
    """Whether a call that hands back its module may change the dtype of its weights."""
    word = last_word(call.func)
    names_dtype = any(file.names.full(arg.value).startswith("torch.") for arg in call.args)
    return word in ("bfloat16", "double", "float", "half") or (word == "to" and names_dtype)


def _is_to_half(file: File, call: cst.Call) -> bool:
    return last_word(call.func) == "half" or any(file.names.full(arg.value) in FLOAT16 for arg in call.args)
