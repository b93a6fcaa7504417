"""Any training step as native `torch.amp`: its regions, and the scaler's calls round its backwards and steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count

import libcst as cst

from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.model import Backward, Island, Penalty, Region, ScaledClip, TrainingStep
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Line, Statement


def write_step(draft: Draft, step: TrainingStep, dtype: Dtype, scaler: str | None) -> None:
    """Write a step in low precision.

    Args:
        scaler: how the scaler is written where the step is; None to go without one.
    """
    named = _named_before(draft, step)
    for region in step.regions:
        # A forward before `criterion(output, target).backward()`: one region holds forward and loss.
        after = _next(draft, region.last)
        tail = [] if after is None else named.pop(after, [])
        write_region(draft, region, dtype, step.enabled, tail)
    for statement, lines in named.items():
        header = _header(draft, statement, dtype, step.enabled)
        draft.edits.before(statement, header.with_changes(body=cst.IndentedBlock(lines)))
    for extraction in step.extractions:
        draft.edits.replace(extraction.value, build.expression(f"{extraction.name}.float()"))
    for island in step.islands:
        write_island(draft, island)
    for backward in step.backwards:
        _write_backward(draft, step, backward, scaler)
    if scaler is not None:
        _write_scaled_steps(draft, step, scaler)


def write_region(
    draft: Draft,
    region: Region,
    dtype: Dtype,
    enabled: cst.BaseExpression | None = None,
    tail: Sequence[Line] = (),
) -> None:
    """Put a run of statements, and the lines of `tail` behind them, into an autocast region."""
    draft.edits.wrap(region.first, region.last, _header(draft, region.first, dtype, enabled), tuple(tail))


def write_island(draft: Draft, island: Island) -> None:
    """Let a loss that must not run in low precision read its input in float32."""
    for value in island.inputs:
        draft.edits.change(value, as_float)


def _write_scaled_steps(draft: Draft, step: TrainingStep, scaler: str) -> None:
    for penalty in step.penalties:
        _write_penalty(draft, penalty, scaler)
    for use in step.gradient_uses:
        if isinstance(use, ScaledClip):
            limit = build.grouped(use.limit, cst.Integer, cst.Float)
            draft.edits.replace(use.limit, build.expression(f"{draft.code(limit)} * {scaler}.get_scale()"))
            continue
        unscale = f"{scaler}.unscale_({draft.code(use.optimizer)})"
        if use.loop is None:
            draft.edits.before(use.before, draft.line(unscale))
        else:
            over = f"for {draft.code(use.loop.target)} in {draft.code(use.loop.iter)}:"
            draft.edits.before(use.before, draft.guarded(over, unscale))
    for each in (own for own in step.optimizer_steps if own.part is None):
        draft.edits.replace(each.call, build.expression(f"{scaler}.step({draft.code(each.optimizer)})"))
    for statement in step.updates:
        draft.edits.after(statement, draft.line(f"{scaler}.update()"))


def _write_penalty(draft: Draft, penalty: Penalty, scaler: str) -> None:
    """Take the gradients of the scaled loss, and divide them by the scale before anything is built on them."""
    draft.edits.replace(penalty.outputs, build.expression(f"{scaler}.scale({_bare_code(draft, penalty.outputs)})"))
    for name in penalty.names:
        value = (
            f"{name} / {scaler}.get_scale()"
            if penalty.is_single
            else f"[grad / {scaler}.get_scale() for grad in {name}]"
        )
        draft.edits.after(penalty.statement, draft.line(f"{name} = {value}"))


def _write_backward(draft: Draft, step: TrainingStep, backward: Backward, scaler: str | None) -> None:
    if backward.part is not None:
        return
    assert isinstance(backward.call.func, cst.Attribute)
    loss = cst.Name(_loss_name(draft, step)) if backward.inline else backward.loss
    if scaler is not None:
        loss = build.expression(f"{scaler}.scale({_bare_code(draft, loss)})")
    call = backward.plain(loss)
    if backward.wrapped:
        draft.edits.replace(backward.call, call)
    elif loss is not backward.call.func.value:
        draft.edits.replace(backward.call.func, call.func)
    if isinstance(backward.statement, cst.With):  # Apex's `with amp.scale_loss(...)`
        body = backward.statement.body
        assert isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite))
        draft.edits.splice(backward.statement, body)


def _header(draft: Draft, at: cst.CSTNode, dtype: Dtype, enabled: cst.BaseExpression | None) -> cst.With:
    arguments = f'device_type="{draft.settings.device_type}", dtype={draft.dtype(dtype, at)}'
    if enabled is not None:
        arguments += f", enabled={draft.code(enabled)}"
    return build.with_header(f"{draft.amp('autocast', at)}({arguments})")


def _named_before(draft: Draft, step: TrainingStep) -> dict[Statement, list[Line]]:
    """What has to get a name in a region before a statement: the loss of an inline backward, forwards taken out."""
    named: dict[Statement, list[Line]] = {}
    for backward in step.backwards:
        if backward.inline:
            named[backward.statement] = [_named_loss(draft, step, backward)]
    for extraction in step.extractions:
        line = draft.line(f"{extraction.name} = {_bare_code(draft, extraction.value)}")
        named.setdefault(extraction.statement, []).append(line)
    return named


def _named_loss(draft: Draft, step: TrainingStep, backward: Backward) -> Line:
    return draft.line(f"{_loss_name(draft, step)} = {_bare_code(draft, backward.loss)}")


def _loss_name(draft: Draft, step: TrainingStep) -> str:
    """A name for a loss that had none, which nothing else in its scope is called by."""
    scope = draft.file.scopes.of(step.place)
    names = chain(("loss", "step_loss", "amp_loss"), (f"amp_loss_{number}" for number in count(2)))
    return next(name for name in names if scope.find(name) is None)


def _bare_code(draft: Draft, node: cst.BaseExpression) -> str:
    """The text of an expression without its outer parentheses, unless they hold it together over several lines."""
    code = draft.code(node.with_changes(lpar=[], rpar=[]))
    return draft.code(node) if "\n" in code else code


def _next(draft: Draft, statement: Statement) -> Statement | None:
    siblings = draft.file.tree.siblings(statement)
    index = siblings.index(statement) + 1
    return siblings[index] if index < len(siblings) else None


def as_float(node: cst.CSTNode) -> cst.CSTNode:
    """`x.float()`, with parentheses where the dot would otherwise bind to a part of the expression."""
    assert isinstance(node, cst.BaseExpression)
    return cst.Call(cst.Attribute(build.grouped(node), cst.Name("float")))
