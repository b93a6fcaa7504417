"""What the files of one Apex script say: what is initialized, the training steps, and what stands in the way."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.catalog.apex_rules import APEX_STEP
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Dtype
from amp_migrate.steps.apex.initialize.init_calls import read_inits
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize, read_initializes
from amp_migrate.steps.apex.initialize.reached import runs_early, ways_to
from amp_migrate.steps.apex.script.doubts import (
    asked_elsewhere,
    leftovers,
    plain_steps,
    stash_asked,
    without_forwards,
    without_initialize,
    without_steps,
    wrapper_asked_elsewhere,
)
from amp_migrate.steps.apex.script.idle_optimizers import is_idle_optimizer
from amp_migrate.steps.apex.script.prepared_steps import PreparedOptimizers, plain_steps_of
from amp_migrate.steps.apex.script.script_group import ApexScript, trains, uses_apex_amp
from amp_migrate.steps.apex.script.starting_files import starting_files
from amp_migrate.steps.apex.step.apex_steps import ApexStep, read_plain, read_steps
from amp_migrate.steps.apex.step.fp16_optimizer import not_understood, read_wrappers
from amp_migrate.steps.apex.step.half_weights import asked_of_weights
from amp_migrate.steps.apex.step.split_steps import ApexSplit, join
from amp_migrate.steps.apex.uses import apex_state
from amp_migrate.steps.apex.uses.apex_calls import wrapper_calls
from amp_migrate.steps.apex.uses.cast_functions import cast_functions
from amp_migrate.steps.gradients.steppers import Steppers
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.steps.read.unfit import unread
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.regions.evaluation import (
    called_within,
    evaluated_by_objects,
    evaluated_by_others,
    evaluated_elsewhere,
    evaluated_in_lists,
)
from amp_migrate.wishes import Wishes


class ScriptReader:
    """Reads the Apex scripts of a project.

    Args:
        files: those that were given.
        values: knows who calls functions that are handed on as values.
    """

    def __init__(
        self, project: Project, roles: Roles, wishes: Wishes, files: Sequence[File], values: ValueCalls
    ) -> None:
        self._project = project
        self._roles = roles
        self._settings = wishes.settings
        self._files = files
        self._wishes = wishes
        self._values = values
        self._steppers = None if wishes.settings.dtype is Dtype.BF16 else Steppers(roles, values)

    def read(self, files: tuple[File, ...], known: Sequence[Refusal], *, alone: str) -> ApexScript:
        """What the files of a script say, and what stands in the way of native AMP.

        Args:
            known: what is known already to stand there.
            alone: why files that only say what functions compute in have no script whose way they could go, if they do.
        """
        wraps = any(map(wrapper_calls, files))
        refusals = list(known)
        initializes: list[Initialize] = []
        found: list[ApexStep] = []
        prepared, apart = PreparedOptimizers(self._project, files), self._settings.clipped_apart
        knows = prepared and self._settings.dtype is not Dtype.BF16
        unprepared = partial(prepared.leaves, apart=()) if knows else None
        for file in files:
            refusals += leftovers(self._project, file, files, self._settings.target_torch)
            refusals += not_understood(file, self._roles) if wraps else ()
            wrapped = read_wrappers(file, self._settings.apex_o2, files)
            for read in (*read_inits(file), *read_initializes(file, self._settings.apex_o2, wrapped)):
                (refusals if isinstance(read, Refusal) else initializes).append(read)  # type: ignore[arg-type]
            for step in read_steps(file, self._roles, self._steppers, unprepared, wraps=wraps, apart=apart):
                (refusals if isinstance(step, Refusal) else found).append(step)  # type: ignore[arg-type]
        if wraps:
            asked = [asked_of_weights(self._project, self._roles, files, each) for each in initializes]
            refusals += [each for each in asked if isinstance(each, Refusal)]
            initializes = [each for each in asked if isinstance(each, Initialize)]
        plain = () if found else tuple(self._plain(files, initializes, prepared))
        found += plain
        scales = not plain and self._settings.dtype is not Dtype.BF16
        steps, splits, in_parts = self._joined(files, found, scales=scales)
        refusals += in_parts
        refusals += filter(None, map(unread, files))
        refusals += asked_elsewhere(files, self._files)
        refusals += wrapper_asked_elsewhere(self._project, files) if wraps else ()
        refusals += stash_asked(self._project, files)
        refusals += apex_state.not_understood(files)
        parts = (part.gathered.step for each in splits for part in each.steps)
        within = called_within(self._roles, [*(each.gathered.step for each in steps), *parts])
        evaluates = partial(self._evaluates, within)
        running = starting_files(self._project, files, initializes)
        evaluated = {
            file: [each for each in functions if self._wishes.wants(file.tree, each, APEX_STEP.code)]
            for file, functions in evaluated_elsewhere(self._project, files, evaluates, running).items()
            if not trains(file)
        }
        called = {each.func for file in (*files, *running) for each in file.calls}
        may_be_round = self._settings.evaluated_inside.isdisjoint(each.name for each in files)
        by_others = tuple(
            (file, call, function if may_be_round else None)
            for file, call, function in evaluated_by_others(self._roles, files, evaluated, evaluates, running)
            # What is handed on is called later.
            if not (call in called and runs_early(self._project, initializes, file, call))
        )
        by_others += tuple(
            (file, call.func, None)
            for file, call in (
                *evaluated_by_objects(self._roles, files, within),
                *evaluated_in_lists(self._roles, self._values, files, within),
            )
            if not runs_early(self._project, initializes, file, call)
        )
        script = ApexScript(files, tuple(initializes), steps, splits, (), evaluated, by_others, may_be_round)
        if not script.all_steps and not any(without_forwards(script, self._roles)):
            of_models = (
                replace(each, optimizers=None) if is_idle_optimizer(self._project, each) else each
                for each in initializes
            )
            script = replace(script, initializes=tuple(of_models))
        if not refusals:
            refusals = self._missing(script, alone)
        return replace(script, refusals=tuple(refusals), is_unscaled=bool(plain))

    def _plain(
        self, files: Sequence[File], initializes: Sequence[Initialize], prepared: PreparedOptimizers
    ) -> Iterator[ApexStep]:
        """The steps of a script that scales no loss, where Apex prepares the optimizers of all, and casts for them."""
        if not initializes or not all(each.keeps_weights and each.optimizers is not None for each in initializes):
            return
        read = [each for file in files for each in read_plain(file, self._roles, self._steppers)]
        steps = [each for each in read if isinstance(each, ApexStep)]
        stepped = [(each.gathered.step.file, one) for each in steps for one in each.gathered.step.optimizer_steps]
        by = [prepared.preparing(file, each.optimizer) for file, each in stepped]
        places = ((each.gathered.step.file, each.gathered.step.place) for each in steps)
        ways = [ways_to(self._project, initializes, *each) for each in places]
        is_cast = all(each is not None and not any(e.is_apart or e.is_early for e in each) for each in ways)
        if len(steps) == len(read) and is_cast and by and all(each is not None and not each.is_off for each in by):
            yield from steps

    def _evaluates(self, within: Collection[cst.FunctionDef], file: File, call: cst.Call) -> bool:
        """Whether a call runs a forward by a function that is no part of a step: Apex cast in the whole process."""
        function = self._project.called(file, call)
        if function is None or function.node in within or function.name == "__init__":
            return False
        is_module = function.owner is not None and self._roles.is_module_class(function.file, function.owner)
        return not is_module and self._roles.has_forward(function) and not self._roles.may_train(file, call)

    def _missing(self, script: ApexScript, alone: str) -> list[Refusal]:
        """What a script would need beside what is among the files."""
        if not script.initializes:
            functions = ((file, node) for file in script.files for node in cast_functions(file))
            refused = [Refusal(file, node, alone) for file, node in functions] if alone else []
            return refused or list(without_initialize(script))
        if script.all_steps:
            return list(plain_steps_of(script, self._project, self._roles))
        refusals = [*without_steps(script.initializes)] or [*plain_steps(script.files)]
        return refusals or list(without_forwards(script, self._roles))

    def _joined(
        self, files: Collection[File], found: list[ApexStep], *, scales: bool
    ) -> tuple[tuple[ApexStep, ...], tuple[ApexSplit, ...], list[Refusal]]:
        """The steps of a script with their parts put together, and what cannot be."""
        steps: list[ApexStep] = []
        splits: list[ApexSplit] = []
        refusals: list[Refusal] = []
        for each in join(self._project, self._roles, found, self._steppers, self._values, self._settings.clipped_apart):
            if isinstance(each, Refusal):
                refusals.append(each)
            elif isinstance(each, ApexSplit):
                splits.append(each)
                for part in each.steps:
                    refusals += self._out_of_reach(files, part.gathered.step)
            elif scales and each.gathered.unscalable is not None and not each.gathered.own:
                refusals.append(each.gathered.unscalable)
            else:
                steps.append(each)
        return tuple(steps), tuple(splits), refusals

    def _out_of_reach(self, files: Collection[File], step: TrainingStep) -> Iterator[Refusal]:
        """Why a part of a step cannot move with the script."""
        if step.file not in files and uses_apex_amp(step.file):
            yield Refusal(step.file, step.place, "another script that uses Apex takes part in the step")
        elif not self._wishes.wants(step.file.tree, step.place, APEX_STEP.code):
            yield Refusal(step.file, step.place, "a part of the step is to be left alone")
