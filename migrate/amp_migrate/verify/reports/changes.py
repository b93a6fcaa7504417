"""What the migrated script has otherwise than the original, as a unified diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.setup import Setup


def diff(setup: Setup) -> str:
    """The script's, and those of the modules that are loaded in others' places; empty where nothing differs."""
    original, migrated = setup.scripts[Arm.ORIGINAL], setup.scripts[Arm.MIGRATED]
    pairs = {original.file: migrated.file, **migrated.changed}
    return "".join(line for old, new in pairs.items() for line in _lines(old, new))


def _lines(old: Path, new: Path) -> Iterator[str]:
    before, after = (_text(path) for path in (old, new))
    for line in difflib.unified_diff(before, after, f"a/{old.name}", f"b/{old.name}"):
        yield line if line.endswith("\n") else f"{line}\n"


def _text(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if path.is_file() else []
