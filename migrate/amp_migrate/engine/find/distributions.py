"""What stands beside a `setup.py` or its like is installed, and can be imported from anywhere."""

from __future__ import annotations

import os
import re

_DECLARING = ("setup.py", "setup.cfg", "pyproject.toml")
_NAME = re.compile(r"\bname\s*=\s*[\"']?([\w.-]+)")


def installs(folder: str, package: str) -> bool:
    """Whether a folder is one from which a package is installed: by its own name, as the only one, or below `src`.

    What else stands there is not taken for it: a copy of a repository may have its own `datasets`, or `utils`.
    """
    home, last = os.path.split(folder)
    return package in _names(folder) or (last == "src" and bool(_names(home)))


def _names(folder: str) -> frozenset[str]:
    """The names that a distribution in a folder may have: that of the folder, and those it declares."""
    texts = list(filter(None, (_text(os.path.join(folder, each)) for each in _DECLARING)))
    found = [os.path.basename(folder), *(name for text in texts for name in _NAME.findall(text))]
    return frozenset(re.sub(r"[-.]", "_", each) for each in found) if texts else frozenset()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
