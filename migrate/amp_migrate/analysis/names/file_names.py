"""What a name or a dotted path stands for, as the full name of the thing imported.

A name has one meaning only where every way it can be bound agrees; anything else is `UNKNOWN`, and nobody rewrites it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias, cast

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted, packages_of
from amp_migrate.analysis.names.elsewhere import Elsewhere, Nowhere
from amp_migrate.analysis.names.scopes import Scopes
from amp_migrate.analysis.names.versions import outcome
from amp_migrate.tables.apex_names import AMP, API, AS_REGISTERED, SHIM
from amp_migrate.tables.signatures import FORMS, OLDEST, Version, forms, parameters
from amp_migrate.tables.star_names import OF_TORCH_AMP, TORCH_AMP_PACKAGES, brings
from amp_migrate.trees.nodes import find, walk
from amp_migrate.trees.own_calls import argument
from amp_migrate.trees.tree import Tree

UNKNOWN = ""
# What each value stands for that the question about one name has come by.
_Seen: TypeAlias = "dict[cst.CSTNode, frozenset[str]]"
# Torch's other packages, and Python's own, do not bring these names; anybody else's may.
_WITHOUT_AMP = frozenset({"torch", *sys.stdlib_module_names})
_IMPORTS = (cst.Import, cst.ImportFrom)
_APEX_PACKAGES = (AMP, f"{SHIM}.amp")
# What Apex's `amp` has, and PyTorch's has not.
_OF_APEX = API | {"disable_casts", "float_function", "half_function", "promote_function", *AS_REGISTERED}
_AMP_PACKAGES = ("torch.cuda.amp.", "torch.cpu.amp.", "torch.amp.")


class Names:
    """Full names of the expressions of one tree."""

    def __init__(
        self,
        tree: Tree,
        scopes: Scopes,
        target_torch: Version = OLDEST,
        elsewhere: Elsewhere | None = None,
        given: Mapping[cst.CSTNode, str] | None = None,
    ) -> None:
        """
        Args:
            target_torch: the oldest PyTorch that the file is read for.
            elsewhere: what other files of the project hand on.
            given: the full names that all callers pass for a parameter.
        """
        self.tree = tree
        self.scopes = scopes
        self.target_torch = target_torch
        self._elsewhere = elsewhere or Nowhere()
        self.given = given or {}
        self._known: dict[cst.CSTNode, frozenset[str]] = {}
        self._outcomes: dict[cst.CSTNode, bool | None] = {}
        self._overwritten: dict[tuple[str, cst.CSTNode], bool] = {}
        self._attributes: dict[cst.ClassDef, dict[str, list[cst.BaseExpression | None]]] = {}

    def with_given(self, parameter: cst.Param, full: str) -> Names:
        """The names in the light of what all callers pass for one more parameter."""
        given = {**self.given, parameter: full}
        return Names(self.tree, self.scopes, self.target_torch, self._elsewhere, given)

    def meanings(self, node: cst.CSTNode) -> frozenset[str]:
        """Every full name a name or attribute chain may stand for; `UNKNOWN` among them where one is not an import."""
        if node not in self._known:
            self._known[node] = frozenset({UNKNOWN})  # for what asks for itself: `m = m.module` in a handler
            self._known[node] = self._meanings(node, {})
        return self._known[node]

    def full(self, node: cst.CSTNode) -> str:
        """The one full name of a name or attribute chain (`torch.cuda.amp.autocast`), or `UNKNOWN`."""
        found = self.meanings(node)
        return next(iter(found)) if len(found) == 1 else UNKNOWN

    def callee(self, call: cst.CSTNode | None) -> str:
        """The full name of what a call calls; `UNKNOWN` for anything that is not a call of an imported name."""
        return self.full(call.func) if isinstance(call, cst.Call) else UNKNOWN

    def argument(self, call: cst.Call, name: str) -> cst.BaseExpression | None:
        """What a call of PyTorch's passes for a parameter, by name or by place; None where nobody can tell, too."""
        taken = parameters(self.callee(call))
        return argument(call, name, taken.index(name) if name in taken else None)

    def exported(self, name: str, *, has_torch: bool) -> frozenset[str]:
        """Every full name that another file may get from this one as `name`; none where nothing brings it.

        Args:
            has_torch: whether that file cannot run without torch, so that nothing stands in for it here.
        """
        has_torch = has_torch or self.has_torch
        if not self.scopes.module.lookup(name):
            return frozenset(self._by_star(name, has_torch=has_torch))
        return self._of_path(name, self.tree.module, {}, has_torch=has_torch)

    def brought(self, binding: Binding, *, has_torch: bool = False) -> frozenset[str]:
        """Every full name that an import may bring: what it names, or what the file that it names hands on."""
        if binding.imported.startswith("torch."):
            return frozenset({binding.imported})
        return self._elsewhere.meanings(binding.imported, has_torch=has_torch or self.has_torch)

    def _meanings(self, node: cst.CSTNode, seen: _Seen) -> frozenset[str]:
        if isinstance(node, cst.Attribute):
            path = dotted(node)
            if path is not None and self.scopes.of(node).lookup(path):  # `self.amp = torch.cuda.amp`
                return self._of_path(path, node, seen, has_torch=self.has_torch)
            package = self._package_held(path or "", node)
            if package is not None:
                return frozenset({package})
            found: set[str] = set()
            for base in _having(self._meanings(node.value, seen), node.attr.value):
                full = f"{base}.{node.attr.value}" if base else UNKNOWN
                is_own = not base or base.partition(".")[0] == "torch"
                found |= {full} if is_own else self._elsewhere.meanings(full, has_torch=self.has_torch)
            return frozenset(found)
        if isinstance(node, cst.Name):
            return self._of_path(node.value, node, seen, has_torch=self.has_torch)
        return frozenset({UNKNOWN})

    def _package_held(self, path: str, node: cst.CSTNode) -> str | None:
        """The package of AMP that every method of a class puts into an attribute: `self.amp = torch.cuda.amp`."""
        owner = self.tree.owner_class(node) if path.startswith("self.") and path.count(".") == 1 else None
        if owner is None:
            return None
        if owner not in self._attributes:
            values = self._attributes[owner] = defaultdict(list)
            for method in find(owner.body, cst.FunctionDef):
                for name, bindings in self.scopes.inside(method).bindings.items():
                    if name.startswith("self."):
                        values[name] += [binding.value for binding in bindings]
        held = {
            self.full(value) if isinstance(value, (cst.Name, cst.Attribute)) else UNKNOWN
            for value in self._attributes[owner].get(path, ())
        }
        return held.pop() if len(held) == 1 and held <= set(TORCH_AMP_PACKAGES) else None

    def _of_path(self, path: str, node: cst.CSTNode, seen: _Seen, *, has_torch: bool) -> frozenset[str]:
        found: set[str] = set()
        for binding in self.scopes.of(node).lookup(path):
            if self._is_dead(path, binding, has_torch=has_torch):
                continue
            if binding.kind is BindingKind.IMPORT:
                found |= self.brought(binding, has_torch=has_torch)
            elif binding.kind is BindingKind.ASSIGNMENT and isinstance(binding.value, (cst.Name, cst.Attribute)):
                if binding.value not in seen:  # once, however many ways lead to it: names may be exchanged in turn
                    seen[binding.value] = frozenset({UNKNOWN})  # for what leads back to itself
                    seen[binding.value] = self._meanings(binding.value, seen)
                found |= seen[binding.value]
            elif binding.node in self.given:
                found.add(self.given[binding.node])
            else:
                found.add(UNKNOWN)
        return frozenset(found or self._by_star(path, has_torch=has_torch) or {UNKNOWN})

    def _by_star(self, name: str, *, has_torch: bool) -> set[str]:
        """What a name that nothing binds may be through the star imports of the file.

        Who brings `torch` has imported it, whoever that is.
        """
        found: set[str] = set()
        for origin in self.scopes.module.star_imports:
            brought = self._elsewhere.by_star(origin, name, has_torch=has_torch)
            if brought is not None:
                found |= brought
            elif brings(origin, name):
                found.add(f"{origin}.{name}")
            elif brings(origin, name) is None and origin.partition(".")[0] not in _WITHOUT_AMP:
                found.add(name if name == "torch" else UNKNOWN)
        return found

    def outcome(self, choice: cst.If | cst.IfExp) -> bool | None:
        """Which way a test of PyTorch's version always goes; None for every other test."""
        if choice not in self._outcomes:
            self._outcomes[choice] = None  # while it is worked out: a name in it may be bound behind it
            self._outcomes[choice] = outcome(self, choice.test, self.target_torch)
        return self._outcomes[choice]

    def is_never_run(self, node: cst.CSTNode) -> bool:
        """Whether a node stands on the side of a test of PyTorch's version that is never taken."""
        inside = node
        for ancestor in self.tree.ancestors(node):
            if type(ancestor) in (cst.If, cst.IfExp):
                choice = cast("cst.If | cst.IfExp", ancestor)
                taken = None if inside is choice.test else self.outcome(choice)
                if taken is not None and taken is not (inside is choice.body):
                    return True
            inside = ancestor
        return False

    def is_overwritten(self, name: str, statement: cst.CSTNode) -> bool:
        """Whether the module imports something else by a name that a statement imports, before anything says it."""
        key = (name, statement)
        if key not in self._overwritten:
            self._overwritten[key] = self._find_overwritten(name, statement)
        return self._overwritten[key]

    def _find_overwritten(self, name: str, statement: cst.CSTNode) -> bool:
        bound = self.scopes.module.bindings.get(name, ())
        imports = [each.node for each in bound if each.kind is BindingKind.IMPORT]
        tree = self.tree
        brings_all = isinstance(statement, cst.ImportFrom) and isinstance(statement.names, cst.ImportStar)
        is_of_module = (brings_all or statement in imports) and self.scopes.of(statement) is self.scopes.module
        later = [
            node
            for node in (imports if is_of_module else ())
            if tree.order[node] > tree.order[statement] and tree.block(tree.statement(node)) is tree.module
        ]
        return bool(later) and self._said_at.get(name, tree.order[later[0]]) >= tree.order[later[0]]

    @cached_property
    def _said_at(self) -> dict[str, int]:
        """The first place that says each name, but for imports."""
        found: dict[str, int] = {}
        for node in self.tree.every(cst.Name):
            if node.value not in found and not isinstance(self.tree.statement(node), _IMPORTS):
                found[node.value] = self.tree.order[node]
        return found

    def _is_dead(self, name: str, binding: Binding, *, has_torch: bool) -> bool:
        """Whether a binding stands in for what torch has: in the branch for another version, or in a handler."""
        bindings = self.scopes.of(binding.node).lookup(name)
        if len(bindings) < 2:
            return False
        if self.is_never_run(binding.node) or self.is_overwritten(name, binding.node):
            return True
        handler = next((a for a in self.tree.ancestors(binding.node) if isinstance(a, cst.ExceptHandler)), None)
        guard = None if handler is None else self.tree.parents[handler]
        if not isinstance(guard, cst.Try) or not any(
            self._is_there(self._full_of(other)) and guard.body in self.tree.ancestors(other.node) for other in bindings
        ):
            return False
        others = (packages_of(each) - {"torch"} for each in walk(guard.body))  # what may be missing beside torch
        return (has_torch or binding.imported.startswith("torch.")) and not any(others)

    def _is_there(self, full: str) -> bool:
        """Whether the PyTorch that the file is read for has something of torch's AMP packages."""
        is_amp = f"{full}.".startswith(_AMP_PACKAGES)
        return is_amp and (full not in FORMS or bool(forms(full, self.target_torch)))

    def _full_of(self, binding: Binding) -> str:
        """The full name of what a binding brings by itself: an import, or `autocast = torch.cuda.amp.autocast`."""
        if binding.kind is BindingKind.ASSIGNMENT and isinstance(binding.value, cst.Attribute):
            return self.full(binding.value)
        brought = self.brought(binding) if binding.kind is BindingKind.IMPORT else frozenset()
        return next(iter(brought)) if len(brought) == 1 else UNKNOWN

    @cached_property
    def has_torch(self) -> bool:
        """Whether the file imports torch where nothing provides for its absence."""
        return any(
            binding.imported.partition(".")[0] == "torch"
            and not any(isinstance(a, (cst.Try, cst.If)) for a in self.tree.ancestors(binding.node))
            for bindings in self.scopes.module.bindings.values()
            for binding in bindings
            if binding.kind is BindingKind.IMPORT
        )


def _having(packages: frozenset[str], name: str) -> frozenset[str]:
    """The packages that may be meant where a name is asked of one: `amp` may be PyTorch's or Apex's, as is chosen."""
    torch, apex = packages.intersection(TORCH_AMP_PACKAGES), packages.intersection(_APEX_PACKAGES)
    if not torch or not apex:
        return packages
    return packages - apex if name in OF_TORCH_AMP else packages - torch if name in _OF_APEX else packages
