"""Imports of Apex as they are written once it is decided what becomes of each item.

What the shim answers for keeps its names and comes from `amp_shim`: the script runs as it did, on today's PyTorch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source
from amp_migrate.analysis.project import Project
from amp_migrate.plan.edit import Edit, Imported, Reimport, is_within
from amp_migrate.steps.apex.names.apex_imports import Fate, ImportStatement, Item
from amp_migrate.steps.apex.uses.apex_calls import apex_uses
from amp_migrate.steps.apex.uses.apex_guards import guard_of
from amp_migrate.steps.apex.uses.idle_flags import with_idle_flags
from amp_migrate.tables.apex_names import SHIM
from amp_migrate.tables.shim_names import in_shim
from amp_migrate.trees.nodes import Statement, block_of, statements
from amp_migrate.write.editor import Editor


def write_import(editor: Editor, node: ImportStatement, items: Sequence[Item]) -> Iterator[Edit]:
    """The edits of one import of Apex; what is gone leaves it, what the shim serves comes from there."""
    return _write_from(editor, node, items) if isinstance(node, cst.ImportFrom) else _write_import(editor, node, items)


def is_gone(node: ImportStatement, items: Sequence[Item]) -> bool:
    """Whether nothing is left of an import."""
    gone = {item.index for item in items if item.fate is Fate.GONE}
    gone -= {item.index for item in items if item.fate is not Fate.GONE}
    return gone == ({-1} if isinstance(node.names, cst.ImportStar) else set(range(len(node.names))))


def _write_from(editor: Editor, node: cst.ImportFrom, items: Sequence[Item]) -> Iterator[Edit]:
    fates = {item.index: item.fate for item in items}
    module = in_shim(import_source(node))
    if is_gone(node, items):
        yield editor.remove(node)
    elif isinstance(node.names, cst.ImportStar):
        if fates[-1] is Fate.SHIM:
            yield editor.edit(node, Reimport((), module))
    else:
        served = [Imported(alias) for index, alias in enumerate(node.names) if fates[index] is Fate.SHIM]
        stays = (Fate.STAYS, Fate.PROVIDED_FOR)
        staying = [Imported(alias) for index, alias in enumerate(node.names) if fates[index] in stays]
        if served and staying:
            yield editor.edit(node, Reimport(tuple(staying)))
            yield editor.after(node, f"from {module} import {', '.join(map(str, served))}")
        else:
            yield editor.edit(node, Reimport(tuple(served or staying), module if served else None))


def _write_import(editor: Editor, node: cst.Import, items: Sequence[Item]) -> Iterator[Edit]:
    staying: list[Imported] = []
    needs_shim = False
    for index, alias in enumerate(node.names):
        mine = [item for item in items if item.index == index]
        fates = {item.fate for item in mine} - {Fate.GONE}
        if mine and not fates:
            continue
        if Fate.SHIM in fates and len(fates) > 1:
            needs_shim = True
            yield from _redirect_chains(editor, [item.full for item in mine if item.fate is Fate.SHIM])
        staying.append(_shim_alias(alias) if fates == {Fate.SHIM} else Imported(alias))
    if not staying:
        yield editor.remove(node)
        return
    if staying != [Imported(alias) for alias in node.names]:
        yield editor.edit(node, Reimport(tuple(staying)))
    if needs_shim:
        yield editor.after(node, f"import {SHIM}")


def _shim_alias(alias: cst.ImportAlias) -> Imported:
    """`amp_shim as apex` for `apex` and for `apex.amp`, both of which bind `apex`."""
    full = dotted(alias.name) or ""
    root = full.partition(".")[0]
    if alias.asname is None:
        return Imported(alias, in_shim(root), root)
    return Imported(alias, in_shim(full))


def _redirect_chains(editor: Editor, packages: Collection[str]) -> Iterator[Edit]:
    """`import apex` stays, and only the chains to some packages go to the shim."""
    for package in packages:
        for chain in apex_uses(editor.file, package):
            yield editor.replace(chain.value, SHIM)


def write_guards(
    editor: Editor,
    project: Project,
    gone: Collection[ImportStatement],
    replaced: Collection[cst.CSTNode],
    written: Collection[str],
) -> Iterator[tuple[Edit, ...]]:
    """The edits that take down each `try` which some imports stood in that are gone.

    Args:
        replaced: the statements and branches that other edits take out, or put something else in the place of.
        written: the code that they put there.
    """
    tree = editor.file.tree
    for guard in dict.fromkeys(guard_of(editor.file, statement) for statement in gone):
        if guard is not None and guard.finalbody is None and not is_within(tree, guard, replaced):
            yield tuple(_write_guard(editor, project, guard, {*gone, *replaced}, written))


def _write_guard(
    editor: Editor, project: Project, guard: cst.Try, gone: Collection[cst.CSTNode], written: Collection[str]
) -> Iterator[Edit]:
    """What else stands in a guard, flags that say that Apex is there, takes its place; anything else keeps it."""
    body, other = block_of(guard), () if guard.orelse is None else statements(block_of(guard.orelse))
    rest = [each for each in statements(body) if each not in gone]
    if not all(map(_is_constant, [*rest, *other])):
        return

    def is_gone(use: cst.Name) -> bool:
        return is_within(editor.file.tree, use, gone) and not any(use.value in each for each in written)

    idle = None if other else with_idle_flags(project, editor.file, guard, rest, is_gone)
    if idle is not None:  # nothing can fail here any more, so no handler is ever asked
        yield from map(editor.remove, (guard, *idle))
    elif not rest and guard.orelse is not None:
        yield editor.splice(guard, block_of(guard.orelse))
    elif not other:
        yield editor.splice(guard, body)


def _is_constant(statement: Statement) -> bool:
    """Whether a statement only gives a value that is written out: `HAS_APEX = True`, `return True`."""
    if not isinstance(statement, (cst.Assign, cst.Return)):
        return False
    return isinstance(statement.value, (cst.Name, cst.SimpleString, cst.Integer))
