"""From the files and folders that the user named to the Python files below them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from amp_migrate.engine.problems import os_error, unreadable
from amp_migrate.engine.source import SourceError, display_name
from amp_migrate.report.finding import Finding

# Folders that hold other people's code, or copies of one's own. A folder of such a name is searched when it is named.
EXCLUDED_FOLDERS = frozenset(
    ".direnv .eggs .git .hg .hypothesis .ipynb_checkpoints .mypy_cache .nox .pytest_cache .pytype .ruff_cache .svn "
    ".tox .venv .amp-migrate __pycache__ __pypackages__ _build build dist node_modules site-packages venv".split()
)
SUFFIXES = (".py", ".pyw")


@dataclass(frozen=True)
class Found:
    """One file to look at.

    Attributes:
        path: the file as the user named it, or below a folder that the user named.
        real: its absolute path with all links resolved, by which one file is recognised under two names.
    """

    path: Path
    real: str


@dataclass(frozen=True)
class Discovery:
    """What was found.

    Attributes:
        files: sorted by name, each file once.
        roots: the real paths of the folders that were searched, and of the folders of single files.
        problems: what was named or met and cannot be read.
    """

    files: tuple[Found, ...]
    roots: tuple[str, ...]
    problems: tuple[Finding, ...]


@dataclass
class _Search:
    files: dict[str, Found] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)

    def problem(self, path: Path, error: SourceError) -> None:
        self.problems.append(unreadable(display_name(path), error))


def discover(paths: Sequence[Path], without: Path | None = None) -> Discovery:
    """Find the Python files among `paths`, but for those at or below `without`.

    A file that is named is taken whatever its suffix; below a folder, files that end in `.py` or `.pyw` are. Links to
    folders are not followed, links to files only where they stay below the folder that was named.
    """
    search = _Search()
    for path in paths:
        try:
            mode = _usable_mode(path)
        except SourceError as error:
            search.problem(path, error)
            continue
        real = os.path.realpath(path)
        if stat.S_ISDIR(mode):
            search.roots[real] = None
            for found in _walk(path, real, search):
                search.files.setdefault(found.real, found)
        else:
            search.roots[os.path.dirname(real)] = None
            search.files.setdefault(real, Found(path, real))
    kept: Iterable[Found] = search.files.values()
    if without is not None:
        unwanted = os.path.realpath(without)
        kept = [found for found in kept if os.path.commonpath([unwanted, found.real]) != unwanted]
    files = sorted(kept, key=lambda found: found.path.as_posix())
    return Discovery(tuple(files), tuple(search.roots), tuple(search.problems))


def _walk(path: Path, real: str, search: _Search) -> Iterator[Found]:
    """The Python files below a folder; what cannot be read is noted in `search`."""
    links: list[os.DirEntry[str]] = []
    stack = [(path, real)]
    while stack:
        folder, real_folder = stack.pop()
        try:
            with os.scandir(folder) as entries:
                content = list(entries)
        except OSError as error:
            search.problem(folder, os_error(error, "folder cannot be read"))
            continue
        for entry in content:
            if entry.is_symlink():
                links.append(entry)
            elif entry.is_dir():
                if entry.name not in EXCLUDED_FOLDERS:
                    stack.append((folder / entry.name, os.path.join(real_folder, entry.name)))
            elif entry.name.endswith(SUFFIXES):
                if entry.is_file():
                    yield Found(folder / entry.name, os.path.join(real_folder, entry.name))
                else:
                    search.problem(folder / entry.name, SourceError("not a regular file"))
    # After the files themselves, so that a file is shown by its own name rather than by a link's.
    yield from _linked_files(links, real, search)


def _linked_files(links: Iterable[os.DirEntry[str]], root: str, search: _Search) -> Iterator[Found]:
    for link in links:
        path = Path(link.path)
        if not link.name.endswith(SUFFIXES):
            continue
        try:
            mode = _usable_mode(path)
        except SourceError as error:
            search.problem(path, error)
            continue
        real = os.path.realpath(path)
        inside = os.path.commonpath([root, real]) == root
        if stat.S_ISREG(mode) and inside and not EXCLUDED_FOLDERS.intersection(Path(real).relative_to(root).parts):
            yield Found(path, real)


def _usable_mode(path: Path) -> int:
    """The mode of a regular file or a folder, links followed.

    Raises:
        SourceError: there is no such thing, or it is something else.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        fact = f"a link to nothing: {os.readlink(path)}" if path.is_symlink() else "no such file or folder"
        raise SourceError(fact) from None
    except OSError as error:
        raise os_error(error) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SourceError("not a regular file")
    return mode
