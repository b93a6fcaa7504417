"""Writes what a script asks of an `FP16_Optimizer`, and of its float16 network, as native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.analysis.roles import Roles
from amp_migrate.plan.code import code, plain
from amp_migrate.plan.edit import AddArgument, Edit, SetKeyword
from amp_migrate.steps.apex.step.fp16_optimizer import half_networks, wrapper_attributes
from amp_migrate.steps.apex.uses.loss_scale import write_read
from amp_migrate.steps.scaler import checkpoint_entries
from amp_migrate.write.editor import Editor

ScalerAt = Callable[[cst.CSTNode], str | None]


def write_wrapped(
    editor: Editor, roles: Roles, scaler_at: ScalerAt, parameters: Callable[[cst.BaseExpression], str]
) -> Iterator[Edit]:
    """The edits of one file.

    Args:
        scaler_at: how the scaler is written at a place; None where there is none.
        parameters: the parameters of an optimizer, as code.
    """
    tree = editor.file.tree
    for optimizer, attribute in wrapper_attributes(editor.file, roles):
        call = tree.parents[attribute]
        if attribute.attr.value == "loss_scale":
            yield write_read(editor, attribute, scaler_at(attribute))
        elif not isinstance(call, cst.Call) or call.func is not attribute:
            continue
        elif attribute.attr.value == "clip_master_grads":
            yield editor.replace(attribute, code("{}.nn.utils.clip_grad_norm_", editor.torch(call)))
            yield editor.edit(call, AddArgument(plain(parameters(optimizer)), first=True))
        elif attribute.attr.value == "zero_grad":
            for arg in call.args:
                if arg.keyword is not None:
                    yield editor.edit(arg, SetKeyword("set_to_none"))
    yield from _write_networks(editor, roles)
    yield from _write_checkpoints(editor, roles, scaler_at)


def _write_networks(editor: Editor, roles: Roles) -> Iterator[Edit]:
    """Let networks keep their float32 weights; a line that did nothing else goes."""
    inner: dict[cst.BaseExpression, cst.BaseExpression] = dict(half_networks(editor.file, roles))
    for call, made in inner.items():
        network = made
        while network in inner:  # what is made float16 may be so already
            network = inner[network]
        statement = editor.file.tree.parents[call]
        names = statement.targets if isinstance(statement, cst.Assign) else ()
        is_same = [editor.text(each.target) for each in names] == [editor.text(network)]
        if isinstance(statement, (cst.Assign, cst.Expr)) and (is_same or isinstance(statement, cst.Expr)):
            yield editor.remove(statement)
        else:
            yield editor.replace(call, code("{}", made))


def _write_checkpoints(editor: Editor, roles: Roles, scaler_at: ScalerAt) -> Iterator[Edit]:
    """Save and restore the scaler where its optimizer is: the wrapper kept the scale."""
    for saved in checkpoint_entries.saved_entries(editor.file, roles):
        scaler = scaler_at(saved.holder)
        if scaler is not None:
            yield checkpoint_entries.write_saved(editor, saved, scaler)
    for restored in checkpoint_entries.restored_entries(editor.file, roles):
        scaler = scaler_at(restored.statement)
        if scaler is not None:
            yield checkpoint_entries.write_restored(editor, restored, scaler)
