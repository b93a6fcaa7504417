"""How a full name is written at a place, with the names that are bound there."""

from __future__ import annotations

from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.names.file_names import Names
from amp_migrate.analysis.names.scopes import Scope
from amp_migrate.trees.nodes import BLOCK_TYPES, is_constant


class Spelling:
    """Finds the names that stand for something in one file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tree = names.tree
        self._scopes = names.scopes

    def local(self, full: str, at: cst.CSTNode) -> str | None:
        """How `full` can be written at a place with the names that are bound there: `th.amp` for `torch.amp`."""
        head, tail = full, ""
        while head:
            name = self._bound_to(head, at)
            if name is not None:
                return name + tail
            head, _, last = head.rpartition(".")
            tail = f".{last}{tail}"
        return None

    def _bound_to(self, full: str, at: cst.CSTNode) -> str | None:
        """A plain name that stands for exactly `full` where `at` is: the function's own first, then the module's."""
        here = self._scopes.of(at)
        scope: Scope | None = here
        while scope is not None:
            for name, bindings in scope.bindings.items():
                is_visible = "." not in name and bool(bindings) and here.find(name) is scope
                if is_visible and self._only_brings(full, bindings) and self._is_bound(bindings, scope, at):
                    return name
            scope = scope.parent
        return self._bound_by_star(full, at)

    def _bound_by_star(self, full: str, at: cst.CSTNode) -> str | None:
        """The last of a name, where star imports at the top bring it so, and the file relies on that already."""
        name, module = full.rpartition(".")[2], self._scopes.module
        if not module.star_imports or self._scopes.of(at).find(name) is not None:
            return None
        imports = [each for each in self._tree.every(cst.ImportFrom) if isinstance(each.names, cst.ImportStar)]
        is_at_top = all(self._tree.common_block([each]) is self._tree.module for each in imports)
        used = [each for each in self._tree.every(cst.Name) if each.value == name and self._names.full(each) == full]
        first = next((each for each in used if not self._tree.is_attribute(each)), None)
        if first is None or not is_at_top or self._names.exported(name, has_torch=True) != {full}:
            return None
        reached = at if self._scopes.of(at) is module and not isinstance(at, cst.Module) else first
        is_above = all(self._tree.order[each] < self._tree.order[reached] for each in imports)
        return name if is_above else None

    def _is_bound(self, bindings: list[Binding], scope: Scope, at: cst.CSTNode) -> bool:
        """Whether an import has run whenever `at` is reached: it is not below it, nor in a branch that may not run."""
        around = {at, *self._tree.ancestors(at)}
        order = self._tree.order
        is_later = scope is self._scopes.of(at) and not isinstance(at, cst.Module)
        for each in bindings:
            branches = takewhile(lambda node: node is not scope.node, self._tree.ancestors(each.node))
            if (
                each.kind is BindingKind.IMPORT
                and all(block in around or self._always_runs(block) for block in branches)
                and not (is_later and order[each.node] > order[at])
            ):
                return True
        return False

    def _always_runs(self, node: cst.CSTNode) -> bool:
        """Whether what stands in a node runs when the node is reached: the body of a `try` does until it fails."""
        return not isinstance(node, BLOCK_TYPES) or isinstance(self._tree.parents[node], (cst.Try, cst.With))

    def _only_brings(self, full: str, bindings: list[Binding]) -> bool:
        """Whether a name is imported as `full`, or is None where that is missing (`torch = None` in a handler)."""
        imports = [binding for binding in bindings if binding.kind is BindingKind.IMPORT]
        others = [binding.value for binding in bindings if binding.kind is not BindingKind.IMPORT]
        last = full.rpartition(".")[2]
        return (
            bool(imports)
            and all(
                each.imported.rpartition(".")[2] == last and self._names.brought(each) == {full} for each in imports
            )
            and all(is_constant(value, "None") for value in others)
        )

    def is_shadowed(self, name: str, at: cst.CSTNode) -> bool:
        """Whether a name, where `at` is, stands for something else than what an import at the top would bring."""
        found = self._scopes.of(at).find(name)
        if found is None or self.local(name, at) is not None:
            return False
        return isinstance(found.node, cst.FunctionDef) or not self._only_brings(name, found.bindings[name])
