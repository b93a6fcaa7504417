"""`amp.state_dict()` and `amp.load_state_dict(...)` as those of the scaler."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Edit, Remove, SetKeyword
from amp_migrate.steps.apex.uses.apex_state import key_of, name_of_restored, restored_entry, saved_entry
from amp_migrate.steps.scaler.checkpoint_entries import KEY, asked
from amp_migrate.trees.nodes import find
from amp_migrate.write.editor import Editor, guarded


def write_saved(
    editor: Editor, call: cst.Call, scaler: str | None, *, keeps_key: bool, is_spared: bool = False
) -> Iterator[Edit]:
    """The edits that save the scaler where Apex's state was saved; without a scaler the entry goes.

    Args:
        is_spared: whether the scaler may be None at run time: nothing is saved then.
    """
    entry = saved_entry(editor.file, call)
    if scaler is not None:
        key = None if entry is None or keeps_key else key_of(entry)
        if is_spared and isinstance(entry, cst.Assign) and entry.value is call:
            target = cst.ensure_type(entry.targets[0].target, cst.Subscript)
            name = editor.text(target) if key is None else f"{editor.text(target.value)}[{_renamed(key)}]"
            saved = f"{name} = {scaler}.state_dict()"
            yield editor.substitute(entry, guarded(f"if {scaler} is not None:", saved))
            return
        if key is not None:
            yield editor.replace(key, _renamed(key))
        state = f"{scaler}.state_dict()"
        spared = f"{state} if {scaler} is not None else None"
        is_alone = isinstance(editor.file.tree.parents[call], (cst.Arg, cst.Assign, cst.DictElement))
        yield editor.replace(call, state if not is_spared else spared if is_alone else f"({spared})")
    elif isinstance(entry, cst.DictElement):
        yield editor.edit(entry, Remove())
    elif entry is not None:
        yield editor.remove(entry)


def write_given(editor: Editor, call: cst.Call, index: int, scaler: str | None) -> Iterator[Edit]:
    """The edits that pass the scaler instead, by the key that it is saved by; what is not saved is passed over."""
    arg = call.args[index]
    if scaler is None:
        yield editor.edit(arg, Remove())
        return
    yield editor.edit(arg, SetKeyword(KEY))
    yield editor.replace(arg.value, scaler)


def write_restored(editor: Editor, call: cst.Call, scaler: str | None, *, is_spared: bool = False) -> Iterator[Edit]:
    """The edits that restore the scaler where Apex was restored, from checkpoints that have its state.

    A checkpoint of Apex's days has none, and one saved with the scaler off has an empty one: the scale starts afresh.

    Args:
        is_spared: whether the scaler may be None at run time: nothing is restored then.
    """
    tree = editor.file.tree
    statement, restored = tree.parents[call], restored_entry(editor.file, call)
    if restored is None or not isinstance(statement, cst.Expr):
        return
    around = tree.parents.get(tree.block(statement))
    tested = _tested_key(around)
    if scaler is None:
        is_alone = isinstance(around, cst.If) and around.orelse is None and len(tree.siblings(statement)) == 1
        yield editor.remove(around if is_alone and tested is not None and isinstance(around, cst.If) else statement)
        return
    source, key = restored
    new_key, checkpoint = _renamed(key), editor.text(source)
    restore = f"{scaler}.load_state_dict({checkpoint}[{new_key}])"
    test = f"{asked(scaler, is_spared=is_spared)}{checkpoint}.get({new_key})"
    if tested is not None:
        yield editor.replace(tested, test)
        yield editor.substitute(statement, restore)
    else:
        yield from _write_tests(editor, statement, source, key)
        yield editor.substitute(statement, guarded(f"if {test}:", restore))


def write_restored_by_content(
    editor: Editor, call: cst.Call, scaler: str | None, *, is_spared: bool = False
) -> Iterator[Edit]:
    """The edits that restore the scaler from what its own state says that it is: Apex's says nothing of a scale."""
    statement, given = editor.file.tree.parents[call], call.args[0].value
    name = name_of_restored(editor.file, call)
    source = name or editor.text(given)
    if isinstance(statement, cst.Expr):
        test = f'if {asked(scaler or "", is_spared=is_spared)}"scale" in {source}:'
        lines = [guarded(test, f"{scaler}.load_state_dict({source})")]
        yield editor.substitute(statement, *([code("{} = {}", name, given)] if name else []), *lines)


def _write_tests(
    editor: Editor, statement: cst.CSTNode, checkpoint: cst.BaseExpression, key: cst.SimpleString
) -> Iterator[Edit]:
    """The edits that let every `if` around ask for the entry under its new key."""
    tree = editor.file.tree
    node = tree.parents.get(statement)
    while node is not None and not isinstance(node, cst.FunctionDef):
        for string in find(node.test, cst.SimpleString) if isinstance(node, cst.If) else ():
            if string.evaluated_value != key.evaluated_value:
                continue
            entry = tree.parents[tree.parents[tree.parents[string]]]
            is_entry = isinstance(entry, cst.Subscript) and tree.code(entry.value) == tree.code(checkpoint)
            if isinstance(entry, cst.Subscript) and is_entry:
                yield editor.replace(entry, f"{editor.text(checkpoint)}.get({_renamed(key)})")
            else:
                yield editor.replace(string, _renamed(string))
        node = tree.parents.get(node)


def _tested_key(around: cst.CSTNode | None) -> cst.Comparison | None:
    """The test of `if "amp" in checkpoint:`."""
    if not isinstance(around, cst.If) or not isinstance(around.test, cst.Comparison):
        return None
    left, operator = around.test.left, around.test.comparisons[0].operator
    return around.test if isinstance(left, cst.SimpleString) and isinstance(operator, cst.In) else None


def _renamed(key: cst.SimpleString) -> str:
    return f"{key.quote}{KEY}{key.quote}"
