"""Calls and parameters as they are once a scaler is out of them."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.calls import parameter
from amp_migrate.steps.draft import Draft
from amp_migrate.trees import build
from amp_migrate.trees.sequences import remove_at


def unscaled(node: cst.CSTNode) -> cst.CSTNode:
    """`scaler.scale(loss)` is `loss`."""
    assert isinstance(node, cst.Call)
    return node.args[0].value


def unscaled_receiver(node: cst.CSTNode) -> cst.CSTNode:
    """The same where a dot follows: in parentheses if the dot would bind to a part of it."""
    value = unscaled(node)
    assert isinstance(value, cst.BaseExpression)
    return build.grouped(value)


def own_step(node: cst.CSTNode) -> cst.CSTNode:
    """`scaler.step(optimizer, closure)` is `optimizer.step(closure)`."""
    assert isinstance(node, cst.Call)
    return node.with_changes(func=cst.Attribute(node.args[0].value, cst.Name("step")), args=list(node.args[1:]))


def drop_parameter(draft: Draft, function: cst.FunctionDef, name: str) -> None:
    """Take a parameter out of the list of a function."""
    param = parameter(function, name)

    def drop(node: cst.CSTNode) -> cst.CSTNode:
        for group in ("posonly_params", "params", "kwonly_params"):
            for index, each in enumerate(getattr(function.params, group)):
                if each is param:
                    return without_item(node, group, index)
        return node

    draft.edits.change(function.params, drop)


def without_item(node: cst.CSTNode, field_name: str, index: int) -> cst.CSTNode:
    """A node without one item of one of its lists."""
    return node.with_changes(**{field_name: remove_at(getattr(node, field_name), index)})
