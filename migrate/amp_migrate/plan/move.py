"""What readers give: moves, which are made whole or not at all, and refusals."""

from __future__ import annotations

from typing import Protocol

import libcst as cst

from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit
from amp_migrate.report.finding import Finding
from amp_migrate.trees.tree import Tree


class InFile(Protocol):
    """A file, as far as a plan has to know it."""

    @property
    def name(self) -> str:
        """The file as the user named it."""

    @property
    def tree(self) -> Tree:
        """Its tree."""


@frozen
class Move:
    """Edits that belong together, in however many files, and what is said of them.

    Attributes:
        edits: what changes; those of what is only told are none.
        findings: what is told if they are made.
        beside: the files that other moves change, and without which these edits make no sense.
    """

    edits: tuple[Edit, ...] = ()
    findings: tuple[Finding, ...] = ()
    beside: frozenset[Tree] = frozenset()

    @property
    def trees(self) -> frozenset[Tree]:
        """The files that stand or fall together because of it; none where it changes nothing."""
        return self.beside.union(edit.tree for edit in self.edits) if self.edits else frozenset()


@frozen
class Refusal:
    """Why something stays as it is.

    Attributes:
        file: where it is.
        node: the place that stands in the way.
        reason: the fact, as it is shown.
        hint: what to do by hand.
        code: the rule that it is told under, where that is not the reader's usual one.
        left: what stays because of it, each with its file, where that is known to be elsewhere.
        covered: the functions that the reason speaks of: what stays in them needs none of its own.
    """

    file: InFile
    node: cst.CSTNode
    reason: str
    hint: str = ""
    code: str = ""
    left: tuple[tuple[InFile, cst.CSTNode], ...] = ()
    covered: tuple[cst.CSTNode, ...] = ()
