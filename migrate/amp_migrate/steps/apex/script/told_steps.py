"""What a native step does otherwise than Apex's, or asks no more, where the original shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.values.horovod import SYNCHRONIZE, distributed_optimizers, waits
from amp_migrate.catalog.apex_rules import APEX_LEVEL
from amp_migrate.plan.edit import is_within
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.apex.beside.conditions import are_apart
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.script.native_script import NativeStep
from amp_migrate.steps.apex.step.apex_steps import clips_under_scale
from amp_migrate.steps.apex.uses.amp_tests import without_amp_tests
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_name
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees import build
from amp_migrate.trees.nodes import find, is_constant, walk

_TRUE_ONES = "this clipped gradients of float16 weights under the loss scale: now it clips true ones"
_UNREDUCED = "Horovod adds up gradients in step(), which the scaler reads before, as Apex did under scale_loss"
_UNKNOWN = "Apex never got this optimizer: it stepped by gradients with the loss scale in them, and by true ones now"
_CLIPS = "torch.nn.utils.clip_grad_"


def told_of_steps(
    project: Project, files: Sequence[File], steps: Sequence[NativeStep], initializes: Sequence[Initialize]
) -> Iterator[Finding]:
    """The notes about some steps of a script, and its files."""
    has_masters = any(each.has_masters for each in initializes)
    for each in steps:
        file = each.step.file
        for test, name in _idle_switches(project, each, initializes):
            message = f"{name} asks nothing any more: amp.initialize said whether mixed precision is on, and not this"
            yield Finding.at(file.tree, test, APEX_LEVEL.code, Kind.NOTE, message, "drop it, or see that both agree")
        for clip in _clips(each, steps) if has_masters and each.scaler is not None else ():
            yield Finding.at(file.tree, clip, APEX_LEVEL.code, Kind.NOTE, _TRUE_ONES)
        if each.scaler is not None and each.step.backwards and each.step.updates and not _has_waited(each.step, files):
            yield Finding.at(file.tree, each.step.place, APEX_LEVEL.code, Kind.NOTE, _UNREDUCED, SYNCHRONIZE)
        for other in _never_given(each.step, initializes) if each.scaler is not None else ():
            yield Finding.at(file.tree, other, APEX_LEVEL.code, Kind.NOTE, _UNKNOWN)
        for factor in _scaled_by_hand(each, initializes) if each.scaler is not None else ():
            scale = file.tree.quote(factor)
            message = (
                f"the loss is multiplied by {scale}, which is the scaler's scale, too: it is scaled twice, as it was"
            )
            hint = "drop the factor: gradients are divided by the scaler's scale alone"
            yield Finding.at(file.tree, factor, APEX_LEVEL.code, Kind.NOTE, message, hint)


def _never_given(step: TrainingStep, initializes: Sequence[Initialize]) -> Iterator[cst.Call]:
    """Where a step steps an optimizer, too, that its function does not give to the Apex which it initializes."""
    tree = step.file.tree
    if not all(each.file is step.file and tree.function(each.home) is step.function for each in initializes):
        return
    known = {dotted(node) for each in initializes for node in walk(each.statement)}
    # One that stands in a branch for float32 as well is read there.
    are_scaled = len(step.backwards) == 1 or all(isinstance(each.statement, cst.With) for each in step.backwards)
    if step.backwards and are_scaled and all(each.what == "amp.initialize" for each in initializes):
        for each in step.optimizer_steps:
            if isinstance(each.optimizer, cst.Name) and each.optimizer.value not in known:
                yield each.call


def _has_waited(step: TrainingStep, files: Iterable[File]) -> bool:
    """Whether gradients are those of all processes where a scaler reads them: Horovod's are once it has been asked."""
    is_distributed = any(True for file in files for _ in distributed_optimizers(file))
    return not is_distributed or any(True for _ in waits(step.file, step.file.tree.body(step.place)))


def _scaled_by_hand(native: NativeStep, initializes: Sequence[Initialize]) -> Iterator[cst.BaseExpression]:
    """What a step's loss is multiplied by, of which its scaler's first scale is made as well: `args.loss_scale`."""
    step = native.step
    scales = [build.expression(each.init_scale) for each in initializes if each.init_scale is not None]
    known = {path for scale in scales for each in walk(scale) if (path := dotted(each)) is not None}
    losses = {step.file.tree.code(each.loss) for each in step.backwards}
    products = [each.loss for each in step.backwards]
    for node in walk(step.file.tree.body(step.place)):
        if isinstance(node, cst.Assign) and {step.file.tree.code(each.target) for each in node.targets} <= losses:
            products.append(node.value)
        is_product = isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.MultiplyAssign)
        if is_product and isinstance(node, cst.AugAssign) and step.file.tree.code(node.target) in losses:
            yield from (each for each in (node.value,) if dotted(each) in known)
    for product in products:
        if isinstance(product, cst.BinaryOperation) and isinstance(product.operator, cst.Multiply):
            yield from (each for each in (product.left, product.right) if dotted(each) in known)


