"""Choices between the AMP of old PyTorch and new: `try: from torch.cuda.amp import GradScaler` with a stand-in.

Every PyTorch that is written for has what is imported, so that the stand-in is never taken. The guard goes with it, as
does a test of the version, or of what torch has, that always goes one way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source, local_name, packages_of
from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Edit, Imported, Reimport
from amp_migrate.renames.find.surroundings import names_a_type
from amp_migrate.renames.old_modules import NEW_MODULE
from amp_migrate.tables.signatures import FORMS, forms
from amp_migrate.trees.nodes import Block, Statement, find, statements, walk
from amp_migrate.write.editor import Editor

# What reads versions, and does nothing when it is imported.
_READERS = ("packaging", "distutils")


def folded_guards(file: File, bringing: Collection[cst.CSTNode]) -> Iterator[tuple[cst.Try, Block]]:
    """The guards whose handlers are never taken, with the block to keep of each.

    Args:
        bringing: the imports, and assignments of a class, of which everything comes from torch's new module.
    """
    if not file.names.has_torch:
        return
    for guard in file.tree.every(cst.Try):
        if guard.orelse is not None or guard.finalbody is not None:
            continue
        body = _block(guard.body)
        if not all(statement in bringing for statement in statements(body)):
            continue
        if _handlers_bind_no_more(file, guard):
            yield guard, body


@frozen
class VersionFold:
    """A choice of which one side is never taken.

    Attributes:
        choice: the statement or expression that goes.
        kept: the block, or the side of a conditional expression, that takes its place; None for nothing.
        gone: the sides that go with it.
    """

    choice: cst.If | cst.IfExp | cst.Try
    kept: cst.CSTNode | None
    gone: tuple[cst.CSTNode, ...]


def folds(file: File, old: Collection[cst.CSTNode], untouchable: Collection[cst.CSTNode]) -> Iterator[VersionFold]:
    """The choices between PyTorch versions, or old and new name, that always go one way where old names stand in them.

    Args:
        old: the uses of old names, and the statements that import them.
        untouchable: those of them that are to stay.
    """
    gone: set[cst.CSTNode] = set()
    for node in file.tree.every(cst.If, cst.IfExp, cst.Try):
        fold = _by_import(file, node, old) if isinstance(node, cst.Try) else _by_version(file, node, old)
        if fold is None or node in gone or any(each in untouchable for each in walk(node)):
            continue
        gone.update(each for part in fold.gone for each in walk(part))
        yield fold


def imports_gone_with(
    file: File, project: Project, folded: Iterable[VersionFold]
) -> Iterator[tuple[cst.Import | cst.ImportFrom, tuple[cst.ImportAlias, ...]]]:
    """The imports of what reads versions, as `packaging`, that nothing but some choices needs, with those items.

    What else a choice used may be imported for what the import itself does.
    """
    gone: set[cst.CSTNode] = set()
    for fold in folded:
        gone.update(set(walk(fold.choice)).difference(() if fold.kept is None else walk(fold.kept)))
    if not gone or file.name.rpartition("/")[2] == "__init__.py":  # what a package has is for others
        return
    for statement in statements(file.tree.module):
        if isinstance(statement, (cst.Import, cst.ImportFrom)) and not isinstance(statement.names, cst.ImportStar):
            names = [(alias, local_name(alias).partition(".")[0]) for alias in statement.names]
            origin = import_source(statement) if isinstance(statement, cst.ImportFrom) else ""
            items = tuple(
                alias
                for alias, name in names
                if (origin or dotted(alias.name) or "").partition(".")[0] in _READERS
                and _is_used_in(file, project, name, gone)
            )
            if items:
                yield statement, items


def _is_used_in(file: File, project: Project, name: str, gone: Collection[cst.CSTNode]) -> bool:
    """Whether all uses of an imported name are among some nodes, and there are any."""
    uses = [each for each in file.uses.get(name, ()) if isinstance(each, cst.Name)]
    is_bound_once = len(file.scopes.module.bindings.get(name, ())) == 1
    if not uses or not is_bound_once or any(each not in gone for each in uses) or is_exported(project, file, name):
        return False
    strings = (each for each in file.tree.every(cst.SimpleString) if name in each.raw_value)
    return not any(names_a_type(file.tree, each) for each in strings)


def _by_version(file: File, node: cst.If | cst.IfExp, old: Collection[cst.CSTNode]) -> VersionFold | None:
    taken = file.names.outcome(node)
    if taken is None or isinstance(file.tree.parents[node], cst.If) or not _is_asked(file, node.test):
        return None
    kept, gone = (node.body, node.orelse) if taken else (node.orelse, node.body)
    if isinstance(kept, cst.If) or (isinstance(node, cst.IfExp) and "#" in file.tree.code(node)):
        return None  # an `elif` has no place of its own, and a comment would be lost
    kept = kept.body if isinstance(kept, cst.Else) else kept
    if gone is None or _imports_apex(gone) or not (_holds(gone, old) or _stands_in(file, gone, kept, old)):
        return None
    return VersionFold(node, kept, (gone,))


def _is_asked(file: File, test: cst.BaseExpression) -> bool:
    """Whether a test asks for the version itself: what several statements set may be there to be set by hand, too."""
    return all(len(file.scopes.of(each).lookup(each.value)) < 2 for each in find(test, cst.Name))


def _imports_apex(part: cst.CSTNode) -> bool:
    """Whether a side brings what code that never runs either goes on to ask for."""
    return any("apex" in packages_of(each) for each in walk(part))


def _by_import(file: File, guard: cst.Try, old: Collection[cst.CSTNode]) -> VersionFold | None:
    """`try: from torch.amp import GradScaler`, with the old class for a PyTorch that does not have it."""
    handled = [handler.body for handler in guard.handlers]
    needs_torch = file.names.has_torch or all(_holds(body, old) for body in handled)
    if guard.orelse is not None or guard.finalbody is not None or not needs_torch:
        return None
    if not all(_brings_new(file, each) for each in statements(_block(guard.body))):
        return None
    is_answered = any(_holds(body, old) for body in handled) and _handlers_bind_no_more(file, guard)
    return VersionFold(guard, guard.body, tuple(guard.handlers)) if is_answered else None


def _brings_new(file: File, statement: Statement) -> bool:
    """Whether a statement only takes from torch's new module what the PyTorch that is written for has."""
    if isinstance(statement, cst.ImportFrom) and not isinstance(statement.names, cst.ImportStar):
        origin = import_source(statement)
        return all(_is_new(file, f"{origin}.{dotted(alias.name)}") for alias in statement.names)
    return isinstance(statement, cst.Assign) and _is_new(file, file.names.full(statement.value))


