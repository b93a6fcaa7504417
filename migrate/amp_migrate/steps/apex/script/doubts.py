"""What speaks against native AMP for an Apex script: uses that have no native form, and parts that are out of sight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.exports import takers
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.file_names import UNKNOWN
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.init_calls import read_inits
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize, casts_prepared_alone
from amp_migrate.steps.apex.initialize.reached import runs_early
from amp_migrate.steps.apex.script.script_group import ApexScript, uses_apex_amp
from amp_migrate.steps.apex.uses.amp_tests import amp_tests
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_name, keepings, wrapper_calls
from amp_migrate.steps.apex.uses.apex_guards import insists
from amp_migrate.steps.apex.uses.apex_state import given
from amp_migrate.steps.apex.uses.cast_functions import form_of
from amp_migrate.steps.apex.uses.handed_amp import handed_arguments
from amp_migrate.steps.apex.uses.loss_scale import understood
from amp_migrate.steps.regions.evaluation import EvaluationRegions
from amp_migrate.steps.regions.kept_apart import nowhere, runs_module_kept_apart
from amp_migrate.steps.statements.amp_signs import is_scaled
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.tables.apex_names import AMP, API, STASH, USE_SHIM
from amp_migrate.trees.nodes import walk, written_string

REGION_ROUND_CALL = "put its call into torch.amp.autocast(...), with the switch as enabled="
_BY_NAME = ("getattr", "hasattr", "setattr", "delattr")
_SKIPPED = "natively a step was skipped where scaler.get_scale() is smaller behind scaler.update() than before it"
_STATE = ("state_dict", "load_state_dict", "master_params")


def without_steps(initializes: Iterable[Initialize]) -> Iterable[Refusal]:
    """Optimizers that Apex prepares for a step which is in none of the files."""
    for each in initializes:
        optimizers = each.optimizers
        if optimizers is not None and each.file.tree.code(optimizers) not in ("None", "[]"):
            reason = "no step that scales its loss is among the files that were given"
            yield Refusal(each.file, each.call, reason, "give the files with the training step, too")


def without_initialize(script: ApexScript) -> Iterable[Refusal]:
    """Files that scale losses, or save and restore Apex's state, for a script that prepares its models elsewhere."""
    steps = ((each.gathered.step.file, each.gathered.step.place) for each in script.all_steps)
    about_state = ((file, call) for file in script.files for name in _STATE for call in amp_calls(file, name))
    for file, place in (*steps, *about_state):
        yield Refusal(file, place, "amp.initialize is not among the files that were given")
        return


def without_forwards(script: ApexScript, roles: Roles) -> Iterable[Refusal]:
    """Models that Apex prepares for inference, and no forward that a region could stand around."""
    early = partial(runs_early, roles.project, script.initializes)
    of_prepared = casts_prepared_alone(script.initializes)
    is_apart = partial(runs_module_kept_apart, roles) if of_prepared else nowhere
    regions = EvaluationRegions(roles, [], of_process=True, is_apart=is_apart, in_float32=early)
    among = {**dict.fromkeys(script.files), **script.evaluated}
    round_calls = frozenset() if of_prepared else frozenset(each.node for each in script.shared)
    if not any(regions.of(file, functions, round_calls).regions for file, functions in among.items()):
        for each in (one for one in script.initializes if one.what != "amp.init"):  # which tells of them itself
            reason = "no forward of what it prepares is among the files that were given, or it has native AMP beside"
            hint = "give the files with the forward, too"
            if script.by_others:
                reason, hint = "its forward is in a function that is not this script's alone", REGION_ROUND_CALL
            yield Refusal(each.file, each.call, reason, hint)


def asked_elsewhere(script: Collection[File], files: Iterable[File]) -> Iterable[Refusal]:
    """Calls of an `amp` that this script keeps in an attribute, in files that cannot know it by themselves."""
    kept = (each.targets[0].target for f in script for each in keepings(f))
    names = {target.attr.value for target in kept if isinstance(target, cst.Attribute)}
    scaling = {call for file in script for call in amp_calls(file, "scale_loss")}
    for file in files:
        for call in file.calls if "scale_loss" in file.tree.text else ():
            holder = call.func.value if isinstance(call.func, cst.Attribute) else None
            is_kept = isinstance(holder, cst.Attribute) and holder.attr.value in names
            if is_kept and call not in scaling and amp_name(file, call.func) is None:
                yield Refusal(file, call, "amp itself is used as a value")


