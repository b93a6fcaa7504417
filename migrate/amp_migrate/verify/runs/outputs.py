"""What a script wrote into its working folder, kept beside the records of its run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from amp_migrate.verify.runs import folders

WRITTEN = "written"  # the folder of a run that holds what its script wrote

# Weights and archives: `torch.save` is followed where it is called, and the bytes of an archive tell its date.
_NOT_KEPT = frozenset(".pt .pth .tar .ckpt .bin .zip .gz .pyc .png .jpg .jpeg .gif .pdf .mp4 .so .o".split())
_MOST_FILES = 200
_LARGEST = 2**22  # bytes of one file

Listing = Mapping[Path, tuple[int, int]]


def listing(folder: Path) -> Listing:
    """Every file of a folder whose content would be kept, with its size and the time of its last change."""
    found = {}
    for path in folders.files(folder):
        if path.suffix.lower() not in _NOT_KEPT:
            status = path.stat()
            found[path] = status.st_size, status.st_mtime_ns
    return found


def keep(cwd: Path, before: Listing, folder: Path) -> None:
    """Copy what is in a run's working folder and was not, or was otherwise, when `before` was made."""
    new = [path for path, status in listing(cwd).items() if before.get(path) != status and status[0] <= _LARGEST]
    for path in new[:_MOST_FILES]:
        there = folder / WRITTEN / path.relative_to(cwd)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, there)
