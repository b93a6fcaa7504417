"""With gradient accumulation, a part of the step runs in every micro-batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow import events as flow
from amp_migrate.flow.domain.atoms import Atom, Value
from amp_migrate.flow.domain.machine import STEPPED, Facts, Machine
from amp_migrate.flow.events import Act
from amp_migrate.flow.pytorch.gradients import stage
from amp_migrate.frozen import frozen
from amp_migrate.hazards.seen.accelerate import accumulating
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import Round, Way, branches, rounds
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Stage
from amp_migrate.report.finding import seen_from
from amp_migrate.steps.statements.data_flow import reads, writes
from amp_migrate.trees.nodes import block_of, find, nested_statements

RULE = Rule(
    code="AMP608",
    name="micro-batch",
    summary="with gradient accumulation, a part of the step runs in every micro-batch",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for i, (x, y) in enumerate(loader):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss / 4).backward()
        -     scaler.unscale_(optimizer)
              if (i + 1) % 4 == 0:
        +         scaler.unscale_(optimizer)
                  scaler.step(optimizer)
                  scaler.update()
                  optimizer.zero_grad()
        """,
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

# What keeps a part of the step from running in some rounds: a test, or what ends the round.
_End: TypeAlias = "cst.If | cst.Break | cst.Continue | cst.Return"
_Around: TypeAlias = "cst.For | cst.While | cst.FunctionDef"


@frozen
class _Rarer:
    """What must run as often as something else, and does not.

    Attributes:
        what: it, as it is written.
        file: the file of what keeps it from running.
        end: what that is, if it cannot be asked before that other; None where the other can be moved under it.
    """

    what: str
    file: File
    end: _End | None


def detect(script: Script) -> Iterator[Hazard]:
    """Every `unscale_`, `step` or `update` that is not under the test of the others, in one loop with them.

    What Accelerate has prepared asks by itself whether it steps, and a scaler divides before it asks.
    """
    quote = script.file.tree.quote
    for course in script.courses:
        told: set[cst.CSTNode] = set()
        for event in course.of(Act.UNSCALE, Act.SCALER_STEP, Act.UPDATE):
            rarer = _rarer(script, course, event)
            around = accumulating(script.flowing, course.file, event) if event.act is not Act.UPDATE else None
            if rarer is not None and rarer.end is not None:
                if rarer.end not in told:
                    told.add(rarer.end)
                    yield _skipped(script, course, event, rarer, rarer.end)
            elif rarer is not None:
                yield Hazard(
                    event.node,
                    f"{quote(event.node)} runs in every micro-batch, {rarer.what} only in some",
                    f"move it to where {rarer.what} is",
                )
            elif around is not None:
                assert isinstance(around.func, cst.Attribute)
                test = f"if {script.file.tree.code(around.func.value)}.sync_gradients:"
                yield Hazard(
                    event.node,
                    f"{quote(event.node)} divides what earlier micro-batches of {quote(around)} gave once more",
                    f"move it under `{test}`, with {course.scaler}.update()",
                )


def _skipped(script: Script, course: Course, event: Event, rarer: _Rarer, end: _End) -> Hazard:
    update, what = f"{course.scaler}.update()", script.file.tree.quote(event.node)
    line = rarer.file.tree.position(end)[0]
    where = f"line {line}" if rarer.file is script.file else f"{seen_from(script.file.name, rarer.file.name)}:{line}"
    if isinstance(end, cst.If):
        message = f"{what} raises behind a batch in which the test in {where} keeps {rarer.what} from running"
        return Hazard(event.node, message, f"write {update} where that test fails, too")
    message = f"{what} raises behind a batch that {where} ends without {update}"
    return Hazard(event.node, message, f"write {update} before that {type(end).__name__.lower()}")


def _rarer(script: Script, course: Course, event: Event) -> _Rarer | None:
    """What must run as often as an event, and runs only in every n-th of its rounds, or in some as it is seen.

    A round is one of a loop, or a call of a function that is seen to come back to what raises.
    """
    raises = _raises(course, event)
    switches = _switches(script, course, event)
    for each in rounds(script.flowing, course.file, event.statement):
        apart = [
            (one, *_apart(each.way, way))
            for one in (_beside(script, event) if each.loop is not None or raises else ())
            for way in _ways(script, one, each)
        ]
        known = frozenset() if _surely_raises(event) else _given_as_written(script, each.way)
        apart = [(one, mine, way) for one, mine, way in apart if _is_in_each(mine, way)]
        kept = [(one, _kept_from(mine, way, raises, switches, known)) for one, mine, way in apart]
        rarer = _all_rare(script, event, kept)
        if rarer is not None:
            return rarer
    return None


