"""Where runs happen: a folder for each run's records, a working folder, and the place of the migrated script.

Nothing is written to the user's folders here. What a script itself writes to its working folder goes to a copy,
where the folder is small enough to copy for every run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from amp_migrate.repository import repository
from amp_migrate.verify.usage import UsageError

_NOT_COPIED = frozenset(
    ".git .hg .venv venv .tox .mypy_cache .pytest_cache .ruff_cache __pycache__ node_modules".split()
)
COPY_BYTES = 64 * 2**20
COPY_FILES = 2000


def new(parent: Path, name: str) -> Path:
    """Make a folder of that name, or, where there is one already, of the name with a number."""
    parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


def copyable(folder: Path) -> bool:
    """Whether a folder can be read, and is small enough to be copied for every run."""
    total = 0
    for number, path in enumerate(files(folder), start=1):
        total += path.stat().st_size
        if number > COPY_FILES or total > COPY_BYTES or not os.access(path, os.R_OK):
            return False
    return True


def files(folder: Path) -> Iterator[Path]:
    """Every file below a folder, in order, without links, caches, environments and repositories' own."""
    for parent, names, names_of_files in os.walk(folder):
        names[:] = sorted(set(names) - _NOT_COPIED)
        yield from (
            path for name in sorted(names_of_files) if (path := Path(parent, name)).is_file() and not path.is_symlink()
        )


def copy(folder: Path, destination: Path, without: Path) -> None:
    """Copy a working folder, without caches, environments and the folder `without`. Links keep their targets.

    Raises UsageError for an entry that cannot be read.
    """
    try:
        _copy(folder, destination, without)
    except OSError as error:
        raise UsageError(f"--isolate: {error.filename}: {error.strerror}; use --isolate never") from error


def copy_beside(folder: Path, parent: Path, without: Path, changed: Mapping[Path, Path]) -> Path:
    """Copy a working folder, and return the copy; `../data` and `../../lib` are there what they were.

    It stands among links to its neighbours and to those of all folders above it in its repository, so that a script may
    do `sys.path.append("../..")`. `changed` maps files to others that are put in their places.
    """
    top = top_of(folder)
    inside = folder.relative_to(top)
    if os.access(top, os.R_OK):
        beside = [path for path in changed if path.is_relative_to(top) and not path.is_relative_to(folder)]
        overlay(top, {path.relative_to(top): changed[path].read_bytes() for path in beside}, parent, without=inside)
    destination = parent / inside
    copy(folder, destination, without)
    for path, other in changed.items():
        if path.is_relative_to(folder):
            (destination / path.relative_to(folder)).write_bytes(other.read_bytes())
    return destination


def top_of(folder: Path) -> Path:
    """The folder above a working folder that `copy_beside` rebuilds."""
    return repository(folder.parent) or folder.parent


def _copy(folder: Path, destination: Path, without: Path) -> None:
    destination.mkdir(parents=True)
    for entry in sorted(folder.iterdir()):
        target = destination / entry.name
        if entry == without:
            continue
        if entry.is_symlink():
            target.symlink_to(entry.resolve())
        elif entry.is_dir():
            if entry.name not in _NOT_COPIED:
                _copy(entry, target, without)
        elif entry.is_file():
            shutil.copy2(entry, target)


def overlay(folder: Path, changed: Mapping[Path, bytes], destination: Path, without: Path | None = None) -> None:
    """Rebuild `folder` at `destination` out of links to its entries, with the changed files in their places.

    `changed` maps paths relative to `folder` to their new bytes, and `without` is one that is left out. A script
    started there finds its siblings and its data where it expects them, `__file__` and `sys.path[0]` included; only
    folders that hold a changed file, or the one left out, are real.
    """
    destination.mkdir(parents=True, exist_ok=True)
    real = [*changed, *([without] if without is not None else [])]
    opened = {path.parts[0] for path in real if len(path.parts) > 1}
    replaced = {path.name for path in real if len(path.parts) == 1}
    resolved = folder.resolve()
    for entry in sorted(folder.iterdir()):
        target = destination / entry.name
        if entry.name in opened:
            inside = {
                path.relative_to(entry.name): data for path, data in changed.items() if _first(path) == entry.name
            }
            left_out = (
                without.relative_to(entry.name) if without is not None and _first(without) == entry.name else None
            )
            overlay(entry, inside, target, left_out)
        elif entry.name not in replaced and entry.name != "__pycache__":
            target.symlink_to(entry.resolve() if entry.is_symlink() else resolved / entry.name)
    for path, data in changed.items():
        if len(path.parts) == 1:
            (destination / path.name).write_bytes(data)


def _first(path: Path) -> str:
    return path.parts[0]
