"""What becomes of the imports of Apex once the uses of what they bring are decided.

An item that nothing uses goes; what Apex has deleted comes from `amp_shim`; what Apex still has stays with Apex, unless
the shim is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source, local_name
from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import is_within
from amp_migrate.steps.apex.uses.apex_calls import is_in, wrapper_calls
from amp_migrate.steps.apex.uses.apex_guards import guard_of, is_only_import
from amp_migrate.tables.apex_names import AMP, DELETED, FP16_UTILS, SERVED, WITHDRAWN, WRAPPERS
from amp_migrate.tables.apex_natives import public_name
from amp_migrate.tables.shim_names import in_shim, shim_has
from amp_migrate.tables.star_names import BY_STAR
from amp_migrate.trees.nodes import block_of, statements

ImportStatement = cst.Import | cst.ImportFrom
# The extensions that Apex has its kernels in.
_EXTENSIONS = ("amp_C", "apex_C")
_ROOTS = ("apex", *_EXTENSIONS)


class Fate(Enum):
    """What becomes of one item of an import."""

    GONE = "gone"
    SHIM = "shim"
    STAYS = "stays"
    PROVIDED_FOR = "provided for"  # stays, and the code does without it where it is missing


@frozen
class Item:
    """One item of an import of Apex.

    Attributes:
        index: its place in the statement; -1 for a star.
        full: what it brings, with the package inside Apex that it is in.
        fate: what becomes of it.
        is_unused: whether nothing uses what it brings.
    """

    index: int
    full: str
    fate: Fate
    is_unused: bool = False

    @property
    def is_deleted(self) -> bool:
        """Whether Apex has it no more."""
        return is_in(self.full, (*DELETED, *WITHDRAWN))


class ApexImports:
    """The imports of Apex in one file.

    Args:
        converted: the names and chains that are something else now.
        dropped: the branches that go, with all that is in them.
        amp_is_gone: whether all uses of `apex.amp` go away.
        living_too: whether the shim is asked for in the place of what Apex still has.
        probes: what becomes of a deleted import that is only there to see whether Apex is.
    """

    def __init__(
        self,
        file: File,
        project: Project,
        converted: Collection[cst.CSTNode],
        dropped: Collection[cst.CSTNode],
        *,
        amp_is_gone: bool,
        living_too: bool,
        probes: Fate,
    ) -> None:
        self.file = file
        self.project = project
        self.converted = converted
        self._dropped = dropped
        self.amp_is_gone = amp_is_gone
        self._living_too = living_too
        self._probes = probes

    def statements(self) -> Iterator[tuple[ImportStatement, tuple[Item, ...]]]:
        """The statements that import something of Apex, with their items of Apex; `import apex` has its chains."""
        for node in self.file.tree.every(cst.Import, cst.ImportFrom):
            if self.file.names.is_never_run(node):
                continue
            if isinstance(node, cst.Import):
                items = [i for index, alias in enumerate(node.names) for i in self._of_package(node, index, alias)]
            elif not node.relative and is_in(import_source(node), _ROOTS):
                items = list(self._of_names(node))
            else:
                continue
            if items:
                yield node, tuple(items)

    def _of_names(self, node: cst.ImportFrom) -> Iterator[Item]:
        origin = import_source(node)
        if isinstance(node.names, cst.ImportStar):
            yield self._star(node, origin)
            return
        for index, alias in enumerate(node.names):
            yield self._item(node, index, f"{origin}.{dotted(alias.name)}", local_name(alias))

    def _star(self, node: cst.ImportFrom, origin: str) -> Item:
        """The item of a star, which goes where all goes that something may take of what it brings."""
        names = [name for name in BY_STAR.get(origin, ()) if not self.file.names.is_overwritten(name, node)]
        taken = [n for n in names if n in self.file.uses or is_exported(self.project, self.file, n)]
        items = [self._item(node, -1, f"{origin}.{name}", name) for name in taken]
        if origin in BY_STAR and all(item.fate is Fate.GONE for item in items):
            return Item(-1, origin, Fate.GONE, is_unused=not taken)
        return Item(-1, origin, Fate.SHIM if self._is_served(origin) else Fate.STAYS)

    def _is_served(self, full: str) -> bool:
        """Whether the shim answers for a name: for all that it has, or for what Apex has deleted of that."""
        public = public_name(full)
        module, _, name = full.rpartition(".")
        is_there = is_in(public, SERVED) and (shim_has(in_shim(full)) or shim_has(f"{in_shim(module)}.{name}"))
        return is_there and (self._living_too or is_in(public, DELETED))

    def _of_package(self, node: cst.Import, index: int, alias: cst.ImportAlias) -> Iterator[Item]:
        full = dotted(alias.name) or ""
        if not is_in(full, _ROOTS):
            return
        if full == "apex" or (
            alias.asname is None and full not in _EXTENSIONS
        ):  # binds `apex`, and the packages follow in chains
            local = "apex" if alias.asname is None else local_name(alias)
            named = ".".join(full.split(".")[:2])
            if self._is_unused(node, local):
                yield Item(index, named, self._fate_of_unused(node, named), is_unused=True)
                return
            chains: dict[str, list[cst.CSTNode]] = {} if named == "apex" else {named: []}
            for top in self._tops(local, "apex"):
                chains.setdefault(self._package(top), []).append(top)
            for package, tops in sorted(chains.items()):
                yield Item(index, package, self._fate(package, tops, frozenset({package}), exported=False))
        else:
            yield self._item(node, index, full, local_name(alias))

    def _item(self, node: ImportStatement, index: int, full: str, local: str) -> Item:
        if self._is_unused(node, local):
            return Item(index, public_name(full), self._fate_of_unused(node, full), is_unused=True)
        tops = list(self._tops(local, full))
        meanings = frozenset(m for use in self.file.uses.get(local, ()) for m in self._meanings(use, full))
        goes = self.amp_is_gone and full == AMP  # from all files of the script that take it from this one, too
        exported = not goes and is_exported(self.project, self.file, local)
        fate = self._fate(full, tops, meanings, exported=exported)
        return Item(index, public_name(full), fate)

    def _is_unused(self, node: ImportStatement, local: str) -> bool:
        """Whether nothing takes a name that an import brings, here or elsewhere; what a package has is for others."""
        if self.file.names.is_overwritten(local, node):
            return True
        is_package = self.file.name.rpartition("/")[2] == "__init__.py"
        return not (is_package or self._is_named(node, local) or is_exported(self.project, self.file, local))

    def _is_named(self, node: ImportStatement, local: str) -> bool:
        """Whether something may take what an import brings here: by its name, or as an attribute of its class."""
        home = self.file.scopes.of(node).find(local)
        return any(
            self.file.scopes.of(use).find(local) is home if isinstance(use, cst.Name) else bool(home and home.is_class)
            for use in self.file.uses.get(local, ())
        )

    def _fate_of_unused(self, node: ImportStatement, full: str) -> Fate:
        """What becomes of an import whose name nothing uses: it goes, unless it is there to see whether Apex is."""
        guard = guard_of(self.file, node)
        is_of_amp = self.amp_is_gone and is_in(public_name(full), self._gone_packages())
        if is_of_amp or guard is None or is_only_import(guard) or self._has_used_import(guard):
            return Fate.GONE
        return self._probes if full == "apex" or is_in(full, DELETED) else Fate.PROVIDED_FOR

    def _has_used_import(self, guard: cst.Try) -> bool:
        """Whether a `try` imports something else of Apex that is used, and so sees by that whether Apex is there."""
        for node in statements(block_of(guard)):
            if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
                is_used = any(self._is_named(node, local_name(alias)) for alias in node.names)
                if is_used and is_in(import_source(node), _ROOTS):
                    return True
        return False

    def _fate(self, full: str, tops: list[cst.CSTNode], meanings: frozenset[str], *, exported: bool) -> Fate:
        is_of_amp = self.amp_is_gone and is_in(public_name(full), self._gone_packages())
        if (tops or is_of_amp) and not exported and all(self._is_gone(top) for top in tops):
            return Fate.GONE
        if not is_in(full, DELETED) and (len(meanings) > 1 or not (tops or is_in(public_name(full), SERVED))):
            return Fate.PROVIDED_FOR
        return Fate.SHIM if self._is_served(full) else Fate.STAYS

    def _is_gone(self, top: cst.CSTNode) -> bool:
        """Whether the longest chain that begins with a name, or a part of it, is something else now."""
        if is_within(self.file.tree, top, self._dropped):
            return True
        node: cst.CSTNode | None = top
        while node is not None:
            if node in self.converted:
                return True
            meanings = map(public_name, self.file.names.meanings(node))
            if self.amp_is_gone and any(is_in(name, self._gone_packages()) for name in meanings):
                return True
            node = node.value if isinstance(node, cst.Attribute) else None
        return False

    def _gone_packages(self) -> tuple[str, ...]:
        """What goes with the steps of a file; of a script with a wrapper, nothing of its package is left."""
        return (AMP, FP16_UTILS, *WRAPPERS) if wrapper_calls(self.file) else (AMP,)

    def _tops(self, local: str, full: str) -> Iterator[cst.CSTNode]:
        """The longest chains of attributes on the uses of a name that an import brings."""
        for node in self.file.uses.get(local, ()):
            is_given = self.file.tree.is_target(node)  # `DDP = None` where Apex is missing
            if is_given or not isinstance(node, cst.Name) or full not in self.file.names.meanings(node):
                continue
            top: cst.CSTNode = node
            while isinstance(self.file.tree.parents[top], cst.Attribute):
                top = self.file.tree.parents[top]
            yield top

    def _meanings(self, node: cst.CSTNode, full: str) -> frozenset[str]:
        found = self.file.names.meanings(node)
        return found if full in found else frozenset()

    def _package(self, top: cst.CSTNode) -> str:
        """`apex.parallel` for a chain `apex.parallel.DistributedDataParallel`."""
        chain = dotted(top) or "apex"
        return ".".join(["apex", *chain.split(".")[1:2]])
