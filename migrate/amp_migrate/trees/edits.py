"""Changes to a tree: collected while the plan is made, applied together in one pass.

Edits name nodes of the original tree, so that any number of rules can add theirs without seeing each other's, and a
replaced parent keeps what was replaced inside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import libcst as cst

from amp_migrate.trees.calls import may_act
from amp_migrate.trees.footers import comments_behind, comments_within
from amp_migrate.trees.leads import joined, under, without_blanks, without_lead
from amp_migrate.trees.new_block import NewBlock
from amp_migrate.trees.nodes import BLOCK_TYPES, STATEMENT_TYPES, Block, Line, Statement, is_kind, statements
from amp_migrate.trees.tree import Tree

Change: TypeAlias = Callable[[cst.CSTNode], cst.CSTNode]


class Edits:
    """What is to change in one tree."""

    def __init__(self) -> None:
        self.changes: dict[cst.CSTNode, list[Change]] = defaultdict(list)
        self.preceding: dict[Statement, list[Line]] = defaultdict(list)
        self.following: dict[Statement, list[Line]] = defaultdict(list)
        self.substitutes: dict[Statement, list[Line]] = {}
        self.splices: dict[Statement, Block] = {}
        self.wraps: dict[Statement, tuple[Statement, cst.With, tuple[Line, ...]]] = {}

    def __bool__(self) -> bool:
        return any((self.changes, self.preceding, self.following, self.substitutes, self.splices, self.wraps))

    def change(self, node: cst.CSTNode, change: Change) -> None:
        """Pass `node`, its children already changed, through `change`."""
        self.changes[node].append(change)

    def replace(self, node: cst.CSTNode, new: cst.CSTNode) -> None:
        """Put `new` in the place of an expression."""
        self.changes[node].append(lambda _: new)

    def before(self, statement: Statement, *lines: Line) -> None:
        """Insert lines before a statement, under the comments that stand above it."""
        self.preceding[statement].extend(lines)

    def after(self, statement: Statement, *lines: Line) -> None:
        """Insert lines after a statement, those of an earlier call first."""
        self.following[statement].extend(lines)

    def substitute(self, statement: Statement, *lines: Line) -> None:
        """Put lines in the place of a statement; none at all removes it. Comments above it stay."""
        self.substitutes[statement] = list(lines)

    def splice(self, statement: Statement, block: Block) -> None:
        """Put the (changed) statements of one of its blocks in the place of a compound statement."""
        self.splices[statement] = block

    def is_gone(self, tree: Tree, statement: Statement) -> bool:
        """Whether a statement, or one that it stands in, is replaced."""
        return any(node in self.substitutes for node in (statement, *tree.ancestors(statement)))

    def wrap(self, first: Statement, last: Statement, header: cst.With, tail: tuple[Line, ...] = ()) -> None:
        """Move the statements of a block from `first` to `last` into the body of `header`, `tail` behind them."""
        self.wraps[first] = (last, header, tail)

    @property
    def touched(self) -> set[cst.CSTNode]:
        """Every node that an edit names."""
        ends = (last for last, _, _ in self.wraps.values())
        return {
            *self.changes, *self.preceding, *self.following, *self.substitutes, *self.splices, *self.splices.values(),
            *self.wraps, *ends,
        }  # fmt: skip

    def touches(self, statement: Statement) -> bool:
        """Whether the statement is inserted at, replaced or wrapped (not whether an expression in it changes)."""
        return (
            statement in self.preceding
            or statement in self.following
            or statement in self.substitutes
            or statement in self.splices
            or any(statement in (first, last) for first, (last, _, _) in self.wraps.items())
        )


def apply(tree: Tree, edits: Edits) -> cst.Module:
    """The module with all edits in place."""
    # Only what is edited, and what that stands in, is built anew.
    affected: set[cst.CSTNode] = set()
    for node in edits.touched:
        current: cst.CSTNode | None = node
        while current is not None and current not in affected:
            affected.add(current)
            current = tree.parents.get(current)
    return tree.module.visit(_Applier(tree, edits, affected))


class _Applier(cst.CSTTransformer):
    def __init__(self, tree: Tree, edits: Edits, affected: set[cst.CSTNode]) -> None:
        super().__init__()
        self.tree = tree
        self.edits = edits
        self.affected = affected
        self.updated: dict[cst.CSTNode, cst.CSTNode] = {}
        self.blocks: dict[Block, Block] = {}
        self.emptied: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.affected

    def on_leave(  # type: ignore[override]  # one handler for all node types
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        node = updated_node
        kind = type(original_node)
        if is_kind(kind, BLOCK_TYPES):
            block = cast(Block, original_node)
            node = self.blocks[block] = self._rebuild(block, cast(Block, node))
        for change in self.edits.changes.get(original_node, ()):
            node = change(node)
        if is_kind(kind, STATEMENT_TYPES):
            self.updated[original_node] = node
        if isinstance(original_node, cst.If) and original_node.orelse is None and self._is_emptied(original_node):
            self.emptied.add(original_node)
        return node

    def _is_emptied(self, choice: cst.If) -> bool:
        """Whether everything in an `if` was removed, so that it has nothing left to decide, nor to do by its test."""
        block = choice.body
        assert isinstance(block, (cst.IndentedBlock, cst.SimpleStatementSuite))
        return not may_act(choice.test) and all(self.edits.substitutes.get(each) == [] for each in statements(block))

    def _rebuild(self, original: Block, updated: Block) -> Block:
        units = [self._split(old, new) for old, new in zip(original.body, updated.body, strict=True)]
        if not any(touched for _, touched in units):
            return updated
        lines, left = self._assemble([pair for pairs, _ in units for pair in pairs])
        if isinstance(updated, cst.SimpleStatementSuite):
            return cst.IndentedBlock(body=lines, header=updated.trailing_whitespace)
        if not any(each.comment for each in left):
            return updated.with_changes(body=lines)
        return updated.with_changes(body=lines, footer=joined(left, updated.footer))

    def _lines_of(self, block: Block) -> list[Line]:
        """The changed lines of a block that has been left already."""
        updated = self.blocks[block]
        if isinstance(updated, cst.SimpleStatementSuite):
            return [cst.SimpleStatementLine([small]) for small in updated.body]
        return list(cast("list[Line]", updated.body))

    def _assemble(self, pairs: Sequence[tuple[tuple[Statement, ...], Line]]) -> tuple[list[Line], list[cst.EmptyLine]]:
        """The new lines of a block, from its statements and what the edits say of each, and the comments below them."""
        edits = self.edits
        block = NewBlock()
        for olds, line in pairs:
            old = olds[0]
            lines = self._in_place_of(old, line)
            if not lines:
                block.carry(line.leading_lines)
            new = edits.preceding.get(old, [])
            if new and lines:
                lines[0], new = without_lead(lines[0]), [under(lines[0].leading_lines, new[0]), *new[1:]]
            block.emit(*new)
            if old in edits.wraps:
                last, head, tail = edits.wraps[old]
                block.open(last, head.with_changes(leading_lines=lines[0].leading_lines), tail)
                lines[0] = without_lead(lines[0])
            block.emit(*lines)
            block.close_behind(olds)
            block.emit(*edits.following.get(olds[-1], []))
            if old in edits.splices:
                block.carry(comments_within(edits.splices[old]))
            if old in edits.substitutes or old in self.emptied or old in edits.splices:
                block.carry(comments_behind(self.tree, old))
        out = block.lines or [cst.SimpleStatementLine([cst.Pass()])]
        first, line = pairs[0] if pairs else ((), out[0])
        if first and edits.substitutes.get(first[0]) == [] and not line.leading_lines:
            out[0] = without_blanks(out[0])  # the block began right below its header, and does so still
        return out, block.carried

    def _in_place_of(self, old: Statement, line: Line) -> list[Line]:
        """What a statement becomes, under the comments that stood above it."""
        edits = self.edits
        if old in edits.substitutes or old in self.emptied:
            lines = list(edits.substitutes.get(old, ()))
        elif old in edits.splices:
            lines = self._lines_of(edits.splices[old])
        else:
            return [line]
        if lines:
            lines[0] = under(line.leading_lines, lines[0])
        return lines

    def _split(self, old: cst.CSTNode, new: cst.CSTNode) -> tuple[list[tuple[tuple[Statement, ...], Line]], bool]:
        """The statements of one item of a body, each with its line; `a; b` is split only where an edit asks for it."""
        if isinstance(old, cst.BaseCompoundStatement):
            return [((old,), cast(Line, new))], self.edits.touches(old) or old in self.emptied
        if isinstance(old, cst.BaseSmallStatement):  # an item of `if x: a; b`
            small = cast(cst.BaseSmallStatement, new).with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            return [((old,), cst.SimpleStatementLine([small]))], self.edits.touches(old)
        old_line, new_line = cast(cst.SimpleStatementLine, old), cast(cst.SimpleStatementLine, new)
        olds = tuple(old_line.body)
        if not any(self.edits.touches(each) for each in olds):
            return [(olds, new_line)], False
        if len(olds) == 1:
            return [(olds, new_line)], True
        smalls = [self.updated[each] for each in olds]
        lines = [
            cst.SimpleStatementLine([cast(cst.BaseSmallStatement, s).with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
            for s in smalls
        ]
        lines[0] = lines[0].with_changes(leading_lines=new_line.leading_lines)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=new_line.trailing_whitespace)
        return [((each,), line) for each, line in zip(olds, lines, strict=True)], True
