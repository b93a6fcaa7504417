"""What a hazard rule finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.draft import Draft

Repair: TypeAlias = Callable[[Draft], None]


@dataclass(frozen=True)
class Hazard:
    """AMP that is used wrongly, at one place.

    Attributes:
        node: the place.
        message: the fact, as it is shown.
        hint: the edit to make by hand.
        repair: makes the edit; None where it might not be what is wanted.
        file: the file of the place, where it is not the script's own.
    """

    node: cst.CSTNode
    message: str
    hint: str
    repair: Repair | None = None
    file: File | None = None
