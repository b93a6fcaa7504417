"""Asks the analysis of values about the steps that would be written: what low precision breaks is left, and why."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache, partial
from itertools import takewhile
from pathlib import Path

from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_LEVEL, APEX_STEP, MODELS_CAST
from amp_migrate.catalog.step_rules import (
    BY_PRECISION,
    FP32_STEP,
    RISKY_NUMERICS,
    ROUNDED_PROBABILITY,
    SCALE_IT,
    STEP_LEFT,
    UNSCALE_FIRST,
)
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.problems import failure
from amp_migrate.engine.results.examined import Examined, Needless, Results
from amp_migrate.engine.results.float_casts import InFloat32, line_after, line_before
from amp_migrate.engine.results.importing_scripts import (
    further_scripts,
    handing_scripts,
    saving_scripts,
    starting_scripts,
)
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.events import OUT_OF_SIGHT
from amp_migrate.flow.questions import WATCHED_HINT
from amp_migrate.flow.source import Site
from amp_migrate.frozen import frozen
from amp_migrate.hazards.in_regions.amp630_replicas_in_float16 import RULE as REPLICAS
from amp_migrate.hazards.scaler_life.amp611_scaler_not_saved import RULE as SCALER_NOT_SAVED
from amp_migrate.plan.edit import Cast
from amp_migrate.prove.precision import Harm, Measured, Trouble, has_amp
from amp_migrate.report.finding import Finding, Kind, seen_from
from amp_migrate.settings import Settings, Withdrawn
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import BRINGING_CODE

LEFT_AS_IT_WAS = "left as it was: "
_CLIPPED_BY_APEX = ("master_params(", "clip_master_grads(")
_FUNCTIONS, _LOOPS = (ast.FunctionDef, ast.AsyncFunctionDef), (ast.For, ast.AsyncFor, ast.While)
_OF_STEPS = (FP32_STEP.code, APEX_STEP.code)
_OF_APEX = (APEX_STEP.code, APEX_INITIALIZE.code)
_BY_HAND = "put what it needs in float32 into torch.amp.autocast(..., enabled=False), and run again"
_UNSCALABLE = "use --dtype bf16, which needs no scaler"
_OF_ITS_OWN = "give each optimizer a scaler of its own by hand, or use --dtype bf16, which needs none"
_ELSEWHERE = "put the forward pass that its loss comes from into torch.amp.autocast(...) by hand, and scale this loss"
_LEFT_IN_FLOAT32 = "train it in float32"
_UNCAST = "drop the cast to half precision, which autocast does where it may, and run again"
_UNLIKE = "move the module to the device alone (.to(x.device)), where its weights are float32, and run again"
_EACH = "let the loss read each tensor in it in float32 (.float()), and run again"
_PENALTY = "compute the penalty, and the forward pass for it, without autocast and in float32, or run with --dtype bf16"
_CLEARED = "call zero_grad() in each round, unless they are meant to add up: then use --dtype bf16"
_READ_LAST = (
    "read gradients behind the last backward(), directly before optimizer.step(), divide what a hook keeps by "
    "scaler.get_scale(), or use --dtype bf16"
)
_UPDATED = (
    "write scaler.update() before what skips a batch behind unscale_(), or use --dtype bf16, which needs no scaler"
)
_OF_THE_OPTIMIZER = "clip the parameters that the optimizer has, or use --dtype bf16, which needs no scaler"
_BY_ITS_GRADIENT = "scale this loss only if the gradient that it is given comes from no scaled loss"
_APART = "let what goes backward by itself run before the forward pass or behind the loss, and run again"
_TO_A_GPU = "move the model and what it is given to a GPU (.cuda()), and run again"
_FOR_MPS = "run with --device-type mps, or move the model and what it is given to a GPU of CUDA's"
_TO_ITS_MODEL = "let the loss come to where its model is (loss.to(device)) before it goes backward"
# What to do about it, whether the step moves or not.
_IN_ANY_CASE = {
    Trouble.LEFT_SCALED: _OF_THE_OPTIMIZER,
    Trouble.LOSS_ON_CPU: _TO_ITS_MODEL,
    Trouble.MEETS_CPU: "move what the model is given to where the model is",
    Trouble.MENDED: _UNSCALABLE,
    Trouble.OLD_KERNELS: "ask for a release that has them, in the requirements, and run again",
    Trouble.OUTDATED: _OF_ITS_OWN,
    Trouble.PAST: _UNSCALABLE,
    Trouble.READ_SCALED: _READ_LAST,
    Trouble.SCALED_AGAIN: _BY_ITS_GRADIENT,
    Trouble.SCALER: _UNSCALABLE,
    Trouble.THREADS: "use DistributedDataParallel, or run with --dtype fp16",
    Trouble.UNCLEARED: _CLEARED,
    Trouble.UNSCALED_TWICE: _UPDATED,
}
# What is no trouble where it is not so for all callers: a region may do nothing for the model of one of them, as for
# that of a unit test on the CPU, and something for another.
_OF_SOME = (Trouble.IDLE, Trouble.DOUBLE, Trouble.ON_CPU, Trouble.ON_MPS)
# Where a region for CUDA does nothing, and one for which device does something.
_IDLE = {Trouble.ON_CPU: "cpu", Trouble.ON_MPS: "mps"}
# The scripts that hand in a device are looked at unless they have this word: each costs as much again.
_UNPLACED = {Trouble.UNPLACED: None, Trouble.PLACE_GIVEN: "cuda"}
# What is not for autocast's doing, with what to do.
_FOR_LEFT = _IN_ANY_CASE | {
    Trouble.CAST_INPUT: _UNCAST,
    Trouble.DOUBLE: BY_PRECISION,
    Trouble.HALVED: _UNCAST,
    Trouble.HOLDS_TENSORS: _EACH,
    Trouble.IDLE: _ELSEWHERE,
    Trouble.LIKENED: _UNLIKE,
    Trouble.NORM_TWICE: _PENALTY,
    Trouble.ON_CPU: _TO_A_GPU,
    Trouble.ON_MPS: _FOR_MPS,
    Trouble.TRAINS_INSIDE: _APART,
    Trouble.UNREACHED: "look whether this call has the arguments that what it calls takes, and run again",
    Trouble.UNSCALED: SCALE_IT,
}
_UNCACHED = (
    "one weight is used under no_grad and with gradients: cache_enabled=False, for before PyTorch 2.11 the cast that "
    "is kept has no gradient"
)
_EXACT = "let its inputs be float32 (.float()) where autocast is switched off"
_IN_FLOAT32 = f"{_EXACT}, or use --dtype bf16"
_BEFORE_IT_ROUNDS = "let the sigmoid or softmax that gives it see float32 (.float()), or the loss see logits"
_BEHIND = "let what comes out of the region be float32 (.float())"
_AS_TRAINED = "evaluate without autocast what is trained without it"
_BY_ONE_NUMBER = "let one number serve both, or what runs this model elsewhere use autocast, too"
_UNDIVIDED = "compute it without autocast, or let what it divides by that number be float32 (.float())"
_IN_AN_ISLAND = "compute it in torch.amp.autocast(..., enabled=False)"
_BY_A_RUN = "let amp-verify compare a run of it with one of the original"
_IN_IT = (
    "look in it for BCELoss, which autocast refuses, and for sums, powers and logarithms of what autocast computes in "
    "half precision: they need torch.amp.autocast(..., enabled=False), and float32 inputs (.float()); and for steps of "
    "its own, which are to be outside of the region"
)
_READ_IT = "give --python .venv/bin/python, so that what is installed is read; or "
_FOR_TOLD = _IN_ANY_CASE | {
    Trouble.APART: _AS_TRAINED,
    Trouble.BEHIND: _BEHIND,
    Trouble.BY_DTYPE: _BY_ONE_NUMBER,
    Trouble.CLIPPED: UNSCALE_FIRST,
    Trouble.ROUNDED: _EXACT,
    Trouble.PROBABILITY: _BEFORE_IT_ROUNDS,
    Trouble.SMALL: _UNDIVIDED,
    Trouble.UNREAD: _IN_IT,
    Trouble.OF_CASTS: _IN_AN_ISLAND,
    Trouble.WIDENED: _IN_AN_ISLAND,
    Trouble.SKIPPED: "ask first whether they are finite (torch.isfinite(p.grad).all()), or give it a range",
    Trouble.WATCHED: WATCHED_HINT,
    Trouble.UNLIMITED: "clip the weights, add a penalty, or use --dtype bf16",
    Trouble.UNSEEN: _BY_A_RUN,
    Trouble.UNLOADED: "behind where the scaler is made, load its state from where that is saved",
    Trouble.UNSAVED: "save scaler.state_dict() there, too, and load it where the optimizer is loaded",
}
_CODES = {
    Trouble.PROBABILITY: ROUNDED_PROBABILITY.code,
    Trouble.THREADS: REPLICAS.code,
    Trouble.UNLOADED: SCALER_NOT_SAVED.code,
    Trouble.UNSAVED: SCALER_NOT_SAVED.code,
}


@frozen
class WorseNumerics:
    """What low precision does to the steps of a plan.

    Attributes:
        left: for each file with a step that cannot compute in low precision, why.
        told: what a reader has to look at in the others.
        again: the settings that all is to be planned with again; those that it was planned with, where nothing is.
        at_last: the same, where no cast will do.
        in_float32: what is to be float32 in each result instead.
        at_first: what of that does not follow from something else that is low: with it, the rest may be float32.
        guarded: the lines of the originals where nothing shows that a tiny number keeps something low from zero.
        needless: asks what of the results they do without; of all rounds that matters in the last.
    """

    left: Mapping[Path, Finding]
    told: tuple[Finding, ...]
    again: Settings
    at_last: Settings
    in_float32: Mapping[str, InFloat32] = field(default_factory=dict)
    at_first: Mapping[str, InFloat32] = field(default_factory=dict)
    guarded: frozenset[tuple[str, int]] = frozenset()
    needless: Callable[[], Needless] = Needless


def worse_numerics(
    workspace: Workspace,
    plans: Iterable[FilePlan],
    settings: Settings,
    examined: Examined,
    kept: Iterable[InFloat32] = (),
) -> WorseNumerics:
    """What the analysis of values finds in the results of a plan, and not in the originals.

    Args:
        kept: what the plan has in float32 for what was found of an earlier one.
    """
    changed = {each.source.name: each for each in plans if each.changed}
    # What calls a step of another file, and makes its model, may show what the step's file alone does not.
    stepping = {name: said[0] for name, each in changed.items() if (said := _computing(each))}
    if not stepping:
        return WorseNumerics({}, (), settings, settings)
    after = workspace.with_texts(each.source.with_text(each.after) for each in changed.values())
    with_amp = {name for name, each in changed.items() if has_amp(each.source.text)}
    results = Results(after, _measured(workspace, changed, settings), with_amp, settings.packages)
    looked: set[tuple[str, ...]] = set()

    def look(*scripts: str) -> list[Harm]:
        looked.add(scripts)
        return examined.harms(results, *scripts)

    by_themselves = examined.look_at_once(results, ((each,) for each in stepping))
    given = [name for (name,), found in by_themselves.items() if _is_given(harm for _, harm in found.faults if harm)]
    handing_to = cache(lambda name: (*handing_scripts(workspace, name),))
    examined.look_at_once(results, ((each, name) for name in given for each in handing_to(name)))
    left: dict[Path, Finding] = {}
    told: dict[Finding, None] = {}
    uncached: set[str] = set()
    masked: set[tuple[str, int]] = set()
    scaled_already: set[tuple[str, int]] = set()
    evaluated_apart: set[tuple[str, int]] = set()
    clipped_apart: set[tuple[str, int]] = set()
    sized: set[tuple[str, int]] = set()
    unhalved: set[tuple[str, int]] = set()
    guarded: set[tuple[str, int]] = set()
    unguarded: set[tuple[str, int]] = set()
    in_float32: defaultdict[str, InFloat32] = defaultdict(InFloat32)
    at_first: defaultdict[str, InFloat32] = defaultdict(InFloat32)
    of_unread: defaultdict[str, InFloat32] = defaultdict(InFloat32)
    apart: list[Withdrawn] = []
    quiet: set[tuple[str, int]] = set()
    known = {each.of for each in settings.withdrawn}
    is_of_apex = any(each.code in _OF_APEX for each in stepping.values())
    scaling = changed.items() if is_of_apex else ()
    under_scale = {(each, line) for each, plan in scaling for line in _under_scale(plan.source.text)}
    both = {(each, line) for each, plan in changed.items() for line in _beside_apex(plan.source.text)}
    for name, step in stepping.items():
        # Apex itself refuses models on the CPU: its scripts have come to a GPU in a way that nobody sees.
        # And what only calls a step of another file may be one of several: a unit test of it is on the CPU.
        is_new = step.code == FP32_STEP.code and step.kind is Kind.MIGRATED
        idle = [each for each, own in _IDLE.items() if is_new and settings.device_type not in ("cpu", own)]
        try:
            found = look(name)
            if _is_given(found):
                of_step = partial(_is_of, step=name, others=stepping.keys() - {name})
                handing = handing_to(name)
                callers = [[*filter(of_step, look(one, name))] for one in handing]
                harmed = (each for of_one in callers for each in of_one if each not in found)
                is_mended = _is_mended_elsewhere(changed[name], changed.values())
                if is_mended or any(_is_of_given(each, name) for each in harmed):
                    more = [*further_scripts(workspace, name, handing)]
                    examined.look_at_once(results, ((each, name) for each in more))
                    callers += [[*filter(of_step, look(one, name))] for one in more]
                for harm in (each for of_one in callers for each in of_one if each not in found):
                    if harm.trouble not in _OF_SOME or all(harm in each for each in callers):
                        found = [*found, harm]
            unplaced = next((each for each in found if each.trouble in _UNPLACED), None) if idle else None
            starting = [] if unplaced is None else starting_scripts(workspace, name, _UNPLACED[unplaced.trouble])
            shown = ([each for each in look(one, name) if each.trouble in idle] for one in starting)
            of_all = [*takewhile(bool, shown)]  # one that is elsewhere is enough to look at no other
            if unplaced is not None and starting and len(of_all) == len(starting):
                found = [replace(of_all[0][0], site=unplaced.site), *found]
        except Exception as error:  # an analysis that fails has shown nothing
            left[changed[name].source.path] = failure(name, error)
            continue
        if step.code not in _OF_APEX:  # without Apex weights are what they were
            found = [each for each in found if each.trouble not in (Trouble.CAST_INPUT, Trouble.WIDENED)]
        else:  # what it computes in code that nobody has read Apex has shown: its lists are autocast's
            found = [each for each in found if each.trouble is not Trouble.UNREAD]
        if not _casts_models(changed[name], changed.values()):
            found = [each for each in found if each.trouble is not Trouble.OF_CASTS]
        for harm in found:
            also = [of_unread] if harm.trouble is Trouble.UNREAD else [] if harm.may_follow else [at_first]
            for wanted in (in_float32, *also):
                for cast in harm.casts:
                    wanted[cast.site.file].casts[cast] = step.code
                    wanted[cast.site.file].steps.add(changed[name].source.path)
                if harm.island is not None:
                    wanted[harm.site.file].islands[harm.island] = harm.message, harm.is_of_others
                    wanted[harm.site.file].steps.add(changed[name].source.path)
        if step.code in _OF_APEX:
            # Whoever reads them in the body of `amp.scale_loss` gets them scaled there, too; so does unknown code, to
            # reduce them over all processes.
            found = [
                each
                for each in found
                if each.trouble is not Trouble.READ_SCALED
                or not (OUT_OF_SIGHT in each.message or _line_of(each.site, changed) in under_scale)
            ]
            # An optimizer that it was not told of steps on what the scaled loss adds, as it did.
            found = [e for e in found if e.trouble is not Trouble.PAST or not _is_said(e, changed, APEX_LEVEL.code)]
            # It, too, has seen gradients at the end of `amp.scale_loss`, and skips the step.
            found = [e for e in found if e.trouble is not Trouble.MENDED]
            found = [replace(e, is_sure=e.is_sure and e.trouble is not Trouble.UNSEEN) for e in found]
        clipped = (set(_lines(found, Trouble.LEFT_SCALED, changed)) & both) - settings.clipped_apart
        # Beside Apex's branch runs what has no Apex, and whose scaler is off.
        found = [
            each
            for each in found
            if each.is_sure
            or each.trouble is not Trouble.LEFT_SCALED
            or _line_of(each.site, changed) not in settings.clipped_apart
        ]
        filled = {each for each in _lines(found, Trouble.MASK, changed) if each not in settings.masked}
        again = (each for each in found if each.is_sure)
        scaled = {e for e in _lines(again, Trouble.SCALED_AGAIN, changed) if e not in settings.scaled_already}
        unread = (each for each in found if each.trouble in (Trouble.ARRAY, Trouble.SMALL, Trouble.UNREAD))
        evaluated = {_line_of(site, changed) for each in unread for site in each.quiet}
        evaluated = evaluated.union(_lines(found, Trouble.APART, changed)) - settings.evaluated_apart
        evaluated = {each for each in evaluated if each[0] == name}  # what else runs it may train it in low precision
        sized.update(_lines(found, Trouble.SIZED, changed))
        unhalved.update(_lines(found, Trouble.UNHALVED, changed))
        guarded.update(_lines(found, Trouble.GUARDED, changed))
        unguarded.update(_lines(found, Trouble.UNGUARDED, changed))
        found = [e for e in found if e.is_told and (e.trouble in idle or e.trouble not in _IDLE)]
        # Of a part of a step in another file, as a penalty is, that may be so: what the whole does shows there.
        found = [e for e in found if e.trouble is not Trouble.IDLE or step.kind is not Kind.NOTE]
        sure = [harm for harm in found if harm.is_sure]
        if any(harm.trouble is Trouble.CACHE for harm in sure) and name not in settings.uncached:
            uncached |= {name, *(harm.site.file for harm in sure if harm.site.file in changed)}
        elif filled or scaled or evaluated or clipped:
            masked |= filled
            clipped_apart |= clipped
            scaled_already |= scaled
            evaluated_apart |= evaluated
        elif apart_now := {_line_of(each, changed) for harm in sure for each in harm.quiet} - settings.evaluated_apart:
            quiet |= apart_now
        elif sure:
            where = _at(sure[0], changed, settings)
            trouble = sure[0].trouble
            is_said = trouble in _FOR_LEFT or sure[0].message.startswith("autocast ")
            what = sure[0].message if is_said else f"under autocast {sure[0].message}"
            file = "line " if where.path == step.path else f"{seen_from(where.path, step.path)}:"
            what, hint = f"{what} ({file}{where.line})", _FOR_LEFT.get(trouble, _BY_HAND)
            own = changed[name].source.path
            apart_for = {why for each in kept if own in each.steps for why, _ in each.islands.values()}
            if trouble is Trouble.IDLE and apart_for:
                what = f"{sure[0].message} beside what is to be float32: {min(apart_for)} ({file}{where.line})"
                hint = _LEFT_IN_FLOAT32
            lines, regions = _lines_of(changed[name], sure[0]), _regions_before(changed[name], sure[0])
            at = _own_lines(changed[name], sure[0])
            withdrawn = [Withdrawn(FP32_STEP.code, name, what, hint, each, regions, at) for each in lines]
            if any(each.of not in known for each in withdrawn):
                apart += withdrawn
            else:
                left[changed[name].source.path] = _left(step, what, hint)
        else:
            told.update((_at(harm, changed, settings), None) for harm in found if not _is_said(harm, changed))
            if name in settings.uncached:
                told[replace(step, code=RISKY_NUMERICS.code, kind=Kind.NOTE, message=_UNCACHED)] = None
    for name in saving_scripts(workspace, stepping, (each.after for each in changed.values())):
        try:
            found = [each for each in look(name) if each.trouble in (Trouble.UNSAVED, Trouble.UNLOADED)]
        except Exception as error:
            told[failure(name, error)] = None
            continue
        told.update((_at(harm, changed, settings), None) for harm in found if not _is_said(harm, changed))
    planned_again = replace(
        settings,
        uncached=settings.uncached | uncached,
        masked=settings.masked | masked,
        scaled_already=settings.scaled_already | scaled_already,
        evaluated_apart=settings.evaluated_apart | evaluated_apart,
        clipped_apart=settings.clipped_apart | clipped_apart,
        sized=settings.sized | sized,
        unhalved=settings.unhalved | unhalved,
    )
    at_last = replace(
        settings, withdrawn=(*settings.withdrawn, *apart), evaluated_apart=settings.evaluated_apart | quiet
    )
    to_tell = tuple(each for each in told if each.kind is Kind.ERROR or settings.applies(each.code))
    # What has AMP already may compute the same elsewhere, which is not looked at here.
    unshown = guarded if with_amp else unguarded
    first = of_unread or at_first
    needless = partial(examined.needless, results, looked)
    return WorseNumerics(
        left, to_tell, planned_again, at_last, in_float32, first, frozenset(guarded - unshown), needless
    )


def _lines_of(plan: FilePlan, harm: Harm) -> list[int]:
    """The lines of the steps that a harm is done by, as far as functions, or loops in none, tell them apart; else 0.

    0 is for all of the file, and none for one that is not moved here, or not from float32: what goes with it is left.
    """
    own = _steps(plan)
    if not own or any(each.code == APEX_STEP.code for each in plan.findings):
        return []
    places = _regions_before(plan, harm)
    if not places:  # what happens elsewhere, in a region that is there, is of those that come to it
        sites = [harm.site] if harm.site.file == plan.source.name else [*harm.run_by]
        places = tuple(line_before(plan, each.line) for each in sites if each.file == plan.source.name)
    for apart in (_functions(plan.source.text, with_loops=True), _functions(plan.source.text)):
        around = {_function_at(apart, each) for each in places}
        found = [each.line for each in own if _function_at(apart, each.line) in around]
        if 0 < len(found) < len(own):
            return found
    return [0]


def _own_lines(plan: FilePlan, harm: Harm) -> tuple[int, ...]:
    """The lines of the steps that a harm may be of: what it happens in comes to them, or their regions have part in it.

    A norm is derived twice by who asks for the gradient, whichever region the model runs in elsewhere.
    """
    functions = _functions(plan.source.text)
    places = [line_before(plan, each.line) for each in harm.run_by if each.file == plan.source.name]
    if not places:
        return ()
    places += () if harm.trouble is Trouble.NORM_TWICE else _regions_before(plan, harm)
    around = [_function_at(functions, each) for each in places]
    own = [each.line for each in _steps(plan) if _function_at(functions, each.line) in around]
    return tuple(sorted(own, key=lambda line: around.index(_function_at(functions, line))))


def _regions_before(plan: FilePlan, harm: Harm) -> tuple[int, ...]:
    """The lines of a file as it was at which the regions begin that a harm happens in."""
    regions = (each for each in harm.regions if each.file == plan.source.name)
    return tuple(sorted({line_before(plan, each.line) for each in regions}))


def _tree(text: str) -> ast.Module:
    """The tree of a text; an empty one where the running Python cannot parse it, so that no step moves in it."""
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def _under_scale(text: str) -> Iterator[int]:
    """The lines in the bodies of Apex's `with amp.scale_loss(...)`."""
    for node in nodes_in(_tree(text)) if "scale_loss" in text else ():
        called = [each.context_expr for each in node.items] if isinstance(node, ast.With) else []
        names = (ast.unparse(each.func) for each in called if isinstance(each, ast.Call))
        if isinstance(node, ast.With) and any(each.rpartition(".")[2] == "scale_loss" for each in names):
            yield from range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)


