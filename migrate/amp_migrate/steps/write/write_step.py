"""Any training step as native `torch.amp`: its regions, and the scaler's calls round its backwards and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.looped import chosen_in
from amp_migrate.plan.code import Code, Hole, code
from amp_migrate.plan.edit import Annotate, Cast, Edit, NewLine, Remove
from amp_migrate.settings import Dtype
from amp_migrate.steps.gradients.updates import chosen_alone
from amp_migrate.steps.model.training_step import (
    Backward,
    Island,
    OptimizerStep,
    Penalty,
    Region,
    ScaledUse,
    TrainingStep,
)
from amp_migrate.trees.nodes import Statement, is_constant
from amp_migrate.write.editor import Editor, guarded


def write_step(editor: Editor, step: TrainingStep, dtype: Dtype, scaler: str | None) -> Iterator[Edit]:
    """The edits of a step that goes to low precision.

    Args:
        scaler: how the scaler is written where the step is; None to go without one.
    """
    named = _named_before(step)
    for region in step.regions:
        # A forward before `criterion(output, target).backward()`: one region holds forward and loss.
        after = _next(step.file, region.last)
        tail = () if after is None else named.pop(after, ())
        yield write_region(editor, region, dtype, step.enabled, tail)
    for statement, lines in named.items():
        head = code("with {}:", _context(editor, statement, dtype, step.enabled))
        yield editor.before(statement, NewLine(head, tuple(lines)))
    for extraction in step.extractions:
        if extraction.is_cast:
            yield editor.edit(extraction.value, Cast(code("{}.float()", extraction.name)))
        else:
            yield editor.replace(extraction.value, extraction.name)
    for island in step.islands:
        yield from write_island(editor, island)
    for backward in step.backwards:
        yield from _write_backward(editor, step, backward, scaler)
    if scaler is not None:
        yield from _write_scaled_steps(editor, step, scaler)


def write_region(
    editor: Editor, region: Region, dtype: Dtype, enabled: Code | None = None, tail: Sequence[Code] = ()
) -> Edit:
    """The edit that puts a run of statements, and the lines of `tail` behind them, into an autocast region."""
    return editor.wrap(region.first, region.last, _context(editor, region.first, dtype, enabled), tail)


def write_island(editor: Editor, island: Island) -> Iterator[Edit]:
    """The edits that let a loss which must not run in low precision read its input in float32."""
    return map(editor.as_float, island.inputs)


def _write_scaled_steps(editor: Editor, step: TrainingStep, scaler: str) -> Iterator[Edit]:
    for penalty in step.penalties:
        yield from _write_penalty(editor, penalty, scaler)
    for use in step.gradient_uses:
        if isinstance(use, ScaledUse):
            if use.limit is not None:
                yield editor.replace(use.limit, code("{} * {}.get_scale()", use.limit, scaler))
            if use.norm is not None:
                yield editor.replace(use.norm, code("{} / {}.get_scale()", use.norm, scaler))
            continue
        unscale = code("{}.unscale_({})", scaler, use.optimizer)
        if use.test is not None:
            yield editor.before(use.before, guarded(code("if {}:", use.test), unscale))
        elif use.loop is None:
            yield editor.before(use.before, unscale)
        else:
            over = code("for {} in {}:", editor.text(use.loop.target), use.loop.iter)
            yield editor.before(use.before, guarded(over, unscale))
    update = f"{scaler}.update()"
    tree, written_out = step.file.tree, set[Statement]()
    unscaled = {tree.code(use.optimizer) for use in step.gradient_uses if not isinstance(use, ScaledUse)}
    for each in (own for own in step.optimizer_steps if own.part is None):
        chosen = chosen_in(each.statement) if each.statement in step.updates else None
        is_alone = chosen is not None and chosen_alone(tree, each.statement, step.optimizer_steps, step.updates)
        if chosen is not None and is_alone and tree.code(each.optimizer) not in unscaled:
            yield from _written_out(editor, chosen, each, scaler, update)
            written_out.add(each.statement)
        else:
            yield editor.replace(each.call, code("{}.step({})", scaler, each.optimizer))
    for statement in (own for own in step.updates if own not in written_out):
        yield editor.after(statement, update)
    for statement in step.early_ends:
        yield editor.before(statement, update)


def _written_out(editor: Editor, chosen: cst.IfExp, step: OptimizerStep, scaler: str, update: str) -> Iterator[Edit]:
    """A conditional expression that steps in one of its arms, and is nothing but that, as `if` and `else`.

    The scale is updated where the optimizer has stepped: without a step it has nothing to go by.
    """
    scaled = code("{}.step({})", scaler, step.optimizer), code(update)
    is_first = chosen.body is step.call
    rest = chosen.orelse if is_first else chosen.body
    other = () if is_constant(rest, "None") else (code("{}", rest),)
    if is_first or not other:
        head = code("if {}:", Hole(chosen.test, bare=True)) if is_first else code("if not {}:", chosen.test)
        new = NewLine(head, scaled, other)
    else:
        new = NewLine(code("if {}:", Hole(chosen.test, bare=True)), other, scaled)
    yield editor.substitute(step.statement, new)
    line = editor.file.tree.parents[step.statement]
    comment = line.trailing_whitespace.comment if isinstance(line, cst.SimpleStatementLine) else None
    if comment is not None:
        yield editor.edit(line, Annotate(comment.value))


def _write_penalty(editor: Editor, penalty: Penalty, scaler: str) -> Iterator[Edit]:
    """Take the gradients of the scaled loss, and divide them by the scale before anything is built on them."""
    yield editor.replace(penalty.outputs, _scaled(scaler, penalty.outputs))
    for name in penalty.names:
        value = (
            f"{name} / {scaler}.get_scale()"
            if penalty.is_single
            else f"tuple(grad / {scaler}.get_scale() for grad in {name})"
        )
        yield editor.after(penalty.statement, f"{name} = {value}")


def _write_backward(editor: Editor, step: TrainingStep, backward: Backward, scaler: str | None) -> Iterator[Edit]:
    if backward.part is not None:
        return
    place = backward.loss if backward.given else cst.ensure_type(backward.call.func, cst.Attribute).value
    if (step.file.name, step.file.tree.position(backward.call)[0]) in editor.settings.scaled_already:
        scaler = None
    if backward.kept and not backward.inline:
        yield editor.before(backward.statement, _named(backward.kept, backward.loss))
    if backward.inline or backward.kept:
        loss = backward.kept or _loss_name(step)
        yield editor.replace(place, loss if scaler is None else f"{scaler}.scale({loss})")
    elif scaler is not None:
        yield editor.replace(place, _scaled(scaler, backward.loss))
    elif backward.loss is not place:
        yield editor.replace(place, code("{}", backward.loss))
    for arg in backward.of_wrapper:
        yield editor.edit(arg, Remove())


def _scaled(scaler: str, loss: cst.BaseExpression) -> Code:
    return code("{}.scale({})", scaler, Hole(loss, bare=True))


def _context(editor: Editor, at: cst.CSTNode, dtype: Dtype, enabled: Code | None) -> Code:
    if str(enabled) == "False":  # what is off computes in no dtype of its own
        return editor.no_autocast(at)
    autocast, device = editor.amp("autocast", at), editor.settings.device_type
    switch = "" if enabled is None else code(", enabled={}", enabled)
    cache = ", cache_enabled=False" if editor.file.name in editor.settings.uncached else ""
    return code('{}(device_type="{}", dtype={}{}{})', autocast, device, editor.dtype(dtype, at), switch, cache)


def _named_before(step: TrainingStep) -> dict[Statement, list[Code]]:
    """What has to get a name in a region before a statement: the loss of an inline backward, forwards taken out."""
    named: dict[Statement, list[Code]] = {}
    for backward in step.backwards:
        if backward.inline:
            named[backward.statement] = [_named(backward.kept or _loss_name(step), backward.loss)]
    for extraction in step.extractions:
        named.setdefault(extraction.statement, []).append(_named(extraction.name, extraction.value))
    return named


def _named(name: str, value: cst.BaseExpression) -> Code:
    return code("{} = {}", name, Hole(value, bare=True, moved=True))


def _loss_name(step: TrainingStep) -> str:
    """A name for a loss that had none, which nothing else in its scope is called by."""
    scope = step.file.scopes.of(step.place)
    names = chain(("loss", "step_loss", "amp_loss"), (f"amp_loss_{number}" for number in count(2)))
    return next(name for name in names if scope.find(name) is None)


def _next(file: File, statement: Statement) -> Statement | None:
    siblings = file.tree.siblings(statement)
    index = siblings.index(statement) + 1
    return siblings[index] if index < len(siblings) else None
