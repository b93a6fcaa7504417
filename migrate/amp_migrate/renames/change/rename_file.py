"""Applies the rules about names to one file: every use of an old name, and the imports that bring it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.analysis.bindings import local_name
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.name_rules import CUDA_AUTOCAST_CODE, GRAD_SCALER_CODE, IMPORT_NOT_FOLLOWED
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import Move
from amp_migrate.renames.change.across_files import NOTHING, Handed
from amp_migrate.renames.change.decide_uses import Renaming, decide
from amp_migrate.renames.change.module_values import ModuleValues, module_values, write_module_values
from amp_migrate.renames.change.moved_imports import Moves, moves_of, star_imports, write_moves
from amp_migrate.renames.change.not_given import GIVE_ALL, taken_from_others
from amp_migrate.renames.change.one_use import write_use
from amp_migrate.renames.find.quoted_names import names_by_getattr, patched_names, quoted_types, with_new_names
from amp_migrate.renames.find.surroundings import is_only_tested
from amp_migrate.renames.find.type_comments import type_comments, write_type_comments
from amp_migrate.renames.find.uses import uses_without_successor
from amp_migrate.renames.find.version_guards import folded_guards, imports_gone_with, write_fold, write_imports
from amp_migrate.renames.old_modules import successor
from amp_migrate.renames.rename import Rename, all_renames, rule_of
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.trees.nodes import statements
from amp_migrate.write.editor import Editor


def rename_names(renaming: Renaming, file: File, handed: Handed = NOTHING) -> Move:
    """The deprecated names of a file, rewritten; what stays is told in the findings.

    Args:
        handed: what the file takes from others, and others from it.
    """
    return Move(*_Renamer(renaming, file, handed).run())


class _Renamer:
    """Gathers the edits and the findings of one file."""

    def __init__(self, renaming: Renaming, file: File, handed: Handed) -> None:
        self._renaming = renaming
        self._file = file
        self._handed = handed
        self._edits: list[Edit] = []
        self._findings: list[Finding] = []

    def run(self) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
        """Decide and gather."""
        file, project, handed = self._file, self._renaming.project, self._handed
        made = decide(self._renaming, file, handed.names, handed.stuck)
        removed, refused, rewrites = made.removed, made.refused, made.rewrites
        for fold, rule in made.folded:
            self._edits.append(write_fold(self._editor(rule), fold))
            self._tell(fold.choice, CUDA_AUTOCAST_CODE, Kind.MIGRATED, "what was for another PyTorch is gone")
        for statement, items in imports_gone_with(file, project, [fold for fold, _ in made.folded]):
            rule = made.folded[0][1]
            if self._renaming.wishes.wants(file.tree, statement, rule):
                self._edits.append(write_imports(self._editor(rule), statement, items))
        renamed: dict[cst.CSTNode, Rename] = {use.node: use.rename for use in made.sure if use.node not in refused}
        modules = module_values(file, project, renamed, removed, handed.names)
        gone = removed | modules.moved.keys()
        moves = moves_of(file, project, renamed, gone, self._renaming.wishes, handed.names)
        kept = moves.kept | modules.kept | handed.kept
        aliases = {rewrite.alias for rewrite in rewrites.values()}
        for use in made.sure:
            if use.node in refused:
                continue
            is_alias = isinstance(use.node, cst.Name) and use.node.value in aliases
            editor = self._editor(use.rule.code)
            self._edits += write_use(editor, use, rewrites[use.node], keeps_name=is_alias or use.node in kept)
            self._tell(use.node, use.rule.code, Kind.MIGRATED, f"{use.rename.old} is now {use.rename.new}")
        settings = self._renaming.wishes.settings
        self._edits += write_module_values(file, settings, modules)
        self._edits += write_moves(file, settings, moves)
        bringing = {statement: moves.rules[statement] for statement in moves.whole}
        for node, rewrite in rewrites.items():
            if rewrite.alias is not None:
                bringing[file.tree.statement(node)] = rule_of([renamed[node]])
        for guard, body in folded_guards(file, bringing):
            rule = bringing[statements(body)[0]]
            if guard not in removed and self._renaming.wishes.wants(file.tree, guard, rule):
                self._edits.append(self._editor(rule).splice(guard, body))
        for alias, full in moves.unused:
            found = all_renames().get(full)
            code, new = (CUDA_AUTOCAST_CODE, successor(full)) if found is None else (found[0].code, found[1].new)
            self._tell(alias, code, Kind.MIGRATED, f"{full} is now {new}")
        for node, message, hint in _not_followed(file, project, moves, modules, handed):
            self._tell(node, IMPORT_NOT_FOLLOWED.code, Kind.LEFT, message, hint)
        self._texts(removed)
        for use in (*made.sure, *made.doubtful):
            if use.node in refused:
                why = refused[use.node]
                message = f"{use.rename.old} left as it was: {why.reason}"
                self._tell(use.node, use.rule.code, Kind.LEFT, message, why.hint)
        return tuple(self._edits), tuple(self._findings)

    def _editor(self, rule: str) -> Editor:
        return self._renaming.editor(self._file, rule)

    def _tell(self, node: cst.CSTNode, code: str, kind: Kind, message: str, hint: str = "") -> None:
        self._findings.append(Finding.at(self._file.tree, node, code, kind, message, hint))

    def _texts(self, removed: Collection[cst.CSTNode]) -> None:
        """Old names in texts: types in quotes and comments are renamed, `getattr` is only told."""
        file, wants = self._file, self._renaming.wishes.wants
        strings: dict[cst.SimpleString, list[tuple[str, Rename]]] = {}
        for string, chain, rule, rename in quoted_types(file):
            if string not in removed and wants(file.tree, string, rule.code):
                strings.setdefault(string, []).append((chain, rename))
                self._tell(string, rule.code, Kind.MIGRATED, f"{rename.old} is now {rename.new}")
        for string, renames in strings.items():
            editor = self._editor(all_renames()[renames[0][1].old][0].code)
            self._edits.append(editor.replace(string, with_new_names(editor, string.value, string, renames)))
        comments = [each for each in type_comments(file) if each.holder not in removed]
        comments = [each for each in comments if wants(file.tree, each.holder, each.rule.code)]
        self._edits += write_type_comments(self._editor(GRAD_SCALER_CODE), comments)
        for each in comments:
            self._tell(each.holder, each.rule.code, Kind.MIGRATED, f"{each.rename.old} is now {each.rename.new}")
        for call, rule, rename in patched_names(file):
            if call not in removed and wants(file.tree, call, rule.code):
                reason = "it is replaced by its name, and code that is migrated uses another"
                message = f"{rename.old} left as it was: {reason}"
                self._tell(call, rule.code, Kind.LEFT, message, f"replace {rename.new}")
        for call, rule, rename in names_by_getattr(file):
            if is_only_tested(file.tree, call):
                continue  # whether a name is there has the right answer: PyTorch has the old ones still
            if call not in removed and wants(file.tree, call, rule.code):
                reason = "getattr takes it by its name, and whoever calls it cannot be seen"
                message = f"{rename.old} left as it was: {reason}"
                self._tell(call, rule.code, Kind.LEFT, message, f"write {rename.new} with the arguments that it takes")


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
