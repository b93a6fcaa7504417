"""Writes what a script asks of an `FP16_Optimizer`, and of its float16 network, as native code."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.analysis.roles import Roles
from amp_migrate.steps import checkpoints
from amp_migrate.steps.apex_scale import write_read
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.fp16_optimizer import half_networks, wrapper_attributes
from amp_migrate.trees import build

ScalerAt = Callable[[cst.CSTNode], str | None]


def write_wrapped(
    draft: Draft, roles: Roles, scaler_at: ScalerAt, parameters: Callable[[cst.BaseExpression], str]
) -> None:
    """Write one file.

    Args:
        scaler_at: how the scaler is written at a place; None where there is none.
        parameters: the parameters of an optimizer, as code.
    """
    tree = draft.file.tree
    for optimizer, attribute in wrapper_attributes(draft.file, roles):
        call = tree.parents[attribute]
        if attribute.attr.value == "loss_scale":
            write_read(draft, attribute, scaler_at(attribute))
        elif not isinstance(call, cst.Call) or call.func is not attribute:
            continue
        elif attribute.attr.value == "clip_master_grads":
            clip = build.expression(f"{draft.torch(call)}.nn.utils.clip_grad_norm_")
            first = cst.Arg(build.expression(parameters(optimizer)))
            draft.edits.change(call, lambda node, clip=clip, first=first: _called(node, clip, first))  # type: ignore[misc]
        elif attribute.attr.value == "zero_grad":
            for arg in call.args:
                if arg.keyword is not None:
                    draft.edits.replace(arg.keyword, cst.Name("set_to_none"))
    _write_networks(draft, roles)
    _write_checkpoints(draft, roles, scaler_at)


def _called(node: cst.CSTNode, func: cst.BaseExpression, first: cst.Arg) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if node.args else cst.MaybeSentinel.DEFAULT
    return node.with_changes(func=func, args=[first.with_changes(comma=comma), *node.args])


def _write_networks(draft: Draft, roles: Roles) -> None:
    """Let networks keep their float32 weights; a line that did nothing else goes."""
    inner: dict[cst.BaseExpression, cst.BaseExpression] = dict(half_networks(draft.file, roles))
    for call in inner:
        network = call
        while network in inner:  # what is made float16 may be so already
            network = inner[network]
        statement = draft.file.tree.parents[call]
        names = statement.targets if isinstance(statement, cst.Assign) else ()
        is_same = [draft.code(each.target) for each in names] == [draft.code(network)]
        if isinstance(statement, (cst.Assign, cst.Expr)) and (is_same or isinstance(statement, cst.Expr)):
            draft.edits.substitute(statement)
        else:
            draft.edits.change(call, _network)


def _network(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    if node.args:
        return node.args[0].value
    assert isinstance(node.func, cst.Attribute)
    return node.func.value


def _write_checkpoints(draft: Draft, roles: Roles, scaler_at: ScalerAt) -> None:
    """Save and restore the scaler where its optimizer is: the wrapper kept the scale."""
    for saved in checkpoints.saved_entries(draft.file, roles):
        scaler = scaler_at(saved.holder)
        if scaler is not None:
            checkpoints.write_saved(draft, saved, scaler)
    for restored in checkpoints.restored_entries(draft.file, roles):
        scaler = scaler_at(restored.statement)
        if scaler is not None:
            checkpoints.write_restored(draft, restored, scaler)
