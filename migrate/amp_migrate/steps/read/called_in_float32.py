"""Where a step is called with all casts switched off: whoever calls it there wants it in float32."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.steps.statements.amp_signs import is_switched_off
from amp_migrate.tables.apex_names import AMP, SHIM
from amp_migrate.tables.torch_names import AUTOCAST

_OF_APEX = frozenset({f"{AMP}.disable_casts", f"{SHIM}.amp.disable_casts"})


def called_in_float32(project: Project, step: TrainingStep) -> Refusal | None:
    """Why a step stays that some way to it brings into a block without casts; None where no call of it is in one."""
    waiting = [] if step.function is None else [project.reference(step.file, step.function)]
    seen = {each.node for each in waiting}
    while waiting:
        for site in project.call_sites(waiting.pop()) or ():
            off = _switched_off(site.file, site.call)
            if off is not None:
                return Refusal(site.file, off, "it is called where casts are switched off", "migrate it by hand")
            function = site.file.tree.function(site.call)
            if function is not None and function not in seen:
                seen.add(function)
                waiting.append(project.reference(site.file, function))
    return None


def _switched_off(file: File, call: cst.Call) -> cst.Call | None:
    """What switches all casts off for a call, in the nearest block round it that says anything of casts."""
    for with_ in (each for each in file.tree.ancestors(call) if isinstance(each, (cst.With, cst.FunctionDef))):
        if isinstance(with_, cst.FunctionDef):
            return None
        for made in (item.item for item in reversed(with_.items) if isinstance(item.item, cst.Call)):
            meant = file.names.meanings(made.func)
            if meant & _OF_APEX or meant & AUTOCAST:
                return made if meant & _OF_APEX or is_switched_off(file, made) else None
    return None
