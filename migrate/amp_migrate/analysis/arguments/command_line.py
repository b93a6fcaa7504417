"""The command lines that scripts have, and where an option can be added to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.trees.nodes import Statement, written_string


@frozen
class Parser:
    """A parser of `argparse`, by the statement that makes it."""

    file: File
    statement: Statement
    name: str

    @property
    def place(self) -> cst.CSTNode:
        """What a finding about it points at."""
        return self.statement

    @property
    def options(self) -> frozenset[str]:
        """The names that the options of its file have in the parsed arguments."""
        found: set[str] = set()
        for call in self._additions():
            strings = [
                written_string(each.value) for each in call.args if each.keyword is None or each.keyword.value == "dest"
            ]
            found.update(text.lstrip("-").replace("-", "_") for text in strings if text)
        return frozenset(found)

    @property
    def last_option(self) -> Statement:
        """The last statement beside the one that makes the parser that adds an option before it parses."""
        tree = self.file.tree
        beside = tree.siblings(self.statement)
        parsing = [
            tree.statement(call)
            for call in self.file.calls
            if dotted(call.func) in (f"{self.name}.parse_args", f"{self.name}.parse_known_args")
        ]
        end = min((tree.order[each] for each in parsing if each in beside), default=len(tree.order))
        # Groups of options and parsers of subcommands count as well: the new option comes behind them.
        adding = [tree.statement(call) for call in self._additions()]
        fit = [each for each in adding if each in beside and tree.order[self.statement] < tree.order[each] < end]
        return max((self.statement, *fit), key=lambda each: tree.order[each])

    def _additions(self) -> Iterator[cst.Call]:
        """The calls of `add_argument` in its file."""
        for call in self.file.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                yield call


@frozen
class Command:
    """A function whose parameters `click` or `typer` fills from the command line."""

    file: File
    function: cst.FunctionDef
    is_click: bool

    @property
    def place(self) -> cst.CSTNode:
        """What a finding about it points at."""
        return self.function


CommandLine: TypeAlias = "Parser | Command"
