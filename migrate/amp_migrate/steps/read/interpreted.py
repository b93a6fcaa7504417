"""A program that has been interpreted, asked by the nodes of LibCST's trees."""

from __future__ import annotations

import ast

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.library import Library
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.questions import Questions
from amp_migrate.flow.source import Site
from amp_migrate.trees.counterparts import Counterparts


class Interpreted:
    """What an analysis has found, by nodes.

    Args:
        library: all files of the project, as trees.
        analysis: has been run.

    Attributes:
        questions: everything that may be asked.
    """

    def __init__(self, library: Library, analysis: Analysis) -> None:
        self.questions = Questions(analysis)
        self._library = library
        self._counterparts: dict[File, Counterparts] = {}

    def counterparts(self, file: File) -> Counterparts:
        """The nodes of a file that stand for those of the analysis; none where that has not read it."""
        if file not in self._counterparts:
            module = self.questions.analysis.module(file.name)
            parsed = ast.Module([], []) if module is None else module.tree
            self._counterparts[file] = Counterparts(file.tree, parsed)
        return self._counterparts[file]

    def node_at(self, file: File, site: Site) -> cst.CSTNode | None:
        """The node of a file at a place that `flow` names, an expression if it is one; None for one of another file."""
        node = self.questions.node_at(site) if site.file == file.name else None
        found = None if node is None else self.counterparts(file).of(node)
        return found.value if isinstance(found, cst.Expr) else found

    def place(self, site: Site) -> tuple[File, cst.CSTNode] | None:
        """The file of a place that `flow` names, whichever it is, and the node there."""
        file = self._library.named(site.file)
        node = None if file is None else self.node_at(file, site)
        return None if file is None or node is None else (file, node)
