"""Code in other words: with what names stand for in their place."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.plan.code import source
from amp_migrate.trees import build

_ATOMS = (cst.SimpleString, cst.Integer, cst.Float)


def put_in(code: str, values: Mapping[str, cst.BaseExpression]) -> str:
    """An expression with values in the place of names and of chains of attributes."""
    expression = build.expression(code).visit(_Filler(values))
    assert isinstance(expression, cst.BaseExpression)
    return source(expression)


class _Filler(cst.CSTTransformer):
    def __init__(self, values: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.values = {name: build.grouped(each, *_ATOMS) for name, each in values.items()}
        self.is_label = False  # in `f(scale=...)`, the name before the `=`

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return False

    def visit_Arg_keyword(self, node: cst.Arg) -> None:
        self.is_label = True

    def leave_Arg_keyword(self, node: cst.Arg) -> None:
        self.is_label = False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        whole = self.values.get(dotted(original_node) or "")
        value = original_node.value.visit(self)
        assert isinstance(value, cst.BaseExpression)
        return updated_node.with_changes(value=value) if whole is None else whole

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return updated_node if self.is_label else self.values.get(original_node.value, updated_node)
