"""An Apex script as native code: the edits of what has been decided about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_STEP
from amp_migrate.catalog.step_rules import FP32_STEP
from amp_migrate.plan.code import Code, code, listed, plain
from amp_migrate.plan.edit import Annotate, Edit, Remove
from amp_migrate.settings import Dtype, Settings
from amp_migrate.steps.apex.initialize.initialize_calls import NEVER, Initialize
from amp_migrate.steps.apex.initialize.switch import VARIABLE, has_name, is_off, is_short, switch_code
from amp_migrate.steps.apex.script.native_script import NativeFile, NativeScript, NativeStart
from amp_migrate.steps.apex.step.scaled_contexts import givers, imported_givers
from amp_migrate.steps.apex.write import write_state
from amp_migrate.steps.apex.write.write_clips import write_clips, write_limits_gone
from amp_migrate.steps.apex.write.write_fp16_optimizer import write_wrapped
from amp_migrate.steps.apex.write.write_uses import (
    drop_imports,
    write_answer,
    write_functions,
    write_handed,
    write_read,
)
from amp_migrate.steps.flag.write_flag import write_flag_ways
from amp_migrate.steps.model.route import Creation
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.steps.write.write_route import write_ways
from amp_migrate.steps.write.write_step import write_island, write_region, write_step
from amp_migrate.trees.nodes import Statement, block_of, method_of, start_of
from amp_migrate.write.editor import Editor, guarded

_IGNORED = f"# amp-migrate: ignore[{FP32_STEP.code}]"
_AS_O0 = f"{_IGNORED} (float32, as Apex's O0)"
NOT_SCALED = f"{_IGNORED} (float32: Apex did not scale it)"


def write_apex(script: NativeScript, roles: Roles, settings: Settings) -> Iterator[Edit]:
    """The edits of a whole script."""
    editor = Editor(script.files[0].file, settings, APEX_STEP.code)
    yield from write_uses(script, roles, settings)
    for start in script.starts:
        yield from _write_start(start, settings)
    for start in script.in_callers:
        if start.creation is not None:
            own, home = editor.of(start.creation.file), start.creation.home
            lines = _scaler_lines(editor.of(start.initialize.file), start)
            yield own.before(home, *lines) if start.creation.before else own.after(home, *lines)
    for ways in (script.ways, *script.others):
        yield from write_ways(ways, editor, settings.dtype)


def write_uses(script: NativeScript, roles: Roles, settings: Settings) -> Iterator[Edit]:
    """The edits of what uses scalers, wherever these are made."""
    editor = Editor(script.files[0].file, settings, APEX_STEP.code)
    starts = [each.initialize for each in script.starts]
    for each in script.steps:
        own = editor.of(each.step.file)
        yield from write_step(own, each.step, settings.dtype, each.scaler)
        yield from _write_contexts(own, each.step)
        if each.norm_limit is not None:
            asked = f"{each.scaler}.is_enabled()" if each.is_limited_elsewhere and each.scaler else each.step.enabled
            enabled = None if each.step.enabled is None else asked
            yield from write_clips(own, each.step, each.scaler, each.norm_limit, enabled)
        if each.scaler is not None:
            yield from _write_limits(own, script, each.step, each.scaler)
        for fold in each.folds:
            yield own.splice(fold.statement, fold.live)
        if is_off(starts):
            held = (backward.statement for backward in each.step.backwards if backward.part is None)
            yield from write_float32(own, held, _AS_O0)
    yield from write_flag_ways(script.evaluation.handed.values(), settings, APEX_STEP.code)
    for file in script.files:
        yield from _write_file(editor.of(file.file), file, roles.project)
        yield from write_handed(editor.of(file.file), roles.project)


def _write_contexts(editor: Editor, step: TrainingStep) -> Iterator[Edit]:
    """The edits that open nothing for Apex's sake any more."""
    for backward in step.backwards:
        if backward.context is not None:
            held = cst.ensure_type(backward.statement, cst.With)
            is_alone = len(held.items) == 1
            yield editor.splice(held, block_of(held)) if is_alone else editor.edit(backward.context, Remove())
        yield from map(editor.remove, backward.before)


def write_float32(editor: Editor, statements: Iterable[Statement], comment: str) -> Iterator[Edit]:
    """The comments that say of steps that they are to stay in float32, as Apex was told: a second run knows no Apex."""
    for held in statements:
        line = held if isinstance(held, cst.With) else editor.file.tree.parents[held]
        if isinstance(line, (cst.With, cst.SimpleStatementLine)):
            yield editor.edit(line, Annotate(comment))


