"""Applies the rules about names to one file: every use of an old name, and the imports that bring it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.wanted import Wanted, everything
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.rule import Rule
from amp_migrate.rules.guards import folded_guards
from amp_migrate.rules.imports import moves_of, star_imports, write_moves
from amp_migrate.rules.places import is_provided_for
from amp_migrate.rules.rewrite_use import Rewrite, rewrite_of, write_use
from amp_migrate.rules.rule import Context, Unsure
from amp_migrate.rules.strings import names_by_getattr, quoted_types, with_new_name
from amp_migrate.rules.uses import find_uses
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft

_AMBIGUOUS = Unsure(
    "the name stands for different things on different ways to this line",
    "import it from torch.amp on every way, and give autocast its device_type",
)

_SHADOWED = Unsure("`torch` is the name of something else here", "give it another name, so that torch can be imported")
_PROVIDED_FOR = Unsure(
    "the code around it chooses between the old PyTorch and the new",
    "drop the old branch when no old PyTorch has to be served",
)


def rename_names(
    file: File,
    project: Project,
    draft: Draft,
    dtype: Dtype,
    removed: frozenset[cst.CSTNode] = frozenset(),
    disabled: frozenset[cst.CSTNode] = frozenset(),
    wanted: Wanted = everything,
) -> Iterator[Finding]:
    """Rewrite the deprecated names of a file; what stays is told in the findings.

    Args:
        removed: uses that go away with the code around them.
        disabled: calls that are to say `enabled=False`.
    """
    sure, doubtful = find_uses(file)
    sure = [use for use in sure if use.node not in removed and wanted(file, use.node, use.rule.code)]
    doubtful = [use for use in doubtful if wanted(file, use.node, use.rule.code)]
    refused: dict[cst.CSTNode, Unsure] = {use.node: _AMBIGUOUS for use in doubtful}
    rewrites: dict[cst.CSTNode, Rewrite] = {}
    for use in sure:
        if file.names.is_shadowed("torch", use.node):
            refused[use.node] = _SHADOWED
            continue
        if is_provided_for(file, use.node, use.rename):
            refused[use.node] = _PROVIDED_FOR
            continue
        context = Context(draft, use.node, dtype)
        rewrite = rewrite_of(context, project, use, disabled=file.tree.parents[use.node] in disabled)
        if isinstance(rewrite, Unsure):
            refused[use.node] = rewrite
        else:
            rewrites[use.node] = rewrite
    moves = moves_of(file, project, {u.node: u.rename for u in sure if u.node not in refused}, removed, wanted)
    aliases = {rewrite.alias for rewrite in rewrites.values()}
    for use in sure:
        if use.node in refused:
            continue
        is_alias = isinstance(use.node, cst.Name) and use.node.value in aliases
        write_use(draft, use, rewrites[use.node], keeps_name=is_alias or use.node in moves.kept)
        yield _finding(file, use.node, use.rule, Kind.MIGRATED, f"{use.rename.old} is now {use.rename.new}")
    write_moves(draft, moves)
    assigned = {file.tree.statement(node) for node, rewrite in rewrites.items() if rewrite.alias is not None}
    for guard, body in folded_guards(file, moves.whole | assigned):
        draft.edits.splice(guard, body)
    for alias, full in moves.exported:
        line, column = file.tree.position(alias)
        message = f"{full} left as it was: other files import it from here"
        yield Finding(
            file.name, line, column, "AMP190", Kind.LEFT, message, "import it from torch.amp there, then here"
        )
    for statement, package in star_imports(file):
        if statement in moves.named:
            continue
        line, column = file.tree.position(statement)
        message = f"from {package} import * left as it was: what it brings cannot be told"
        yield Finding(
            file.name, line, column, "AMP190", Kind.LEFT, message, "import the names from torch.amp, one by one"
        )
    yield from _strings(file, draft, wanted)
    for use in (*sure, *doubtful):
        if use.node in refused:
            why = refused[use.node]
            yield _finding(
                file, use.node, use.rule, Kind.LEFT, f"{use.rename.old} left as it was: {why.reason}", why.hint
            )


def _strings(file: File, draft: Draft, wanted: Wanted) -> Iterator[Finding]:
    """Old names in strings: types in quotes are renamed, `getattr` is only told."""
    for string, chain, rule, rename in quoted_types(file):
        if wanted(file, string, rule.code):
            new = draft.amp(rename.new.rpartition(".")[2], string)
            draft.edits.change(string, with_new_name(chain, new))
            yield _finding(file, string, rule, Kind.MIGRATED, f"{rename.old} is now {rename.new}")
    for call, rule, rename in names_by_getattr(file):
        if wanted(file, call, rule.code):
            message = f"{rename.old} left as it was: getattr takes it by its name, and whoever calls it cannot be seen"
            yield _finding(file, call, rule, Kind.LEFT, message, f"write {rename.new} with the arguments that it takes")


def _finding(file: File, node: cst.CSTNode, rule: Rule, kind: Kind, message: str, hint: str = "") -> Finding:
    line, column = file.tree.position(node)
    return Finding(file.name, line, column, rule.code, kind, message, hint)