def _idle_switches(
    project: Project, native: NativeStep, initializes: Sequence[Initialize]
) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The parameters that only the branches of a step asked which are folded, each with the test that did.

    Those that say what decides about Apex are not among them.
    """
    step, function = native.step, native.step.function
    tests = [fold.statement.test for fold in native.folds]
    asked = frozenset() if step.enabled is None else reads([build.expression(str(step.enabled))])
    for test in tests if function is not None else ():
        for node in find(test, cst.Name):
            name, scope = node.value, step.file.scopes.of(node)
            bindings = scope.lookup(name)
            parameters = [each.node for each in bindings if isinstance(each.node, cst.Param)]
            is_parameter = bindings and len(parameters) == len(bindings) and name != "self"
            if not is_parameter or _is_asked(step.file, node, tests) or name in asked:
                continue
            if not all(_is_given_the_same(project, step.file, node, each, initializes) for each in parameters):
                yield test, name
                break


def _is_given_the_same(
    project: Project, file: File, node: cst.Name, parameter: cst.Param, initializes: Sequence[Initialize]
) -> bool:
    """Whether each call passes for a parameter what decides about Apex there, or is asked for it by a test."""
    given = [*passed_values(project, file, parameter)]
    owner = file.tree.function(parameter)
    sites = None if owner is None else project.call_sites(project.reference(file, owner))
    is_passed = bool(sites) and len(given) == len(sites or ())
    around = file.tree.parents[node]
    attribute = f".{around.attr.value}" if isinstance(around, cst.Attribute) and around.value is node else ""
    return is_passed and all(_says_the_same(where, value, attribute, initializes) for where, value in given)


def _says_the_same(file: File, value: cst.BaseExpression, attribute: str, initializes: Sequence[Initialize]) -> bool:
    """Whether a value, or its attribute, decides about Apex in its file, or is made true beside it alone."""
    own = [each for each in initializes if each.file is file]
    said = f"{file.tree.code(without_amp_tests(file, value))}{attribute}"
    if any(said == " and ".join(each.switch) for each in own):
        return True
    bindings = object_bindings(file, value) if dotted(value) is not None and not attribute else []
    blocks = {file.tree.block(each.statement) for each in own}
    made = [each.node for each in bindings if each.value is None or not is_constant(each.value, "False")]
    is_flag = all(each.value is not None and is_constant(each.value, "True") for each in bindings if each.node in made)
    return bool(made) and is_flag and all(file.tree.block(file.tree.statement(each)) in blocks for each in made)


def _is_asked(file: File, parameter: cst.Name, tests: Sequence[cst.BaseExpression]) -> bool:
    """Whether code outside of some tests reads a parameter."""
    scope = file.scopes.of(parameter).find(parameter.value)
    others = (each for each in file.uses.get(parameter.value, ()) if isinstance(each, cst.Name))
    return any(file.scopes.of(n).find(n.value) is scope and not is_within(file.tree, n, tests) for n in others)


def _clips(native: NativeStep, steps: Sequence[NativeStep]) -> Iterator[cst.Call]:
    """The calls of a function with an Apex step that clip what are the gradients of the model's own weights.

    Args:
        steps: those of the script; where none goes backward here, what the function clips is theirs.
    """
    file, step = native.step.file, native.step
    plain = [fold.live for fold in native.folds]
    known = set(clips_under_scale(step))
    scaled = [*_scaled(native)] or [each for other in steps for each in _scaled(other)]
    for call in file.calls:
        if file.tree.function(call) is not step.function or not file.names.callee(call).startswith(_CLIPS):
            continue
        given = call.args[0].value if call.args else None
        is_of_masters = isinstance(given, cst.Call) and amp_name(file, given.func) == "master_params"
        is_plain = is_within(file.tree, call, plain) or (scaled and all(are_apart((file, call), e) for e in scaled))
        if not is_of_masters and call not in known and not is_plain:
            yield call


def _scaled(native: NativeStep) -> Iterator[tuple[File, cst.CSTNode]]:
    """Where a step scales its loss by Apex."""
    file, step = native.step.file, native.step
    yield from ((file, fold.dead) for fold in native.folds)
    yield from ((file, each.statement) for each in step.backwards if each.wrapped)
    calls = amp_calls(file, "scale_loss")
    yield from ((file, each) for each in calls if file.tree.function(each) is step.function)
