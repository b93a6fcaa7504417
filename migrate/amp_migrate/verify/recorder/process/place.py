"""Places in the user's own code, told from ours and the libraries'."""

from __future__ import annotations

import hashlib
import os
import sys
from types import FrameType

_RECORDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class UsersCode:
    """Which files are the user's. `shim`: the folder of the `amp_shim` package."""

    def __init__(self, shim: str) -> None:
        self._others = (shim, _RECORDER, sys.base_prefix + os.sep, f"{os.sep}site-packages{os.sep}", "<frozen")
        self._known: dict[str, bool] = {}  # every frame above an operation is asked for its file
        # Python takes it from a script that has ended, which is when it is asked for what was loaded.
        self._script = getattr(sys.modules.get("__main__"), "__file__", None)

    def holds(self, file: str) -> bool:
        """Whether a file, as a code object names it, is the user's."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = not any(part in file for part in self._others)
        return known

    def loaded(self) -> list[list[str]]:
        """The user's modules that are loaded, the script among them: each one's name, file and a hash of its text."""
        found = []
        for name, module in sorted(sys.modules.items()):
            file = getattr(module, "__file__", self._script if name == "__main__" else None)
            if isinstance(file, str) and file.endswith(".py") and self.holds(file) and os.path.isfile(file):
                with open(file, "rb") as text:
                    digest = hashlib.blake2b(text.read(), digest_size=8).hexdigest()
                found.append([name, os.path.realpath(file), digest])
        return found

    def caller(self) -> FrameType | None:
        """The innermost frame of this thread that runs the user's code; None if there is none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self.holds(frame.f_code.co_filename):
            frame = frame.f_back
        return frame
