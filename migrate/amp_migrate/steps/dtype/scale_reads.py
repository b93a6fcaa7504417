"""Reads of the loss scale from a scaler's state, which is empty where the scaler is off.

`scaler.state_dict()["scale"]` becomes `scaler.state_dict().get("scale", 1.0)`: what `get_scale()` says then, which a
wrapper round the scaler may not have.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import subscript_key, written_string
from amp_migrate.write.editor import Editor

_KEY = "scale"


def answer_when_off(editor: Editor) -> Iterator[Edit]:
    """The edits that let every read of a scale in a file do without one."""
    for read in _reads(editor.file):
        key = cst.ensure_type(read.slice[0].slice, cst.Index).value
        yield editor.replace(read, code("{}.get({}, 1.0)", read.value, key))


def _reads(file: File) -> Iterator[cst.Subscript]:
    for call in file.calls:
        read = file.tree.parents[call]
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "state_dict"
            and isinstance(read, cst.Subscript)
            and read.value is call
            and not isinstance(file.tree.parents[read], (cst.AssignTarget, cst.Del))
            and written_string(subscript_key(read)) == _KEY
        ):
            yield read
