"""What of two programs need not be looked into: statements that both have, and that say nothing of precision."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Set
from itertools import accumulate

from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.program import Program

Texts = dict[ast.stmt, str]  # statements with what they are compared by
# What is left out, or ends a block, is to be seen as what it is.
_SEEN = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Delete, ast.Global),
    *(ast.Nonlocal, ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Pass),
)


def unchanged_units(before: Program, after: Program, touched: Set[str]) -> tuple[Texts, Texts]:
    """The parts of the files of both sides that are the same as a whole: functions, methods, statements of modules."""
    return _on_both(before, after, lambda program, name: _by_text(_units(program.files[name]), program, name, touched))


def unchanged_statements(before: Program, after: Program, touched: Set[str]) -> tuple[Texts, Texts]:
    """The single statements that both sides have: what is in a function that changes elsewhere, too."""

    def seen(program: Program, name: str) -> Texts:
        own = (node for node, _ in program.files[name].scopes.statements if not isinstance(node, _SEEN))
        return _by_text(own, program, name, touched, whole_lines=False)

    return _on_both(before, after, seen)


def _on_both(before: Program, after: Program, seen: Callable[[Program, str], Texts]) -> tuple[Texts, Texts]:
    """What both sides of a file have as often: of one text that is left once of twice, nobody knows which it is."""
    sides: tuple[Texts, Texts] = ({}, {})
    for name in before.files:
        found = [seen(program, name) for program in (before, after)]
        counts = [Counter(each.values()) for each in found]
        for side, texts in zip(sides, found, strict=True):
            side.update((node, text) for node, text in texts.items() if counts[0][text] == counts[1][text])
    return sides


def _units(file: File) -> Iterator[ast.stmt]:
    for node in file.tree.body:
        yield from node.body if isinstance(node, ast.ClassDef) else [node]


def _by_text(
    nodes: Iterator[ast.stmt], program: Program, name: str, touched: Set[str], *, whole_lines: bool = True
) -> Texts:
    """The statements that have none of some words in their lines, with their texts."""
    lines = program.texts[name].encode().splitlines()
    # How many lines up to each have such a word.
    counts = [0, *accumulate(not touched.isdisjoint(words) for words in program.files[name].words)]
    found = {}
    for node in nodes:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) - 1
        last = node.end_lineno or node.lineno
        if counts[first] == counts[min(last, len(counts) - 1)]:
            text = lines[first:last]
            if not whole_lines:
                text[-1] = text[-1][: node.end_col_offset]
                text[0] = text[0][node.col_offset :]
            found[node] = b"\n".join(text).decode()
    return found
