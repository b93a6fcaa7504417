"""Apex training: steps are found from `with amp.scale_loss(...)`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.step.folded_branches import FoldedBranch, Lines, clip_folds, fold_of
from amp_migrate.steps.apex.step.fp16_optimizer import read_backwards
from amp_migrate.steps.apex.step.plain_apart import IsUnprepared, PlainApart, plain_apart
from amp_migrate.steps.apex.step.scaled_contexts import Contexts, Opened, giver_of, givers, opened
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.gradients.steppers import Steppers
from amp_migrate.steps.model.training_step import Backward, OptimizerStep, TrainingStep
from amp_migrate.steps.read.fp32 import is_of_engine
from amp_migrate.steps.read.gather import Gathered, Gatherer
from amp_migrate.steps.statements.amp_signs import is_scaled
from amp_migrate.steps.statements.bodies import backward_calls, bodies, outermost_loop
from amp_migrate.tables.apex_names import SCALE_LOSS, USE_SHIM
from amp_migrate.trees.nodes import Block, Statement, block_of, find, inner_statements, nested_statements, statements
from amp_migrate.trees.own_calls import named_arguments
from amp_migrate.trees.tree import Tree

# For each function that is called as a part of a step, its callers with the calls.
Calls: TypeAlias = "Mapping[FunctionRef, Sequence[tuple[TrainingStep, CallSite]]]"


@frozen
class ApexStep:
    """What a function that scales a loss has of a step, and the branches that fold.

    Attributes:
        left_out: the statements that will be gone, or see the gradients where they stand as they will then.
        apart: the plain steps in it that stay.
        native: the statements of what trains by a GradScaler beside it.
    """

    gathered: Gathered
    folds: tuple[FoldedBranch, ...]
    left_out: frozenset[Statement] = frozenset()
    apart: tuple[PlainApart, ...] = ()
    native: frozenset[Statement] = frozenset()

    @property
    def staying(self) -> frozenset[Statement]:
        """The statements of these from each `backward()` to its `step()`."""
        return frozenset(statement for each in self.apart for statement in each.run)


def read_steps(
    file: File,
    roles: Roles,
    steppers: Steppers | None = None,
    is_unprepared: IsUnprepared | None = None,
    *,
    wraps: bool = False,
    apart: Lines = frozenset(),
) -> Iterator[ApexStep | Refusal]:
    """What each function of a file that scales a loss has of an Apex training step.

    Args:
        steppers: knows functions that step for others; None where nobody has to know of steps.
        is_unprepared: whether Apex knows nothing of what may be an optimizer; None where nobody can tell.
        wraps: whether the script has an `FP16_Optimizer`, which goes backward itself.
        apart: see `Settings.clipped_apart`.
    """
    project = roles.project
    known = {each.node: giver_of(project, each) for each in givers(project, file)}
    read: set[cst.Call] = {each.call for each in known.values() if each is not None}
    contexts = Contexts(project, file)
    for function, body in bodies(file):
        if function in known:
            continue
        withs = {
            each: found
            for each in nested_statements(body)
            if isinstance(each, cst.With) and (found := contexts.of(each)) is not None
        }
        read.update(call for each, found in withs.items() for call in _calls_of_context(each, found))
        reads = [_read_with(file, roles, each, *found, contexts) for each, found in withs.items()]
        reads += read_backwards(file, body) if wraps else []
        if reads:
            refusal = next((each for each in reads if isinstance(each, Refusal)), None)
            scaled = {each.statement: each for each in reads if isinstance(each, Backward)}
            yield refusal or _read_function(file, roles, steppers, is_unprepared, function, body, scaled, apart)
    for call in amp_calls(file, "scale_loss"):
        if call not in read:
            yield Refusal(file, call, "amp.scale_loss is not what a with statement opens by itself", USE_SHIM)


def read_plain(file: File, roles: Roles, steppers: Steppers | None) -> Iterator[ApexStep | Refusal]:
    """What each function of a file has of a step, where nothing scales a loss and Apex casts all the same."""
    for function, body in bodies(file):
        backwards = plain_backwards(file, roles, body, (), ())
        if isinstance(backwards, Refusal):
            yield backwards
        elif backwards:
            stepped = stepped_elsewhere(file, body, frozenset(), steppers)
            gathered = gatherer(file, roles, frozenset()).gather(function, backwards, stepped_elsewhere=stepped)
            yield gathered if isinstance(gathered, Refusal) else ApexStep(gathered, ())


def _calls_of_context(statement: cst.With, found: tuple[cst.WithItem, Opened]) -> Iterator[cst.Call]:
    """The calls that a `with` opens, or that its context is kept from."""
    for each in (*(item.item for item in statement.items), *found[1].kept):
        yield from find(each, cst.Call)


def gatherer(file: File, roles: Roles, left_out: frozenset[Statement], steppers: Steppers | None = None) -> Gatherer:
    """Builds the steps of an Apex script, whose process runs in mixed precision; without `steppers`, for no scaler."""
    values = None if steppers is None else steppers.values
    return Gatherer(file, roles, left_out, is_mixed=True, scales=steppers is not None, values=values)


def stepped_elsewhere(
    file: File, body: Block, left_out: frozenset[Statement], steppers: Steppers | None
) -> list[OptimizerStep]:
    """The calls of functions that step for a body, but for those that will be gone."""
    found = [] if steppers is None else steppers.calls(file, body)
    return [each for each in found if each.statement not in left_out]


def _read_function(
    file: File,
    roles: Roles,
    steppers: Steppers | None,
    is_unprepared: IsUnprepared | None,
    function: cst.FunctionDef | None,
    body: Block,
    scaled: dict[Statement, Backward],
    apart: Lines,
) -> ApexStep | Refusal:
    withs = [each for each in scaled if isinstance(each, cst.With)]
    folds: list[FoldedBranch] = []
    for statement in scaled:
        around = file.tree.parents.get(file.tree.block(statement))
        if isinstance(around, cst.Else):
            around = file.tree.parents.get(around)
        if isinstance(around, cst.If):
            fold = fold_of(file, around, scaled, apart)
            if fold is not None and fold not in folds:
                folds.append(fold)
    folds += [fold for fold in clip_folds(file, body, scaled, apart) if fold not in folds]
    dead = {s for fold in folds for s in nested_statements(fold.dead)}
    native = _trained_natively(file, scaled) if function is None else frozenset()
    dead |= native
    backwards = [each for statement, each in scaled.items() if statement not in dead]
    others = plain_backwards(file, roles, body, {each.call for each in scaled.values()}, dead)
    if isinstance(others, Refusal):
        return others
    plain = () if is_unprepared is None else tuple(plain_apart(file, roles, body, others, scaled, is_unprepared))
    stays = frozenset(statement for each in plain for statement in each.run)
    backwards += [each for each in others if each.statement not in stays]
    backwards.sort(key=lambda each: file.tree.order[each.statement])
    # What else stands under the scale sees scaled gradients there as it will behind the backward.
    under_scale = {s for with_ in withs for each in _rest(with_) for s in (each, *inner_statements(each))}
    kept = {each for backward in scaled.values() for each in backward.before}
    left_out = frozenset(dead | under_scale | kept | stays)
    stepped = stepped_elsewhere(file, body, left_out, steppers)
    gathered = gatherer(file, roles, left_out, steppers).gather(
        function, backwards, stepped_elsewhere=stepped, apart=stays
    )
    if isinstance(gathered, Refusal):
        return gathered
    return ApexStep(gathered, tuple(folds), left_out, plain, native)


def _trained_natively(file: File, scaled: Collection[Statement]) -> frozenset[Statement]:
    """The statements of loops in no function that scale a loss by a GradScaler, and nothing by Apex."""
    by_apex = {outermost_loop(file, each) for each in scaled}
    native = {
        outermost_loop(file, statement)
        for statement, call in backward_calls(file.tree.module)
        if is_scaled(cst.ensure_type(call.func, cst.Attribute).value)
    }
    loops = (each for each in native - by_apex if each is not None)
    return frozenset(statement for loop in loops for statement in inner_statements(loop))


def clips_under_scale(step: TrainingStep) -> Iterator[cst.Call]:
    """The calls in a body of `amp.scale_loss` that clip its gradients, which are scaled there."""
    for with_ in (each.statement for each in step.backwards if isinstance(each.statement, cst.With)):
        calls = (call for statement in _rest(with_) for call in find(statement, cst.Call))
        yield from (each for each in calls if step.file.names.callee(each).startswith("torch.nn.utils.clip_grad_"))


def plain_backwards(
    file: File, roles: Roles, body: Block, known: Collection[cst.Call], dead: Collection[Statement]
) -> list[Backward] | Refusal:
    """The other calls of `backward` in a body: natively their losses are scaled as Apex's are."""
    found: list[Backward] = []
    for statement, call in backward_calls(body):
        if call not in known and statement not in dead:
            loss = cst.ensure_type(call.func, cst.Attribute).value
            if is_scaled(loss):
                return Refusal(file, call, "Apex and native AMP stand side by side in one step", USE_SHIM)
            if is_of_engine(file, roles, call):
                continue  # it scales by itself, and steps: DeepSpeed's, in a branch of its own
            found.append(Backward(statement, call, loss))
    return found


