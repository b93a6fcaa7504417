"""The packages that are installed where a project runs: read where a program reaches them, and never changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.engine.imports.imports_of_text import imported_modules
from amp_migrate.engine.parts.work import Work, count
from amp_migrate.engine.source import Source, SourceError, display_name
from amp_migrate.environment import Environment
from amp_migrate.tables.torch_names import KNOWN_BY_NAME

_MOST_BYTES = 4 * 2**20
# What a package computes with PyTorch shows in a file that imports it, near to what is imported of the package. What
# asks for it in a function, or by a name, only takes tensors as well.
_TORCH = re.compile(r"^(?:try:[ \t]*\n[ \t]+)?(?:import|from)[ \t]+torch\b", re.MULTILINE)
_MOST_LOOKED_AT = 300


class Packages:
    """Answers which file of an environment an import loads.

    Packages of which it is known by their names what they do are not among them, and none without PyTorch.

    Args:
        environment: None where nobody has said which: then there are none.
    """

    def __init__(self, environment: Environment | None = None) -> None:
        self._environment = environment
        self._editable = dict(environment.editable) if environment else {}
        self._packages: dict[str, str] = {}
        self._sources: dict[str, Source | None] = {}
        self._computing: dict[str, bool] = {}
        self._stems: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return self._environment is not None

    def has(self, file: str) -> bool:
        """Whether a file is one of those that were found here."""
        return file in self._packages

    def shown(self, file: str) -> str:
        """A file as a reader knows it: by its package, `vit_pytorch/vit.py`."""
        return f"{self._packages[file].rpartition('/')[2]}{file.removeprefix(self._packages[file])}"

    def locate(self, dotted: str, importer: str) -> str | None:
        """The file that `import dotted` (`.engine` if relative) in a file loads; None for what is not followed into."""
        name = dotted.lstrip(".")
        level = len(dotted) - len(name)
        if level:
            home = importer if self.has(importer) else ""
            for _ in range(level):
                home = os.path.dirname(home)
            found = _file_at(os.path.join(home, *name.split("."))) if name and home else _file_at(home)
            return found and self._noted(found, self._packages[importer])
        top, *parts = name.split(".")
        for stem in self._stems_of(top):
            found = _file_at(os.path.join(stem, *parts))
            if found is not None:
                is_own = self.has(importer) and self._packages[importer] == stem
                return self._noted(found, stem) if is_own or self._computes(found, stem) else None
        return None

    def source(self, file: str) -> Source | None:
        """A file that was found; None where it cannot be read."""
        if file not in self._sources:
            self._sources[file] = _read(file)
        return self._sources[file]

    def _noted(self, file: str, stem: str) -> str:
        self._packages.setdefault(file, stem)
        return file

    def _stems_of(self, top: str) -> tuple[str, ...]:
        """Where a package or module of a name is; of one without an `__init__.py`, all the folders that it is in."""
        if top not in self._stems:
            self._stems[top] = tuple(self._found(top)) if self._environment and top not in KNOWN_BY_NAME else ()
        return self._stems[top]

    def _found(self, top: str) -> Iterator[str]:
        if top in self._editable:
            yield display_name(Path(self._editable[top]))
            return
        assert self._environment is not None
        for folder in self._environment.folders:
            stem = f"{display_name(Path(folder))}/{top}"
            if _file_at(stem) is not None:
                yield stem
                return
            if os.path.isdir(stem):
                yield stem

    def _computes(self, file: str, stem: str) -> bool:
        """Whether a file imports PyTorch, or what it imports of its own package does."""
        if file not in self._computing:
            seen, waiting = {file: None}, [file]
            is_found = False
            while waiting and not is_found and len(seen) < _MOST_LOOKED_AT:
                at = waiting.pop(0)
                source = self.source(at)
                is_found = source is not None and _TORCH.search(source.text) is not None
                for each in self._own_imports(at, source, stem) if source is not None and not is_found else ():
                    if each not in seen:
                        seen[each] = None
                        waiting.append(each)
            self._computing |= {file: True} if is_found else dict.fromkeys(seen, False)
        return self._computing[file]

    @staticmethod
    def _own_imports(file: str, source: Source, stem: str) -> Iterator[str]:
        for dotted in imported_modules(source.text):
            name = dotted.lstrip(".")
            home = file if dotted != name else stem
            for _ in range(max(len(dotted) - len(name), dotted == name)):
                home = os.path.dirname(home)
            found = _file_at(os.path.join(home, *name.split(".")))
            if found is not None and found.startswith(f"{stem}/"):
                yield found


def _file_at(stem: str) -> str | None:
    """The file of a package or module; a package wins over a module of its name, as in the import system."""
    return next((each for each in (f"{stem}/__init__.py", f"{stem}.py") if os.path.isfile(each)), None)


def _read(file: str) -> Source | None:
    path = Path(file)
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else None
        count(Work.PACKAGES)
        return None if data is None else Source.decode(data, path, file)
    except (OSError, SourceError):
        return None
