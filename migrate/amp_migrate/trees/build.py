"""New pieces of tree, written as the source text they stand for."""

from __future__ import annotations

import libcst as cst

from amp_migrate.trees.edits import Line


def expression(code: str) -> cst.BaseExpression:
    """The tree of one expression."""
    return cst.parse_expression(code)


def line(code: str, module: cst.Module) -> Line:
    """The tree of one statement, with the line ends and the indent of `module`."""
    return cst.parse_statement(code, config=module.config_for_parsing)


def with_header(context: str) -> cst.With:
    """`with <context>:`, to be given a body."""
    return cst.With(items=[cst.WithItem(expression(context))], body=cst.IndentedBlock(body=[]))


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """`name=value`, as a call writes it."""
    return cst.Arg(
        value=value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
