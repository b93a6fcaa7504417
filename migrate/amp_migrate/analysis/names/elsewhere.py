"""What a file's imports bring from other files of the project, where those only hand on what is torch's.

`from compat import autocast` is `torch.cuda.amp.autocast` where `compat.py` takes it from there.
"""

from __future__ import annotations

import re
from typing import Protocol

# What is followed: the packages of AMP, what they hold, the packages that hold them, and torch's layers and functions.
_FOLLOWED = re.compile(r"(?:torch(?:\.(?:cuda|cpu))?|apex)(?:\.amp(?:\..+)?)?|torch\.autocast|torch\.nn(?:\..+)?")


class Elsewhere(Protocol):
    """Answers what names of other modules stand for, as one file imports them.

    Where that file `has_torch` for certain, what other modules have for its absence is never taken.
    """

    def meanings(self, full: str, *, has_torch: bool) -> frozenset[str]:
        """The full names that an imported name (`.compat.autocast`) may stand for: itself, if it is not handed on."""

    def by_star(self, module: str, name: str, *, has_torch: bool) -> frozenset[str] | None:
        """What a star import of a module brings as `name`: nothing at all, or its meanings; None if nobody knows."""


class Nowhere:
    """For a file that is looked at by itself: nothing is known about any other."""

    def meanings(self, full: str, *, has_torch: bool) -> frozenset[str]:
        """Every name stands for itself."""
        return frozenset({full})

    def by_star(self, module: str, name: str, *, has_torch: bool) -> frozenset[str] | None:
        """Nobody knows."""
        return None


def is_followed(full: str) -> bool:
    """Whether a full name is one of those that are followed through other files."""
    return _FOLLOWED.fullmatch(full) is not None
