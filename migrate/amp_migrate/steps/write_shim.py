"""Imports of Apex as they are written once it is decided what becomes of each item.

What the shim answers for keeps its names and comes from `amp_shim`: the script runs as it did, on today's PyTorch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source
from amp_migrate.analysis.files import File
from amp_migrate.steps.apex_guards import complains
from amp_migrate.steps.apex_imports import Fate, ImportStatement, Item, guard_of
from amp_migrate.steps.draft import Draft
from amp_migrate.tables.apex_names import SHIM, SHIM_MODULES
from amp_migrate.tables.apex_natives import INNER_MODULES
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Block, Statement, statements


def apex_uses(file: File, prefix: str) -> Iterator[cst.Attribute]:
    """The chains of a file that stand for a package of Apex (`apex.parallel`), through `import apex`."""
    for node in file.uses.get(prefix.rpartition(".")[2], ()):
        if isinstance(node, cst.Attribute) and prefix in file.names.meanings(node):
            yield node


def write_import(draft: Draft, node: ImportStatement, items: Sequence[Item]) -> bool:
    """Write one import of Apex; what is gone leaves it, what the shim serves comes from there.

    Returns:
        Whether nothing is left of the statement.
    """
    return _write_from(draft, node, items) if isinstance(node, cst.ImportFrom) else _write_import(draft, node, items)


def _write_from(draft: Draft, node: cst.ImportFrom, items: Sequence[Item]) -> bool:
    fates = {item.index: item.fate for item in items}
    module = build.expression(_in_shim(import_source(node)))
    if isinstance(node.names, cst.ImportStar):
        if fates[-1] is Fate.SHIM:
            draft.edits.change(node, lambda new: new.with_changes(module=module))
        elif fates[-1] is Fate.GONE:
            draft.edits.substitute(node)
        return fates[-1] is Fate.GONE
    served = [alias for index, alias in enumerate(node.names) if fates[index] is Fate.SHIM]
    staying = [alias for index, alias in enumerate(node.names) if fates[index] in (Fate.STAYS, Fate.PROVIDED_FOR)]
    if not served and not staying:
        draft.edits.substitute(node)
        return True
    if not served or not staying:
        names = _listed(served or staying, node)
        changes = {"names": names, "module": module} if served else {"names": names}
        draft.edits.change(node, lambda new: new.with_changes(**changes))
        return False
    draft.edits.change(node, lambda new: new.with_changes(names=_listed(staying, node)))
    apart = node.with_changes(module=module, names=_listed(served, node), lpar=None, rpar=None)
    draft.edits.after(node, cst.SimpleStatementLine([apart]))
    return False


def _listed(aliases: list[cst.ImportAlias], node: cst.ImportFrom) -> list[cst.ImportAlias]:
    """Some of the items of an import, the last with the comma that the last of all had."""
    assert not isinstance(node.names, cst.ImportStar)
    return [*aliases[:-1], aliases[-1].with_changes(comma=node.names[-1].comma)]


def _write_import(draft: Draft, node: cst.Import, items: Sequence[Item]) -> bool:
    staying: list[cst.ImportAlias] = []
    needs_shim = False
    for index, alias in enumerate(node.names):
        mine = [item for item in items if item.index == index]
        fates = {item.fate for item in mine} - {Fate.GONE}
        if mine and not fates:
            continue
        if Fate.SHIM in fates and len(fates) > 1:
            needs_shim = True
            _redirect_chains(draft, [item.full for item in mine if item.fate is Fate.SHIM])
        staying.append(_shim_alias(alias) if fates == {Fate.SHIM} else alias)
    if not staying:
        draft.edits.substitute(node)
        return True
    if staying != list(node.names):
        last = staying[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        draft.edits.change(node, lambda new: new.with_changes(names=[*staying[:-1], last]))
    if needs_shim:
        draft.edits.after(node, draft.line(f"import {SHIM}"))
    return False


def _shim_alias(alias: cst.ImportAlias) -> cst.ImportAlias:
    """`amp_shim as apex` for `apex` and for `apex.amp`, both of which bind `apex`."""
    full = dotted(alias.name) or ""
    root = full.partition(".")[0]
    local = cst.AsName(cst.Name(root)) if alias.asname is None else alias.asname
    name = _in_shim(root if alias.asname is None else full)
    return alias.with_changes(name=build.expression(name), asname=local)


def _redirect_chains(draft: Draft, packages: Collection[str]) -> None:
    """`import apex` stays, and only the chains to some packages go to the shim."""
    for package in packages:
        for chain in apex_uses(draft.file, package):
            draft.edits.replace(chain.value, cst.Name(SHIM))


def _in_shim(module: str) -> str:
    """The shim's module for one of Apex's: `amp_shim.parallel` for `apex.parallel.distributed`."""
    module = SHIM_MODULES.get(module, INNER_MODULES.get(module, module))
    return module.replace("apex", SHIM, 1)


def write_guard(draft: Draft, guard: cst.Try, gone: Collection[Statement]) -> None:
    """Take down the `try` round imports of which none is left.

    What else stands in it, flags that say that Apex is there, takes its place; anything else keeps it.
    """
    tree = draft.file.tree
    body, other = _block(guard.body), () if guard.orelse is None else statements(_block(guard.orelse.body))
    rest = [each for each in statements(body) if each not in gone and not draft.edits.is_gone(tree, each)]
    handled = [each for handler in guard.handlers for each in statements(_block(handler.body))]
    if guard.finalbody is not None or not all(map(_is_constant, [*rest, *other])) or draft.edits.is_gone(tree, guard):
        return
    if not rest and not other:
        if all(map(complains, handled)):
            draft.edits.substitute(guard)
    elif not rest and guard.orelse is not None:
        draft.edits.splice(guard, _block(guard.orelse.body))
    elif not other:
        draft.edits.splice(guard, body)


def gone_by_guard(draft: Draft, gone: Collection[Statement]) -> None:
    """Take down every `try` that some imports, which are gone, stood in."""
    guards = {guard_of(draft.file, statement): None for statement in gone}
    for guard in guards:
        if guard is not None:
            write_guard(draft, guard, gone)


def _is_constant(statement: Statement) -> bool:
    """Whether a statement only gives a name a value that is written out: `HAS_APEX = True`."""
    return isinstance(statement, cst.Assign) and isinstance(statement.value, (cst.Name, cst.SimpleString, cst.Integer))


def _block(body: cst.BaseSuite) -> Block:
    assert isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return body
