"""The one consumer of plans: all moves of a project in, the new text of every file out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.trees.tree import Tree
from amp_migrate.wishes import Unwanted, Wishes
from amp_migrate.write.apply_edits import apply
from amp_migrate.write.conflicts import settled
from amp_migrate.write.import_lines import lines_for


@frozen
class Settled:
    """What the moves of a project come to.

    Attributes:
        edits: the edits of each file, those for its top at the end.
        findings: what is to be said, in order of place.
        together: the files that each move is made in, of those that are made in several.
    """

    edits: Mapping[Tree, tuple[Edit, ...]]
    findings: tuple[Finding, ...]
    together: frozenset[frozenset[Tree]] = frozenset()


def consume(moves: Iterable[Move], wishes: Wishes, trees: Mapping[str, Tree]) -> Settled:
    """What becomes of every file, as far as the user wants it.

    A move is made whole or not at all: one with an edit that is not wanted is left, and what it would have told says
    so. Nothing is said of a rule where it is not wanted.

    Args:
        trees: every file by its name.

    Raises:
        PlanConflict: two moves want different things at one place, which is a fault of the rules.
    """
    edits: dict[Tree, list[Edit]] = defaultdict(list)
    together: set[frozenset[Tree]] = set()
    said: set[Finding] = set()  # scripts find the hazards of a model that they share
    for move in moves:
        unwanted = wishes.unwanted(move.edits)
        for edit in move.edits if unwanted is None else ():
            edits[edit.tree].append(edit)
        if unwanted is None and len(move.trees) > 1:
            together.add(move.trees)
        said.update(move.findings if unwanted is None else _left(move, unwanted, trees))
    kept = (each for each in said if each.kind is Kind.ERROR or _may_be_said(each, wishes, trees))
    return Settled(
        {tree: complete(tree, each) for tree, each in edits.items()}, tuple(sorted(kept)), frozenset(together)
    )


def new_text(tree: Tree, edits: Iterable[Edit]) -> str:
    """The text of a file with edits made."""
    return tree.printed(apply(tree, tuple(edits)))


def complete(tree: Tree, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits that are to be made, each once, and those for the top of the file that their new code needs.

    Raises:
        PlanConflict: two of them contradict each other.
    """
    own = settled(tree, edits)
    needed = {need: edit.rule for edit in reversed(own) for need in edit.needs}
    return (*own, *lines_for(tree, needed))


def _left(move: Move, unwanted: Unwanted, trees: Mapping[str, Tree]) -> Iterator[Finding]:
    """What is told of a move that is not made."""
    for each in move.findings:
        if each.kind is Kind.MIGRATED:
            reason = unwanted.seen_from(trees[each.path])
            yield replace(each, kind=Kind.LEFT, message=f"left as it was: {reason}, and the two belong together")
        elif each.kind is not Kind.NOTE:
            yield each


def _may_be_said(finding: Finding, wishes: Wishes, trees: Mapping[str, Tree]) -> bool:
    return not wishes.why_unsaid(trees[finding.path], finding.line, finding.code)