def _beside(script: Script, event: Event) -> list[flow.Event]:
    """The steps and updates of the same scaler."""
    others = script.flowing.questions.events(Act.SCALER_STEP, Act.UPDATE)
    return [each for each in others if not event.scalers.isdisjoint(each.scaler)]


def _ways(script: Script, event: flow.Event, around: Round) -> Iterator[Way]:
    """The ways to something else that happens in the rounds of a loop, or in the calls of a function."""
    place = script.flowing.interpreted.place(event.site)
    file, first = around.way[0]
    for each in () if place is None else rounds(script.flowing, place[0], place[0].tree.statement(place[1])):
        if each.loop is around.loop and _are_in_one(file, first, *each.way[0]):
            yield each.way


def _apart(mine: Way, theirs: Way) -> tuple[Way, Way]:
    """Two ways from the function on in which they part."""
    while len(mine) > 1 and len(theirs) > 1 and mine[0] == theirs[0] and _are_in_one(*mine[1], *theirs[1]):
        mine, theirs = mine[1:], theirs[1:]
    return mine, theirs


def _are_in_one(file: File, statement: cst.CSTNode, home: File, other: cst.CSTNode) -> bool:
    return file is home and file.tree.body(statement) is file.tree.body(other)


def _is_in_each(way: Way, other: Way) -> bool:
    """Whether one way is gone as often as the place is come to at which the other parts from it, on the same side."""
    (file, statement), *inner = way
    beside = set(file.tree.ancestors(other[0][1]))
    own = [each for each in branches(file, statement) if each not in beside]
    is_always = all(_stays(file, statement, each) for each in own) and not any(branches(*one) for one in inner)
    return is_always and not _excludes(file, statement, other[0][1])


def _kept_from(
    way: Way, other: Way, raises: bool, switches: set[str], known: frozenset[str]
) -> tuple[File, _End | None] | None:
    """In which file, and by what, the other way is not gone in some rounds in which one is; None where nothing does.

    That is a test of `... % n`, or of what changes from round to round, if without that way something raises, and if
    it does not ask whether the scaler is on. A test that can be asked before is nothing to name.

    Args:
        known: what does not change from round to round, though it does from call to call.
    """
    (file, start), (_, parting) = way[0], other[0]
    order, beside = file.tree.order, set(file.tree.ancestors(start))
    is_behind = order[start] < order[parting]
    for home, statement in other:
        is_parting = statement is parting
        tests = [each for each in branches(home, statement) if isinstance(each, cst.If) and each not in beside]
        if any(map(_is_of_nth, tests)):
            return home, None
        around = _around(home, statement) if raises else None
        if around is None:
            continue
        ends: list[tuple[_End, Sequence[cst.If]]]
        ends = [(each, [each]) for each in tests if not _is_one_of_several(home, each)]
        if is_behind or not is_parting:
            ends += _ends(home, around, start if is_parting else None, statement)
        changed = _changed(around) - known
        for end, asked in ends:
            read = reads(each.test for each in asked)
            is_switched = any(each in home.tree.code(one.test) for each in switches for one in asked)
            if not changed.isdisjoint(read) and not is_switched:
                is_late = not is_parting or not isinstance(end, cst.If) or _is_written(home, start, end, read)
                return home, end if is_late and is_behind else None
    return None


def _ends(
    file: File, around: _Around, start: cst.CSTNode | None, statement: cst.CSTNode
) -> Iterator[tuple[_End, Sequence[cst.If]]]:
    """What ends a round before a statement of it, and behind another, each with the tests that it is under."""
    order = file.tree.order
    after = -1 if start is None else order[start]
    ends: list[cst.Break | cst.Continue | cst.Return]
    ends = [*find(around.body, cst.Break), *find(around.body, cst.Continue), *find(around.body, cst.Return)]
    for each in ends:
        is_its = isinstance(each, cst.Return) or file.tree.loop(each) is around
        if is_its and after < order[each] < order[statement]:
            between = takewhile(lambda node: node is not around, file.tree.ancestors(each))
            yield each, [node for node in between if isinstance(node, cst.If)]


def _is_written(file: File, start: cst.CSTNode, end: cst.CSTNode, names: frozenset[str]) -> bool:
    """Whether names get a value between two statements of a function."""
    order, around = file.tree.order, _around(file, start)
    assert around is not None
    between = (each for each in nested_statements(block_of(around)) if order[start] <= order[each] < order[end])
    return any(not names.isdisjoint(writes(each)) for each in between)


