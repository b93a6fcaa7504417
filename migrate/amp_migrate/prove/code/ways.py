"""Goes through a function along all of its ways at once."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from amp_migrate.prove.code.scopes import DEFINITIONS, heads

State = TypeVar("State", bound=Hashable)
_INTERRUPTS = frozenset({"KeyboardInterrupt", "SystemExit"})
_LOOPS = 8  # turns after which a loop has shown all that it does


class Walk(Generic[State]):
    """What may hold at each place of a function: a set of states, each on some of the ways that lead there.

    Who inherits says what statements and tests do to states, and notes what is wrong on the way.
    """

    def __init__(self) -> None:
        self._breaks: list[set[State]] = []
        self._continues: list[set[State]] = []
        self._raised: list[set[State]] = []
        self.returned: set[State] = set()

    def read(self, node: ast.stmt, expressions: Iterable[ast.expr], states: frozenset[State]) -> frozenset[State]:
        """What states become when expressions of a statement are evaluated."""
        return states

    def give(self, node: ast.stmt, states: frozenset[State]) -> frozenset[State]:
        """What states become when a statement binds the names that it binds."""
        return states

    def branch(self, test: ast.expr, outcome: bool, states: frozenset[State]) -> frozenset[State]:
        """The states in which a test may come out so: `if True:` has one way."""
        return frozenset() if isinstance(test, ast.Constant) and bool(test.value) is not outcome else states

    def skips(self, node: ast.For | ast.AsyncFor | ast.While) -> bool:
        """Whether a loop may have nothing to go through."""
        return True

    def exhausted(self, node: ast.For | ast.AsyncFor, states: frozenset[State]) -> frozenset[State]:
        """The states behind a loop that has gone through all that there is."""
        return states

    def fewer(self, states: frozenset[State]) -> frozenset[State]:
        """The same states, told apart less finely where they are many."""
        return states

    def may_raise(self, node: ast.stmt) -> bool:
        """Whether a handler may be entered from before a statement."""
        return True

    def interrupted(self, states: frozenset[State]) -> frozenset[State]:
        """The states in which somebody may break a run off, as far as they are worth a look."""
        return states

    def enter(self, node: ast.With | ast.AsyncWith) -> None:
        """Go into the body of a `with`."""

    def leave(self, node: ast.With | ast.AsyncWith) -> None:
        """Come out of it."""

    def block(self, body: Iterable[ast.stmt], states: frozenset[State]) -> frozenset[State]:
        """What holds behind a list of statements."""
        for statement in body:
            if not states:
                break
            for raised in self._raised if self.may_raise(statement) else ():
                raised.update(states)
            states = self.fewer(self._statement(statement, states))
        return states

    def _statement(self, node: ast.stmt, states: frozenset[State]) -> frozenset[State]:
        if isinstance(node, ast.If):
            states = self.read(node, [node.test], states)
            yes = self.block(node.body, self.branch(node.test, True, states))
            return yes | self.block(node.orelse, self.branch(node.test, False, states))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, states)
        if isinstance(node, ast.Try):
            return self._try(node, states)
        if isinstance(node, ast.Match):
            states = self.read(node, [node.subject], states)
            return states.union(*(self.block(case.body, states) for case in node.cases))
        if not isinstance(node, (*DEFINITIONS, ast.ClassDef)):
            states = self.read(node, heads(node), states)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            self.enter(node)
            states = self.block(node.body, self.give(node, states))
            self.leave(node)
            return states
        if isinstance(node, (ast.Return, ast.Raise)):
            if isinstance(node, ast.Return):
                self.returned |= states
            return frozenset()
        if isinstance(node, (ast.Break, ast.Continue)):
            into = self._breaks if isinstance(node, ast.Break) else self._continues
            if into:
                into[-1] |= states
            return frozenset()
        return self.give(node, states)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, states: frozenset[State]) -> frozenset[State]:
        if not isinstance(node, ast.While):
            states = self.read(node, [node.iter], states)
        start, ended, turned = states, frozenset[State](), frozenset[State]()
        for _ in range(_LOOPS):
            self._breaks.append(set())
            self._continues.append(set())
            if isinstance(node, ast.While):
                inside = self.branch(node.test, True, self.read(node, [node.test], start))
            else:
                inside = self.give(node, start)
            end = self.block(node.body, inside) | frozenset(self._continues.pop())
            ended |= frozenset(self._breaks.pop())
            turned |= end
            more = self.fewer(start | end)
            if more <= start:
                break
            start = more
        left = start if self.skips(node) else self.fewer(turned)
        left = self.branch(node.test, False, left) if isinstance(node, ast.While) else self.exhausted(node, left)
        return self.block(node.orelse, left) | ended

    def _try(self, node: ast.Try, states: frozenset[State]) -> frozenset[State]:
        self._raised.append(set(states))
        ended = self.block(node.orelse, self.block(node.body, states))
        raised = self.fewer(frozenset(self._raised.pop()))  # a handler is entered from before any statement of the body
        for handler in node.handlers:
            entered = self.interrupted(raised) if _INTERRUPTS.issuperset(_caught(handler)) else raised
            ended |= self.block(handler.body, entered)
        return self.block(node.finalbody, self.fewer(ended))


def _caught(handler: ast.ExceptHandler) -> set[str]:
    """What a handler is for; something without a name for all there is."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {each.id if isinstance(each, ast.Name) else "" for each in kinds}
