"""The command lines that scripts have, and where an option can be added to one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.scopes import dotted
from amp_migrate.trees.tree import Statement


@dataclass(frozen=True)
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
        for call, _ in self._additions():
            strings = [_text(each.value) for each in call.args if each.keyword is None]
            given = next((_text(a.value) for a in call.args if a.keyword is not None and a.keyword.value == "dest"), "")
            found.update(text.lstrip("-").replace("-", "_") for text in (given, *strings) if text)
        return frozenset(found)

    @property
    def last_option(self) -> Statement:
        """The last statement beside the one that makes the parser that adds an option to it; that one, without any."""
        tree = self.file.tree
        beside = tree.siblings(self.statement)
        adding = [
            statement
            for call, parser in self._additions()
            if parser == self.name and (statement := tree.statement(call)) in beside
        ]
        return max((self.statement, *adding), key=lambda each: tree.order[each])

    def _additions(self) -> Iterator[tuple[cst.Call, str | None]]:
        """The calls of `add_argument` in its file, each with the name of what it is called on."""
        for call in self.file.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                yield call, dotted(call.func.value)


@dataclass(frozen=True)
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


def _text(node: cst.BaseExpression) -> str:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else ""
    return value if isinstance(value, str) else ""
