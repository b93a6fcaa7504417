"""What a notebook installs by itself: it then runs a package as it was released, and not the one beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from amp_migrate.repository import repository

# `!pip install -q timm`, `%pip install "timm==0.9"`, and in a cell of `%%bash` `python -m pip install git+https://...`:
# no line of Python begins like that.
_INSTALL = re.compile(
    r"""^[ \t]*[!%]?[ \t]*(?:\S*python\S*[ \t]+-m[ \t]+)?(?:uv[ \t]+)?pip3?[ \t]+install[ \t]
    (?P<what>(?:\\\n|[^;&|\n])*)""",
    re.MULTILINE | re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
# Options that take the next word with them; `-e .` installs what is here.
_WITH_VALUE = frozenset({"-r", "-c", "-f", "-i", "-e", "-t", "--requirement", "--editable", "--index-url", "--target"})
_DECLARED = re.compile(r"^[ \t]*name[ \t]*=[ \t]*[\"']?([\w.-]+)", re.MULTILINE)
_DECLARING = ("pyproject.toml", "setup.cfg", "setup.py")


def installed(cells: Iterable[str]) -> frozenset[str]:
    """The names of the packages that the code cells of a notebook install from elsewhere, as `normal` writes them."""
    found: set[str] = set()
    for match in _INSTALL.finditer("\n".join(cells)):
        words = iter(match["what"].replace("\\\n", " ").split())
        for word in words:
            if word in _WITH_VALUE:
                next(words, None)
            elif not word.startswith("-"):
                found.add(_name(word.strip("\"'")))
    return frozenset(found - {""})


def names_of(module: str, folder: Path) -> frozenset[str]:
    """What the package that holds a module may be installed as, as `normal` writes it.

    Args:
        module: the first part of the module's dotted name.
        folder: one of the project's folders. Its repository's name counts, and what its packaging declares.
    """
    top = repository(folder) or folder
    found = {module, top.name}
    for file in (top / name for name in _DECLARING):
        if file.is_file():
            found.update(_DECLARED.findall(file.read_text(encoding="utf-8", errors="replace")))
    return frozenset(map(normal, found))


def normal(name: str) -> str:
    """A package's name in the one way for all that mean the same: `Py_Torch.x` is `py-torch-x`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _name(word: str) -> str:
    """What a requirement is called: of an address, the last part of its path; nothing for a path on the disk."""
    if "://" in word:
        last = word.partition("#")[0].rstrip("/").rpartition("/")[2]
        return normal(last.partition("@")[0].removesuffix(".git"))
    match = _NAME.match(word)
    return "" if match is None or "/" in word else normal(match[0])