def _write_file(editor: Editor, file: NativeFile, project: Project) -> Iterator[Edit]:
    dtype = editor.settings.dtype
    yield from (editor.splice(fold.statement, fold.live) for fold in file.folds)
    yield from write_float32(editor, file.plain, NOT_SCALED)
    for region, enabled in file.evaluated:
        yield write_region(editor, region, dtype, enabled)
    for island in file.islands:
        yield from write_island(editor, island)
    for read, scaler in file.reads:
        yield write_read(editor, read, scaler)
    for call, scaler in file.saved:
        is_spared = call in file.spared
        yield from write_state.write_saved(editor, call, scaler, keeps_key=file.keeps_keys, is_spared=is_spared)
    for call, scaler in file.restored:
        write = write_state.write_restored_by_content if file.keeps_keys else write_state.write_restored
        yield from write(editor, call, scaler, is_spared=call in file.spared)
    for call, index, scaler in file.given:
        yield from write_state.write_given(editor, call, index, scaler)
    yield from (editor.replace(node, parameters) for node, parameters in file.parameters)
    yield from write_functions(editor, project)
    for test, switch in file.tests:
        yield write_answer(editor, test, switch)
    if file.wrapper is not None:
        yield from write_wrapped(editor, file.wrapper)
        yield from write_limits_gone(editor)
    yield from (editor.remove(each.node) for each in givers(project, file.file))
    yield from drop_imports(editor, imported_givers(project, file.file))


def _write_start(start: NativeStart, settings: Settings) -> Iterator[Edit]:
    initialize = start.initialize
    lines = _scaler_lines(Editor(initialize.file, settings, APEX_STEP.code), start)
    editor = Editor(initialize.file, settings, APEX_INITIALIZE.code)
    if initialize.setting is not None:
        yield editor.remove(initialize.setting)
    yield from map(editor.remove, initialize.handed_back)
    if initialize.is_late and start.creation is not None:
        yield _write_off(editor, initialize, start.creation)
    is_conditional = bool(initialize.rebinds) and initialize.home is not initialize.statement
    if initialize.replaces_home and not is_conditional:
        yield editor.substitute(initialize.home, *initialize.rebinds, *lines)
    else:
        yield editor.substitute(initialize.statement, *initialize.rebinds)
        if lines:
            yield editor.before(initialize.home, *lines)  # what else stands in the `if` may use the scaler


def _write_off(editor: Editor, initialize: Initialize, creation: Creation) -> Edit:
    """The edit that gives objects a scaler from the first which does nothing."""
    owner = editor.file.tree.owner_class(initialize.home)
    made = None if owner is None else method_of(owner, "__init__")
    assert made is not None
    off = code("{} = {}", creation.target, editor.new_scaler(made, [plain("enabled=False")]))
    home, is_before = start_of(made)
    return editor.before(home, off) if is_before else editor.after(home, off)


def _scaler_lines(editor: Editor, start: NativeStart) -> list[Code]:
    """The lines that make a scaler, and give the script's switch a name where it is long."""
    initialize, creation = start.initialize, start.creation
    lines: list[Code] = []
    switch = switch_code(initialize)
    is_long = switch is not None and not is_short(switch)
    if (creation is not None and is_long) or (start.is_named and has_name(initialize)):
        lines.append(plain(f"{VARIABLE} = {switch}"))
        switch = VARIABLE
    if creation is not None:
        # A key may be there only where mixed precision is on: `params["amp"]["loss_scale"]` under `if "amp" in params`.
        may_raise = "[" in (initialize.init_scale or "")
        conditions = [] if switch is None or may_raise else [plain(switch)]
        if editor.settings.dtype is Dtype.AUTO:
            conditions.append(editor.is_float16(initialize.home))
        arguments = [] if initialize.init_scale is None else [plain(f"init_scale={initialize.init_scale}")]
        arguments += [plain(f"{name}={value}") for name, value in initialize.growth]
        arguments += [code("enabled={}", listed(conditions, " and "))] if conditions else []
        scaler = editor.new_scaler(initialize.home, arguments)
        if switch is not None and may_raise:
            off = editor.new_scaler(initialize.home, [plain("enabled=False")])
            scaler = code("{} if {} else {}", scaler, plain(switch), off)
        lines += [code("{} = {}", each, scaler) for each in (creation.target, *start.others)]
    return lines


def _write_limits(editor: Editor, script: NativeScript, step: TrainingStep, scaler: str) -> Iterator[Edit]:
    """The edits that keep a dynamic scale within the limits that Apex was given: GradScaler knows none."""
    may_be_static = any(each.is_static is not False for each in script.scaling)
    # A scaler that is off has no interval.
    is_dynamic = f"{scaler}.is_enabled() and {scaler}.get_growth_interval() < {NEVER} and " if may_be_static else ""
    for sign, limit in zip("<>", script.limits, strict=True):
        if limit is not None:
            kept = guarded(f"if {is_dynamic}{scaler}.get_scale() {sign} {limit}:", f"{scaler}.update({limit})")
            yield from (editor.after(statement, kept) for statement in step.updates)
            yield from (editor.before(statement, kept) for statement in step.early_ends)
