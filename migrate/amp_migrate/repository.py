"""Where a folder's repository begins."""

from __future__ import annotations

import os
from pathlib import Path


def repository(folder: Path) -> Path | None:
    """The top folder of the Git repository that a folder is in; None outside of every one that can be read.

    A home folder is none: who keeps it in Git does so for the settings in it, and its code has no part in one another.
    """
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if top is None or top == Path(os.path.expanduser("~")) or not os.access(top, os.R_OK):
        return None
    return top
