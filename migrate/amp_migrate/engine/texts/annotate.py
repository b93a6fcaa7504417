"""Comments above what was left as it was, for those who read the code and not the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.plan.edit import Annotate, Edit
from amp_migrate.report.finding import Finding
from amp_migrate.trees.tree import Tree

# What has lines of its own above it.
_Line: TypeAlias = (
    "cst.SimpleStatementLine | cst.FunctionDef | cst.ClassDef | cst.If | cst.For | cst.While | cst.Try | cst.TryStar "
    "| cst.With | cst.Match"
)
_LINE_TYPES = (
    cst.SimpleStatementLine,
    cst.FunctionDef,
    cst.ClassDef,
    cst.If,
    cst.For,
    cst.While,
    cst.Try,
    cst.TryStar,
    cst.With,
    cst.Match,
)


def annotate(tree: Tree, left: Sequence[Finding]) -> Iterator[Edit]:
    """The edits that put `# amp-migrate: AMP590 <reason>` above what each finding is about, where it is not yet."""
    if not left:
        return
    lines = {tree.position(node)[0]: node for node in reversed(tree.order) if isinstance(node, _LINE_TYPES)}
    done: set[tuple[_Line, str]] = set()
    for finding in left:
        start = max((line for line in lines if line <= finding.line), default=0)
        if start and (lines[start], finding.code) not in done:
            done.add((lines[start], finding.code))
            begin = f"# amp-migrate: {finding.code} "
            above = (each.comment.value for each in _above(tree, lines[start]) if each.comment is not None)
            if not any(each.startswith(begin) for each in above):
                yield Edit(tree, lines[start], Annotate(begin + finding.message), finding.code)


def _above(tree: Tree, statement: _Line) -> list[cst.EmptyLine]:
    """The empty lines and comments above a statement; LibCST counts those of the first one as the module's."""
    is_first = tree.parents[statement] is tree.module and tree.module.body[0] is statement
    return [*(tree.module.header if is_first else ()), *statement.leading_lines]
