"""With gradient accumulation, a part of the step runs in every micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow import events as flow
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.accelerate import accumulating
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import Round, Way, branches, rounds
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Stage
from amp_migrate.steps.statements.data_flow import reads, writes
from amp_migrate.trees.nodes import find, nested_statements

RULE = Rule(
    code="AMP608",
    name="micro-batch",
    summary="with gradient accumulation, a part of the step runs in every micro-batch",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for i, (x, y) in enumerate(loader):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss / 4).backward()
            scaler.unscale_(optimizer)
            if (i + 1) % 4 == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """
    ),
    after=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for i, (x, y) in enumerate(loader):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss / 4).backward()
            if (i + 1) % 4 == 0:
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """
    ),
    why=(
        "Gradients of several micro-batches add up only while they have one scale. `unscale_` and `step` raise when "
        "they run twice before `update()`, `update()` raises when nothing has stepped, and what is added to unscaled "
        "gradients counts 65536 times as much. Every micro-batch scales its loss; all the rest is for the last one. "
        "A batch that is skipped behind `unscale_` needs its `update()`, too."
    ),
    sources=(f"{EXAMPLES}#gradient-accumulation",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every `unscale_`, `step` or `update` that is not under the test of the others, in one loop with them.

    What Accelerate has prepared asks by itself whether it steps, and a scaler divides before it asks.
    """
    quote = script.file.tree.quote
    for course in script.courses:
        told: list[cst.CSTNode] = []
        for event in course.of(Act.UNSCALE, Act.SCALER_STEP, Act.UPDATE):
            other = _rarer(script, course, event)
            if other is not None:
                yield Hazard(
                    event.node,
                    f"{quote(event.node)} runs in every micro-batch, {other} only in some",
                    f"move it to where {other} is",
                )
                continue
            around = accumulating(script.flowing, course.file, event) if event.act is not Act.UPDATE else None
            if around is not None:
                assert isinstance(around.func, cst.Attribute)
                test = f"if {script.file.tree.code(around.func.value)}.sync_gradients:"
                yield Hazard(
                    event.node,
                    f"{quote(event.node)} divides what earlier micro-batches of {quote(around)} gave once more",
                    f"move it under `{test}`, with {course.scaler}.update()",
                )
                continue
            skip = _skip_behind(script, course, event)
            if skip is not None and skip not in told:
                told.append(skip)
                line, update = script.file.tree.position(skip)[0], f"{course.scaler}.update()"
                yield Hazard(
                    event.node,
                    f"{quote(event.node)} raises behind a batch that line {line} ends without {update}",
                    f"write {update} before that {'return' if isinstance(skip, cst.Return) else 'continue'}",
                )


def _skip_behind(script: Script, course: Course, event: Event) -> cst.Continue | cst.Return | None:
    """What ends some iterations between an event that all have and the update without which that raises in the next.

    An iteration is a round of the loop around the event, or a call of its function.
    """
    loop, tree = course.loop(event), script.file.tree
    around = course.function if loop is None else loop
    if event.act is Act.UPDATE or around is None or not _raises(script, course, event):
        return None
    tests = branches(course.file, event.statement)
    if tests and (loop is None or not all(_stays(loop, each) for each in tests)):
        return None
    changed = _changed(around)
    updates = [tree.order[e.statement] for e in course.of(Act.UPDATE) if course.loop(e) is loop]
    skips = [*find(around.body, cst.Return)] if loop is None else [*find(around.body, cst.Continue)]
    for skip in skips:
        between = takewhile(lambda node: node is not around, tree.ancestors(skip))
        asked = reads([each.test for each in between if isinstance(each, cst.If)])
        is_between = tree.order[event.statement] < tree.order[skip] < min(updates, default=0)
        if tree.loop(skip) is loop and is_between and not changed.isdisjoint(asked):
            return skip
    return None


def _rarer(script: Script, course: Course, event: Event) -> str | None:
    """What must run as often as an event of every iteration, and runs only in every n-th, or in some as it is seen.

    Where a function is one iteration, it is seen to come back to what raises.
    """
    raises = _raises(script, course, event)
    for each in rounds(script.flowing, course.file, event.statement):
        (_, first), *inner = each.way
        loop, tests = each.loop, branches(each.file, first)
        if loop is not None and not any(branches(*one) for one in inner) and all(_stays(loop, b) for b in tests):
            beside = [(one, way) for one in _beside(script, event) for way in _ways(script, one, each)]
            beside = [(one, way) for one, way in beside if not _excludes(each.file, first, way[0][1])]
            rarer = _all_rare(script, event, [(one, _is_rare(loop, way, raises)) for one, way in beside])
            if rarer is not None:
                return rarer
    if course.loop(event) is not None or not raises or branches(course.file, event.statement):
        return None
    own = [e for e in course.of(Act.SCALER_STEP, Act.UPDATE) if course.loop(e) is None]
    return _all_rare(script, event, [(each, _is_every_nth(course.file, e.statement)) for e in own for each in e.known])


