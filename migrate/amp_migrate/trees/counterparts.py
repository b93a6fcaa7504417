"""Which LibCST node is which node of Python's own parser: what is found in the one tree is changed in the other.

Both list the statements of a module, and the expressions of a statement, in the order of the text. No place is worked
out: the trees are walked side by side.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from typing import cast

import libcst as cst

from amp_migrate.trees.nodes import STATEMENT_TYPES, children, is_kind
from amp_migrate.trees.places import statements_below
from amp_migrate.trees.tree import Tree

_TEXTS = (cst.FormattedString, cst.ConcatenatedString, cst.SimpleString)
# Nodes whose fields stand in another order in the text; what only names something is left out.
_IN_ORDER: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.IfExp: ("body", "test", "orelse"),
    cst.FunctionDef: ("decorators", "params", "returns"),
    cst.ClassDef: ("decorators", "bases", "keywords"),
    cst.Parameters: ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
    cst.Param: ("annotation", "default"),
    cst.Attribute: ("value",),
    cst.Arg: ("value",),
    cst.ExceptHandler: ("type",),
    cst.ExceptStarHandler: ("type",),
}
_WITHOUT_EXPRESSIONS = (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)


class Counterparts:
    """The nodes of a file's LibCST tree that stand for those of Python's own.

    Args:
        parsed: what Python's parser makes of the tree's text.
    """

    def __init__(self, tree: Tree, parsed: ast.Module) -> None:
        self._tree = tree
        self._parsed = parsed

    def of(self, node: ast.AST) -> cst.CSTNode | None:
        """The LibCST node of a statement or expression; None for one inside a string, in a pattern, or not found."""
        return self._found.get(node)

    def back(self, node: cst.CSTNode) -> ast.AST | None:
        """The node of Python's that a LibCST node stands for, also of what is filled into a string."""
        return self._back.get(node)

    @cached_property
    def _back(self) -> Mapping[cst.CSTNode, ast.AST]:
        inside: dict[ast.AST, cst.CSTNode] = {}
        for other, own in self._found.items():
            if isinstance(other, ast.JoinedStr):
                values = [each.value for each in other.values if isinstance(each, ast.FormattedValue)]
                _pair(_filled_in(own), values, inside)
        return {own: other for other, own in (*self._found.items(), *inside.items())}

    @cached_property
    def _found(self) -> Mapping[ast.AST, cst.CSTNode]:
        ours = [node for node in self._tree.order if is_kind(type(node), STATEMENT_TYPES)]
        theirs = list(statements_below(self._parsed))
        found: dict[ast.AST, cst.CSTNode] = {}
        if len(ours) != len(theirs):
            return found  # the two read the module in different ways
        for own, other in zip(ours, theirs, strict=True):
            found[other] = own
            if not isinstance(own, _WITHOUT_EXPRESSIONS):
                _pair(_below(own), _parts(other), found)
        return found


def _pair(ours: list[cst.BaseExpression], theirs: list[ast.expr], found: dict[ast.AST, cst.CSTNode]) -> None:
    """Note the pairs of two lists of expressions, and of what is in them; nothing where they do not go together."""
    if len(ours) != len(theirs):
        return
    for own, other in zip(ours, theirs, strict=True):
        found[other] = own
        if isinstance(own, _TEXTS):
            continue
        inside = _operands(own) if isinstance(own, cst.BooleanOperation) else _below(own)
        parts = _parts(other)
        if isinstance(own, cst.Subscript) and isinstance(other, ast.Subscript) and _has_several(own):
            parts = [other.value, *_parts(other.slice)]  # LibCST has no tuple there
        _pair(inside, parts, found)


def _filled_in(text: cst.CSTNode) -> list[cst.BaseExpression]:
    """What is filled into a string, or into several that stand side by side."""
    if isinstance(text, cst.ConcatenatedString):
        return [*_filled_in(text.left), *_filled_in(text.right)]
    parts = text.parts if isinstance(text, cst.FormattedString) else ()
    return [each.expression for each in parts if isinstance(each, cst.FormattedStringExpression)]


def _parts(node: ast.AST) -> list[ast.expr]:
    """The expressions right below a node of Python's, in source order; not those of statements or patterns."""
    found: list[ast.expr] = []
    stack = list(ast.iter_child_nodes(node))
    while stack:
        child = stack.pop()
        if isinstance(child, (ast.Starred, ast.Slice)) or not isinstance(child, (ast.expr, ast.stmt, ast.pattern)):
            stack.extend(ast.iter_child_nodes(child))
        elif isinstance(child, ast.expr):
            found.append(child)
    return sorted(found, key=_place)


def _has_several(node: cst.Subscript) -> bool:
    return len(node.slice) > 1 or isinstance(node.slice[0].comma, cst.Comma)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _below(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The expressions right below a LibCST node, in source order, without those that only label something."""
    found: list[cst.BaseExpression] = []
    stack = list(reversed(_own_children(node)))
    while stack:
        child = stack.pop()
        if is_kind(type(child), cst.BaseExpression) and not isinstance(child, cst.StarredElement):
            found.append(cast(cst.BaseExpression, child))
        elif not is_kind(type(child), (*STATEMENT_TYPES, cst.MatchPattern)) and not isinstance(child, cst.BaseSuite):
            stack.extend(reversed(_own_children(child)))
    return found


def _own_children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes right below one, in the order of the text."""
    if isinstance(node, cst.Del) and isinstance(node.target, cst.Tuple) and not node.target.lpar:
        return list(node.target.elements)  # `del a, b` has two targets, and no tuple
    fields = _IN_ORDER.get(type(node))
    if fields is None:
        return children(node)
    found: list[cst.CSTNode] = []
    for value in (getattr(node, field) for field in fields):
        found += [value] if isinstance(value, cst.CSTNode) else value if isinstance(value, (tuple, list)) else ()
    return found


def _operands(node: cst.BooleanOperation) -> list[cst.BaseExpression]:
    """The operands of `a and b and c`, which Python's parser has side by side."""
    left = node.left
    is_same = isinstance(left, cst.BooleanOperation) and not left.lpar and type(left.operator) is type(node.operator)
    first = _operands(left) if is_same and isinstance(left, cst.BooleanOperation) else [left]
    return [*first, node.right]
