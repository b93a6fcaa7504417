"""Imports of deprecated modules: moved as a whole where every use of what they bring moves, so that names stay.

`from torch.cuda.amp import autocast` becomes `from torch.amp import autocast`, and `autocast` keeps its name in the
file; `from torch.cuda import amp` becomes `from torch import amp`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source, local_name
from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit, Imported, Reimport
from amp_migrate.renames.find.surroundings import is_imported, is_only_tested
from amp_migrate.renames.old_modules import NEW_MODULE, OLD_MODULES, OLD_PACKAGES, home, moves_with_module, successor
from amp_migrate.renames.rename import Rename, all_renames, renaming_rules, rule_of
from amp_migrate.settings import Settings
from amp_migrate.tables.star_names import OF_TORCH_AMP
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor


@frozen
class Moves:
    """What becomes of a file's imports.

    Attributes:
        moved: for each import statement, the items that come from the new module.
        dropped: for each import statement, the items that nothing uses any more.
        named: for each star import of which everything that is used moves, what that is.
        kept: the uses whose name stays valid because its import moves.
        exported: items that other files import from this one, and that therefore stay.
        unused: items that move although nothing in the file uses them.
        offered: items that nothing in the file uses, and that files beside it which cannot be seen may import.
        rules: the rule that each statement changes for.
    """

    moved: dict[cst.CSTNode, tuple[cst.ImportAlias, ...]]
    dropped: dict[cst.CSTNode, tuple[cst.ImportAlias, ...]]
    named: dict[cst.ImportFrom, tuple[str, ...]]
    kept: frozenset[cst.CSTNode]
    exported: tuple[tuple[cst.ImportAlias, str], ...]
    unused: tuple[tuple[cst.ImportAlias, str], ...]
    offered: tuple[tuple[cst.ImportAlias, str], ...]
    rules: dict[cst.CSTNode, str]

    @property
    def whole(self) -> frozenset[cst.CSTNode]:
        """The statements of which every item comes from the new module."""
        return frozenset(
            statement
            for statement, items in self.moved.items()
            if isinstance(statement, (cst.Import, cst.ImportFrom))
            and not isinstance(statement.names, cst.ImportStar)
            and len(items) == len(statement.names)
        )


def moves_of(
    file: File,
    project: Project,
    renamed: dict[cst.CSTNode, Rename],
    removed: frozenset[cst.CSTNode],
    wishes: Wishes,
    handed_on: frozenset[str],
) -> Moves:
    """Decide about every import of a deprecated module or name.

    Args:
        renamed: the uses that will be rewritten.
        removed: the uses, and imports, that go away with the code around them.
        wishes: whether an import that nothing uses is to move.
        handed_on: the names that other files take from this one, and whose uses there move as well.
    """
    moved: dict[cst.CSTNode, tuple[cst.ImportAlias, ...]] = {}
    dropped: dict[cst.CSTNode, tuple[cst.ImportAlias, ...]] = {}
    kept: set[cst.CSTNode] = set()
    exported: list[tuple[cst.ImportAlias, str]] = []
    unused: list[tuple[cst.ImportAlias, str]] = []
    offered: list[tuple[cst.ImportAlias, str]] = []
    rules: dict[cst.CSTNode, str] = {}
    for statement, alias, full, local in deprecated_items(file):
        if statement in removed:
            continue
        uses = uses_of(file, local, full)
        if local in handed_on:  # whoever takes it has torch, so that what is assigned in a handler is never taken
            uses = [use for use in uses if not file.tree.is_target(use)]
        staying = [use for use in uses if use not in removed]
        known = [all_renames()[full][1]] if full in all_renames() else []
        rule = rules.get(statement) or rule_of([*(renamed[use] for use in staying if use in renamed), *known])
        if not wishes.wants(file.tree, statement, rule):
            continue
        is_taken = "." not in local and is_exported(project, file, local)
        if is_taken and local not in handed_on:
            exported.append((alias, full))
        elif uses and not is_taken and all(use in renamed and not moves_with_module(renamed[use]) for use in staying):
            dropped[statement] = (*dropped.get(statement, ()), alias)
            rules[statement] = rule
        elif not full.startswith(OLD_PACKAGES):
            continue
        elif not uses and not renamed and not is_taken and not project.library.sees_folder_of(file):
            offered.append((alias, full))
        elif all(stays_right(file, use, renamed) for use in staying) and (uses or is_wanted(file, alias, full, wishes)):
            moved[statement] = (*moved.get(statement, ()), alias)
            rules[statement] = rule
            if "." not in local:
                kept.update(staying)
            if not uses:
                unused.append((alias, full))
    named = _named_stars(file, project, renamed, removed, handed_on)
    for star, used in named.items():
        rules[star] = rule_of(renamed[use] for uses in used.values() for use in uses if use in renamed)
    named = {star: used for star, used in named.items() if wishes.wants(file.tree, star, rules[star])}
    kept.update(use for uses in named.values() for each in uses.values() for use in each if use not in removed)
    return Moves(
        moved,
        dropped,
        {star: tuple(uses) for star, uses in named.items()},
        frozenset(kept),
        tuple(exported),
        tuple(unused),
        tuple(offered),
        rules,
    )


def _named_stars(
    file: File,
    project: Project,
    renamed: Collection[cst.CSTNode],
    removed: frozenset[cst.CSTNode],
    handed_on: frozenset[str],
) -> dict[cst.ImportFrom, dict[str, list[cst.CSTNode]]]:
    """The star imports of which everything that is used moves: what that is, and where."""
    named: dict[cst.ImportFrom, dict[str, list[cst.CSTNode]]] = {}
    for star, package in star_imports(file):
        used = {name: uses_of(file, name, f"{package}.{name}") for name in OF_TORCH_AMP}
        used = {name: uses for name, uses in used.items() if uses or name in handed_on}
        every = [use for uses in used.values() for use in uses if use not in removed]
        stays = any(each not in handed_on and is_exported(project, file, each) for each in OF_TORCH_AMP)
        if not stays and (every or handed_on & used.keys()) and all(use in renamed for use in every):
            named[star] = used
    return named


def stays_right(file: File, use: cst.CSTNode, renamed: dict[cst.CSTNode, Rename]) -> bool:
    """Whether a use can stay as it is written when the module that it comes from is the new one."""
    return moves_with_module(renamed[use]) if use in renamed else is_only_tested(file.tree, use)


def is_wanted(file: File, alias: cst.ImportAlias, full: str, wishes: Wishes) -> bool:
    """Whether the rules want an import that nothing uses to move: that of its name, or for a module all of them."""
    found = all_renames().get(full)
    rules = [each.rule for each in renaming_rules()] if found is None else [found[0]]
    return all(wishes.wants(file.tree, alias, rule.code) for rule in rules)


def deprecated_items(file: File) -> Iterator[tuple[cst.CSTNode, cst.ImportAlias, str, str]]:
    """Each imported item that is deprecated: statement, item, full name, and the name it has in the file."""
    old = all_renames()
    for node in file.tree.every(cst.Import, cst.ImportFrom):
        if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            origin = import_source(node)
            for alias in node.names:
                name = dotted(alias.name) or ""
                if f"{origin}.{name}" in OLD_MODULES or f"{origin}.{name}" in old:
                    yield node, alias, f"{origin}.{name}", local_name(alias)
        elif isinstance(node, cst.Import):
            for alias in node.names:
                full = dotted(alias.name) or ""
                if full in OLD_MODULES:
                    yield node, alias, full, local_name(alias)


def star_imports(file: File) -> Iterator[tuple[cst.ImportFrom, str]]:
    """The statements `from torch.cuda.amp import *`, with the package."""
    for node in file.tree.every(cst.ImportFrom):
        if isinstance(node.names, cst.ImportStar) and import_source(node).startswith(OLD_PACKAGES):
            yield node, import_source(node)


def uses_of(file: File, local: str, full: str) -> list[cst.CSTNode]:
    """Where an imported item is used: the name itself, or for a module the longest chain that starts with it."""
    found: list[cst.CSTNode] = []
    is_plain = "." not in local
    for node in file.uses.get(local.rpartition(".")[2], ()):
        top: cst.CSTNode = node
        parent = file.tree.parents[top]
        if isinstance(node, cst.Name) is not is_plain or full not in file.names.meanings(node):
            continue
        if is_imported(file.tree, node) or (local.startswith("self.") and dotted(node) != local):
            continue
        if file.tree.is_target(node) and file.names.full(node) == full:
            continue  # `except ImportError: autocast = None`, which is never run
        if isinstance(parent, cst.Attribute) and full in OLD_MODULES and not _asks(file, parent, full):
            continue  # `amp.initialize`, where `amp` is Apex's on another way
        while isinstance(parent, cst.Attribute) and full in OLD_MODULES:
            top, parent = parent, file.tree.parents[parent]
        found.append(top)
    return found


def _asks(file: File, chain: cst.Attribute, module: str) -> bool:
    """Whether something of a module may be meant by what is asked of a name."""
    return any(each.startswith(f"{module}.") for each in file.names.meanings(chain))


def write_moves(file: File, settings: Settings, moves: Moves) -> Iterator[Edit]:
    """The edits of what was decided."""
    for statement in {**moves.moved, **moves.dropped}:
        gone = moves.dropped.get(statement, ())
        going = moves.moved.get(statement, ())
        editor = Editor(file, settings, moves.rules[statement])
        if isinstance(statement, cst.Import):
            yield editor.edit(statement, Reimport(tuple(_renamed(alias, going) for alias in statement.names)))
        elif isinstance(statement, cst.ImportFrom):
            yield from _move_from(editor, statement, going, gone)
    for star, names in moves.named.items():
        editor = Editor(file, settings, moves.rules[star])
        yield editor.edit(star, Reimport(tuple(Imported(name=name) for name in names), NEW_MODULE))


def _renamed(alias: cst.ImportAlias, going: tuple[cst.ImportAlias, ...]) -> Imported:
    full = dotted(alias.name) or ""
    return Imported(alias, successor(full) if full in map(dotted, (each.name for each in going)) else None)


def _move_from(
    editor: Editor, node: cst.ImportFrom, going: tuple[cst.ImportAlias, ...], gone: tuple[cst.ImportAlias, ...]
) -> Iterator[Edit]:
    assert not isinstance(node.names, cst.ImportStar)
    origin = import_source(node)
    homes = {home(f"{origin}.{dotted(alias.name)}") for alias in going}
    module = max(homes, key=len, default=NEW_MODULE)  # a submodule has what its package has
    left = [alias for alias in node.names if alias not in gone]
    staying = [alias for alias in left if alias not in going]
    if not left:
        yield editor.remove(node)
    elif not staying:
        yield editor.edit(node, Reimport(tuple(map(Imported, left)), module))
    else:
        if going:
            yield editor.after(node, f"from {module} import {', '.join(str(Imported(alias)) for alias in going)}")
        yield editor.edit(node, Reimport(tuple(map(Imported, staying))))
