"""What the user wants changed: rule by rule as the options say, and place by place as the comments of the files do."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit
from amp_migrate.pragmas import read_pragmas
from amp_migrate.settings import Settings
from amp_migrate.trees.tree import Tree


@frozen
class Unwanted:
    """An edit that the user does not want, and why in a few words."""

    edit: Edit
    reason: str

    def seen_from(self, tree: Tree) -> str:
        """The reason, with the file where that is another."""
        return self.reason if self.edit.tree is tree else f"in {self.edit.tree.name}, {self.reason}"


@frozen
class Wishes:
    """Whether a rule is wanted at a place.

    A reader asks before it decides, because what is left may decide about the rest: an import stays with one of its
    uses. The consumer of the plan asks again about every edit.

    Attributes:
        settings: the options, which select and ignore rules.
        kept: rules that are not applied, because the target's PyTorch does not have what they write.
    """

    settings: Settings
    kept: frozenset[str] = frozenset()

    def applies(self, rule: str) -> bool:
        """Whether a rule is wanted anywhere."""
        return self.settings.applies(rule) and rule not in self.kept

    def wants(self, tree: Tree, node: cst.CSTNode, rule: str) -> bool:
        """Whether a rule is wanted at a place."""
        return not self.why_not(tree, node, rule)

    def why_not(self, tree: Tree, node: cst.CSTNode, rule: str) -> str:
        """The reason in a few words why a rule is not wanted at a place; empty where it is."""
        pragmas = read_pragmas(tree.text)
        line = tree.position(node)[0] if pragmas.ignored else 0
        return self.why_unsaid(tree, line, rule) or (f"{rule} is for a newer PyTorch" if rule in self.kept else "")

    def why_unsaid(self, tree: Tree, line: int, rule: str) -> str:
        """The reason in a few words why nothing is to be said of a rule at a line; empty where it may be."""
        if tree.refused:
            return tree.refused
        pragmas = read_pragmas(tree.text)
        if pragmas.skips_file:
            return "the file asks to be skipped"
        if not self.settings.applies(rule):
            return f"{rule} is not selected"
        if pattern := self.settings.path_ignores.ignoring(rule, tree.name):
            return f"{rule} is ignored in {pattern}"
        return f"line {line} asks to be left alone" if pragmas.ignores(rule, line) else ""

    def are_asked(self, trees: Iterable[Tree]) -> bool:
        """Whether anything is asked for some of the files, or in a comment of theirs: for most, nothing is."""
        if self.settings.path_ignores.patterns:
            return True
        asked = ((tree.refused, read_pragmas(tree.text)) for tree in trees)
        return any(refused or each.skips_file or each.ignored for refused, each in asked)

    def unwanted(self, edits: Iterable[Edit]) -> Unwanted | None:
        """The first of some edits that is not wanted; None where all are."""
        for edit in edits:
            # What is put beside a statement is no change of it: a comment there is not about it.
            reasons = [self.why_not(edit.tree, node, edit.rule) for node in edit.changed]
            reason = next(filter(None, reasons or [self.why_unsaid(edit.tree, 0, edit.rule)]), "")
            if reason:
                return Unwanted(edit, reason)
        return None