def _all_rare(
    script: Script, event: Event, others: list[tuple[flow.Event, tuple[File, _End | None] | None]]
) -> _Rarer | None:
    """The first of the steps, or of the updates, that have to run as often as an event, if all of them are rare."""
    optimizers = {atom for each in event.known for atom in each.optimizer}
    steps = [each for each in others if each[0].act is Act.SCALER_STEP]
    own = [each for each in steps if not optimizers.isdisjoint(each[0].optimizer)]
    updates = [each for each in others if each[0].act is Act.UPDATE]
    groups = {Act.UNSCALE: (own, updates), Act.SCALER_STEP: (updates,), Act.UPDATE: (steps,)}
    for group in groups[event.act]:
        kept = [each for _, each in group if each is not None]
        place = script.flowing.interpreted.place(group[0][0].site) if group and len(kept) == len(group) else None
        if place is not None:
            file, end = kept[0]
            return _Rarer(place[0].tree.quote(place[1]), file, None if event.act is Act.UPDATE else end)
    return None


def _switches(script: Script, course: Course, event: Event) -> set[str]:
    """What a test reads that asks whether a scaler is on, as it is written; nothing where it surely is."""
    scalers = {each for each in event.scalers if not script.flowing.questions.is_on(each)}
    made = (each for each in script.flowing.questions.events(Act.SCALER_MADE) if not scalers.isdisjoint(each.scaler))
    enabled = {each.value for call in made for each in getattr(call.node, "keywords", ()) if each.arg == "enabled"}
    return {course.scaler, *map(ast.unparse, enabled)} if scalers else set()


def _raises(course: Course, event: Event) -> bool:
    """Whether an event raises on some way if the scaler is on, and it is known of all whether it does."""
    states = course.seen[event].first | course.seen[event].again if event in course.seen else ()
    known = [state.checked if event.act is Act.UPDATE else state.stage for state in states]
    raising = {Act.UNSCALE: (Stage.UNSCALED, Stage.STEPPED), Act.SCALER_STEP: (Stage.STEPPED,), Act.UPDATE: (False,)}
    return None not in known and any(each in raising[event.act] for each in known)


def _surely_raises(event: Event) -> bool:
    """Whether a call of the function that an event is in comes to it when its optimizer has stepped already."""
    calls = (each for one in event.known for each in one.seen_by.values())
    return any(reached and all(_has_stepped(*each) for each in reached) for reached in calls)


def _has_stepped(machine: Machine, _: Facts, optimizers: Value, scalers: Value) -> bool:
    pairs = [(a, b) for a in scalers for b in optimizers if isinstance(a, Atom) and isinstance(b, Atom)]
    return bool(pairs) and all(stage(machine, *each) == STEPPED for each in pairs)


def _given_as_written(script: Script, way: Way) -> frozenset[str]:
    """The parameters on a way that each call gives a constant, of which one may be for the last of several calls."""
    found: set[str] = set()
    for file, statement in way:
        function = file.tree.function(statement)
        for each in () if function is None else (*function.params.params, *function.params.kwonly_params):
            given = [value for _, value in passed_values(script.roles.project, file, each)]
            if given and all(isinstance(value, cst.Name) and value.value in ("True", "False") for value in given):
                found.add(each.name.value)
    return frozenset(found)


def _stays(file: File, statement: cst.CSTNode, branch: cst.CSTNode) -> bool:
    """Whether a branch goes the same way in all rounds: nothing that its test reads is changed there."""
    around = _around(file, statement)
    if around is None or not isinstance(branch, cst.If) or any(True for _ in find(branch.test, cst.Call)):
        return False
    owners = [call.func.value for call in find(around.body, cst.Call) if isinstance(call.func, cst.Attribute)]
    changed = _changed(around) | reads(owners) | {"self"}  # whose methods may change what is theirs
    return not any(each.partition(".")[0] in changed for each in reads([branch.test]))


def _around(file: File, statement: cst.CSTNode) -> _Around | None:
    """What a statement is in a round of: a loop, or a function that is called again; None for a module's own code."""
    return file.tree.loop(statement) or file.tree.function(statement)


def _changed(around: _Around) -> set[str]:
    """The names that get another value in a loop, or from call to call of a function."""
    changed = {name for each in nested_statements(block_of(around)) for name in writes(each)}
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


def _is_one_of_several(file: File, test: cst.If) -> bool:
    """Whether a test is one of a chain, of which nobody knows whether one always holds."""
    return isinstance(test.orelse, cst.If) or isinstance(file.tree.parents[test], cst.If)


def _is_of_nth(test: cst.If) -> bool:
    """Whether a test is `... % n ...`."""
    return any(isinstance(each.operator, cst.Modulo) for each in find(test.test, cst.BinaryOperation))
