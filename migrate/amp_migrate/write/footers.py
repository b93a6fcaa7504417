"""Comments behind a compound statement, which LibCST counts as the end of its last block, however far left they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate.trees.nodes import Block, Statement, blocks, statements
from amp_migrate.trees.tree import Tree


def comments_within(block: Block) -> list[cst.EmptyLine]:
    """The comments below the last statement of a block that are as deep as it."""
    footer = block.footer if isinstance(block, cst.IndentedBlock) else ()
    within = list(takewhile(lambda line: line.indent or line.comment is None, footer))
    return within if any(each.comment for each in within) else []


def comments_behind(tree: Tree, statement: Statement) -> list[cst.EmptyLine]:
    """The lines from the first comment on that is no deeper than a compound statement itself, and blank ones above."""
    ends = list(_last_blocks(statement))
    if not any(line.comment for _, end in ends for line in end.footer):
        return []
    column = tree.position(statement)[1] - 1
    source = tree.text.splitlines()[tree.position(statement)[0] - 1]
    margin = source[:column]
    found: list[cst.EmptyLine] = []
    for depth, end in reversed(ends):  # that of the innermost block comes first
        inside = margin + (end.indent or tree.module.default_indent) * depth
        for line in end.footer:
            indent = (inside if line.indent else "") + line.whitespace.value
            if line.comment is not None and not any(each.comment for each in found) and len(indent) > column:
                found.clear()
                continue
            printed = indent if line.comment is not None else ""
            found.append(line.with_changes(indent=False, whitespace=cst.SimpleWhitespace(printed)))
    return found if any(each.comment for each in found) else []


def _last_blocks(statement: Statement) -> Iterator[tuple[int, cst.IndentedBlock]]:
    """The blocks that end where a statement ends, outermost first, each with how deep it is below it."""
    depth = 0
    current: Statement | None = statement
    while current is not None:
        below: tuple[Block, ...] = blocks(current)
        if not below or not isinstance(below[-1], cst.IndentedBlock):
            return
        depth += 1
        yield depth, below[-1]
        current = statements(below[-1])[-1]