def _beside_apex(text: str) -> Iterator[int]:
    """The lines in the branches of an `if` of which one clips what Apex's optimizer has."""
    for node in nodes_in(_tree(text)) if any(word in text for word in _CLIPPED_BY_APEX) else ():
        if isinstance(node, ast.If) and node.orelse and any(each in ast.unparse(node) for each in _CLIPPED_BY_APEX):
            yield from _lines_at(node)


def _functions(text: str, *, with_loops: bool = False) -> list[range]:
    """The lines of the functions and methods of a text that are in no other; before each, if asked for, its loops'."""
    found: list[range] = []
    stack: list[ast.AST] = [_tree(text)]
    while stack:
        for each in ast.iter_child_nodes(stack.pop()):
            if with_loops and isinstance(each, (*_FUNCTIONS, *_LOOPS)):
                found += map(_lines_at, _outermost_loops(each))
            if isinstance(each, _FUNCTIONS):
                found.append(_lines_at(each))
            elif isinstance(each, ast.stmt) and not (with_loops and isinstance(each, _LOOPS)):
                stack.append(each)
    return found


def _lines_at(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _outermost_loops(node: ast.AST) -> list[ast.stmt]:
    """The loops of a function, or one that is in none, that are in no other."""
    if isinstance(node, _LOOPS):
        return [node]
    return [loop for each in ast.iter_child_nodes(node) for loop in _outermost_loops(each)]


def _function_at(functions: Iterable[range], line: int) -> range | None:
    return next((each for each in functions if line in each), None)


def _is_given(found: Iterable[Harm]) -> bool:
    """Whether a step computes with what others make and hand it."""
    return any(each.trouble is Trouble.GIVEN for each in found)


def _is_of_given(harm: Harm, step: str) -> bool:
    """Whether a harm that a caller shows is in what it hands to a step: what another hands may have the like."""
    return harm.site.file != step and (bool(harm.casts) or harm.island is not None or harm.is_told)


def _is_mended_elsewhere(step: FilePlan, plans: Iterable[FilePlan]) -> bool:
    """Whether something in another file is made float32 for a step: what it was harmed by is seen no more."""
    own = (each.planned for each in plans if each is not step and step.source.path in each.beside)
    return any(isinstance(each.change, Cast) or each.rule == RISKY_NUMERICS.code for edits in own for each in edits)


def _is_of(harm: Harm, step: str, others: Collection[str]) -> bool:
    """Whether a harm that a caller shows is what the region of a step does to what it is given.

    What was low, and is float32 again where it does harm, is in no region: it is of a step unless it is in another's.
    """
    return any(each.file == step for each in harm.regions) if harm.regions else harm.site.file not in others


def _measured(workspace: Workspace, changed: Mapping[str, FilePlan], settings: Settings) -> Measured:
    """The lines of results, by file, that were measured in the originals."""
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for each in settings.measured:
        source = workspace.file(Path(each.file))
        if source is not None and each.is_in(source.text):
            plan = changed.get(source.name)
            found[source.name][each.line if plan is None else line_after(plan, each.line)] = each.why
    return found


def left_for_its_scaler(plan: FilePlan, belonging: Iterable[FilePlan], what: str, line: int) -> Finding | None:
    """What is said of a plan whose scaler does not work on some way through its file; None where no step moves.

    Args:
        belonging: the plans of the files that belong together: the step may be in another.
        what: what is wrong.
        line: where, in the result.
    """
    if not any(map(_steps, belonging)):
        return None
    where = _line_before(plan, line)
    own = _steps(plan)
    if own:
        return _left(own[0], f"{what} (line {where})", _UNSCALABLE)
    return _left(Finding(plan.source.name, where, 0, "", Kind.LEFT, ""), what, _UNSCALABLE)


def _left(step: Finding, why: str, hint: str) -> Finding:
    return replace(step, code=STEP_LEFT.code, kind=Kind.LEFT, message=f"{LEFT_AS_IT_WAS}{why}", hint=hint)


def _lines(found: Iterable[Harm], trouble: Trouble, changed: Mapping[str, FilePlan]) -> Iterator[tuple[str, int]]:
    """The lines of the originals with a kind of trouble."""
    for harm in found:
        if harm.trouble is trouble:
            yield _line_of(harm.site, changed)


def _line_of(site: Site, changed: Mapping[str, FilePlan]) -> tuple[str, int]:
    return site.file, _line_before(changed.get(site.file), site.line)


def _at(harm: Harm, changed: Mapping[str, FilePlan], settings: Settings) -> Finding:
    """What is said of a place, as it stood before; of what is new there, that of what it is written for."""
    behind = harm.trouble in (Trouble.MEETS_CPU, Trouble.UNSCALED_TWICE)
    line = _line_before(changed.get(harm.site.file), harm.site.line + behind)
    hint = _FOR_TOLD.get(harm.trouble, _IN_FLOAT32)
    is_unread = harm.trouble is Trouble.UNREAD and not any(each in harm.message for each in BRINGING_CODE)
    hint = f"{_READ_IT}{hint}" if is_unread and settings.environment is None else hint
    return Finding(harm.site.file, line, 0, _code(harm), Kind.NOTE, harm.message, hint, harm.is_of_others)


def _is_said(harm: Harm, changed: Mapping[str, FilePlan], code: str = "") -> bool:
    """Whether a plan tells of a harm already, at its place: by the code of another rule, where one is given."""
    plan = changed.get(harm.site.file)
    first, last = (_line_before(plan, line) for line in (harm.site.line, harm.site.end_line))
    # A call that was kept in float32 as nobody can read it, or mend it, and a cast for another file do no harm: what
    # does in the same place is something else.
    own = (each for each in (() if plan is None else plan.findings) if not each.is_of_others)
    return any(each.code == (code or _code(harm)) and first <= each.line <= last for each in own)


def _casts_models(plan: FilePlan, plans: Iterable[FilePlan]) -> bool:
    """Whether Apex may have cast models, and no functions, for the steps of a plan: where they change, that is told."""
    own = (each for each in plans if each is plan or each.source.path in plan.beside)
    told = (finding for each in own for finding in each.findings if finding.code == APEX_LEVEL.code)
    return any(each.message.startswith((*MODELS_CAST.values(),)) for each in told)


def _code(harm: Harm) -> str:
    return _CODES.get(harm.trouble, RISKY_NUMERICS.code)


def _steps(plan: FilePlan, kind: Kind = Kind.MIGRATED) -> list[Finding]:
    """What is said of the steps that move in a file; as a note, of what changes there for steps in others."""
    return [each for each in plan.findings if each.code in _OF_STEPS and each.kind is kind]


def _computing(plan: FilePlan) -> list[Finding]:
    """What is said of what computes in low precision in a file: its steps, those of others, or what only evaluates."""
    evaluating = [each for each in plan.findings if each.code == APEX_INITIALIZE.code and each.kind is Kind.MIGRATED]
    return _steps(plan) or _steps(plan, Kind.NOTE) or evaluating


def _line_before(plan: FilePlan | None, line: int) -> int:
    return line if plan is None else line_before(plan, line)
