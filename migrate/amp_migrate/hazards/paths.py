"""Walks the ways through a function, and tells in which states its statements are reached.

Each loop is walked twice: what one iteration leaves behind meets the next. A loop is taken to run at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import libcst as cst

from amp_migrate.hazards.events import Act, Event
from amp_migrate.hazards.facts import Facts, contradict, implied, without
from amp_migrate.steps.flow import reads, writes
from amp_migrate.trees.tree import Block, Statement, Tree, blocks, nested_statements, statements

# More ways than anybody can follow, the reader of the finding included.
_MOST_STATES = 256


class Gradients(Enum):
    """What is in the gradients."""

    NONE = "none"  # nothing that this function has seen
    TRUE = "true"  # of a loss that was not scaled
    SCALED = "scaled"
    UNSCALED = "unscaled"  # scaled, and divided by the scale again
    SPENT = "spent"  # an optimizer has stepped on them
    UNKNOWN = "unknown"


class Stage(Enum):
    """What a scaler has done for an optimizer since its last update."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


@dataclass(frozen=True)
class State:
    """What holds before a statement, on one way to it.

    Attributes:
        gradients: what is in them.
        stages: of each optimizer that is not `READY`.
        stages_known: whether an optimizer without a stage is known to be `READY`.
        checked: whether gradients were looked at for infinities since the last update, which `update()` insists on;
            None where nobody knows.
        outdated: whether `update()` has changed the scale since the gradients were scaled.
        facts: what the tests on the way came to.
    """

    gradients: Gradients = Gradients.NONE
    stages: frozenset[tuple[str, Stage]] = frozenset()
    stages_known: bool = False
    checked: bool | None = None
    outdated: bool = False
    facts: Facts = frozenset()

    def stage(self, optimizer: str) -> Stage | None:
        """The stage of an optimizer; None where it is not known."""
        known = dict(self.stages)
        return known.get(optimizer, Stage.READY if self.stages_known else None)


def after(state: State, event: Event) -> State:
    """The state that an event leaves behind."""
    act = event.act
    if act is Act.SCALED_BACKWARD:
        mixed = state.gradients is Gradients.TRUE
        return replace(state, gradients=Gradients.UNKNOWN if mixed else Gradients.SCALED, outdated=False)
    if act is Act.BACKWARD:
        mixed = state.gradients in (Gradients.SCALED, Gradients.UNKNOWN)
        return replace(state, gradients=Gradients.UNKNOWN if mixed else Gradients.TRUE, outdated=False)
    if act is Act.UNSCALE:
        return replace(
            state, gradients=Gradients.UNSCALED, stages=_staged(state, event.optimizer, Stage.UNSCALED), checked=True
        )
    if act is Act.SCALER_STEP:
        return replace(
            state, gradients=Gradients.SPENT, stages=_staged(state, event.optimizer, Stage.STEPPED), checked=True
        )
    if act is Act.STEP:
        return replace(state, gradients=Gradients.SPENT)
    if act is Act.UPDATE:
        return replace(state, stages=frozenset(), stages_known=True, checked=False, outdated=True)
    if act is Act.HANDED_ON:
        return State(gradients=Gradients.UNKNOWN, facts=state.facts)
    return state


def _staged(state: State, optimizer: str, stage: Stage) -> frozenset[tuple[str, Stage]]:
    return frozenset({*(each for each in state.stages if each[0] != optimizer), (optimizer, stage)})


class TooManyPaths(Exception):
    """A function has more ways through it than are followed."""


@dataclass(frozen=True)
class Seen:
    """The states in which a statement is reached.

    Attributes:
        first: when no loop around it has come round.
        again: when one has.
    """

    first: set[State] = field(default_factory=set)
    again: set[State] = field(default_factory=set)

    def always(self, holds: Callable[[State], bool]) -> bool:
        """Whether something holds on all ways to the statement, either at first or in every later iteration."""
        return any(bool(states) and all(map(holds, states)) for states in (self.first, self.again))

    def ever(self, holds: Callable[[State], bool]) -> bool:
        """Whether something holds on some way to the statement."""
        return any(map(holds, (*self.first, *self.again)))


def walk_paths(tree: Tree, body: Block, events: Mapping[Statement, Collection[Event]]) -> dict[Event, Seen]:
    """How each event of a function, or of a module's own code, is reached.

    Raises:
        TooManyPaths: there are too many ways.
    """
    walker = _Walker(tree, events)
    walker.block(body, frozenset({State()}))
    return walker.seen


