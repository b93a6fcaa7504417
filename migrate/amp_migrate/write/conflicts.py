"""What the edits of one file come to together: some say the same, some are made void by others, and none may clash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import libcst as cst

from amp_migrate.plan.edit import (
    AddArgument,
    Cast,
    Change,
    DropBranch,
    Edit,
    NewArguments,
    Remove,
    Replace,
    Splice,
    Substitute,
    Wrap,
)
from amp_migrate.trees.tree import Tree


class PlanConflict(Exception):
    """Two edits that cannot both be made; the message names their rules and their place."""

    def __init__(self, one: Edit, other: Edit) -> None:
        where = f"{one.tree.name}:{one.line}"
        super().__init__(f"{one.rule} and {other.rule} want different things at {where}: {one.kind} and {other.kind}")


def settled(tree: Tree, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits of one file that are to be made, each once.

    An edit is void inside what another takes away or writes anew without it, a statement is not removed that other
    lines take the place of, and of several casts of one expression the first is made.

    Raises:
        PlanConflict: two of them contradict each other.
    """
    once = _cast_once(_alike_once(edits))
    kept = _not_void(tree, once, once)
    while (fewer := _not_void(tree, kept, kept)) != kept:  # what was void has held nothing in place
        kept = fewer
    lines = {edit.node for edit in kept if isinstance(edit.change, Substitute) and edit.change.lines}
    kept = [edit for edit in kept if not (edit.gone and edit.node in lines)]
    _check(kept)
    return tuple(kept)


def _alike_once(edits: Iterable[Edit]) -> Collection[Edit]:
    """Edits each once, the first of those by which rules want the same: steps of two may share what takes a scaler."""
    once: dict[tuple[cst.CSTNode, Change], Edit] = {}
    for edit in edits:
        once.setdefault((edit.node, edit.change), edit)
    return once.values()


def _cast_once(edits: Iterable[Edit]) -> list[Edit]:
    cast: set[cst.CSTNode] = set()
    out: list[Edit] = []
    for edit in edits:
        if isinstance(edit.change, Cast):
            if edit.node in cast:
                continue
            cast.add(edit.node)
        out.append(edit)
    return out


def _not_void(tree: Tree, edits: Sequence[Edit], made: Sequence[Edit]) -> list[Edit]:
    """Those edits that are in no code which others take away, or in a piece of it that goes on in new code."""
    gone = {node for edit in made for node in _gone(edit)}
    pieces: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
    for edit in made:
        blocks = (edit.change.block,) if isinstance(edit.change, Splice) else ()
        for piece in (*blocks, *(hole.node for code in edit.codes for hole in code.holes)):
            pieces[piece].add(edit.node)
    return [edit for edit in edits if not _is_void(tree, edit, gone, pieces)]


def _gone(edit: Edit) -> tuple[cst.CSTNode, ...]:
    """What an edit takes away, or writes anew."""
    if isinstance(edit.change, DropBranch):
        node = cst.ensure_type(edit.node, cst.If)
        return node.test, node.body
    return (edit.node,) if isinstance(edit.change, (Substitute, Replace, Cast, Splice, Remove)) else ()


def _is_void(
    tree: Tree, edit: Edit, gone: Collection[cst.CSTNode], pieces: Mapping[cst.CSTNode, Collection[cst.CSTNode]]
) -> bool:
    """Whether an edit is lost.

    Args:
        pieces: what goes on standing in new code, each with the places that are written anew with it.
    """
    goes_on = edit.node in pieces
    if edit.node in gone and isinstance(edit.change, (AddArgument, NewArguments)) and not goes_on:
        return True
    for node in tree.ancestors(edit.node):
        goes_on = goes_on or node in pieces
        if node in gone:
            if not goes_on:
                return True
            goes_on = any(place is not node for place in pieces.get(node, ()))  # in what is further out
    return False


def _check(edits: Sequence[Edit]) -> None:
    single: dict[tuple[cst.CSTNode, type], Edit] = {}
    for edit in edits:
        if isinstance(edit.change, (Replace, Substitute, Splice, Wrap, NewArguments)):
            other = single.setdefault((edit.node, type(edit.change)), edit)
            if other.change != edit.change:
                raise PlanConflict(other, edit)