def wrapper_asked_elsewhere(project: Project, script: Collection[File]) -> Iterable[Refusal]:
    """What files that neither wrap an optimizer nor go backward ask of an `FP16_Optimizer`, and of nothing else."""
    for word in ("clip_master_grads", "update_master_grads"):
        for file in project.library.mentioning(word):
            is_apart = file not in script and not wrapper_calls(file)  # which asks one of its own
            loaded = is_apart and any(project.library.may_run_together(each, file) for each in script)
            for node in file.uses.get(word, ()) if loaded else ():
                reason = f"FP16_Optimizer's {word} is asked for in a file that is none of the script's"
                yield Refusal(file, node, reason, USE_SHIM)


def stash_asked(project: Project, script: Collection[File]) -> Iterator[Refusal]:
    """Where it is asked what Apex keeps in the optimizers that it prepares, as whether it skips their next step."""
    for file in project.library.mentioning(STASH):
        if file in script or any(project.library.may_run_together(each, file) for each in script):
            by_name = (
                call
                for call in file.calls
                if dotted(call.func) in _BY_NAME and any(written_string(each.value) == STASH for each in call.args[1:2])
            )
            hint = _SKIPPED if "already_patched" in file.uses else ""
            for place in (*file.uses.get(STASH, ()), *by_name):
                yield Refusal(file, place, f"{STASH} of an optimizer has no native form here", hint)


def of_unknown_amp(files: Collection[File]) -> Iterable[Refusal]:
    """Losses that something named `amp` scales which no import in sight brings: a name is all there is."""
    may_be_given = not any(map(uses_apex_amp, files))  # else it may be what a script of them hands on
    for file in files:
        for call in file.calls if "scale_loss" in file.tree.text and not uses_apex_amp(file) else ():
            owner = call.func.value if dotted(call.func) and isinstance(call.func, cst.Attribute) else None
            if owner is None or not (dotted(call.func) or "").endswith("amp.scale_loss"):
                continue
            is_given = file.scopes.of(owner).find(dotted(owner) or "") is not None
            if file.names.full(owner) == UNKNOWN and (may_be_given or not is_given):
                what = file.tree.quote(owner)
                reason = f"nothing that can be seen says what {what} is, which is Apex's by its name alone"
                yield Refusal(file, call, reason, "import it here (`from apex import amp`), and run again")


def plain_steps(files: Iterable[File]) -> Iterable[Refusal]:
    """Steps in float32 in the files of a script that only asks models with Apex: one script, two precisions."""
    for file in files:
        for _, body in bodies(file):
            for statement, call in backward_calls(body):
                if not is_scaled(cast(cst.Attribute, call.func).value):
                    reason = "a training step in float32 stands in one file with inference by Apex"
                    yield Refusal(file, statement, reason, "move one of them to a file of its own, and run again")


def leftovers(
    project: Project, file: File, script: Collection[File], target_torch: tuple[int, int]
) -> Iterable[Refusal]:
    """Uses of `apex.amp` that have no native form here."""
    for name, bindings in file.scopes.module.bindings.items():
        for binding in bindings:
            if binding.imported == AMP and not set(takers(project, file, name)) <= set(script):
                yield Refusal(file, binding.node, f"other files take `{name}` from this one")
    about_scale, kept = understood(file), set(keepings(file))
    restored = {call.args[index] for call, index in given(file, project)}
    inits = {each.call.func for each in read_inits(file)}
    asked = {each.name for each in amp_tests(file)}
    paths = {dotted(each.targets[0].target) for each in kept} - {None}
    handed = {each for where, arg in handed_arguments(project, file) if where in script for each in walk(arg)}
    for node in file.tree.every(cst.Name, cst.Attribute):
        parent = file.tree.parents[node]
        if type(parent) in (cst.Attribute, cst.ImportAlias, cst.AsName, cst.ImportFrom, cst.NameItem, cst.Param):
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        if (
            node in inits
            or node in asked
            or node in handed
            or node in about_scale
            or file.tree.parents[node] in about_scale
        ):
            continue
        used = amp_name(file, node)
        if used is not None and used not in API and form_of(project, file, node, target_torch) is None:
            yield Refusal(file, node, f"amp.{used} has no native form here")
            continue
        is_used = parent.func is node if isinstance(parent, cst.Call) else file.tree.is_target(node)
        if used is not None and used in API and not is_used:
            yield Refusal(file, node, f"amp.{used} itself is used as a value")
            continue
        is_value = AMP in file.names.meanings(node) and parent not in kept and parent not in restored
        is_amp = is_value or dotted(node) in paths
        if is_amp and not file.tree.is_target(node) and not insists(file, file.tree.statement(node)):
            yield Refusal(file, node, "amp itself is used as a value")
