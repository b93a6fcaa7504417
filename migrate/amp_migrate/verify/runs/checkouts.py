"""Two scripts in two checkouts of one repository: each is to run with its own checkout's modules.

Both run in one working folder, which may be on their search path, and a package that is installed from one checkout
would serve both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from amp_migrate.repository import repository
from amp_migrate.verify.runs import folders
from amp_migrate.verify.runs.target import Target


def apart(original: Target, migrated: Target) -> tuple[Target, Target]:
    """The two scripts, each with its own versions of the files in which their checkouts differ."""
    old, new = (repository(each.file.resolve().parent) for each in (original, migrated))
    if old is None or new is None or old == new:
        return original, migrated
    return replace(original, changed=_instead(old, new)), replace(migrated, changed=_instead(new, old))


def _instead(own: Path, other: Path) -> Mapping[Path, Path]:
    """Python files of the other checkout, and those of one's own that stand for them."""
    return {there: here for here, there in _pairs(own, other) if here.read_bytes() != there.read_bytes()}


def _pairs(own: Path, other: Path) -> Iterator[tuple[Path, Path]]:
    for here in folders.files(own):
        there = other / here.relative_to(own)
        if here.suffix == ".py" and there.is_file():
            yield here, there
