"""What of two programs need not be looked into: statements that both have, and that say nothing of precision."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Set
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
    sides: tuple[Texts, Texts] = ({}, {})
    for name in before.files:
        found = [_by_text(_units(p.files[name]), p, name, touched, whole_lines=True) for p in (before, after)]
        for side, texts, others in zip(sides, found, reversed(found), strict=True):
            shared = set(others.values())
            side.update((node, text) for node, text in texts.items() if text in shared)
    return sides


def unchanged_statements(before: Program, after: Program, touched: Set[str]) -> tuple[Texts, Texts]:
    """The single statements that both sides have, each as often: what is in a function that changes elsewhere, too."""
    sides: tuple[Texts, Texts] = ({}, {})
    for name in before.files:
        found = []
        for program in (before, after):
            own = (node for node, _ in program.files[name].scopes.statements if not isinstance(node, _SEEN))
            found.append(_by_text(own, program, name, touched, whole_lines=False))
        counts = [Counter(each.values()) for each in found]
        for side, texts in zip(sides, found, strict=True):
            side.update((node, text) for node, text in texts.items() if counts[0][text] == counts[1][text])
    return sides


def _units(file: File) -> Iterator[ast.stmt]:
    for node in file.tree.body:
        yield from node.body if isinstance(node, ast.ClassDef) else [node]


def _by_text(nodes: Iterator[ast.stmt], program: Program, name: str, touched: Set[str], *, whole_lines: bool) -> Texts:
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
