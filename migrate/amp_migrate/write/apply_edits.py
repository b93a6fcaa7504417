"""The edits of one file put into its tree, in one pass.

Edits name nodes of the tree as it was read, so that they can come in any order: what is inside a node changes before
it does, items and arguments before what is put round the whole, and a block is put together when all in it is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import cast

import libcst as cst

from amp_migrate.plan.code import Hole
from amp_migrate.plan.edit import (
    AddArgument,
    AddDecorator,
    AddEntry,
    AddParameter,
    After,
    Annotate,
    Before,
    Cast,
    DropBranch,
    DropDecorator,
    Edit,
    NewArguments,
    NewLine,
    Recomment,
    Reimport,
    Remove,
    Replace,
    SetKeyword,
    Splice,
    Substitute,
    Wrap,
)
from amp_migrate.trees.nodes import BLOCK_TYPES, STATEMENT_TYPES, Block, Line, Statement, block_of, is_kind, statements
from amp_migrate.trees.own_calls import may_act
from amp_migrate.trees.tree import Tree
from amp_migrate.write.fill import Filler, in_place, is_atom
from amp_migrate.write.footers import comments_behind, comments_within
from amp_migrate.write.import_lines import with_imported
from amp_migrate.write.indents import indent_within
from amp_migrate.write.items import with_items
from amp_migrate.write.leads import joined, parted, under, without_blanks, without_lead
from amp_migrate.write.new_block import NewBlock

# What is an item of the node that it stands in, so that the list changes and not the item.
_OF_LISTS = (Remove, SetKeyword)
_LISTS = (NewArguments, AddArgument, AddParameter, AddEntry, *_OF_LISTS)


def apply(tree: Tree, edits: Sequence[Edit]) -> cst.Module:
    """The module with all edits in place; equal ones count once."""
    return tree.module.visit(_Applier(tree, tuple(dict.fromkeys(edits))))


class _Placed:
    """The edits by the nodes that change."""

    def __init__(self, tree: Tree, edits: Sequence[Edit]) -> None:
        self.nodes: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        self.lists: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        self.preceding: dict[Statement, list[NewLine]] = defaultdict(list)
        self.following: dict[Statement, list[NewLine]] = defaultdict(list)
        self.substitutes: dict[Statement, tuple[NewLine, ...]] = {}
        self.splices: dict[Statement, Block] = {}
        self.wraps: dict[Statement, Wrap] = {}
        dropped = {edit.node for edit in edits if isinstance(edit.change, DropBranch)}
        for edit in edits:
            statement = cast(Statement, edit.node)
            match edit.change:
                case Before(lines):
                    self.preceding[statement].extend(lines)
                case After(lines):
                    self.following[statement].extend(lines)
                case Substitute(lines):
                    self.substitutes[statement] = lines
                case Splice(block):
                    self.splices[statement] = block
                case Wrap():
                    self.wraps[statement] = edit.change
                case DropBranch():
                    self._drop(tree, edit, dropped)
                case change if isinstance(change, _LISTS):
                    is_item = isinstance(change, _OF_LISTS)
                    holder = tree.parents[edit.node] if is_item else edit.node
                    if isinstance(holder, cst.FunctionDef):
                        holder = holder.params
                    self.lists[holder].append(edit)
                case _:
                    self.nodes[edit.node].append(edit)

    def _drop(self, tree: Tree, edit: Edit, dropped: Collection[cst.CSTNode]) -> None:
        """Say what follows a branch that goes: another branch, what an `else` holds, or nothing."""
        node = cst.ensure_type(edit.node, cst.If)
        follows = node.orelse
        while isinstance(follows, cst.If) and follows in dropped:
            follows = follows.orelse
        if isinstance(tree.parents[node], cst.If) or isinstance(follows, cst.If):
            self.nodes[node].append(edit)
        elif follows is None:
            self.substitutes[node] = ()
        else:
            self.splices[node] = block_of(follows)

    @property
    def touched(self) -> set[cst.CSTNode]:
        """Every node that an edit names."""
        ends = (wrap.last for wrap in self.wraps.values())
        return {
            *self.nodes, *self.lists, *self.preceding, *self.following, *self.substitutes, *self.splices,
            *self.splices.values(), *self.wraps, *ends,
        }  # fmt: skip

    def touches(self, statement: Statement) -> bool:
        """Whether the statement is inserted at, replaced or wrapped (not whether an expression in it changes)."""
        return (
            statement in self.preceding
            or statement in self.following
            or statement in self.substitutes
            or statement in self.splices
            or any(statement in (first, wrap.last) for first, wrap in self.wraps.items())
        )


class _Applier(cst.CSTTransformer):
    def __init__(self, tree: Tree, edits: Sequence[Edit]) -> None:
        super().__init__()
        self.tree = tree
        self.placed = _Placed(tree, edits)
        self.fill = Filler(tree.module, self._final)
        self.holes = {hole.node for edit in edits for code in edit.codes for hole in code.holes}
        # Only what is edited, and what that stands in, is built anew.
        self.affected: set[cst.CSTNode] = set()
        for node in self.placed.touched:
            current: cst.CSTNode | None = node
            while current is not None and current not in self.affected:
                self.affected.add(current)
                current = tree.parents.get(current)
        self.updated: dict[cst.CSTNode, cst.CSTNode] = {}
        self.inside: dict[cst.CSTNode, cst.CSTNode] = {}
        self.blocks: dict[Block, Block] = {}
        self.emptied: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.affected

    def on_leave(  # type: ignore[override]  # one handler for all node types
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        if original_node not in self.affected:
            return updated_node
        node = updated_node
        kind = type(original_node)
        if is_kind(kind, BLOCK_TYPES):
            block = cast(Block, original_node)
            node = self.blocks[block] = self._rebuild(block, cast(Block, node))
        if original_node in self.placed.lists:
            edits = self.placed.lists[original_node]
            around = self.tree.parents[original_node]
            node = with_items(original_node, node, edits, self.fill.expression, around)
        if original_node in self.holes:
            self.inside[original_node] = node
        for edit in sorted(self.placed.nodes.get(original_node, ()), key=lambda each: isinstance(each.change, Cast)):
            node = self.updated[original_node] = self._changed(original_node, node, edit)
        if is_kind(kind, STATEMENT_TYPES) or original_node in self.holes:
            self.updated[original_node] = node
        if isinstance(original_node, cst.If):
            branch = original_node.orelse
            if branch is not None and self._is_gone(branch):
                branch = None
                node = self.updated[original_node] = node.with_changes(orelse=None)
            if branch is None and self._is_emptied(original_node):
                self.emptied.add(original_node)
        return node

    def _final(self, hole: Hole) -> cst.CSTNode:
        """A piece of the old code with all its edits, wherever it stands: behind what asks for it, or in it."""
        node = hole.node
        if node not in self.affected:
            return node
        if node not in self.updated:
            node.visit(self)
        return self.inside[node] if hole.moved else self.updated[node]

    def _changed(self, original: cst.CSTNode, node: cst.CSTNode, edit: Edit) -> cst.CSTNode:
        """A node with one edit; a hole that stands for the node itself is filled with what it has become so far."""
        self.updated[original] = node
        match edit.change:
            case Replace(new) | Cast(new):
                filled = self.fill.expression(new)
                if len(new.parts) == 1 and isinstance(new.parts[0], Hole):
                    filled = _in_parentheses_of(node, filled)
                return in_place(filled, self.tree.parents[original], original)
            case AddDecorator(new):
                assert isinstance(node, cst.FunctionDef)
                return node.with_changes(decorators=[*node.decorators, cst.Decorator(self.fill.expression(new))])
            case DropDecorator(decorator):
                return _without_decorator(cst.ensure_type(node, cst.FunctionDef), original, decorator)
            case DropBranch():
                return _without_branch(node, is_elif=isinstance(self.tree.parents[original], cst.If))
            case Annotate(comment):
                above = cst.EmptyLine(comment=cst.Comment(comment))
                return node.with_changes(leading_lines=[*cast(cst.SimpleStatementLine, node).leading_lines, above])
            case Recomment(comment, new):
                return node.deep_replace(comment, comment.with_changes(value=str(new)))
            case Reimport():
                return with_imported(node, edit.change)
        raise AssertionError(f"{edit.kind} is no change of a node")

    def _is_emptied(self, choice: cst.If) -> bool:
        """Whether everything in an `if` was removed, so that it has nothing left to decide, nor to do by its test."""
        return not may_act(choice.test) and self._holds_nothing(block_of(choice))

    def _holds_nothing(self, block: Block) -> bool:
        """Whether everything in a block was removed, and nothing put there."""
        placed = self.placed
        return all(
            (placed.substitutes.get(each) == () or each in self.emptied)
            and each not in placed.preceding
            and each not in placed.following
            for each in statements(block)
        )

    def _is_gone(self, branch: cst.If | cst.Else) -> bool:
        """Whether the last branch of an `if` has nothing left to do, nor any comment to keep."""
        is_empty = self._holds_nothing(block_of(branch)) if isinstance(branch, cst.Else) else branch in self.emptied
        return is_empty and "#" not in self.tree.code(branch)

    def _rebuild(self, original: Block, updated: Block) -> Block:
        units = [self._split(old, new) for old, new in zip(original.body, updated.body, strict=True)]
        if not any(touched for _, touched in units):
            return updated
        self.fill.indent = indent_within(self.tree, original)
        lines, left = self._assemble([pair for pairs, _ in units for pair in pairs])
        if isinstance(updated, cst.SimpleStatementSuite):
            return cst.IndentedBlock(body=lines, header=updated.trailing_whitespace, indent=self.fill.indent)
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
        placed = self.placed
        block = NewBlock(self.fill.indent)
        blanks = 0
        for olds, line in pairs:
            old = olds[0]
            lines = self._in_place_of(old, parted(line, blanks))
            if not lines:
                block.carry(line.leading_lines)
            new = self._lines(placed.preceding.get(old, ()))
            if new and lines:
                lines[0], new = without_lead(lines[0]), [under(lines[0].leading_lines, new[0]), *new[1:]]
            block.emit(*new)
            if old in placed.wraps:
                wrap = placed.wraps[old]
                head = self.fill.header(wrap.context).with_changes(leading_lines=lines[0].leading_lines)
                block.open(wrap.last, head, tuple(self._lines(wrap.tail)))
                lines[0] = without_lead(lines[0])
                block.emit(*self._lines(wrap.head))
            block.emit(*lines)
            block.close_behind(olds)
            behind = placed.following.get(olds[-1], ())
            block.emit(*self._lines(behind))
            blanks = _blanks_below(behind[-1]) if behind else 0
            if old in placed.splices:
                block.carry(comments_within(placed.splices[old]))
            if old in placed.substitutes or old in self.emptied or old in placed.splices:
                block.carry(comments_behind(self.tree, old))
        out = block.lines or [cst.SimpleStatementLine([cst.Pass()])]
        first, line = pairs[0] if pairs else ((), out[0])
        if first and placed.substitutes.get(first[0]) == () and not line.leading_lines:
            out[0] = without_blanks(out[0])  # the block began right below its header, and does so still
        return out, block.carried

    def _lines(self, new: Iterable[NewLine]) -> list[Line]:
        """New lines as tree."""
        lines: list[Line] = []
        blanks = 0
        for each in new:
            lines.append(parted(self.fill.line(each), max(each.blank, blanks)))
            blanks = _blanks_below(each)
        return lines

    def _in_place_of(self, old: Statement, line: Line) -> list[Line]:
        """What a statement becomes, under the comments that stood above it."""
        placed = self.placed
        if old in placed.substitutes or old in self.emptied:
            lines = self._lines(placed.substitutes.get(old, ()))
        elif old in placed.splices:
            lines = self._lines_of(placed.splices[old])
        else:
            return [line]
        if lines:
            lines[0] = under(line.leading_lines, lines[0])
        return lines

    def _split(self, old: cst.CSTNode, new: cst.CSTNode) -> tuple[list[tuple[tuple[Statement, ...], Line]], bool]:
        """The statements of one item of a body, each with its line; `a; b` is split only where an edit asks for it."""
        if isinstance(old, cst.BaseCompoundStatement):
            return [((old,), cast(Line, new))], self.placed.touches(old) or old in self.emptied
        if isinstance(old, cst.BaseSmallStatement):  # an item of `if x: a; b`
            small = cast(cst.BaseSmallStatement, new).with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            return [((old,), cst.SimpleStatementLine([small]))], self.placed.touches(old)
        old_line, new_line = cast(cst.SimpleStatementLine, old), cast(cst.SimpleStatementLine, new)
        olds = tuple(old_line.body)
        if not any(self.placed.touches(each) for each in olds):
            return [(olds, new_line)], False
        if len(olds) == 1:
            return [(olds, new_line)], True
        smalls = [self.updated.get(each, each) for each in olds]
        lines = [
            cst.SimpleStatementLine([cast(cst.BaseSmallStatement, s).with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
            for s in smalls
        ]
        lines[0] = lines[0].with_changes(leading_lines=new_line.leading_lines)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=new_line.trailing_whitespace)
        return [((each,), line) for each, line in zip(olds, lines, strict=True)], True


def _blanks_below(line: NewLine) -> int:
    """How many empty lines are at least to stand below a new line."""
    return line.blank if line.blank > 1 else 0


def _without_decorator(node: cst.FunctionDef, original: cst.CSTNode, gone: cst.Decorator) -> cst.FunctionDef:
    """A function with one decorator less, under the comments that stood above that."""
    index = [*cst.ensure_type(original, cst.FunctionDef).decorators].index(gone)
    kept = [each for at, each in enumerate(node.decorators) if at != index]
    above = [line for line in node.decorators[index].leading_lines if line.comment is not None]
    if index < len(kept):
        kept[index] = kept[index].with_changes(leading_lines=[*above, *kept[index].leading_lines])
        return node.with_changes(decorators=kept)
    return node.with_changes(decorators=kept, lines_after_decorators=[*above, *node.lines_after_decorators])


def _without_branch(node: cst.CSTNode, *, is_elif: bool) -> cst.CSTNode:
    """What follows an `if` or `elif` in its chain."""
    chain = cst.ensure_type(node, cst.If)
    if is_elif:
        return cast(cst.CSTNode, cst.RemoveFromParent()) if chain.orelse is None else chain.orelse
    return cst.ensure_type(chain.orelse, cst.If).with_changes(leading_lines=chain.leading_lines)


def _in_parentheses_of(node: cst.CSTNode, part: cst.BaseExpression) -> cst.BaseExpression:
    """A part of an expression that takes its place: in the parentheses of the whole, where it may need some."""
    if not isinstance(node, cst.BaseExpression) or is_atom(part) or part.lpar:
        return part
    return part.with_changes(lpar=node.lpar, rpar=node.rpar)
