"""`max_grad_norm=` of the `FusedAdam` that Apex had in 2019: its `step` clipped the gradients of each group.

It did so for the `FP16_Optimizer` around it, which knew their norms. Today's `FusedAdam` takes no such argument, and
that of `contrib` raises without a wrapper that tells it the norms, so the script clips by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.uses.apex_calls import wrapper_calls
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.tables.apex_names import CLIPS_IN_STEP, USE_SHIM
from amp_migrate.tables.apex_natives import public_name
from amp_migrate.trees.nodes import is_constant

_KEYWORD = "max_grad_norm"
_GONE = "eps_inside_sqrt"


@frozen
class NormLimit:
    """One such argument, and the file it is in."""

    file: File
    arg: cst.Arg

    @property
    def code(self) -> str:
        """The limit as code."""
        return self.file.tree.code(self.arg.value)

    def is_made_beside(self, step: TrainingStep) -> bool:
        """Whether the optimizer is made in the function that steps it."""
        return step.file is self.file and step.function is self.file.tree.function(self.arg)


def norm_limits(file: File) -> Iterator[NormLimit]:
    """The limits in a file that puts an `FP16_Optimizer` round its optimizers."""
    for call in file.calls if wrapper_calls(file) else ():
        if public_name(file.names.callee(call)) in CLIPS_IN_STEP:
            for arg in call.args:
                if arg.keyword is not None and arg.keyword.value == _KEYWORD:
                    yield NormLimit(file, arg)


def limit_of(files: Iterable[File]) -> NormLimit | Refusal | None:
    """The limit that a script has everywhere; None where nothing is clipped."""
    found = [each for file in files for each in norm_limits(file)]
    for each in found:
        call = cst.ensure_type(each.file.tree.parents[each.arg], cst.Call)
        is_in_contrib = each.file.names.callee(call).startswith("apex.contrib.")
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == _GONE and not is_in_contrib:
                return Refusal(each.file, arg, f"Apex's FusedAdam has no {_GONE}= any more", USE_SHIM)
    if len({each.code for each in found}) > 1:
        file, arg = found[-1].file, found[-1].arg
        return Refusal(file, arg, "its optimizers are clipped to several norms in their step", USE_SHIM)
    limits = [each for each in found if not _is_zero(each.arg.value)]
    return limits[0] if limits else None


def not_clipped(limit: NormLimit, step: TrainingStep, *, has_scaler: bool) -> Refusal | None:
    """Why a step cannot clip to a limit by itself: elsewhere, the scaler says whether its optimizer did."""
    is_number = isinstance(limit.arg.value, (cst.Float, cst.Integer))
    is_known = (is_number and (has_scaler or step.enabled is None)) or limit.is_made_beside(step)
    if not is_known or any(each.part is not None for each in step.optimizer_steps):
        return Refusal(step.file, step.place, "what its optimizer clips gradients to cannot be seen here", USE_SHIM)
    return None


def _is_zero(value: cst.BaseExpression) -> bool:
    return is_constant(value, "None") or (
        isinstance(value, (cst.Float, cst.Integer)) and float(value.evaluated_value) == 0
    )
