"""The folder that the files of a run belong to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def find_root(paths: Sequence[Path]) -> Path:
    """The real path of the folder of the project that `paths` belong to; all of them are below it, links resolved.

    It is the nearest folder at or above all of them with a repository or a pyproject.toml in it; without one, the
    current folder if they are below it, or the folder that they share. A home folder is no project: what lies in it
    has nothing in common.
    """
    real = [Path(os.path.realpath(path)) for path in paths]
    common = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in real]))
    home = Path(os.path.realpath(os.path.expanduser("~")))
    for folder in [common, *common.parents]:
        if folder != home and any((folder / mark).exists() for mark in (".git", "pyproject.toml")):
            return folder
    here = Path(os.path.realpath(os.curdir))
    return here if common.is_relative_to(here) else common
