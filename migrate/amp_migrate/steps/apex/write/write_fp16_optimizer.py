"""Writes what a script asks of an `FP16_Optimizer`, and of its float16 network, as native code."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.plan.code import code, plain
from amp_migrate.plan.edit import AddArgument, Edit, SetKeyword
from amp_migrate.steps.apex.script.native_script import WrapperUses
from amp_migrate.steps.apex.write.write_uses import write_read
from amp_migrate.steps.scaler.checkpoint_entries import key_beside, write_restored, write_saved
from amp_migrate.write.editor import Editor


def write_wrapped(editor: Editor, uses: WrapperUses) -> Iterator[Edit]:
    """The edits of one file."""
    for read, scaler in uses.scales:
        yield write_read(editor, read, scaler)
    for attribute, parameters in uses.clips:
        call = editor.file.tree.parents[attribute]
        yield editor.replace(attribute, code("{}.nn.utils.clip_grad_norm_", editor.torch(call)))
        yield editor.edit(call, AddArgument(plain(parameters), first=True))
    for attribute in uses.zeroed:
        for arg in cst.ensure_type(editor.file.tree.parents[attribute], cst.Call).args:
            if arg.keyword is not None:
                yield editor.edit(arg, SetKeyword("set_to_none"))
    for attribute, wrapper in uses.inner:
        yield editor.replace(attribute, code("{}", wrapper))
    for statement in uses.copied:
        yield editor.remove(statement)
    yield from _write_networks(editor, uses)
    # The wrapper kept the scale, and was saved with it.
    key = key_beside([*(each.key for each, _ in uses.saved), *(each.key for each, _ in uses.restored)])
    for saved, scaler in uses.saved:
        if scaler is not None:
            yield write_saved(editor, saved, scaler, key)
    for restored, scaler in uses.restored:
        if scaler is not None:
            yield write_restored(editor, restored, scaler, key)


def _write_networks(editor: Editor, uses: WrapperUses) -> Iterator[Edit]:
    """Let networks keep their float32 weights; a line that did nothing else goes."""
    inner: dict[cst.BaseExpression, cst.BaseExpression] = dict(uses.networks)
    for call, made in uses.networks:
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
