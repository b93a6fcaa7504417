"""The smallest place in which two erased programs differ, and what has to hold for a difference that is allowed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from amp_migrate.frozen import frozen
from amp_migrate.prove.code.trees import brief, is_same


@frozen
class Difference:
    """Where two programs differ.

    Attributes:
        before, after: the smallest code that differs, as it reads without its precision; empty where there is none.
        line_before, line_after: the lines of both texts.
    """

    before: str
    after: str
    line_before: int
    line_after: int


@dataclass
class Comparison:
    """Compares two erased files.

    Attributes:
        is_allowed: whether one expression may stand for another, although they are not the same.
    """

    is_allowed: Callable[[ast.expr, ast.expr], bool] = field(default=lambda *_: False)

    def blocks(self, one: list[ast.stmt], other: list[ast.stmt], at: tuple[int, int] = (1, 1)) -> Difference | None:
        """The first difference of two lists of statements."""
        for a, b in zip(one, other, strict=False):
            found = self.nodes(a, b)
            if found is not None:
                # A statement that only one side has is no difference of the two that stand there.
                if not is_same(a, b) and len(one) != len(other):
                    rest_a, rest_b = one[one.index(a) :], other[other.index(b) :]
                    if len(rest_a) > 1 and self.nodes(rest_a[1], b) is None:
                        return Difference(brief(a), "", a.lineno, b.lineno)
                    if len(rest_b) > 1 and self.nodes(a, rest_b[1]) is None:
                        return Difference("", brief(b), a.lineno, b.lineno)
                return found
            at = (a.lineno, b.lineno)
        if len(one) > len(other):
            return Difference(brief(one[len(other)]), "", one[len(other)].lineno, at[1])
        if len(one) < len(other):
            return Difference("", brief(other[len(one)]), at[0], other[len(one)].lineno)
        return None

    def nodes(self, one: ast.AST, other: ast.AST) -> Difference | None:
        """The first difference of two statements or expressions."""
        if isinstance(one, ast.expr) and isinstance(other, ast.expr) and self.is_allowed(one, other):
            return None
        if type(one) is not type(other):
            return self._whole(one, other)
        for name, value in ast.iter_fields(one):
            if name == "ctx":
                continue
            found = self._values(one, other, value, getattr(other, name, None))
            if found is not None:
                return found
        return None

    def _values(self, one: ast.AST, other: ast.AST, a: Any, b: Any) -> Difference | None:
        if isinstance(a, ast.AST) and isinstance(b, ast.AST):
            found = self.nodes(a, b)
            is_shown = isinstance(a, (ast.expr, ast.stmt)) or found is None
            return found if is_shown else self._whole(one, other)
        if isinstance(a, list) and isinstance(b, list):
            if (a and isinstance(a[0], ast.stmt)) or (b and isinstance(b[0], ast.stmt)):
                return self.blocks(a, b, (getattr(one, "lineno", 1), getattr(other, "lineno", 1)))
            if len(a) != len(b):
                return self._whole(one, other)
            return next((f for x, y in zip(a, b, strict=True) if (f := self._values(one, other, x, y))), None)
        return None if a == b and type(a) is type(b) else self._whole(one, other)

    @staticmethod
    def _whole(one: ast.AST, other: ast.AST) -> Difference:
        return Difference(brief(one), brief(other), getattr(one, "lineno", 0), getattr(other, "lineno", 0))
