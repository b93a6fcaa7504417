"""New pieces of tree, written as the source text they stand for."""

from __future__ import annotations

import libcst as cst

from amp_migrate.trees.nodes import Line


def expression(code: str) -> cst.BaseExpression:
    """The tree of one expression."""
    return cst.parse_expression(code)


def line(code: str, module: cst.Module) -> Line:
    """The tree of one statement, with the line ends and the indent of `module`."""
    return cst.parse_statement(code, config=module.config_for_parsing)


def grouped(node: cst.BaseExpression, *also: type[cst.BaseExpression]) -> cst.BaseExpression:
    """An expression as it can stand before a dot: in parentheses, unless it needs none.

    Args:
        also: types that need none where the expression is to stand.
    """
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, *also)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """`name=value`, as a call writes it."""
    return cst.Arg(
        value=value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
