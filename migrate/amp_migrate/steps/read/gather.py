"""What the readers share: from the backwards of one function to the whole step around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.gradients.early_ends import early_ends
from amp_migrate.steps.gradients.gradient_uses import gradient_uses
from amp_migrate.steps.gradients.own_losses import own_losses
from amp_migrate.steps.gradients.penalties import Penalties, read_penalties
from amp_migrate.steps.gradients.steppers import optimizer_steps
from amp_migrate.steps.gradients.tested_steps import with_tests
from amp_migrate.steps.gradients.updates import may_wait, place_updates
from amp_migrate.steps.model.training_step import (
    Backward,
    Extraction,
    GradientUse,
    Island,
    OptimizerStep,
    Region,
    TrainingStep,
)
from amp_migrate.steps.read.obstacles import Obstacles
from amp_migrate.steps.read.slices import Slices
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees.nodes import Block, Statement, block_of, blocks, find, inner_statements, nested_statements


@frozen
class Gathered:
    """What one function has of a step.

    Attributes:
        step: as the bf16 writer needs it.
        unscalable: what keeps a loss scaler from it, if anything does.
        without_forward: what to say where the forward pass is not in this function.
        without_step: what to say where no optimizer steps in this function.
        left_out: the statements that are no part of it: they will be gone, or see gradients as they did.
        own: the step of each optimizer by itself, the first with all regions, where no one scaler can serve them and
            each may have its own.
    """

    step: TrainingStep
    unscalable: Refusal | None
    without_forward: Refusal | None = None
    without_step: Refusal | None = None
    left_out: frozenset[Statement] = frozenset()
    own: tuple[TrainingStep, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether forward, backward and step are all here."""
        return self.without_forward is None and self.without_step is None

    @property
    def is_by_itself(self) -> bool:
        """Whether it is a whole step in which no function that others call has a part."""
        return self.is_whole and not self.step.called_parts

    def alone(self) -> Gathered | Refusal:
        """The step, taken for all there is of it."""
        return self.without_forward or replace(self, unscalable=self.unscalable or self.without_step, without_step=None)


@frozen
class _Computation:
    """What comes before the backwards of one function.

    Attributes:
        regions: where the losses are computed.
        islands: the expressions in them that stay in float32.
        extractions: the forwards that are taken out of losses which stay outside.
        backwards: the calls of backward, marked where they compute their loss themselves.
        without_forward: what to say where the forward pass is not among them.
    """

    regions: tuple[Region, ...]
    islands: tuple[Island, ...]
    extractions: tuple[Extraction, ...]
    backwards: list[Backward]
    without_forward: Refusal | None


