"""What a hazard rule finds."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit


@frozen
class Hazard:
    """AMP that is used wrongly, at one place.

    Attributes:
        node: the place.
        message: the fact, as it is shown.
        hint: the edit to make by hand.
        repair: the edits that make it; none where they might not be what is wanted.
        file: the file of the place, where it is not the script's own.
    """

    node: cst.CSTNode
    message: str
    hint: str
    repair: tuple[Edit, ...] = ()
    file: File | None = None
