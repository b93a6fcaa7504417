"""A fault of the harness itself, told apart from every verdict, so that CI never takes it for one."""

from __future__ import annotations

import traceback
from pathlib import Path

STATUS = 8


def keep(error: BaseException, folder: Path) -> Path:
    """Write the traceback into the verification's folder, and return its path."""
    path = folder / "fault.log"
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path


def describe(error: BaseException) -> str:
    """One line: what failed and where. Errors of the system (a full disk) name the file instead of our code."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())
    what = type(error).__name__ + (f": {message}" if message else "")
    return f"fault of amp-verify itself: {what} ({Path(place.filename).name}:{place.lineno}); please report it"
