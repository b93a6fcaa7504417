"""Where the autocast regions of a function go: round forward and loss, and round nothing that steps or goes backward.

A region is a run of sibling statements. In training it reaches from the first forward that the loss depends on to the
last statement that computes the loss; statements that train (`backward`, `step`) end it. In evaluation it covers a
forward and the losses computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.flow import statement_reads, writes
from amp_migrate.steps.model import Island, Region
from amp_migrate.trees.tree import Block, Statement, blocks, find, header, nested_statements, statements


@dataclass(frozen=True)
class Placement:
    """The regions of a function, and the losses that must stay outside them."""

    regions: tuple[Region, ...]
    islands: tuple[Island, ...]


class RegionFinder:
    """Finds regions in one file."""

    def __init__(self, file: File, roles: Roles) -> None:
        self.file = file
        self.tree = file.tree
        self.roles = roles

    def runs_forward(self, statement: Statement) -> bool:
        """Whether a statement by itself (not the blocks below it) runs a module."""
        return any(self.roles.runs_forward(self.file, call) for call in _calls(statement))

    def computes_loss(self, statement: Statement) -> bool:
        """Whether a statement by itself calls a criterion."""
        return any(self.roles.is_loss_call(self.file, call) for call in _calls(statement))

    def banned_calls(self, statement: Statement) -> list[cst.Call]:
        """The calls in a statement that autocast refuses."""
        return [call for call in _calls(statement) if self.roles.is_banned_loss(self.file, call)]

    def _computes_allowed_loss(self, statement: Statement) -> bool:
        return self.computes_loss(statement) and not self.banned_calls(statement)

    def training(self, body: Block, slices: Iterable[Statement], barriers: frozenset[Statement]) -> Placement:
        """Place the regions of a function that trains.

        Args:
            slices: every statement that some loss of the function depends on.
            barriers: the statements that go backward or step.
        """
        members = frozenset(slices)
        banned = frozenset(s for s in members if self.banned_calls(s))
        found: list[Region] = []
        self._place(body, members - banned, barriers | banned, found)
        return Placement(tuple(found), tuple(island for s in banned for island in self._islands(s)))

    def _islands(self, statement: Statement) -> list[Island]:
        calls = [c for c in _calls(statement) if c.args and self.roles.is_loss_call(self.file, c)]
        return [Island(tuple(call.args[0].value for call in calls))]

    def _place(
        self, block: Block, members: frozenset[Statement], barriers: frozenset[Statement], found: list[Region]
    ) -> None:
        run: list[Statement] = []
        for statement in statements(block):
            if barriers.isdisjoint(_with_nested(statement)):
                run.append(statement)
                continue
            self._close(run, members, barriers, found)
            run = []
            if statement not in barriers:
                for inner in _own_blocks(statement):
                    self._place(inner, members, barriers, found)
        self._close(run, members, barriers, found)

    def _close(
        self,
        run: list[Statement],
        members: frozenset[Statement],
        barriers: frozenset[Statement],
        found: list[Region],
    ) -> None:
        """Turn a run of statements without barriers into at most one region."""

        def is_worthy(statement: Statement) -> bool:
            return any(
                each in members and (self.runs_forward(each) or self.computes_loss(each))
                for each in _with_nested(statement)
            )

        worthy = [index for index, statement in enumerate(run) if is_worthy(statement)]
        if not worthy:
            return
        first = last = worthy[0]
        computed: set[str] = set()
        for index in range(first, len(run)):
            inner = [each for each in _with_nested(run[index]) if each in members]
            if index in worthy or any(statement_reads(each) & computed for each in inner):
                last = index
                for each in inner:
                    computed |= writes(each)
        only = run[first]
        if first == last and isinstance(only, (cst.With, cst.If, cst.Try)):
            holders = [b for b in _own_blocks(only) if any(m in members for m in nested_statements(b))]
            if len(holders) == 1:  # the smallest natural block: inside `with torch.set_grad_enabled(...)`, not round it
                self._place(holders[0], members, barriers, found)
                return
        found.append(Region(run[first], run[last]))

    def evaluation(self, body: Block, taken: Iterable[Region], is_quiet: Callable[[Statement], bool]) -> list[Region]:
        """Place the regions of forwards that no gradient flows through.

        Args:
            taken: the regions that exist already.
            is_quiet: whether a statement runs without gradients.
        """
        covered = {each for region in taken for each in self._members(region)}
        found: list[Region] = []
        self._evaluate(body, covered, is_quiet, found)
        return found

    def _evaluate(
        self, block: Block, covered: set[Statement], is_quiet: Callable[[Statement], bool], found: list[Region]
    ) -> None:
        start: Statement | None = None
        end: Statement | None = None
        computed: frozenset[str] = frozenset()
        for statement in statements(block):
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) or statement in covered:
                continue
            is_forward = self.runs_forward(statement) and is_quiet(statement) and not self.banned_calls(statement)
            inner = _own_blocks(statement)
            follows = start is not None and bool(statement_reads(statement) & computed)
            if not inner and is_forward and (start is None or not follows):
                if start is not None and end is not None:
                    found.append(Region(start, end))
                start = end = statement
                computed = writes(statement)
            elif not inner and follows and (is_forward or self._computes_allowed_loss(statement)):
                end = statement
                computed |= writes(statement)
            for each in inner:
                self._evaluate(each, covered, is_quiet, found)
        if start is not None and end is not None:
            found.append(Region(start, end))

    def _members(self, region: Region) -> list[Statement]:
        siblings = self.tree.siblings(region.first)
        run = siblings[siblings.index(region.first) : siblings.index(region.last) + 1]
        return [each for statement in run for each in _with_nested(statement)]


def _own_blocks(statement: Statement) -> tuple[Block, ...]:
    return () if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else blocks(statement)


def _with_nested(statement: Statement) -> list[Statement]:
    return [statement, *(inner for block in _own_blocks(statement) for inner in nested_statements(block))]


def _calls(statement: Statement) -> list[cst.Call]:
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return []
    return [call for part in header(statement) for call in find(part, cst.Call)]
