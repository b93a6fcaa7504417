"""From the files and folders that the user named to the Python files below them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from amp_migrate.engine.find.apex_copies import apex_copies
from amp_migrate.engine.find.gitignore import IgnoreRules
from amp_migrate.engine.find.selection import Selection
from amp_migrate.engine.problems import a_copy_of_apex, os_error, unreadable
from amp_migrate.engine.source import SourceError, display_name
from amp_migrate.frozen import frozen
from amp_migrate.report.finding import Finding


@frozen
class FoundFile:
    """One file to look at.

    Attributes:
        path: the file as the user named it, or below a folder that the user named.
        real: its absolute path with all links resolved, by which one file is recognised under two names.
        named: whether the user named it, and not only a folder that it is in.
        is_apex: whether it belongs to a copy of Apex: it answers questions about others, and is not migrated.
    """

    path: Path
    real: str
    named: bool = False
    is_apex: bool = False


@frozen
class Discovery:
    """What was found.

    Attributes:
        files: sorted by name, each file once.
        roots: the real paths of the folders that were searched, and of the folders of single files.
        problems: what was named or met and cannot be read, and copies of Apex.
        ignored: how many files, and how many whole folders, were passed over because git ignores them.
    """

    files: tuple[FoundFile, ...]
    roots: tuple[str, ...]
    problems: tuple[Finding, ...]
    ignored: tuple[int, int] = (0, 0)


def discover(paths: Sequence[Path], scope: Selection | None = None) -> Discovery:
    """Find the files among `paths`.

    A file that is named is taken whatever its suffix; below a folder, those that `scope` takes (Python files, if it
    says nothing else). Links below a folder are not followed.
    """
    search = _Search(scope or Selection())
    for path in paths:
        try:
            mode = _usable_mode(path)
        except SourceError as error:
            search.problem(path, error)
            continue
        real = os.path.realpath(path)
        if stat.S_ISDIR(mode):
            search.roots[real] = None
            for found in search.walk(path, real):
                search.files.setdefault(found.real, found)
        else:
            search.roots[os.path.dirname(real)] = None
            known = search.files.get(real, FoundFile(path, real))
            search.files[real] = replace(known, named=True)
    search.mark_apex()
    files = sorted(search.files.values(), key=lambda found: found.path.as_posix())
    return Discovery(tuple(files), tuple(search.roots), tuple(search.problems), search.ignored)


@dataclass
class _Search:
    scope: Selection
    files: dict[str, FoundFile] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)
    ignored: tuple[int, int] = (0, 0)

    def problem(self, path: Path, error: SourceError) -> None:
        self.problems.append(unreadable(display_name(path), error))

    def mark_apex(self) -> None:
        """Mark what belongs to copies of Apex, and note each of them."""
        copies = apex_copies(self.files.keys(), self.roots)
        for setup in copies.values():
            self.problems.append(a_copy_of_apex(display_name(self.files[setup].path)))
        homes = tuple(home + os.sep for home in copies)
        for real, found in self.files.items():
            if real.startswith(homes) and not found.named:
                self.files[real] = replace(found, is_apex=True)

    def walk(self, path: Path, real: str) -> Iterator[FoundFile]:
        """The files below a folder; what cannot be read is noted."""
        stack = [(path, real, IgnoreRules.above(real) if self.scope.gitignore else None)]
        while stack:
            folder, real_folder, rules = stack.pop()
            try:
                with os.scandir(folder) as entries:
                    content = {entry.name: entry for entry in entries}
            except OSError as error:
                self.problem(folder, os_error(error, "folder cannot be read"))
                continue
            if rules is not None and ".git" in content:
                rules = rules.of_repository(real_folder)
            if rules is not None and ".gitignore" in content:
                rules = rules.inside(real_folder)
            for name, entry in content.items():
                real_entry = os.path.join(real_folder, name)
                if entry.is_dir(follow_symlinks=False):
                    if self.scope.takes_folder(name, real_entry) and not self._is_ignored(rules, real_entry, folders=1):
                        below = None if rules is None else rules.below(real_entry)
                        stack.append((folder / name, real_entry, below))
                elif (
                    self.scope.takes_file(name, real_entry)
                    and not self._is_ignored(rules, real_entry)
                    and self._is_readable(folder / name)
                    and not entry.is_symlink()  # what it points at is found itself, if it belongs to the tree
                ):
                    yield FoundFile(folder / name, real_entry)

    def _is_ignored(self, rules: IgnoreRules | None, real: str, folders: int = 0) -> bool:
        """Whether git ignores a file, or one folder; it is counted if so."""
        is_ignored = rules is not None and rules.ignore(real, is_folder=bool(folders))
        if is_ignored:
            self.ignored = self.ignored[0] + 1 - folders, self.ignored[1] + folders
        return is_ignored

    def _is_readable(self, path: Path) -> bool:
        try:
            _usable_mode(path)
        except SourceError as error:
            self.problem(path, error)
            return False
        return True


def _usable_mode(path: Path) -> int:
    """The mode of a regular file or a folder, links followed.

    Raises:
        SourceError: there is no such thing, or it is something else.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        fact = f"a link to nothing: {os.readlink(path)}" if path.is_symlink() else _missing(path)
        raise SourceError(fact) from None
    except OSError as error:
        raise os_error(error) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SourceError("not a regular file")
    return mode


def _missing(path: Path) -> str:
    """That there is nothing, and what stands beside it that is called nearly so."""
    fact = "no such file or folder"
    try:
        beside = sorted(os.listdir(path.parent))
    except OSError:
        return fact
    near = get_close_matches(path.name, beside, n=1, cutoff=0.8)
    return f"{fact}; did you mean {display_name(path.with_name(near[0]))}?" if near else fact
