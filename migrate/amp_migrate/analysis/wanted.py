"""Whether the user wants a rule at a place: asked before anything is planned there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File

# file, place, code of the rule -> whether it is to be applied there
Wanted: TypeAlias = Callable[[File, cst.CSTNode, str], bool]


def everything(file: File, node: cst.CSTNode, code: str) -> bool:
    """All rules, everywhere."""
    return True
