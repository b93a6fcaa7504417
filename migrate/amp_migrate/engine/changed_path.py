"""What scripts import from folders that they, or the scripts that run them, put on `sys.path`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import cached_property

from amp_migrate.engine.imports import imported_modules

_PATH = "sys.path"


class ChangedPath:
    """Finds such modules among some files, by their names alone: what is put on the path is worked out at run time.

    Args:
        files: the real paths that may be answered.
        read: gives the text of a file, and nothing of one that cannot be read.
    """

    def __init__(self, files: Collection[str], read: Callable[[str], str]) -> None:
        self._files = files
        self._read = read
        self._is_changed: dict[str, bool] = {}

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self._files)

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for file in self._files:
            found.setdefault(_stem(file), []).append(file)
        return found

    def named(self, dotted: str) -> list[str]:
        """The files that an absolute import may name, whatever folder it is found in."""
        path = dotted.replace(".", os.sep)
        ends = (f"{os.sep}{path}.py", os.path.join(f"{os.sep}{path}", "__init__.py"))
        return [file for file in self._by_stem.get(path.rpartition(os.sep)[2], ()) if file.endswith(ends)]

    def is_changed_by(self, importer: str, text: str) -> bool:
        """Whether a script changes where Python looks for modules, itself or by a helper beside it.

        Args:
            text: the text of the file `importer`.
        """
        if importer not in self._is_changed:
            folder = os.path.dirname(importer)
            helpers = (os.path.join(folder, f"{name}.py") for name in imported_modules(text) if "." not in name)
            self._is_changed[importer] = _PATH in text or any(
                _PATH in self._read(helper) for helper in helpers if helper in self._known
            )
        return self._is_changed[importer]

    def resolve(self, dotted: str, importer: str) -> str | None:
        """The one file that `dotted` can name in `importer`, from a folder above it, or on a path that it changes.

        A module two folders deep may be run by a script further up, whose folder is on the path then.
        """
        if dotted.startswith("."):
            return None
        folder = os.path.dirname(importer)
        roots = {file: root_of(file, dotted) for file in self.named(dotted)}
        near = [file for file, root in roots.items() if _is_below(folder, os.path.dirname(root))]
        if len(near) != 1:
            return None
        is_found = _is_below(folder, roots[near[0]]) or self.is_changed_by(importer, self._read(importer))
        return near[0] if is_found else None


def root_of(file: str, dotted: str) -> str:
    """The folder from which an import of `dotted` finds a file."""
    return file[: file.rindex(os.sep + dotted.replace(".", os.sep))]


def _is_below(folder: str, above: str) -> bool:
    return folder == above or folder.startswith(above.rstrip(os.sep) + os.sep)


def _stem(file: str) -> str:
    """The name by which a file is imported: a package's is that of its folder."""
    folder, name = os.path.split(file)
    stem = os.path.splitext(name)[0]
    return os.path.basename(folder) if stem == "__init__" else stem
