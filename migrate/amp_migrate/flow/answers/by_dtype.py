"""Numbers that code chooses by a dtype: where autocast changes that, a network computes with another in its regions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import NEVER, Const, Dtype, External, Tup, dtype_named, only
from amp_migrate.flow.domain.tensor import F32, LOW
from amp_migrate.flow.events import Event

Number: TypeAlias = "int | float"
Given: TypeAlias = "Mapping[str, ast.expr]"
# From here on a number stands for the end of a range, which is another for each dtype: a mask, a limit.
_LIMIT = 1000
_RETURNED = "return"


class ByDtype:
    """Answers about an analysis that keeps the values of all its files."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def number(self, event: Event, around: Iterable[ast.AST]) -> str:
        """The two numbers, as text, of which a comparison of dtypes takes another in half precision; empty if none.

        Args:
            around: what the comparison stands in, innermost first.
        """
        if not isinstance(event.node, ast.Compare) or not self._tells_apart(event, event.node):
            return ""
        inner: ast.AST = event.node
        for node in around:
            if isinstance(node, (ast.If, ast.IfExp)):
                sides = _sides(node, list(around)) if inner is node.test else ()
                return next(filter(None, (self._differing(one, other) for one, other in sides)), "")
            if not isinstance(node, (ast.BoolOp, ast.UnaryOp)):
                break
            inner = node
        return ""

    def _tells_apart(self, event: Event, node: ast.Compare) -> bool:
        """Whether a comparison with dtypes that are written out has another outcome for float32 than in a region."""
        sides = [self._analysis.values.get(each, NEVER) for each in (node.left, *node.comparators)]
        written = [each for each in sides if not any(isinstance(atom, Dtype) for atom in each)]
        dtype = only(event.subject, Dtype)
        if len(sides) != 2 or len(written) != 1 or dtype is None:
            return False
        items = only(written[0], Tup)
        named = [only(each, External) for each in (written if items is None else items.items)]
        precisions = [dtype_named(each) for each in named if each is not None]
        is_known = len(precisions) == len(named) and all(precisions)
        return is_known and (F32 in precisions) is not any(each & dtype.precision & LOW for each in precisions)

    def _differing(self, one: ast.expr, other: ast.expr) -> str:
        a, b = self._number(one), self._number(other)
        if a is None or b is None or a == b or max(abs(a), abs(b)) >= _LIMIT:
            return ""
        return f"{ast.unparse(one)} or {ast.unparse(other)}"

    def _number(self, node: ast.expr) -> Number | None:
        """A number that is written out, or that a name is known to have."""
        known = only(self._analysis.values.get(node, NEVER), Const)
        try:
            value = ast.literal_eval(node) if known is None else known.value
        except ValueError:
            return None
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _sides(node: ast.If | ast.IfExp, around: list[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What either side of a choice gives to the same name, or gives back."""
    if isinstance(node, ast.IfExp):
        yield node.body, node.orelse
        return
    holder = around[around.index(node) + 1] if node is not around[-1] else None
    blocks = [getattr(holder, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((each for each in blocks if isinstance(each, list) and node in each), [node])
    at = block.index(node)
    chosen = _given(node.body)
    beside = _given([*block[:at], *(node.orelse if node.orelse else block[at + 1 : at + 2])])
    for name, value in chosen.items():
        if name in beside:
            yield value, beside[name]


def _given(statements: Iterable[ast.stmt]) -> Given:
    """What some statements leave in names, and give back."""
    found: dict[str, ast.expr] = {}
    for each in statements:
        if isinstance(each, ast.Assign) and len(each.targets) == 1:
            found[ast.unparse(each.targets[0])] = each.value
        elif isinstance(each, ast.Return) and each.value is not None:
            found[_RETURNED] = each.value
    return found
