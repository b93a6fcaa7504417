"""Comments above what was left as it was, for those who read the code and not the report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import libcst as cst

from amp_migrate.report.finding import Finding
from amp_migrate.steps.draft import Draft
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


def annotate(draft: Draft, left: Iterable[Finding]) -> None:
    """Put `# amp-migrate: AMP590 <reason>` above the statement of each finding that has no such comment yet."""
    tree = draft.file.tree
    lines = {tree.position(node)[0]: node for node in reversed(tree.order) if isinstance(node, _LINE_TYPES)}
    done: set[tuple[_Line, str]] = set()
    for finding in left:
        start = max((line for line in lines if line <= finding.line), default=0)
        if start and (lines[start], finding.code) not in done:
            done.add((lines[start], finding.code))
            _comment(draft, lines[start], finding)


def _comment(draft: Draft, statement: _Line, finding: Finding) -> None:
    begin = f"# amp-migrate: {finding.code} "
    above = [each.comment.value for each in _above(draft.file.tree, statement) if each.comment is not None]
    if any(each.startswith(begin) for each in above):
        return
    comment = cst.EmptyLine(comment=cst.Comment(begin + finding.message))

    def put(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, _LINE_TYPES)
        return node.with_changes(leading_lines=[*node.leading_lines, comment])

    draft.edits.change(statement, put)


def _above(tree: Tree, statement: _Line) -> list[cst.EmptyLine]:
    """The empty lines and comments above a statement; LibCST counts those of the first one as the module's."""
    is_first = tree.parents[statement] is tree.module and tree.module.body[0] is statement
    return [*(tree.module.header if is_first else ()), *statement.leading_lines]