def sees_others(project: Project, step: TrainingStep, calls: Calls) -> Refusal | None:
    """A body of `amp.scale_loss` that saw the gradients of one backward alone, and would see those of others with them.

    Args:
        calls: for each function that is called as a part of the step, its callers with the calls.
    """
    for backward in (each for each in step.backwards if each.context is not None):
        with_ = cst.ensure_type(backward.statement, cst.With)
        found = None if backward.context is None else opened(project, step.file, backward.context.item)
        is_delayed = found is not None and "delay_unscale" in (named_arguments(found.call, SCALE_LOSS) or ())
        if _rest(with_) and not is_delayed and not _is_alone(step, with_, calls):
            reason = "the body of amp.scale_loss sees the gradients of one backward(), without those before it"
            return Refusal(step.file, with_, reason, USE_SHIM)
    return None


def _is_alone(step: TrainingStep, at: Statement, calls: Calls) -> bool:
    """Whether the optimizer steps for each run of a statement that goes backward, and nothing else does before it."""
    tree = step.file.tree
    around = [tree.block(at), *tree.ancestors(tree.block(at))]
    stepped = (each.statement for each in step.optimizer_steps)
    if len(step.backwards) > 1:
        return False
    if any(_always_in(tree, each) in around and tree.loop(each) is tree.loop(at) for each in stepped):
        return True
    sites = [site for function, sites in calls.items() if function.node is step.function for site in sites]
    alone = (_is_alone(caller, site.file.tree.statement(site.call), calls) for caller, site in sites)
    return bool(sites) and tree.loop(at) is None and all(alone)


