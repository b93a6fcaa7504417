"""Casts that the analysis of values asks for in a result, made in the plan that the result comes from."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache

import libcst as cst

from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.parsed_files import Parsed
from amp_migrate.flow.casts import FloatCast
from amp_migrate.flow.source import site_of
from amp_migrate.moves import wishes_of
from amp_migrate.plan.describe import described
from amp_migrate.plan.edit import Edit
from amp_migrate.settings import Settings
from amp_migrate.trees.counterparts import Counterparts
from amp_migrate.write.conflicts import settled
from amp_migrate.write.consume import new_text
from amp_migrate.write.editor import Editor


def with_casts(
    plans: Iterable[FilePlan], casts: Mapping[str, Mapping[FloatCast, str]], settings: Settings, parsed: Parsed
) -> tuple[FilePlan, ...]:
    """The plans that change by casts of what stands in their results, if these are wanted and not there yet.

    Args:
        casts: by file, each with the code of the rule that asks for it.
        parsed: the files of the plans.
    """
    new = ((each, _with_casts(each, casts.get(each.source.name, {}), settings, parsed)) for each in plans)
    return tuple(plan for each, plan in new if plan is not each)


def _with_casts(plan: FilePlan, casts: Mapping[FloatCast, str], settings: Settings, parsed: Parsed) -> FilePlan:
    file = parsed.get(plan.source)
    if not casts or not plan.changed or file is None:
        return plan
    nodes = _Originals(plan)
    pairs = Counterparts(file.tree, nodes.before)
    wishes = wishes_of(settings)
    new: list[Edit] = []
    for each, rule in sorted(casts.items()):
        node = nodes.of(each)
        own = None if node is None else pairs.of(node)
        if isinstance(own, cst.BaseExpression):
            edit = Editor(file, settings, rule).cast(own, like=each.like, is_floating=each.is_floating)
            if wishes.unwanted([edit]) is None:
                new.append(edit)
    edits = settled(file.tree, (*plan.planned, *new))
    if edits == plan.planned:
        return plan
    words = map(described, sorted(edits, key=lambda each: each.line)) if settings.explain else ()
    return replace(plan, after=new_text(file.tree, edits), planned=edits, edits=tuple(words))


class _Originals:
    """Which expression of a file an expression of its result comes from.

    Attributes:
        before: the file as it was.
    """

    def __init__(self, plan: FilePlan) -> None:
        self._plan = plan
        self.before, self._after = _parsed(plan.source.text), _parsed(plan.after)

    def of(self, cast: FloatCast) -> ast.expr | None:
        """The expression with the same words, in the line that the result's line comes from; None for a new one."""
        wanted = next((each for each in _expressions(self._after) if site_of(cast.site.file, each) == cast.site), None)
        if wanted is None:
            return None
        there = _same(self._after, wanted.lineno, wanted)
        here = _same(self.before, line_before(self._plan, wanted.lineno), wanted)
        return here[there.index(wanted)] if len(here) == len(there) else None


def _same(tree: ast.Module, line: int, like: ast.expr) -> list[ast.expr]:
    """The expressions that begin in a line and are like one, in source order."""
    words = ast.dump(like)
    found = (each for each in _expressions(tree) if each.lineno == line and ast.dump(each) == words)
    return sorted(found, key=lambda each: each.col_offset)


def _expressions(tree: ast.Module) -> Iterator[ast.expr]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.expr))


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def line_before(plan: FilePlan, line: int) -> int:
    """The line of a file as it was that a line of the result comes from; the one before it where it is new."""
    old, new = _lines(plan.source.text), _lines(plan.after)
    for what, first, last, begin, end in _opcodes(plan.source.text, plan.after):
        if begin < line <= end:
            if what == "equal":
                return first + line - begin
            like = [SequenceMatcher(None, each, new[line - 1]).ratio() for each in old[first:last]]
            return first + 1 + like.index(max(like)) if like else max(first, 1)
    return len(old)


@lru_cache(maxsize=8)
def _opcodes(old: str, new: str) -> Sequence[tuple[str, int, int, int, int]]:
    """What became of the lines of a text, in which there may be many harms."""
    return SequenceMatcher(None, _lines(old), _lines(new), autojunk=False).get_opcodes()


def _lines(text: str) -> list[str]:
    """The lines of a text, however deep they stand."""
    return [each.strip() for each in text.splitlines()]
