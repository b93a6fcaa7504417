"""Walks the ways through a function, and tells in which states its statements are reached.

Each loop is walked twice: what one iteration leaves behind meets the next. A loop is taken to run at least once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_migrate.hazards.seen.facts import contradict, implied, without
from amp_migrate.hazards.seen.scaler_events import Event
from amp_migrate.hazards.seen.states import State, after
from amp_migrate.steps.statements.data_flow import reads, writes
from amp_migrate.trees.nodes import Block, Statement, blocks, nested_statements, statements
from amp_migrate.trees.tree import Tree

# More ways than anybody can follow, the reader of the finding included.
_MOST_STATES = 256
_WORD = re.compile(r"\w+")
_JUMPS = (cst.Return, cst.Raise, cst.Break, cst.Continue)


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


def walk_paths(tree: Tree, body: Block, events: Mapping[Statement, Collection[Event]]) -> dict[Event, Seen]:
    """How each event of a function, or of a module's own code, is reached.

    Raises:
        TooManyPaths: there are too many ways.
    """
    walker = _Walker(tree, body, events)
    walker.block(body, frozenset({State()}))
    return walker.seen


class _Walker:
    def __init__(self, tree: Tree, body: Block, events: Mapping[Statement, Collection[Event]]) -> None:
        self.tree = tree
        self.events = events
        self.matters = _what_matters(tree, body, events)
        self.tests = _asked_again(tree, body, self.matters)
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
        if statement not in self.matters:
            return _forgetting(states, _bound_by(statement))
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
        return _forgetting(states, _bound_by(statement))

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
        new = frozenset(fact for fact in implied(self.tree, test, outcome) if fact[0] in self.tests)
        return frozenset(
            replace(state, facts=state.facts | new) for state in states if not contradict(state.facts, new)
        )

    def _loop(self, statement: cst.For | cst.While, states: frozenset[State]) -> frozenset[State]:
        before = self.again
        bound = _bound_by(statement)
        leaving: set[State] = set()
        for again in (False, True):
            self.again = before or again
            self.breaks.append(set())
            self.continues.append(set())
            states = self.block(statement.body, _forgetting(states, bound)) | self.continues.pop()
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


def _what_matters(tree: Tree, body: Block, events: Mapping[Statement, Collection[Event]]) -> frozenset[cst.CSTNode]:
    """The statements with an event or a jump in them: all others leave the ways as they are."""
    found: set[cst.CSTNode] = set()
    for statement in nested_statements(body):
        if statement in events or isinstance(statement, _JUMPS):
            found.update((statement, *tree.ancestors(statement)))
    return frozenset(found)


def _asked_again(tree: Tree, body: Block, matters: frozenset[cst.CSTNode]) -> frozenset[str]:
    """The tests that are made more than once: only what these came to need be remembered."""
    times: Counter[str] = Counter()
    for statement in nested_statements(body):
        node: cst.If | cst.Else | None = statement if isinstance(statement, cst.If) and statement in matters else None
        while isinstance(node, cst.If):
            facts = implied(tree, node.test, True) | implied(tree, node.test, False)
            times.update({text for text, _ in facts})
            node = node.orelse
    return frozenset(text for text, count in times.items() if count > 1)


def _forgetting(states: frozenset[State], names: frozenset[str]) -> frozenset[State]:
    """States without the facts about names that get new values, and without the stages of optimizers called by them."""
    if not any(state.facts or state.stages for state in states):
        return states
    return frozenset(
        replace(
            state,
            facts=without(state.facts, names),
            stages=frozenset(each for each in state.stages if names.isdisjoint(_WORD.findall(each[0]))),
        )
        for state in states
    )


def _bound_by(statement: Statement) -> frozenset[str]:
    """The last words of all names that a statement, or one in its blocks, gives new values to."""
    found = set(writes(statement))
    if isinstance(statement, cst.For):
        found |= reads([statement.target])
    for block in blocks(statement):
        for inner in nested_statements(block):
            found |= writes(inner)
            if isinstance(inner, cst.For):
                found |= reads([inner.target])
    return frozenset(each.rpartition(".")[2] for each in found)
