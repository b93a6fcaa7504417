"""Old types in comments: `scaler = None  # type: torch.cuda.amp.GradScaler`, and those of functions and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit, Recomment
from amp_migrate.renames.find.quoted_names import old_types_in, with_new_names
from amp_migrate.renames.rename import Rename
from amp_migrate.trees.nodes import is_kind
from amp_migrate.write.editor import Editor

_TYPE = re.compile(r"#[ \t]*type:(?![ \t]*ignore\b)")
_HOLDERS = (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.IndentedBlock, cst.Param)


@frozen
class TypeComment:
    """An old type that a comment names.

    Attributes:
        holder: the line, block or parameter that the comment belongs to.
        comment: the comment.
        chain: how the type is written.
    """

    holder: cst.CSTNode
    comment: cst.Comment
    chain: str
    rule: Rule
    rename: Rename


def type_comments(file: File) -> Iterator[TypeComment]:
    """The types in comments that name an old class through torch itself."""
    for node in file.tree.order:
        if not is_kind(type(node), _HOLDERS):
            continue
        for comment in _comments(node):
            if _TYPE.match(comment.value):
                for chain, rule, rename in old_types_in(file, node, comment.value):
                    yield TypeComment(node, comment, chain, rule, rename)


def write_type_comments(editor: Editor, found: Iterable[TypeComment]) -> Iterator[Edit]:
    """The edits that write new names in the place of the old ones; a comment may hold several."""
    by_comment: dict[cst.Comment, list[TypeComment]] = {}
    for each in found:
        by_comment.setdefault(each.comment, []).append(each)
    for comment, types in by_comment.items():
        holder = types[0].holder
        new = with_new_names(editor, comment.value, holder, [(each.chain, each.rename) for each in types])
        yield editor.edit(holder, Recomment(comment, new))


def _comments(node: cst.CSTNode) -> Iterator[cst.Comment]:
    """The comments above a line and behind it, behind the head of a block, and behind a parameter."""
    if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        yield from (line.comment for line in node.leading_lines if line.comment is not None)
    behind: list[cst.BaseParenthesizableWhitespace | cst.TrailingWhitespace] = []
    if isinstance(node, cst.SimpleStatementLine):
        behind = [node.trailing_whitespace]
    elif isinstance(node, cst.IndentedBlock):
        behind = [node.header]
    elif isinstance(node, cst.Param):
        behind = [node.whitespace_after_param]
        if isinstance(node.comma, cst.Comma):
            behind.append(node.comma.whitespace_after)
    for place in behind:
        line = place.first_line if isinstance(place, cst.ParenthesizedWhitespace) else place
        if isinstance(line, cst.TrailingWhitespace) and line.comment is not None:
            yield line.comment
