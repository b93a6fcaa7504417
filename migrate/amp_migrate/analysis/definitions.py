"""Where a function or class that a name stands for is defined: in the file, or in one that it is imported from."""

from __future__ import annotations

import re
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, module_and_name
from amp_migrate.analysis.files import File
from amp_migrate.analysis.library import Library
from amp_migrate.analysis.names.reaching import left_over, reaching

_Definition: TypeAlias = "tuple[File, cst.CSTNode]"
_STAR_IMPORT = r"\bimport[\s\\(]*\*"
# The names that have been looked for on the way, each with the name of the file.
_Seen: TypeAlias = "frozenset[tuple[str, str]]"


class Definitions:
    """Finds definitions across the files of a project."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def of(self, file: File, name: cst.CSTNode) -> _Definition | None:
        """The function or class that a name stands for, in whichever file it is defined; None if that is in doubt."""
        if isinstance(name, cst.Name):
            bindings = reaching(file.names, name)
            if len(bindings) == 1 and bindings[0].kind in (BindingKind.FUNCTION, BindingKind.CLASS):
                return file, bindings[0].node
            if not bindings:
                return self._from_star(file, name.value)
            first = file.second_names.get(bindings[0].node)
            if len(bindings) == 1 and first is not None and first.value != name.value:
                found = self.of(file, first)
                return found if found is not None and isinstance(found[1], cst.FunctionDef) else None
            if len(bindings) == 1 and len(file.scopes.of(name).lookup(name.value)) > 1 and bindings[0].imported:
                return self._imported(file, bindings[0].imported)  # another thing is called so elsewhere in the file
        full = file.names.full(name)
        return self._imported(file, full) if full else None

    def may_be(self, file: File, name: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether one of several things that a name may stand for is a function or class."""
        bindings = reaching(file.names, name) if isinstance(name, cst.Name) else ()
        if len(bindings) < 2:
            return False
        found = (self._imported(file, each.imported) if each.imported else (file, each.node) for each in bindings)
        return any(each is not None and each[1] is node for each in found)

    def module_of(self, file: File, full: str) -> File | None:
        """The project's file that an imported name is taken from."""
        module, _ = module_and_name(full)
        return self._library.module(module, file) if module else None

    def _imported(self, file: File, full: str, seen: _Seen = frozenset()) -> _Definition | None:
        module = self.module_of(file, full)
        return None if module is None else self._defined_in(module, full.rpartition(".")[2], seen)

    def _defined_in(self, file: File, name: str, seen: _Seen) -> _Definition | None:
        """The same for a name of a module; what leads back to itself is none, but a module within a package."""
        if (file.name, name) in seen:
            return None
        seen |= {(file.name, name)}
        bindings = left_over(file.names, name)
        if len(bindings) == 1 and bindings[0].kind in (BindingKind.FUNCTION, BindingKind.CLASS):
            return file, bindings[0].node
        if len(bindings) == 1 and bindings[0].kind is BindingKind.IMPORT:
            return self._imported(file, bindings[0].imported, seen)
        return None if bindings else self._from_star(file, name, seen)

    def _from_star(self, file: File, name: str, seen: _Seen = frozenset()) -> _Definition | None:
        named = re.compile(rf"\b{re.escape(name)}\b|{_STAR_IMPORT}")
        for origin in file.scopes.module.star_imports:
            text = self._library.text(origin, file)
            module = self._library.module(origin, file) if text is not None and named.search(text) else None
            found = None if module is None else self._defined_in(module, name, seen)
            if found is not None:
                return found
        return None
