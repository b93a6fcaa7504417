"""Where an Apex script saves and restores the state of `apex.amp`, and under which key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.apex.uses.loss_scale import scale_reads
from amp_migrate.steps.scaler.checkpoint_entries import restores_keywords
from amp_migrate.tables.apex_names import AMP
from amp_migrate.trees.nodes import find, subscript_key

_STATE_NAMES = ("scaler_state", "amp_state")


def not_understood(files: Iterable[File]) -> Iterator[Refusal]:
    """Where Apex's state is taken apart, or restored in the midst of something else."""
    for file in files:
        for call in amp_calls(file, "load_state_dict"):
            is_one = len(call.args) == 1 and not call.args[0].star
            if not is_one or not isinstance(file.tree.parents[call], cst.Expr) or _state_name(file, call) is None:
                yield _restored(file, call)
        for call in _saved_calls(file):
            if isinstance(file.tree.parents[call], (cst.Subscript, cst.Attribute)):
                yield _saved(file, call)


def without_key(files: Sequence[File], *, has_scaler: bool) -> Iterator[Refusal]:
    """Where Apex's state is saved or restored without a key that can be seen.

    What is saved has to be found again under the key that it was saved by: a side that cannot be seen holds both to it.
    Without a scaler the entry has to go.
    """
    restored = [(file, call) for file in files for call in amp_calls(file, "load_state_dict")]
    yield from (_restored(file, call) for file, call in restored if restored_entry(file, call) is None)
    saved = [(file, call) for file in files for call in _saved_calls(file)] if restored or not has_scaler else []
    yield from (_saved(file, call) for file, call in saved if saved_entry(file, call) is None)


def read_elsewhere(project: Project, files: Sequence[File]) -> dict[File, tuple[File, cst.Call]]:
    """The other files that restore Apex's state and name a key which it is saved by here, each with where it is."""
    saved: dict[object, tuple[File, cst.Call]] = {}
    for file in files:
        for call in _saved_calls(file):
            entry = saved_entry(file, call)
            key = None if entry is None else key_of(entry)
            if key is not None:
                saved.setdefault(key.evaluated_value, (file, call))
    found: dict[File, tuple[File, cst.Call]] = {}
    for other in project.library.mentioning("load_state_dict") if saved else ():
        if other not in files and any(True for _ in amp_calls(other, "load_state_dict")):
            named = (each.evaluated_value for each in other.tree.every(cst.SimpleString))
            found.update((other, saved[key]) for key in named if key in saved)
    return found


def _saved_calls(file: File) -> Iterator[cst.Call]:
    about_scale = {call for _, call in scale_reads(file)}
    return (call for call in amp_calls(file, "state_dict") if call not in about_scale)


def _restored(file: File, call: cst.Call) -> Refusal:
    return Refusal(file, call, "what amp.load_state_dict restores comes in a way that is not understood")


def _saved(file: File, call: cst.Call) -> Refusal:
    return Refusal(file, call, "the result of amp.state_dict is kept in a way that is not understood")


def name_of_restored(file: File, call: cst.Call) -> str:
    """A name for what Apex's state is restored from, where a call gives that; empty where it can be asked as it is."""
    return _state_name(file, call) or ""


def _state_name(file: File, call: cst.Call) -> str | None:
    return file.scopes.free(_STATE_NAMES) if any(True for _ in find(call.args[0].value, cst.Call)) else ""


def saved_entry(file: File, call: cst.Call) -> cst.DictElement | cst.Assign | None:
    """The entry of a dictionary that Apex's state is saved in, by a key that is written out."""
    node: cst.CSTNode = call
    parent = file.tree.parents[node]
    while isinstance(parent, cst.IfExp) and parent.test is not node:  # amp.state_dict() if args.fp16 else None
        node, parent = parent, file.tree.parents[parent]
    is_entry = isinstance(parent, (cst.DictElement, cst.Assign)) and key_of(parent) is not None
    return cast("cst.DictElement | cst.Assign", parent) if is_entry else None


def restored_entry(file: File, call: cst.Call) -> tuple[cst.BaseExpression, cst.SimpleString] | None:
    """The checkpoint that Apex's state is taken from, and the key: of `checkpoint["amp"]`, `checkpoint.get("amp")`.

    Returns:
        None for others, and where a call gives the checkpoint, which is made but once.
    """
    found = _entry(file, call)
    return None if found is None or any(True for _ in find(found[0], cst.Call)) else found


def _entry(file: File, call: cst.Call) -> tuple[cst.BaseExpression, cst.SimpleString] | None:
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


def key_of(entry: cst.DictElement | cst.Assign) -> cst.SimpleString | None:
    """The key of an entry of a dictionary, where it is written out: of `{"amp": ...}`, `state["amp"] = ...`."""
    if isinstance(entry, cst.DictElement):
        return entry.key if isinstance(entry.key, cst.SimpleString) else None
    target = entry.targets[0].target if len(entry.targets) == 1 else None
    return subscript_key(target)


def given(file: File, project: Project) -> Iterator[tuple[cst.Call, int]]:
    """Every call that passes `amp=apex.amp` to a function which restores what it is passed so, with its place there."""
    for call in file.calls:
        for index, arg in enumerate(call.args):
            if arg.keyword is None or AMP not in file.names.meanings(arg.value):
                continue
            function = project.called(file, call)
            if function is not None and restores_keywords(function.file, function.node):
                yield call, index
