"""`amp.state_dict()` and `amp.load_state_dict(...)` as those of the scaler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.plan.edit import Edit, Remove, SetKeyword
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.apex.uses.loss_scale import scale_reads
from amp_migrate.steps.scaler.checkpoint_entries import KEY, restores_keywords, subscript_key
from amp_migrate.tables.apex_names import AMP
from amp_migrate.trees.nodes import find
from amp_migrate.write.editor import Editor, guarded


def not_understood(files: Iterable[File]) -> Iterator[Refusal]:
    """Where Apex's state is saved or restored without a key that can be seen.

    What is saved has to be found again under the key that it was saved by: a side that cannot be seen holds both back.
    """
    restored = [(file, call) for file in files for call in amp_calls(file, "load_state_dict")]
    about_scale = {call for file in files for _, call in scale_reads(file)}
    saved = [(file, call) for file in files for call in amp_calls(file, "state_dict") if call not in about_scale]
    for file, call in restored:
        if _restored(file, call) is None:
            yield Refusal(file, call, "what amp.load_state_dict restores comes in a way that is not understood")
    for file, call in saved:
        is_taken_apart = isinstance(file.tree.parents[call], (cst.Subscript, cst.Attribute))
        if _saved(file, call) is None and (restored or is_taken_apart):
            yield Refusal(file, call, "the result of amp.state_dict is kept in a way that is not understood")


def _saved(file: File, call: cst.Call) -> cst.DictElement | cst.Assign | None:
    """The entry of a dictionary that Apex's state is saved in, by a key that is written out."""
    node: cst.CSTNode = call
    parent = file.tree.parents[node]
    while isinstance(parent, cst.IfExp) and parent.test is not node:  # amp.state_dict() if args.fp16 else None
        node, parent = parent, file.tree.parents[parent]
    is_entry = isinstance(parent, (cst.DictElement, cst.Assign)) and _key_of(parent) is not None
    return cast("cst.DictElement | cst.Assign", parent) if is_entry else None


def _restored(file: File, call: cst.Call) -> tuple[cst.BaseExpression, cst.SimpleString] | None:
    """The checkpoint that Apex's state is taken from, and the key: of `checkpoint["amp"]`, `checkpoint.get("amp")`."""
    source = call.args[0].value if len(call.args) == 1 else None
    if not isinstance(file.tree.parents[call], cst.Expr):
        return None
    if isinstance(source, cst.Subscript):
        key = subscript_key(source)
        return None if key is None else (source.value, key)
    if isinstance(source, cst.Call) and isinstance(source.func, cst.Attribute) and source.func.attr.value == "get":
        asked = source.args[0].value if source.args else None
        return (source.func.value, asked) if isinstance(asked, cst.SimpleString) else None
    return None


def write_saved(editor: Editor, call: cst.Call, scaler: str | None) -> Iterator[Edit]:
    """The edits that save the scaler where Apex's state was saved; without a scaler the entry goes."""
    entry = _saved(editor.file, call)
    if scaler is not None:
        key = None if entry is None else _key_of(entry)
        if key is not None:
            yield editor.replace(key, _renamed(key))
        yield editor.replace(call, f"{scaler}.state_dict()")
    elif isinstance(entry, cst.DictElement):
        yield editor.edit(entry, Remove())
    elif entry is not None:
        yield editor.remove(entry)


def _key_of(entry: cst.DictElement | cst.Assign) -> cst.SimpleString | None:
    """The key of an entry of a dictionary, where it is written out: of `{"amp": ...}`, `state["amp"] = ...`."""
    if isinstance(entry, cst.DictElement):
        return entry.key if isinstance(entry.key, cst.SimpleString) else None
    target = entry.targets[0].target if len(entry.targets) == 1 else None
    return subscript_key(target) if isinstance(target, cst.Subscript) else None


def given(file: File, project: Project) -> Iterator[tuple[cst.Call, int]]:
    """Every call that passes `amp=apex.amp` to a function which restores what it is passed so, with its place there."""
    for call in file.calls:
        for index, arg in enumerate(call.args):
            if arg.keyword is None or AMP not in file.names.meanings(arg.value):
                continue
            function = project.called(file, call)
            if function is not None and restores_keywords(function.file, function.node):
                yield call, index


def write_given(editor: Editor, call: cst.Call, index: int, scaler: str | None) -> Iterator[Edit]:
    """The edits that pass the scaler instead, by the key that it is saved by; what is not saved is passed over."""
    arg = call.args[index]
    if scaler is None:
        yield editor.edit(arg, Remove())
        return
    yield editor.edit(arg, SetKeyword(KEY))
    yield editor.replace(arg.value, scaler)


def write_restored(editor: Editor, call: cst.Call, scaler: str | None) -> Iterator[Edit]:
    """The edits that restore the scaler where Apex was restored, from checkpoints that have its state.

    A checkpoint of Apex's days has none, and one saved with the scaler off has an empty one: the scale starts afresh.
    """
    tree = editor.file.tree
    statement, restored = tree.parents[call], _restored(editor.file, call)
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
    test = f"{checkpoint}.get({new_key})"
    if tested is not None:
        yield editor.replace(tested, test)
        yield editor.substitute(statement, restore)
    else:
        yield from _write_tests(editor, statement, source, key)
        yield editor.substitute(statement, guarded(f"if {test}:", restore))


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
