"""The clipping that `FusedAdam` did in its step, as lines of the script."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.plan.code import Code, code
from amp_migrate.plan.edit import Edit, Remove
from amp_migrate.steps.apex.uses.norm_limits import norm_limits
from amp_migrate.steps.model.training_step import ScaledUse, TrainingStep
from amp_migrate.write.editor import Editor, guarded

_GROUPS = ("group", "param_group", "clipped_group")


def write_clips(
    editor: Editor, step: TrainingStep, scaler: str | None, limit: str, enabled: Code | str | None
) -> Iterator[Edit]:
    """The edits that clip the gradients of each group where a step took care of that, if mixed precision is on."""
    unscaled = [each.optimizer for each in step.gradient_uses if not isinstance(each, ScaledUse)]
    known = {editor.text(each) for each in unscaled}
    for each in step.optimizer_steps:
        scope = step.file.scopes.of(each.call)
        name = next((name for name in _GROUPS if scope.find(name) is None), _GROUPS[-1])
        groups: Code = code("{}.param_groups", each.optimizer)
        if enabled is not None:
            groups = code("{} if {} else ()", groups, enabled)
        clip = code('{}.nn.utils.clip_grad_norm_({}["params"], {})', editor.torch(each.call), name, limit)
        unscale = [] if scaler is None or editor.text(each.optimizer) in known else [_unscale(scaler, each.optimizer)]
        yield editor.before(each.statement, *unscale, guarded(code("for {} in {}:", name, groups), clip))


def write_limits_gone(editor: Editor) -> Iterator[Edit]:
    """The edits that take the argument out of the calls of a file."""
    for limit in norm_limits(editor.file):
        yield editor.edit(limit.arg, Remove())


def _unscale(scaler: str, optimizer: cst.BaseExpression) -> Code:
    return code("{}.unscale_({})", scaler, optimizer)