class _Walker:
    def __init__(self, tree: Tree, events: Mapping[Statement, Collection[Event]]) -> None:
        self.tree = tree
        self.events = events
        self.seen: dict[Event, Seen] = {event: Seen() for each in events.values() for event in each}
        self.again = False
        self.breaks: list[set[State]] = []
        self.continues: list[set[State]] = []

    def block(self, block: cst.BaseSuite | cst.Module, states: frozenset[State]) -> frozenset[State]:
        """The states behind a block."""
        assert isinstance(block, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite))
        for statement in statements(block):
            if not states:
                return states
            states = self.statement(statement, states)
            if len(states) > _MOST_STATES:
                raise TooManyPaths
        return states

    def statement(self, statement: Statement, states: frozenset[State]) -> frozenset[State]:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            return states
        states = self._happen(statement, states)
        if isinstance(statement, cst.If):
            return self._if(statement, states)
        if isinstance(statement, (cst.For, cst.While)):
            return self._loop(statement, states)
        if isinstance(statement, cst.With):
            return self.block(statement.body, states)
        if isinstance(statement, (cst.Try, cst.TryStar)):
            return self._try(statement, states)
        if isinstance(statement, cst.Match):
            return states.union(*(self.block(case.body, states) for case in statement.cases))
        if isinstance(statement, (cst.Return, cst.Raise)):
            return frozenset()
        if isinstance(statement, (cst.Break, cst.Continue)):
            (self.breaks if isinstance(statement, cst.Break) else self.continues)[-1].update(states)
            return frozenset()
        names = frozenset(each.rpartition(".")[2] for each in writes(statement))
        return frozenset(replace(state, facts=without(state.facts, names)) for state in states)

    def _happen(self, statement: Statement, states: frozenset[State]) -> frozenset[State]:
        for event in self.events.get(statement, ()):
            seen = self.seen[event]
            (seen.again if self.again else seen.first).update(states)
            states = frozenset(after(state, event) for state in states)
        return states

    def _if(self, statement: cst.If, states: frozenset[State]) -> frozenset[State]:
        then = self.block(statement.body, self._passing(statement.test, True, states))
        otherwise = self._passing(statement.test, False, states)
        if isinstance(statement.orelse, cst.If):
            return then | self._if(statement.orelse, otherwise)
        return then | (otherwise if statement.orelse is None else self.block(statement.orelse.body, otherwise))

    def _passing(self, test: cst.BaseExpression, outcome: bool, states: frozenset[State]) -> frozenset[State]:
        new = implied(self.tree, test, outcome)
        return frozenset(
            replace(state, facts=state.facts | new) for state in states if not contradict(state.facts, new)
        )

    def _loop(self, statement: cst.For | cst.While, states: frozenset[State]) -> frozenset[State]:
        before = self.again
        bound = _bound_in(statement)
        leaving: set[State] = set()
        for again in (False, True):
            self.again = before or again
            self.breaks.append(set())
            self.continues.append(set())
            states = frozenset(replace(state, facts=without(state.facts, bound)) for state in states)
            states = self.block(statement.body, states) | self.continues.pop()
            leaving |= states
            leaving |= self.breaks.pop()
        self.again = before
        if statement.orelse is not None:
            leaving |= self.block(statement.orelse.body, frozenset(leaving))
        return frozenset(leaving)

    def _try(self, statement: cst.Try | cst.TryStar, states: frozenset[State]) -> frozenset[State]:
        done = self.block(statement.body, states)
        if statement.orelse is not None:
            done = self.block(statement.orelse.body, done)
        handled = [self.block(handler.body, states) for handler in statement.handlers]
        leaving = done.union(*handled)
        return leaving if statement.finalbody is None else self.block(statement.finalbody.body, leaving)


def _bound_in(loop: cst.For | cst.While) -> frozenset[str]:
    """The last words of all names that a loop gives new values to."""
    found: set[str] = set()
    for block in blocks(loop):
        for statement in nested_statements(block):
            found |= writes(statement)
            if isinstance(statement, cst.For):
                found |= _words(statement.target)
    if isinstance(loop, cst.For):
        found |= _words(loop.target)
    return frozenset(each.rpartition(".")[2] for each in found)


def _words(target: cst.BaseExpression) -> frozenset[str]:
    return reads([target])
