"""A file of one side of a comparison."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from amp_migrate.prove.code.scopes import Definition, Scopes


@dataclass(eq=False)
class File:
    """One file of one side.

    Attributes:
        words: for each line of the text, the words that are in it.
        locate: gives the file that an import in this one loads, if it is among the files of this side.
        handed_on: gives the file of this side, and its name there, that something comes from which other files hand on.
        by_star: gives the full name of what star imports bring by a name, where files in sight import that.
        of_torch: gives the full name of something of torch that an import takes from a file in sight; empty for others.
        outside: gives a function or class of a file that is the same on both sides, by its module and its name.
        decides: whether what is installed has decided something in it.
        choices: what was decided: where these are the same, the code is.
        needs: the functions that end with an error because a package is not installed, by their places.
    """

    name: str
    tree: ast.Module
    scopes: Scopes
    words: list[set[str]]
    locate: Callable[[str], str | None]
    handed_on: Callable[[str], tuple[str, str] | None]
    by_star: Callable[[str], str | None]
    of_torch: Callable[[str], str]
    outside: Callable[[str, str], Definition | ast.ClassDef | None]
    decides: bool = False
    choices: tuple[object, ...] = ()
    needs: set[str] = field(default_factory=set)

    def words_of(self, node: ast.AST) -> set[str]:
        """The words in all lines of a node."""
        first = min([getattr(node, "lineno", 1), *(each.lineno for each in getattr(node, "decorator_list", ()))])
        return set().union(*self.words[first - 1 : getattr(node, "end_lineno", first)])
