"""One file with AMP in it, as the hazard rules see it: read once, when the first of them asks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.hazards import regions
from amp_migrate.hazards.course import Course, courses
from amp_migrate.hazards.regions import AutocastRegion
from amp_migrate.hazards.scalers import Scalers
from amp_migrate.settings import Settings

_AMP = re.compile(r"autocast|GradScaler|\bunscale_\b|scaler\.scale\b")


@dataclass(frozen=True, eq=False)
class Script:
    """A file with AMP in it.

    Attributes:
        file: the file.
        roles: what its objects are.
        settings: the PyTorch and the device it is for.
    """

    file: File
    roles: Roles
    settings: Settings

    @cached_property
    def scalers(self) -> Scalers:
        """The gradient scalers."""
        return Scalers(self.file, self.roles)

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """How each function uses each scaler."""
        return tuple(courses(self.file, self.roles, self.scalers))

    @cached_property
    def regions(self) -> dict[cst.CSTNode, AutocastRegion]:
        """The autocast regions, by their `with`."""
        return {region.node: region for region in regions.regions_in(self.file)}

    def region_around(self, node: cst.CSTNode) -> AutocastRegion | None:
        """The innermost region that a node runs in; None where there is none, or it is switched off."""
        return regions.region_around(self.file, self.regions, node)


def speaks_of_amp(text: str) -> bool:
    """Whether a text may hold AMP at all: most files are told apart by this alone."""
    return _AMP.search(text) is not None