def _is_new(file: File, full: str) -> bool:
    return full.startswith(f"{NEW_MODULE}.") and full in FORMS and bool(forms(full, file.names.target_torch))


def _holds(part: cst.CSTNode, wanted: Collection[cst.CSTNode]) -> bool:
    return any(each in wanted for each in walk(part))


def _stands_in(file: File, gone: cst.CSTNode, kept: cst.CSTNode | None, old: Collection[cst.CSTNode]) -> bool:
    """Whether one side only provides what the other has from torch: `else: class autocast: ...`."""
    return kept is not None and _holds(kept, old) and set() < _bound(file, gone) <= _bound(file, kept)


def write_fold(editor: Editor, fold: VersionFold) -> Edit:
    """The edit that puts the side that is taken in the place of a choice."""
    if isinstance(fold.choice, cst.IfExp):
        assert isinstance(fold.kept, cst.BaseExpression)
        return editor.replace(fold.choice, code("{}", fold.kept))
    if fold.kept is None:
        return editor.remove(fold.choice)
    assert isinstance(fold.kept, cst.BaseSuite)
    return editor.splice(fold.choice, _block(fold.kept))


def write_imports(editor: Editor, statement: cst.Import | cst.ImportFrom, gone: Collection[cst.ImportAlias]) -> Edit:
    """The edit that takes items out of an import; all of it, where they are all."""
    assert not isinstance(statement.names, cst.ImportStar)
    staying = tuple(Imported(alias) for alias in statement.names if alias not in gone)
    return editor.edit(statement, Reimport(staying)) if staying else editor.remove(statement)


def _handlers_bind_no_more(file: File, guard: cst.Try) -> bool:
    """Whether all that the handlers of a guard bind is bound by what it tries as well."""
    brought = _bound(file, guard.body)
    return all(_bound(file, handler.body) <= brought for handler in guard.handlers)


def _block(suite: cst.BaseSuite) -> Block:
    assert isinstance(suite, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return suite


def _bound(file: File, part: cst.CSTNode) -> set[str]:
    """The names that code binds in the scope it stands in."""
    inside = set(walk(part))
    scope = file.scopes.of(part)
    return {name for name, bindings in scope.bindings.items() if any(each.node in inside for each in bindings)}