def _beside(script: Script, event: Event) -> list[flow.Event]:
    """The steps and updates of the same scaler."""
    others = script.flowing.questions.events(Act.SCALER_STEP, Act.UPDATE)
    return [each for each in others if not event.scalers.isdisjoint(each.scaler)]


def _ways(script: Script, event: flow.Event, around: Round) -> Iterator[Way]:
    """The ways from a loop to something else that happens in its rounds."""
    place = script.flowing.interpreted.place(event.site)
    for each in () if place is None else rounds(script.flowing, place[0], place[0].tree.statement(place[1])):
        if each.loop is around.loop:
            yield each.way


def _all_rare(script: Script, event: Event, others: list[tuple[flow.Event, bool]]) -> str | None:
    """The first of the steps, or of the updates, that have to run as often as an event, if all of them are rare."""
    optimizers = {atom for each in event.known for atom in each.optimizer}
    steps = [each for each in others if each[0].act is Act.SCALER_STEP]
    own = [each for each in steps if not optimizers.isdisjoint(each[0].optimizer)]
    updates = [each for each in others if each[0].act is Act.UPDATE]
    groups = {Act.UNSCALE: (own, updates), Act.SCALER_STEP: (updates,), Act.UPDATE: (steps,)}
    rare = (group[0][0] for group in groups[event.act] if group and all(is_rare for _, is_rare in group))
    place = next((script.flowing.interpreted.place(each.site) for each in rare), None)
    return None if place is None else place[0].tree.quote(place[1])


def _raises(script: Script, course: Course, event: Event) -> bool:
    """Whether an event raises on some way, and it is known of all whether it does, as the scaler is surely on."""
    states = course.seen[event].first | course.seen[event].again if event in course.seen else ()
    known = [state.checked if event.act is Act.UPDATE else state.stage for state in states]
    raising = {Act.UNSCALE: (Stage.UNSCALED, Stage.STEPPED), Act.SCALER_STEP: (Stage.STEPPED,), Act.UPDATE: (False,)}
    is_on = bool(event.scalers) and all(map(script.flowing.questions.is_on, event.scalers))
    return is_on and None not in known and any(each in raising[event.act] for each in known)


def _stays(loop: cst.For | cst.While, branch: cst.CSTNode) -> bool:
    """Whether a branch goes the same way in all iterations of a loop: nothing that its test reads is changed there."""
    if not isinstance(branch, cst.If) or any(True for _ in find(branch.test, cst.Call)):
        return False
    owners = [call.func.value for call in find(loop.body, cst.Call) if isinstance(call.func, cst.Attribute)]
    changed = _changed(loop) | reads(owners) | {"self"}  # whose methods may change what is theirs
    return not any(each.partition(".")[0] in changed for each in reads([branch.test]))


def _is_rare(loop: cst.For | cst.While, way: Way, raises: bool) -> bool:
    """Whether what a way leads to is under `if ... % n ...:`, or is seen to be under what its loop changes.

    The latter where without it something raises.
    """
    tests = [each.test for each in branches(*way[0]) if isinstance(each, cst.If) and each.orelse is None]
    varies = raises and not _changed(loop).isdisjoint(reads(tests))
    return varies or any(_is_every_nth(*each) for each in way)


def _changed(around: cst.For | cst.While | cst.FunctionDef) -> set[str]:
    """The names that get another value in a loop, or from call to call of a function."""
    assert isinstance(around.body, cst.IndentedBlock)
    changed = {name for each in nested_statements(around.body) for name in writes(each)}
    if isinstance(around, cst.FunctionDef):
        parameters = around.params
        return changed | {each.name.value for each in (*parameters.params, *parameters.kwonly_params)} - {"self"}
    return changed | (reads([around.target]) if isinstance(around, cst.For) else set())


def _excludes(file: File, statement: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two statements are on different sides of one test."""
    mine, theirs = (set(file.tree.ancestors(each)) for each in (statement, other))
    return any(
        node in theirs and (node.body in mine) is not (node.body in theirs) for node in mine if type(node) is cst.If
    )


def _is_every_nth(file: File, statement: cst.CSTNode) -> bool:
    """Whether a statement is under `if ... % n ...:` in its loop."""
    return any(
        isinstance(node, cst.If)
        and any(isinstance(o.operator, cst.Modulo) for o in find(node.test, cst.BinaryOperation))
        for node in branches(file, statement)
    )
