"""`amp.state_dict()` and `amp.load_state_dict(...)` as those of the scaler."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.steps.checkpoints import KEY, restores_keywords, subscript_key
from amp_migrate.steps.draft import Draft
from amp_migrate.tables.apex_names import AMP
from amp_migrate.trees import build
from amp_migrate.trees.nodes import statements
from amp_migrate.trees.sequences import remove_at


def write_saved(draft: Draft, call: cst.Call, scaler: str | None) -> bool:
    """Save the scaler where Apex's state was saved; without a scaler the entry goes.

    Returns:
        False where neither is possible.
    """
    tree = draft.file.tree
    parent = tree.parents[call]
    if isinstance(parent, cst.DictElement):
        holder = tree.parents[parent]
        assert isinstance(holder, cst.Dict)
        index = list(holder.elements).index(parent)
        if scaler is None:
            draft.edits.change(holder, lambda node: _without(node, index))
            return True
        if isinstance(parent.key, cst.SimpleString):
            draft.edits.replace(parent.key, _renamed(parent.key))
    elif isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Subscript):
        if scaler is None:
            draft.edits.substitute(parent)
            return True
        key = subscript_key(parent.targets[0].target)
        if key is not None:
            draft.edits.replace(key, _renamed(key))
    elif scaler is None:
        return False
    draft.edits.replace(call, build.expression(f"{scaler}.state_dict()"))
    return True


def given(file: File, project: Project) -> Iterator[tuple[cst.Call, int]]:
    """Every call that passes `amp=apex.amp` to a function which restores what it is passed so, with its place there."""
    for call in file.calls:
        for index, arg in enumerate(call.args):
            if arg.keyword is None or AMP not in file.names.meanings(arg.value):
                continue
            function = project.called(file, call)
            if function is not None and restores_keywords(function.file, function.node):
                yield call, index


def write_given(draft: Draft, call: cst.Call, index: int, scaler: str | None) -> None:
    """Pass the scaler in its place, under the key that it is saved by; the function passes over what is not saved."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        if scaler is None:
            return node.with_changes(args=remove_at(node.args, index))
        arg = node.args[index].with_changes(keyword=cst.Name(KEY), value=build.expression(scaler))
        return node.with_changes(args=[*node.args[:index], arg, *node.args[index + 1 :]])

    draft.edits.change(call, change)


def write_restored(draft: Draft, call: cst.Call, scaler: str | None) -> bool:
    """Restore the scaler where Apex was restored, from checkpoints that have its state.

    A checkpoint of Apex's days has none, and one saved with the scaler off has an empty one: the scale starts afresh.
    """
    tree = draft.file.tree
    statement = tree.parents[call]
    source = call.args[0].value if len(call.args) == 1 else None
    if not isinstance(statement, cst.Expr) or not isinstance(source, cst.Subscript):
        return False
    key = subscript_key(source)
    if key is None:
        return False
    around = tree.parents.get(tree.block(statement))
    tested = _tested_key(around)
    if scaler is None:
        alone = isinstance(around, cst.If) and around.orelse is None and len(statements(tree.block(statement))) == 1
        assert not alone or isinstance(around, cst.If)
        draft.edits.substitute(around if alone and tested is not None and isinstance(around, cst.If) else statement)
        return True
    new_key, checkpoint = _renamed(key), draft.code(source.value)
    restore = f"{scaler}.load_state_dict({checkpoint}[{draft.code(new_key)}])"
    test = build.expression(f"{checkpoint}.get({draft.code(new_key)})")
    if tested is not None:
        draft.edits.replace(tested, test)
        draft.edits.substitute(statement, draft.line(restore))
    else:
        draft.edits.substitute(statement, draft.guarded(f"if {draft.code(test)}:", restore))
    return True


def _tested_key(around: cst.CSTNode | None) -> cst.Comparison | None:
    """The test of `if "amp" in checkpoint:`."""
    if not isinstance(around, cst.If) or not isinstance(around.test, cst.Comparison):
        return None
    left, operator = around.test.left, around.test.comparisons[0].operator
    return around.test if isinstance(left, cst.SimpleString) and isinstance(operator, cst.In) else None


def _renamed(key: cst.SimpleString) -> cst.SimpleString:
    return key.with_changes(value=f"{key.quote}{KEY}{key.quote}")


def _without(node: cst.CSTNode, index: int) -> cst.CSTNode:
    assert isinstance(node, cst.Dict)
    return node.with_changes(elements=remove_at(node.elements, index))
