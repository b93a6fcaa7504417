"""What the files of one Apex script say: what is initialized, the training steps, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Dtype
from amp_migrate.steps.apex_doubts import (
    asked_elsewhere,
    leftovers,
    plain_steps,
    without_forwards,
    without_initialize,
    without_steps,
)
from amp_migrate.steps.apex_functions import float_functions
from amp_migrate.steps.apex_group import Group, uses_apex_amp
from amp_migrate.steps.apex_initialize import read_initializes
from amp_migrate.steps.apex_inits import read_inits
from amp_migrate.steps.apex_split import ApexSplit, join
from amp_migrate.steps.fp16_optimizer import not_understood, read_wrappers, wrapper_calls
from amp_migrate.steps.model import TrainingStep
from amp_migrate.steps.read_apex import ApexStep, read_steps
from amp_migrate.steps.steppers import Steppers
from amp_migrate.steps.unfit import in_threads
from amp_migrate.wishes import Wishes


class ScriptReader:
    """Reads the Apex scripts of a project.

    Args:
        files: those that were given.
    """

    def __init__(self, project: Project, roles: Roles, wishes: Wishes, files: Sequence[File]) -> None:
        self._project = project
        self._roles = roles
        self._settings = wishes.settings
        self._files = files
        self._wishes = wishes
        self._steppers = None if wishes.settings.dtype is Dtype.BF16 else Steppers(roles)

    def read(self, group: Group, *, is_alone: bool) -> None:
        """Fill a group with what its files say, and with what stands in the way.

        Args:
            is_alone: whether files that only say what functions compute in have no script whose way they could go.
        """
        wraps = any(map(wrapper_calls, group.files))
        found: list[ApexStep] = []
        for file in group.files:
            group.refusals.extend(leftovers(self._project, file, self._settings.target_torch))
            group.refusals.extend(not_understood(file, self._roles) if wraps else ())
            wrapped = read_wrappers(file, self._settings.apex_o2)
            group.initializes.extend(read_inits(file))
            for read in read_initializes(file, self._settings.apex_o2, wrapped):
                if isinstance(read, Refusal):
                    group.refusals.append(read)
                else:
                    group.initializes.append(read)
            for step in read_steps(file, self._roles, self._steppers, wraps=wraps):
                if isinstance(step, Refusal):
                    group.refusals.append(step)
                else:
                    found.append(step)
        self._join(group, found)
        group.refusals.extend(asked_elsewhere(group, self._files))
        if self._settings.dtype is not Dtype.FP16:
            threaded = (in_threads(file, self._roles) for file in group.files)
            group.refusals.extend(each for each in threaded if each is not None)
        if not group.initializes and not group.refusals and is_alone:
            for file in group.files:
                reason = "amp.float_function belongs to a script that is not among the files that were given"
                group.refusals.extend(Refusal(file, node, reason) for node in float_functions(file))
        has_steps = bool(group.steps or group.splits)
        if group.initializes and not has_steps and not group.refusals:
            group.refusals.extend(without_steps(group.initializes))
            group.refusals.extend(plain_steps(group))
        if group.initializes and not has_steps and not group.refusals:
            group.refusals.extend(without_forwards(group, self._roles))
        if not group.initializes and not group.refusals:
            group.refusals.extend(without_initialize(group))

    def _join(self, group: Group, found: list[ApexStep]) -> None:
        """Put the parts of the group's steps together."""
        for each in join(self._project, self._roles, found, self._steppers):
            if isinstance(each, Refusal):
                group.refusals.append(each)
            elif isinstance(each, ApexSplit):
                group.splits.append(each)
                for part in each.steps:
                    group.refusals.extend(self._out_of_reach(group, part.gathered.step))
            elif self._settings.dtype is not Dtype.BF16 and each.gathered.unscalable is not None:
                group.refusals.append(each.gathered.unscalable)
            else:
                group.steps.append(each)

    def _out_of_reach(self, group: Group, step: TrainingStep) -> Iterator[Refusal]:
        """Why a part of a step cannot move with the script."""
        if step.file not in group.files and uses_apex_amp(step.file):
            yield Refusal(step.file, step.place, "another script that uses Apex takes part in the step")
        elif not self._wishes.wants(step.file.tree, step.place, "AMP201"):
            yield Refusal(step.file, step.place, "a part of the step is to be left alone")
