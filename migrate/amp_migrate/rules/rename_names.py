"""Applies the rules about names to one file: every use of an old name, and the imports that bring it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.wanted import Wanted, everything
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.rules.decide import decide
from amp_migrate.rules.guards import folded_guards, write_fold
from amp_migrate.rules.handed_on import NOTHING, Handed
from amp_migrate.rules.imports import Moves, local_name, moves_of, star_imports, write_moves
from amp_migrate.rules.module_values import ModuleValues, module_values, write_module_values
from amp_migrate.rules.not_given import GIVE_ALL, taken_from_others
from amp_migrate.rules.old_modules import successor
from amp_migrate.rules.rewrite_use import write_use
from amp_migrate.rules.rule import Rename, all_renames
from amp_migrate.rules.strings import names_by_getattr, patched_names, quoted_types, with_new_name
from amp_migrate.rules.type_comments import type_comments, write_type_comments
from amp_migrate.rules.uses import uses_without_successor
from amp_migrate.settings import Dtype
from amp_migrate.steps.descale import UNTOUCHED, Fates
from amp_migrate.steps.draft import Draft


def rename_names(
    file: File,
    project: Project,
    draft: Draft,
    dtype: Dtype,
    fates: Fates = UNTOUCHED,
    wanted: Wanted = everything,
    handed: Handed = NOTHING,
) -> Iterator[Finding]:
    """Rewrite the deprecated names of a file; what stays is told in the findings.

    Args:
        fates: what becomes of the scalers for the sake of another dtype.
        handed: what the file takes from others, and others from it.
    """
    made = decide(file, project, draft, dtype, fates, wanted, handed.names, handed.stuck)
    removed, refused, rewrites = made.removed, made.refused, made.rewrites
    for fold in made.folded:
        write_fold(draft, fold)
        yield _finding(file, fold.choice, "AMP101", Kind.MIGRATED, "what was for another PyTorch is gone")
    renamed: dict[cst.CSTNode, Rename] = {use.node: use.rename for use in made.sure if use.node not in refused}
    modules = module_values(file, project, renamed, removed, handed.names)
    moves = moves_of(file, project, renamed, removed | modules.moved.keys(), wanted, handed.names)
    kept = moves.kept | modules.kept | handed.kept
    aliases = {rewrite.alias for rewrite in rewrites.values()}
    for use in made.sure:
        if use.node in refused:
            continue
        is_alias = isinstance(use.node, cst.Name) and use.node.value in aliases
        write_use(draft, use, rewrites[use.node], keeps_name=is_alias or use.node in kept)
        yield _finding(file, use.node, use.rule.code, Kind.MIGRATED, f"{use.rename.old} is now {use.rename.new}")
    write_module_values(draft, modules)
    write_moves(draft, moves)
    assigned = {file.tree.statement(node) for node, rewrite in rewrites.items() if rewrite.alias is not None}
    for guard, body in folded_guards(file, moves.whole | assigned):
        if guard in removed:
            continue
        draft.edits.splice(guard, body)
    for alias, full in moves.unused:
        found = all_renames().get(full)
        code, new = ("AMP101", successor(full)) if found is None else (found[0].code, found[1].new)
        yield _finding(file, alias, code, Kind.MIGRATED, f"{full} is now {new}")
    for node, message, hint in _not_followed(file, project, moves, modules, handed):
        yield _finding(file, node, "AMP190", Kind.LEFT, message, hint)
    yield from _texts(file, draft, removed, wanted)
    for use in (*made.sure, *made.doubtful):
        if use.node in refused:
            why = refused[use.node]
            yield _finding(
                file, use.node, use.rule.code, Kind.LEFT, f"{use.rename.old} left as it was: {why.reason}", why.hint
            )


def _not_followed(
    file: File, project: Project, moves: Moves, modules: ModuleValues, handed: Handed
) -> Iterator[tuple[cst.CSTNode, str, str]]:
    """What stays of the deprecated modules, the message about it, and what to write by hand."""
    for alias, full in moves.exported:
        reason = handed.reasons.get(local_name(alias))
        because = "" if reason is None else f" ({reason})"
        yield (
            alias,
            f"{full} left as it was: other files import it from here{because}",
            "import it from torch.amp there, then here",
        )
    for alias, full in moves.offered:
        message = f"{full} left as it was: nothing here uses it, and files that were not given may import it from here"
        yield alias, message, GIVE_ALL
    for alias, message in taken_from_others(file, project):
        yield alias, message, GIVE_ALL
    for value, message in modules.left.items():
        yield value, message, "take what is needed from torch.amp, with the arguments that it takes"
    for use, full in uses_without_successor(file):
        message = f"{full} left as it was: torch.amp has nothing that asks the same"
        yield use, message, "ask torch.cuda.is_available()"
    for star, package in star_imports(file):
        if star not in moves.named:
            message = f"from {package} import * left as it was: what it brings cannot be told"
            yield star, message, "import the names from torch.amp, one by one"


def _texts(file: File, draft: Draft, removed: Collection[cst.CSTNode], wanted: Wanted) -> Iterator[Finding]:
    """Old names in texts: types in quotes and comments are renamed, `getattr` is only told."""
    for string, chain, rule, rename in quoted_types(file):
        if string not in removed and wanted(file, string, rule.code):
            new = draft.amp(rename.new.rpartition(".")[2], string)
            draft.edits.change(string, with_new_name(chain, new))
            yield _finding(file, string, rule.code, Kind.MIGRATED, f"{rename.old} is now {rename.new}")
    comments = [each for each in type_comments(file) if each.holder not in removed]
    comments = [each for each in comments if wanted(file, each.holder, each.rule.code)]
    new_names = [draft.amp(each.rename.new.rpartition(".")[2], each.holder) for each in comments]
    write_type_comments(draft, zip(comments, new_names, strict=True))
    for each in comments:
        message = f"{each.rename.old} is now {each.rename.new}"
        yield _finding(file, each.holder, each.rule.code, Kind.MIGRATED, message)
    for call, rule, rename in patched_names(file):
        if call not in removed and wanted(file, call, rule.code):
            message = f"{rename.old} left as it was: it is replaced by its name, and code that is migrated uses another"
            yield _finding(file, call, rule.code, Kind.LEFT, message, f"replace {rename.new}")
    for call, rule, rename in names_by_getattr(file):
        if call not in removed and wanted(file, call, rule.code):
            message = f"{rename.old} left as it was: getattr takes it by its name, and whoever calls it cannot be seen"
            yield _finding(
                file, call, rule.code, Kind.LEFT, message, f"write {rename.new} with the arguments that it takes"
            )


def _finding(file: File, node: cst.CSTNode, code: str, kind: Kind, message: str, hint: str = "") -> Finding:
    line, column = file.tree.position(node)
    return Finding(file.name, line, column, code, kind, message, hint)