class Gatherer:
    """Builds training steps in one file.

    Args:
        dead: statements that will be gone, and count for nothing.
        is_mixed: whether the process runs in mixed precision already, so that whatever computes the loss did.
        scales: whether a loss scaler goes with the steps, so that it has to be brought to gradient penalties.
        values: knows what losses reach.
    """

    def __init__(
        self,
        file: File,
        roles: Roles,
        dead: frozenset[Statement] = frozenset(),
        *,
        is_mixed: bool = False,
        scales: bool = False,
        values: ValueCalls | None = None,
    ) -> None:
        self.file = file
        self.is_mixed = is_mixed
        self.scales = scales
        self._values = values
        self.dead = dead
        self.tree = file.tree
        self.roles = roles
        self.regions = RegionFinder(file, roles)
        self.slices = Slices(file, roles, self.regions, dead)
        self.obstacles = Obstacles(file, roles, self.regions, is_mixed=is_mixed)

    def gather(
        self,
        function: cst.FunctionDef | None,
        backwards: list[Backward],
        stepped_elsewhere: Sequence[OptimizerStep] = (),
        apart: frozenset[Statement] = frozenset(),
    ) -> Gathered | Refusal:
        """The step of one function, given its calls of backward.

        Args:
            function: the function; None for module level.
            backwards: what the dialect's reader found there, in source order.
            stepped_elsewhere: its calls of functions that step an optimizer.
            apart: the statements of other steps, which no region may hold.

        Returns:
            A `Refusal` where regions cannot be placed.
        """
        body = self.tree.module if function is None else function.body
        assert isinstance(body, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite))
        parts = {each.call for each in backwards if each.part is not None}
        stepped_elsewhere = [each for each in stepped_elsewhere if each.call not in parts]
        elsewhere = {each.call for each in stepped_elsewhere} | parts
        steps = sorted(
            [*(each for each in self.optimizer_steps(body) if each.call not in elsewhere), *stepped_elsewhere],
            key=lambda each: self.tree.order[each.statement],
        )
        penalties = self._penalties(body, frozenset(each.call for each in backwards if each.part is not None))
        barriers = frozenset([b.statement for b in backwards] + [s.statement for s in steps])
        own = Penalties() if isinstance(penalties, Refusal) else penalties
        # What trains something else on its way, between the forward and the loss, has a region of its own.
        barriers |= apart | own.outside | {each for each in nested_statements(body) if self.regions.trains(each)}
        self.regions.derived.update(own.outside)
        computed = self._computation(body, backwards, barriers)
        if isinstance(computed, Refusal):
            return computed
        backwards = computed.backwards
        steps = [each for each in steps if not self.obstacles.goes_backward_itself(each)] or steps
        tested = with_tests(self.file, self.roles, steps, backwards)
        uses = gradient_uses(self.file, self.roles, body, backwards, tested, self.dead, self._values)
        updates = place_updates(self.file, backwards, tested)
        unscaled = [] if isinstance(uses, Refusal) else [each for each in uses if isinstance(each, GradientUse)]
        ends = () if isinstance(updates, Refusal) else tuple(early_ends(self.tree, body, tested, unscaled, updates))
        problems = [each for each in (penalties, uses, updates) if isinstance(each, Refusal)]
        step = TrainingStep(
            file=self.file,
            function=function,
            regions=computed.regions,
            islands=computed.islands,
            extractions=(*computed.extractions, *own.extractions),
            backwards=tuple(backwards),
            gradient_uses=() if isinstance(uses, Refusal) else uses,
            optimizer_steps=tuple(steps),
            updates=() if isinstance(updates, Refusal) else updates,
            early_ends=ends,
            penalties=own.taken,
            penalty_calls=own.calls,
        )
        unscalable = self.obstacles.scaling(steps) or next(iter(problems), None)
        is_stepped = bool(steps) or all(backward.steps for backward in backwards)
        without_step = None if is_stepped else self.obstacles.without_step(function, backwards)
        without_forward = computed.without_forward
        if without_forward is not None and self.scales and self.obstacles.is_closure(function):
            without_forward = without_step  # wherever its forward is, no scaler could step it
        is_shared = unscalable is None and not may_wait(self.file, backwards, tested, step.updates)
        is_apart = self.scales and not is_shared and (unscalable is None or unscalable is updates)
        own_steps = tuple(self._own_steps(body, step, tested)) if is_apart else ()
        return Gathered(step, unscalable, without_forward, without_step, self.dead, own_steps)

    def _own_steps(self, body: Block, step: TrainingStep, tested: list[OptimizerStep]) -> Iterator[TrainingStep]:
        """The step of each optimizer by itself, where each loss reaches one optimizer's gradients alone."""
        code_of = self.tree.code
        uses = [each for each in step.gradient_uses if isinstance(each, GradientUse)]
        is_plain = len(uses) == len(step.gradient_uses) and not step.penalties and not step.penalty_calls
        is_asked = is_plain and len({code_of(each.optimizer) for each in tested}) > 1
        program = self._values.program(self.file, step.place) if self._values is not None and is_asked else None
        losses = None if program is None else own_losses(program, self.file, step.backwards, tested)
        if losses is None or not {code_of(each.optimizer) for each in uses} <= losses.keys():
            return
        found: list[TrainingStep] = []
        for name, backwards in losses.items():
            steps = [each for each in tested if code_of(each.optimizer) == name]
            updates = place_updates(self.file, backwards, steps)
            if isinstance(updates, Refusal):
                return
            unscaled = [each for each in uses if code_of(each.optimizer) == name]
            whole = replace(step, regions=(), islands=(), extractions=()) if found else step
            found.append(
                replace(
                    whole,
                    backwards=tuple(backwards),
                    gradient_uses=tuple(unscaled),
                    optimizer_steps=tuple(each for each in step.optimizer_steps if code_of(each.optimizer) == name),
                    updates=updates,
                    early_ends=tuple(early_ends(self.tree, body, steps, unscaled, updates)),
                )
            )
        yield from found

    def _computation(
        self, body: Block, backwards: Sequence[Backward], barriers: frozenset[Statement]
    ) -> _Computation | Refusal:
        """What comes before the backwards, in regions that keep clear of the statements that train."""
        losses = self._losses(body, backwards)
        if isinstance(losses, Refusal):
            return losses
        members, marked, without_forward = losses
        barriers |= {
            each for each in nested_statements(body) if each not in members and self.regions.may_train_unseen(each)
        }
        members |= self.slices.forwards_of_outputs(body, members, barriers)
        taken_out = self.obstacles.extractions(members)
        if isinstance(taken_out, Refusal):
            return taken_out
        placement = self.regions.training(body, members, barriers, frozenset(each.value for each in taken_out))
        refused = self.obstacles.yielding(members) or self.obstacles.mixed_elsewhere(members)
        if refused is not None:
            return refused
        ends = barriers.union(region.first for region in placement.regions)
        regions = tuple(self._up_to_inline(region, marked, ends) for region in placement.regions)
        return _Computation(regions, placement.islands, taken_out, marked, without_forward)

    def _losses(
        self, body: Block, backwards: Sequence[Backward]
    ) -> tuple[set[Statement], list[Backward], Refusal | None] | Refusal:
        """The statements that compute the losses, the backwards marked, and what to say where no forward is there."""
        members: set[Statement] = set()
        marked: list[Backward] = []
        without_forward: Refusal | None = None
        for backward in backwards:
            found, has_forward = self.slices.before(body, backward)
            calls = () if backward.part is not None else tuple(find(backward.loss, cst.Call))
            if any(map(self.regions.is_banned, calls)):
                return self.obstacles.without_name(backward.statement)
            is_computed = has_forward or backward.computes or (bool(members) and backward.part is None)
            is_computed = is_computed or any(self.roles.runs_forward(self.file, each) for each in calls)
            if self.is_mixed and not is_computed:
                is_computed = self.slices.assume_forward(body, found, backward)
            is_computed = is_computed or any(map(self._computes, calls))
            if not is_computed:
                unknown = self.slices.unknown_call(found, backward)
                within = self.slices.unknown_within(found) if unknown is None else None
                tensor = self.slices.trained_tensor(found, backward)
                refused = self.obstacles.without_forward(backward, unknown, tensor, within)
                if unknown is not None and self.slices.is_same_in_each_round(found, backward):
                    return refused
                without_forward = without_forward or refused
            marked.append(replace(backward, inline=True) if calls else backward)
            if has_forward or not backward.computes:  # what computes its loss itself is given none
                members.update(found)
        return members, marked, without_forward

    def optimizer_steps(self, body: Block) -> list[OptimizerStep]:
        """The calls `optimizer.step()` of a body, in source order."""
        return [each for each in optimizer_steps(self.roles, self.file, body) if each.statement not in self.dead]

    def _up_to_inline(self, region: Region, backwards: list[Backward], ends: frozenset[Statement]) -> Region:
        """A region that goes on to a `criterion(output, target).backward()` behind it, to hold the loss as well.

        Args:
            ends: what it must not go over: statements that train, and the beginnings of regions.
        """
        siblings = self.tree.siblings(region.first)
        rest = siblings[siblings.index(region.last) + 1 :]
        for index, statement in enumerate(rest):
            if any(b.inline and b.statement is statement for b in backwards):
                return Region(region.first, rest[index - 1] if index else region.last)
            if not ends.isdisjoint([statement, *inner_statements(statement)]):
                break
        return region

    def _computes(self, call: cst.Call) -> bool:
        return self.roles.runs_forward(self.file, call) or self.roles.losses.is_call(self.file, call)

    def penalty(self, function: FunctionRef) -> TrainingStep:
        """The part of a function that computes a gradient penalty for a training step."""
        body = block_of(function.node)
        found = self._penalties(body)
        assert isinstance(found, Penalties)
        self.regions.derived.update(found.outside)
        members: set[Statement] = set()
        for returned in (each for each in nested_statements(body) if isinstance(each, cst.Return)):
            before = [
                each
                for each in nested_statements(body)
                if self.tree.order[each] < self.tree.order[returned] and not blocks(each)
            ]
            members.update(self.regions.effects.backward_slice(reads([returned]), before, returned))
            if any(True for _ in find(returned, cst.Call)):
                members.add(returned)
        return TrainingStep(
            file=self.file,
            function=function.node,
            regions=self.regions.training(body, members, found.outside).regions,
            extractions=found.extractions,
            penalties=found.taken,
            penalty_calls=found.calls,
        )

    def _penalties(self, body: Block, parts: frozenset[cst.Call] = frozenset()) -> Penalties | Refusal:
        """The gradients that the function takes by itself, where they can be scaled and have to be."""
        return read_penalties(self.file, self.roles, body, parts) if self.scales else Penalties()
