"""Reads of the loss scale from a scaler's state, which is empty where the scaler is off.

`scaler.state_dict()["scale"]` becomes `scaler.state_dict().get("scale", 1.0)`: what `get_scale()` says then, which a
wrapper round the scaler may not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.draft import Draft
from amp_migrate.trees import build

_KEY = "scale"


def answer_when_off(file: File, draft_of: Callable[[File], Draft]) -> None:
    """Let every read of a scale in a file do without one."""
    for read in _reads(file):
        draft_of(file).edits.change(read, _with_default)


def _reads(file: File) -> Iterator[cst.Subscript]:
    for call in file.calls:
        read = file.tree.parents[call]
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "state_dict"
            and isinstance(read, cst.Subscript)
            and read.value is call
            and not isinstance(file.tree.parents[read], (cst.AssignTarget, cst.Del))
            and _key(read) == _KEY
        ):
            yield read


def _key(node: cst.Subscript) -> object:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    return value.evaluated_value if isinstance(value, cst.SimpleString) else None


def _with_default(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Subscript)
    index = cst.ensure_type(node.slice[0].slice, cst.Index)
    default = build.expression("1.0")
    return cst.Call(cst.Attribute(node.value, cst.Name("get")), [cst.Arg(index.value), cst.Arg(default)])
