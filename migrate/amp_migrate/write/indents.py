"""The indent of a new block, where a file has several, and of what goes on over several lines in it."""

from __future__ import annotations

import re
from typing import cast

import libcst as cst

from amp_migrate.trees.nodes import Block, Line
from amp_migrate.trees.tree import Tree

_NEXT_LINE = re.compile(r"\\(\r\n|\r|\n)")


def indent_within(tree: Tree, block: Block) -> str:
    """The indent of a block whose head stands in `block`: that of `block`, or at the top of a file, of the last."""
    around: cst.CSTNode | None = block
    while around is not None and not isinstance(around, (cst.IndentedBlock, cst.Module)):
        around = tree.parents.get(around)
    if not isinstance(around, cst.IndentedBlock):
        around = next(reversed(tree.every(cst.IndentedBlock)), None)
    return (None if around is None else around.indent) or tree.module.default_indent


def deeper(line: Line, indent: str) -> Line:
    """A line with what it goes on in moved as it is: less indented than its block, or behind a backslash.

    What is indented like the block, or more, LibCST moves with it.
    """
    return cast(Line, line.visit(_Deeper(indent)))


class _Deeper(cst.CSTTransformer):
    def __init__(self, indent: str) -> None:
        super().__init__()
        self._indent = indent

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        return False

    def leave_SimpleWhitespace(
        self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
    ) -> cst.SimpleWhitespace:
        return updated_node.with_changes(value=_NEXT_LINE.sub(rf"\g<0>{self._indent}", updated_node.value))

    def leave_ParenthesizedWhitespace(
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.ParenthesizedWhitespace:
        if not updated_node.indent:
            last = self._indent + updated_node.last_line.value
            updated_node = updated_node.with_changes(last_line=cst.SimpleWhitespace(last))
        return updated_node.with_changes(empty_lines=[*map(self._comment, updated_node.empty_lines)])

    def _comment(self, line: cst.EmptyLine) -> cst.EmptyLine:
        if line.indent or line.comment is None:
            return line
        return line.with_changes(whitespace=cst.SimpleWhitespace(self._indent + line.whitespace.value))
