"""Which files of a tree import which, as far as their texts say: no file is parsed, and none is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from amp_migrate.engine.find.distributions import installs, package_dirs
from amp_migrate.engine.imports import resolve_import
from amp_migrate.engine.imports.imports_of_text import imported_modules

# What loads files that no import statement names: it may load any below its own folder.
_DYNAMIC = (
    *("import_module", "__import__", "spec_from_file_location"),
    *("iter_modules", "walk_packages", "run_path", "instantiate"),
)
_PATH = "sys.path"
# Imports of Apex go, so they must not decide: a second run would find other projects in Apex's own repository.
_LEFT_BEHIND = "apex"


class Text:
    """What is known of a text once it is forgotten.

    Attributes:
        imported: the modules that it names in its imports.
        is_dynamic: whether it may load files that it does not name.
        changes_path: whether it changes where Python looks for modules.
    """

    def __init__(self, text: str) -> None:
        self.imported = imported_modules(text)
        self.is_dynamic = any(word in text for word in _DYNAMIC)
        self.changes_path = _PATH in text


class TreeImports:
    """Which of some files the imports of one of them may load.

    Args:
        files: the real paths of all files.
        roots: real paths of folders that may stand on `sys.path`.
        read: gives the text of a file; asked once an import may be one of a file of the tree, which most are not.
    """

    def __init__(self, files: Collection[str], roots: Sequence[str], read: Callable[[str], str]) -> None:
        self._files = frozenset(files)
        self._roots = roots
        self._read = read
        # An import can only succeed if its first name is that of a file or a folder: most are of other packages.
        self._names = {os.path.splitext(part)[0] for file in files for part in file.split(os.sep)}
        self._by_stem: dict[str, list[str]] = {}
        for file in files:
            self._by_stem.setdefault(_stem(file), []).append(file)
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._installed: dict[tuple[str, str], bool] = {}
        self._searching: dict[str, bool] = {}

    @cached_property
    def texts(self) -> Mapping[str, Text]:
        """What is known of each file."""
        return {file: Text(self._read(file)) for file in sorted(self._files)}

    def of(self, importer: str) -> set[str]:
        """The files that the import statements of a file may load."""
        found: set[str] = set()
        for dotted in self.texts[importer].imported:
            target = self._resolve(dotted, importer)
            found.update([target] if target is not None else self.elsewhere(dotted, importer))
        return found

    def have_one_user(self, one: str, other: str) -> bool:
        """Whether some file, which may be one of the two, loads both, directly or through others."""
        return not self._users(one).isdisjoint(self._users(other))

    def _users(self, file: str) -> set[str]:
        """A file and all files that may load it, directly or through others."""
        found, todo = {file}, [file]
        while todo:
            for user in self._importers.get(todo.pop(), ()):
                if user not in found:
                    found.add(user)
                    todo.append(user)
        return found

    @cached_property
    def _importers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for file, text in self.texts.items():
            folder = os.path.dirname(file).rstrip(os.sep) + os.sep
            below = (each for each in self.texts if each.startswith(folder)) if text.is_dynamic else ()
            for target in (*self.of(file), *below):
                found.setdefault(target, []).append(file)
        return found

    def elsewhere(self, dotted: str, importer: str) -> list[str]:
        """The files that an import may mean for a script which is run from a folder further up.

        One that changes where Python looks for modules, itself or by a module that it imports for that, may mean files
        in any folder beside its own. A package that is in none of these may be one that the tree installs.
        """
        root = dotted.partition(".")[0]
        if not root or not self._is_here(root) or importer not in self._files:
            return []
        path, folder = dotted.replace(".", os.sep), os.path.dirname(importer)
        ends = (f"{os.sep}{path}.py", os.path.join(f"{os.sep}{path}", "__init__.py"))
        of_that_name = [file for file in self._by_stem.get(path.rpartition(os.sep)[2], ()) if file.endswith(ends)]
        by_root = {file: root_of(file, dotted) for file in of_that_name}
        if by_root and self._changes_path(importer):
            found = [file for file in by_root if file.startswith(os.path.dirname(folder) + os.sep)]
        else:
            found = [file for file, home in by_root.items() if folder.startswith(home + os.sep)]
        return found or [file for file, home in by_root.items() if self._installs(home, root)]

    def _is_here(self, name: str) -> bool:
        """Whether an import that begins with a name can be one of a file of the tree."""
        return name in self._names and name != _LEFT_BEHIND

    def _resolve(self, dotted: str, importer: str) -> str | None:
        root = dotted.partition(".")[0]
        if root and not self._is_here(root) and not self._is_renamed(root, importer):
            return None
        key = os.path.dirname(importer), dotted
        if key not in self._resolved:
            self._resolved[key] = resolve_import.resolve(dotted, importer, self._files, self._roots)
        return self._resolved[key]

    def _is_renamed(self, package: str, importer: str) -> bool:
        """Whether a package, or a part of it, is declared to be in a folder of another name."""
        homes = (os.path.dirname(importer), *self._roots)
        declared = {name.partition(".")[0] for home in homes for name in package_dirs(home, tuple(self._roots))}
        return package in declared

    def _installs(self, folder: str, package: str) -> bool:
        key = folder, package
        if key not in self._installed:
            self._installed[key] = installs(folder, package)
        return self._installed[key]

    def _changes_path(self, importer: str) -> bool:
        """Whether a file, or one that it imports (`import _init_paths`), changes where Python looks for modules."""
        if importer not in self._searching:
            text = self.texts[importer]
            imported = (self._resolve(dotted, importer) for dotted in text.imported)
            self._searching[importer] = text.changes_path or any(
                target is not None and self.texts[target].changes_path for target in imported
            )
        return self._searching[importer]


def _stem(file: str) -> str:
    """The name by which a file is imported: a package's is that of its folder."""
    folder, name = os.path.split(file)
    stem = os.path.splitext(name)[0]
    return os.path.basename(folder) if stem == "__init__" else stem


def root_of(file: str, dotted: str) -> str:
    """The folder from which an import of `dotted` finds a file."""
    return file[: file.rindex(os.sep + dotted.replace(".", os.sep))]
