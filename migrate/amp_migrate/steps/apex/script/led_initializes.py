"""Initializations that another one leads: it has run by then, and Apex is on for the whole process.

Such a one says nothing of mixed precision: it is on under the condition of the first, whatever else the later one is
asked, and one scaler, made with the first, serves the optimizers of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amp_migrate.analysis.project import Project
from amp_migrate.plan.code import source
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.reached import standing, still_asked
from amp_migrate.steps.apex.script.script_group import ApexScript
from amp_migrate.trees import build
from amp_migrate.trees.nodes import parts_of


def with_led_apart(project: Project, script: ApexScript, initializes: Sequence[Initialize]) -> ApexScript:
    """A script with its initializations, apart from those that others of their function lead."""
    led = tuple(each for each in initializes if any(_leads(project, other, each) for other in initializes))
    return replace(script, initializes=tuple(each for each in initializes if each not in led), led=led)


def _leads(project: Project, first: Initialize, second: Initialize) -> bool:
    """Whether one initialization comes before another as surely as that runs, and asks for the same scaler and casts.

    O1 casts in the whole process, O2 only what is prepared.
    """
    tree = first.file.tree
    is_beside = first.file is second.file and tree.function(first.home) is tree.function(second.home)
    is_alike = is_beside and first.what == second.what == "amp.initialize" and first.has_masters <= second.has_masters
    is_scaled_so = second.optimizers is None or (first.optimizers is not None and _scale(first) == _scale(second))
    if first is second or not is_alike or not is_scaled_so:
        return False
    asked = still_asked(project, first, standing(second))
    return asked is not None and _parts(asked) <= _parts(second.switch)


def _parts(switch: Sequence[str]) -> set[str]:
    """Everything that is asked, each question by itself, as code."""
    return {source(part) for code in switch for part in parts_of(build.expression(code))}


def _scale(initialize: Initialize) -> tuple[object, ...]:
    return initialize.init_scale, initialize.limits, initialize.growth, initialize.setting
