"""What the other files of a project hand on to one file, found out as far as it is asked for."""

from __future__ import annotations

import builtins
import re
from functools import cache
from typing import Protocol

from amp_migrate.analysis.bindings import module_and_name
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.elsewhere import is_followed
from amp_migrate.analysis.names.file_names import UNKNOWN
from amp_migrate.tables.star_names import OF_TORCH_AMP

# A name that is none of these is followed from where it is made of one of them, not through further imports.
_WORDS = frozenset({"torch", "cuda", "cpu", "amp", "autocast_mode", "grad_scaler", *OF_TORCH_AMP})
_WORD = rf"(?:amp|autocast_mode|grad_scaler|{'|'.join(OF_TORCH_AMP)})\b"
_ASSIGNED = re.compile(rf"^[ \t]*((?:\w+[ \t]*=[ \t]*)+)(?:\w+\.)*{_WORD}", re.MULTILINE)
_RENAMED = re.compile(rf"\b{_WORD}[ \t]+as[ \t]+(\w+)")
_FROM_TORCH = re.compile(
    r"^[ \t]*(?:from[ \t]+torch[\w.]*[ \t]+import[ \t]*(\([^)]*\)|.*)|import[ \t]+torch[\w.]*[ \t]+as[ \t]+(\w+))",
    re.MULTILINE,
)
_STAR = re.compile(r"\bimport[ \t]*\*")


class ModuleFinder(Protocol):
    """The files that can be asked for."""

    def module(self, dotted_name: str, importer: File) -> File | None:
        """The file that `import dotted_name` in `importer` loads; None where it is not one of the project's."""

    def text(self, dotted_name: str, importer: File) -> str | None:
        """The text of that file, which need not be parsed for it."""


class Neighbours:
    """Implements `amp_migrate.analysis.names.elsewhere.Elsewhere` for one file of a library."""

    def __init__(self, library: ModuleFinder, importer: File) -> None:
        self._library = library
        self._importer = importer
        self._known: dict[tuple[str, bool], frozenset[str]] = {}
        self._by_star: dict[tuple[str, str, bool], frozenset[str] | None] = {}

    def meanings(self, full: str, *, has_torch: bool) -> frozenset[str]:
        """The full names that an imported name (`.compat.autocast`) may stand for: itself, if it is not handed on."""
        key = full, has_torch
        if key not in self._known:
            self._known[key] = frozenset({full})  # for files that import each other in a circle
            module, name = module_and_name(full)
            file = self._holder(module, name) if module else None
            found = frozenset() if file is None else file.names.exported(name, has_torch=has_torch)
            if any(map(is_followed, found)):
                self._known[key] = found
        return self._known[key]

    def by_star(self, module: str, name: str, *, has_torch: bool) -> frozenset[str] | None:
        """What a star import of a module brings as `name`: nothing at all, or its meanings; None if nobody knows."""
        key = module, name, has_torch
        if key not in self._by_star:
            self._by_star[key] = frozenset()
            self._by_star[key] = self._find_by_star(module, name, has_torch=has_torch)
        return self._by_star[key]

    def _find_by_star(self, module: str, name: str, *, has_torch: bool) -> frozenset[str] | None:
        text = self._library.text(module, self._importer)
        if text is None:
            return None
        if not (_may_hand_on(text, name) or _may_bring(text, name)):
            return frozenset({UNKNOWN}) if name in text else frozenset()  # what else it may be is not worth a parse
        file = self._library.module(module, self._importer)
        if file is None or not _is_public(file, name):
            return frozenset()
        return file.names.exported(name, has_torch=has_torch)

    def _holder(self, module: str, name: str) -> File | None:
        """The file that a module is, if it may hold a name that is followed."""
        text = self._library.text(module, self._importer)
        return self._library.module(module, self._importer) if text is not None and _may_hand_on(text, name) else None


def _may_hand_on(text: str, name: str) -> bool:
    """Whether a text may bind a name to something of AMP, or to torch: what else it has is not worth a parse."""
    if name in _WORDS:
        return name in text or _STAR.search(text) is not None
    return name in _made_of_amp(text) or name in _of_torch(text)


def _may_bring(text: str, name: str) -> bool:
    """Whether a star import of a text may bring something of torch by a name, or what a star of its own brings."""
    return name in _of_torch(text) or (_STAR.search(text) is not None and not hasattr(builtins, name))


@cache
def _of_torch(text: str) -> frozenset[str]:
    """The names that a text gives to what it imports from torch."""
    return frozenset(name for match in _FROM_TORCH.finditer(text) for name in re.findall(r"\w+", match[1] or match[2]))


@cache
def _made_of_amp(text: str) -> frozenset[str]:
    """The names of their own that a text gives to something of AMP."""
    assigned = (name for match in _ASSIGNED.finditer(text) for name in re.findall(r"\w+", match[1]))
    return frozenset({*_RENAMED.findall(text), *assigned})


def _is_public(file: File, name: str) -> bool:
    """Whether a star import of a file brings a name, or may bring it through star imports of its own."""
    module = file.scopes.module
    listed = module.bindings.get("__all__")
    if listed:
        return any(quoted in file.tree.code(each.node) for each in listed for quoted in (f'"{name}"', f"'{name}'"))
    return not name.startswith("_") and (name in module.bindings or bool(module.star_imports))
