"""Where an Apex script asks for the loss scale by itself, or sets the one to begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_name
from amp_migrate.trees.nodes import Statement, subscript_key, written_string

_SCALERS = re.compile(r"(_amp_state\.)+loss_scalers")
_SAVED = re.compile(r"loss_scaler\d+")


def scale_reads(file: File) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """The expressions whose value is the loss scale, each with the name or call of `apex.amp` in it."""
    parents = file.tree.parents
    for node in _scaler_lists(file):
        attribute = parents[parents[node]]
        if not isinstance(attribute, cst.Attribute):
            continue
        call = parents[attribute]
        if attribute.attr.value == "loss_scale" and isinstance(call, cst.Call) and call.func is attribute:
            yield call, node
        elif attribute.attr.value == "_loss_scale" and not isinstance(call, cst.AssignTarget):
            yield attribute, node
    for call in amp_calls(file, "state_dict"):
        saved = _item(file, call)
        value = None if saved is None or not _SAVED.fullmatch(saved[1]) else _item(file, saved[0])
        if value is not None and value[1] == "loss_scale":
            yield value[0], call


def scale_settings(file: File) -> Iterator[tuple[cst.Assign, cst.CSTNode]]:
    """The assignments that set the loss scale of Apex's first scaler, each with the name of `apex.amp` in it."""
    parents = file.tree.parents
    for node in _scaler_lists(file):
        attribute = parents[parents[node]]
        target = parents.get(attribute)
        if isinstance(attribute, cst.Attribute) and isinstance(target, cst.AssignTarget):
            statement = parents[target]
            is_scale = attribute.attr.value == "_loss_scale" and _index(parents[node]) == "0"
            if is_scale and isinstance(statement, cst.Assign) and len(statement.targets) == 1:
                yield statement, node


def setting_after(file: File, statement: Statement) -> cst.Assign | None:
    """The assignment that sets the loss scale to begin with, behind `initialize` in its block."""
    siblings = file.tree.siblings(statement)
    behind = siblings[siblings.index(statement) + 1 :]
    return next((each for each, _ in scale_settings(file) if each in behind), None)


def understood(file: File) -> set[cst.CSTNode]:
    """The names and calls of `apex.amp` that are there for the loss scale, and have a native form."""
    first = {setting_after(file, file.tree.statement(call)) for call in amp_calls(file, "initialize")}
    return {
        *(node for _, node in scale_reads(file)),
        *(node for statement, node in scale_settings(file) if statement in first),
    }


def _scaler_lists(file: File) -> Iterator[cst.CSTNode]:
    """The chains that stand for Apex's list of loss scalers, where one of them is taken."""
    for node in file.uses.get("loss_scalers", ()):
        parent = file.tree.parents[node]
        is_taken = isinstance(parent, cst.Subscript) and parent.value is node
        if is_taken and _SCALERS.fullmatch(amp_name(file, node) or ""):
            yield node


def _item(file: File, node: cst.BaseExpression) -> tuple[cst.Subscript, str] | None:
    """The subscript on an expression, and its key, where that is a string that is written out."""
    parent = file.tree.parents[node]
    if not isinstance(parent, cst.Subscript) or parent.value is not node:
        return None
    key = written_string(subscript_key(parent))
    return None if key is None else (parent, key)


def _index(node: cst.CSTNode) -> str:
    index = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    value = index.value if isinstance(index, cst.Index) else None
    return value.value if isinstance(value, cst.Integer) else ""
