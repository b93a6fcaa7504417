"""What becomes of a script that chooses between Apex and native AMP, once Apex is never chosen."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import DropBranch, Edit
from amp_migrate.steps.apex.beside.native_handler import native_handler
from amp_migrate.steps.apex.beside.read_beside import Beside
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.apex.write.write_uses import answered
from amp_migrate.trees.nodes import Block, block_of, blocks, find, nested_statements, statements
from amp_migrate.write.editor import Editor, guarded


def write_beside(editor: Editor, beside: Beside) -> Iterator[Edit]:
    """The edits of one file of a script that has both."""
    file = editor.file
    for where, node in beside.gone:
        if where is file:
            for other in _alternatives(file, node):
                yield from _guard_restored(editor, other)
            yield editor.edit(node, DropBranch())
    for guard in file.tree.every(cst.Try):
        if (instead := native_handler(file, guard)) is not None:
            yield editor.splice(guard, instead)
            yield from (editor.remove(each) for each in statements(instead) if isinstance(each, cst.Expr))  # complaints
    yield from (editor.splice(node, block_of(node.handlers[0])) for where, node in beside.tried if where is file)
    yield from (_write_answer(editor, node, answer) for where, node, answer in beside.answers if where is file)
    yield from (editor.replace(node, new) for where, node, new in beside.widened if where is file)
    yield from (editor.replace(call, given) for where, call, given in beside.parameters if where is file)
    yield from (editor.splice(node, block_of(node)) for where, node in beside.always if where is file)


def _write_answer(editor: Editor, node: cst.BaseExpression, answer: bool) -> Edit:
    """The edit that leaves of the code around a question what its answer leaves of it."""
    around = editor.file.tree.parents[node]
    if isinstance(around, cst.If) and around.test is node:
        return editor.splice(around, block_of(around))
    if isinstance(around, cst.Assert) and around.test is node and answer:
        return editor.remove(around)
    if isinstance(around, cst.IfExp) and around.test is node:
        return editor.replace(around, code("{}", around.body if answer else around.orelse))
    return answered(editor, node, answer=answer)


def _alternatives(file: File, node: cst.If) -> list[Block]:
    """The other branches of an `if`, where the one that goes restores Apex's state."""
    restoring = set(amp_calls(file, "load_state_dict"))
    if not any(call in restoring for call in find(node.body, cst.Call)):
        return []
    chain = file.tree.statement(node)
    return [block for block in blocks(chain) if block is not node.body]


def _guard_restored(editor: Editor, block: Block) -> Iterator[Edit]:
    """The edits that let a checkpoint of Apex's days be loaded: it holds no state of a GradScaler."""
    for statement in nested_statements(block):
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and len(call.args) == 1):
            continue
        if call.func.attr.value == "load_state_dict" and "scaler" in editor.text(call.func.value):
            state = editor.text(call.args[0].value)
            yield editor.substitute(statement, guarded(f'if "scale" in {state}:', code("{}", call)))
