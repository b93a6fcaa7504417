"""Where a folder's repository begins."""

from __future__ import annotations

import os
from pathlib import Path


def repository(folder: Path) -> Path | None:
    """The top folder of the Git repository that a folder is in; None outside of every one that can be read."""
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    return top if top is not None and os.access(top, os.R_OK) else None
