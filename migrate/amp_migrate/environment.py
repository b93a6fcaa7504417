"""Which folders a Python environment imports its packages from, as they lie on the disk: no program is run for it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from amp_migrate.frozen import frozen

# Where packages are below the folder of an environment: in most, on Windows, and where Debian puts its own.
_SITES = ("lib/*/site-packages", "lib64/*/site-packages", "Lib/site-packages", "local/lib/*/dist-packages")
_OF_DEBIAN = ("lib/python3/dist-packages",)
_NAMES = ("site-packages", "dist-packages")
_VERSION = re.compile(r"(\d+)\.(\d+)")
# What an editable install by setuptools has beside its `.pth`: a dictionary of packages to where they are.
_FINDER = "__editable__*_finder.py"


class NoEnvironment(Exception):
    """A path that is no interpreter and no environment; the message says why, and what to give instead."""


@frozen
class Environment:
    """Where installed packages are.

    Attributes:
        folders: those that packages are imported from, in the order in which they are asked; never the standard
            library's.
        editable: packages that stand elsewhere under other names than there, each with its folder or file.
    """

    folders: tuple[str, ...]
    editable: tuple[tuple[str, str], ...] = ()


def environment_of(path: Path) -> Environment:
    """The packages of an interpreter, or of the environment that a folder is.

    Its layout is read, rather than the interpreter asked: which one it is may be said by a project's settings, and to
    look at a project is to run nothing of it.

    Raises NoEnvironment where there are none.
    """
    if not path.exists():
        raise NoEnvironment("there is no such file or folder")
    version = _VERSION.search(path.name) or _VERSION.search(path.resolve().name)
    homes = [path] if path.is_dir() else list(dict.fromkeys((_home(path), _home(path.resolve()))))
    found = next(filter(None, (_sites(home, version) for home in homes)), [])
    if not found:
        raise NoEnvironment("has no packages: name the python of an environment, or its folder, such as .venv")
    folders = dict.fromkeys(each for site in found for each in (site, *_added(site)))
    moved = (pair for site in found for pair in _moved(Path(site)))
    return Environment(tuple(folders), tuple(dict(moved).items()))


def _home(interpreter: Path) -> Path:
    folder = interpreter.parent
    return folder.parent if folder.name in ("bin", "Scripts") else folder


def _sites(home: Path, version: re.Match[str] | None) -> list[str]:
    """The folders of packages in an environment, and where it says so, in the one that it is made with."""
    if home.name in _NAMES:
        return [str(home.absolute())]
    said = _said(home / "pyvenv.cfg")
    version = _VERSION.match(said.get("version", said.get("version_info", ""))) or version
    folders = [each for pattern in _SITES for each in sorted(home.glob(pattern)) if each.is_dir()]
    of_version = {each: _VERSION.search(each.parent.name) for each in folders}
    wanted = version or max(filter(None, of_version.values()), key=_number, default=None)
    fit = [
        each
        for each, own in of_version.items()
        if own is None or (wanted is not None and _number(own) == _number(wanted))
    ]
    fit += (each for pattern in _OF_DEBIAN for each in home.glob(pattern))
    found = list({os.path.realpath(each): str(each.absolute()) for each in reversed(fit)}.values())[::-1]
    if said.get("include-system-site-packages") == "true" and "home" in said:
        found += _sites(Path(said["home"]).parent, version)
    return found


def _number(version: re.Match[str]) -> tuple[int, int]:
    return int(version[1]), int(version[2])


def _said(file: Path) -> dict[str, str]:
    """What a `pyvenv.cfg` says."""
    lines = (line.partition("=") for line in _text(file).splitlines())
    return {key.strip().lower(): value.strip().lower() if key != "home" else value for key, _, value in lines}


def _added(site: str) -> Iterator[str]:
    """The folders that the `.pth` files of another add, as those of editable installs do."""
    for file in sorted(Path(site).glob("*.pth")):
        for line in _text(file).splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                folder = os.path.join(site, line.strip())
                if os.path.isdir(folder):
                    yield os.path.normpath(folder)


def _moved(site: Path) -> Iterator[tuple[str, str]]:
    """The packages that setuptools has made editable by a finder, each with where it is."""
    for file in sorted(site.glob(_FINDER)):
        with suppress(SyntaxError, ValueError, AttributeError):
            nodes = (each for each in ast.parse(_text(file)).body if isinstance(each, (ast.Assign, ast.AnnAssign)))
            for node in nodes:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if [ast.unparse(each) for each in targets] == ["MAPPING"] and node.value is not None:
                    mapping = ast.literal_eval(node.value).items()
                    yield from ((name, where) for name, where in mapping if os.path.exists(_source(where)))


def _source(where: str) -> str:
    """A folder, or the file of a module that is no package."""
    return where if os.path.isdir(where) else f"{where}.py"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