def _always_in(tree: Tree, statement: Statement) -> Block:
    """The block that a statement always runs with: that of the `with` it stands in, where it stands in one."""
    block = tree.block(statement)
    while isinstance(around := tree.parents.get(block), cst.With):
        block = tree.block(around)
    return block


def _rest(statement: cst.With) -> tuple[Statement, ...]:
    """What stands in the body of a `with` behind its first statement."""
    return statements(block_of(statement))[1:]


def _read_with(
    file: File, roles: Roles, statement: cst.With, item: cst.WithItem, found: Opened, contexts: Contexts
) -> Backward | Refusal:
    """`with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()`, and what only handles gradients."""
    first = statements(block_of(statement))[0]
    call = first.value if isinstance(first, cst.Expr) else None
    name = item.asname.name if item.asname is not None else None
    others = [each for each in statement.items if each is not item]
    loss = found.loss
    if (
        loss is None
        or not isinstance(name, cst.Name)
        or not isinstance(call, cst.Call)
        or not isinstance(call.func, cst.Attribute)
        or call.func.attr.value != "backward"
        or not isinstance(call.func.value, cst.Name)
        or call.func.value.value != name.value
        or any(_goes_on_training(file, roles, each, name.value) for each in (*others, *_rest(statement)))
        or (others and any(find(loss, cst.Call)))  # which runs where the other contexts want it
    ):
        return Refusal(file, statement, "the body of amp.scale_loss does more than go backward", USE_SHIM)
    at = (named_arguments(found.call, SCALE_LOSS) or {}).get("delay_overflow_check")
    if at is not None:
        return Refusal(file, statement, "delay_overflow_check= of amp.scale_loss has no native form", USE_SHIM)
    is_other = dotted(loss) != name.value and _is_said_elsewhere(file, name, contexts)
    return Backward(statement, call, loss, kept=name.value if is_other else "", context=item, before=found.kept)


def _is_said_elsewhere(file: File, name: cst.Name, contexts: Contexts) -> bool:
    """Whether a variable is more than the scaled loss in the bodies of `amp.scale_loss`."""
    scope = file.scopes.of(name).find(name.value)

    def is_scaled(node: cst.CSTNode) -> bool:
        around = (each for each in file.tree.ancestors(node) if isinstance(each, cst.With))
        items = (found[0] for each in around if (found := contexts.of(each)) is not None)
        return any(item.asname is not None and dotted(item.asname.name) == name.value for item in items)

    uses = (each for each in file.uses.get(name.value, ()) if isinstance(each, cst.Name))
    return any(file.scopes.of(each).find(each.value) is scope and not is_scaled(each) for each in uses)


def _goes_on_training(file: File, roles: Roles, statement: Statement | cst.WithItem, scaled: str) -> bool:
    """Whether a statement, or another context, computes with the scaled loss, or is a part of the step."""
    calls = list(find(statement, cst.Call))
    return (
        any(node.value == scaled for node in find(statement, cst.Name))
        or any(isinstance(c.func, cst.Attribute) and c.func.attr.value in ("backward", "step") for c in calls)
        or any(roles.runs_forward(file, call) for call in calls)
    )
