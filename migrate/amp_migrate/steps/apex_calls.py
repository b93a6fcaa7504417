"""The calls of `apex.amp`, by what their names stand for."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.tables.apex_names import AMP


def amp_name(file: File, node: cst.CSTNode) -> str | None:
    """What a name of `apex.amp` stands for (`scale_loss`); None for any other name.

    A name that is also bound to None or a stub where Apex is missing counts: that is the guard, not another meaning.
    """
    for full in sorted(file.names.meanings(node)):
        if full.startswith(AMP + "."):
            return full.removeprefix(AMP + ".")
    return None


def amp_calls(file: File, name: str) -> Iterator[cst.Call]:
    """The calls of `apex.amp.<name>` in a file."""
    for call in file.calls:
        if amp_name(file, call.func) == name:
            yield call
