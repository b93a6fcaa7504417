"""Apex steps that are spread over functions: one goes backward by `amp.scale_loss`, and its callers run the forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.step.apex_steps import ApexStep, gatherer, plain_backwards, sees_others, stepped_elsewhere
from amp_migrate.steps.apex.step.folded_branches import Lines, clip_folds
from amp_migrate.steps.gradients.steppers import Steppers
from amp_migrate.steps.model.route import Route
from amp_migrate.steps.model.training_step import Backward, TrainingStep
from amp_migrate.steps.read.gather import Gathered
from amp_migrate.steps.read.split import Joiner, Key, Split, key_of
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.scaler.of_split_step import Reach, scale_parts
from amp_migrate.steps.statements.amp_signs import uses_amp
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees.nodes import Statement, block_of, nested_statements


@frozen
class ApexSplit:
    """A step in several functions.

    Attributes:
        split: what each function has of it.
        parts: what is known of its functions, with the branches that fold there.
    """

    split: Split
    parts: dict[Key, ApexStep]

    @property
    def steps(self) -> list[ApexStep]:
        """The parts, as they move where no scaler is needed."""
        return [self._part(each.step) for each in self.split.parts]

    def scaled(self, roles: Roles, reach: Reach) -> list[tuple[ApexStep, Route | None]] | Refusal:
        """The parts with the ways of their scalers, each caller before what it calls."""
        found = scale_parts(self.split, roles, reach)
        return found if isinstance(found, Refusal) else [(self._part(each.step), each.route) for each in found]

    def _part(self, step: TrainingStep) -> ApexStep:
        known = self.parts.get(key_of(step), ApexStep(Gathered(step, None), ()))
        return replace(known, gathered=Gathered(step, None))


def join(
    project: Project,
    roles: Roles,
    found: Sequence[ApexStep],
    steppers: Steppers | None,
    values: ValueCalls,
    apart: Lines,
) -> list[ApexStep | ApexSplit | Refusal]:
    """The steps of a script, given what each function has that scales a loss.

    Args:
        steppers: knows functions that step for others; None where nobody has to know of steps.
        values: knows who calls functions that are handed on as values.
        apart: see `Settings.clipped_apart`.
    """
    parts = {key_of(each.gathered.step): each for each in found}

    def again(file: File, function: cst.FunctionDef | None, backwards: list[Backward]) -> Gathered | Refusal:
        known = parts.get((file, function))
        body = file.tree.module if function is None else block_of(function)
        called = {each.call for each in backwards}
        if known is None and uses_amp(file, body, function):
            at = backwards[0].statement if backwards else body
            return Refusal(file, at, "Apex and native AMP stand side by side in one step", USE_SHIM)
        folds = clip_folds(file, body, {}, apart) if known is None else list(known.folds)
        dead = frozenset(s for f in folds for s in nested_statements(f.dead)) if known is None else known.left_out
        others = plain_backwards(file, roles, body, called, dead) if known is None else []
        if isinstance(others, Refusal):
            return others
        backwards = sorted([*backwards, *others], key=lambda each: file.tree.order[each.statement])
        is_penalty = function is not None and roles.takes_gradients(project.reference(file, function))
        if not backwards and not is_penalty:
            reason = "what may be called in place of this, which scales the loss, does not go backward by itself"
            return Refusal(file, function or body, reason, USE_SHIM)
        stepped = stepped_elsewhere(file, body, dead, steppers)
        stays = frozenset[Statement]() if known is None else known.staying
        gathered = gatherer(file, roles, dead).gather(function, backwards, stepped_elsewhere=stepped, apart=stays)
        if known is None and isinstance(gathered, Gathered):
            parts[file, function] = ApexStep(gathered, tuple(folds), dead)
        return gathered

    joined: list[ApexStep | ApexSplit | Refusal] = []
    for each in Joiner(project, again, steppers, values).join([step.gathered for step in found]):
        if isinstance(each, Split):
            mixed = (sees_others(project, part.step, each.calls) for part in each.parts)
            joined.append(next(filter(None, mixed), None) or ApexSplit(each, parts))
        elif isinstance(each, Refusal):
            joined.append(each)
        else:
            joined.append(sees_others(project, each.step, {}) or replace(parts[key_of(each.step)], gathered=each))
    return joined
