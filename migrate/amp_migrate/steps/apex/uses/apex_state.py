"""`amp.state_dict()` and `amp.load_state_dict(...)` as those of the scaler."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.plan.edit import Edit, Remove, SetKeyword
from amp_migrate.steps.scaler.checkpoint_entries import KEY, restores_keywords, subscript_key
from amp_migrate.tables.apex_names import AMP
from amp_migrate.write.editor import Editor, guarded


def write_saved(editor: Editor, call: cst.Call, scaler: str | None) -> Iterator[Edit]:
    """The edits that save the scaler where Apex's state was saved; without a scaler the entry goes."""
    tree = editor.file.tree
    parent = tree.parents[call]
    if isinstance(parent, cst.DictElement):
        if scaler is None:
            yield editor.edit(parent, Remove())
            return
        if isinstance(parent.key, cst.SimpleString):
            yield editor.replace(parent.key, _renamed(parent.key))
    elif isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Subscript):
        if scaler is None:
            yield editor.remove(parent)
            return
        key = subscript_key(parent.targets[0].target)
        if key is not None:
            yield editor.replace(key, _renamed(key))
    elif scaler is None:
        return
    yield editor.replace(call, f"{scaler}.state_dict()")


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
    statement = tree.parents[call]
    source = call.args[0].value if len(call.args) == 1 else None
    key = subscript_key(source) if isinstance(source, cst.Subscript) else None
    if not isinstance(statement, cst.Expr) or not isinstance(source, cst.Subscript) or key is None:
        return
    around = tree.parents.get(tree.block(statement))
    tested = _tested_key(around)
    if scaler is None:
        is_alone = isinstance(around, cst.If) and around.orelse is None and len(tree.siblings(statement)) == 1
        yield editor.remove(around if is_alone and tested is not None and isinstance(around, cst.If) else statement)
        return
    new_key, checkpoint = _renamed(key), editor.text(source.value)
    restore = f"{scaler}.load_state_dict({checkpoint}[{new_key}])"
    test = f"{checkpoint}.get({new_key})"
    if tested is not None:
        yield editor.replace(tested, test)
        yield editor.substitute(statement, restore)
    else:
        yield editor.substitute(statement, guarded(f"if {test}:", restore))


def _tested_key(around: cst.CSTNode | None) -> cst.Comparison | None:
    """The test of `if "amp" in checkpoint:`."""
    if not isinstance(around, cst.If) or not isinstance(around.test, cst.Comparison):
        return None
    left, operator = around.test.left, around.test.comparisons[0].operator
    return around.test if isinstance(left, cst.SimpleString) and isinstance(operator, cst.In) else None


def _renamed(key: cst.SimpleString) -> str:
    return f"{key.quote}{KEY}{key.quote}"
