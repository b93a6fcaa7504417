"""Who reads gradients between a backward and its step: there the scaler has to unscale them first."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeGuard

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.looped import in_each, items
from amp_migrate.catalog.step_rules import RISKY_NUMERICS
from amp_migrate.implications import Facts, implied
from amp_migrate.plan.move import Refusal
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.gradients.reductions import of_collected, reduces_gradients
from amp_migrate.steps.gradients.updates import exclude
from amp_migrate.steps.model.training_step import Backward, GradientUse, OptimizerStep, ScaledUse, TrainingStep
from amp_migrate.steps.read.value_calls import ValueCalls, is_of_list
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.steps.statements.data_flow import reads, writes
from amp_migrate.tables.torch_names import CLIPPING, GRADIENT_FUNCTIONS, MEASURING
from amp_migrate.trees.nodes import (
    LOOP_TYPES,
    STATEMENT_TYPES,
    Block,
    Statement,
    block_of,
    blocks,
    find,
    header,
    inner_statements,
    is_constant,
    method_of,
    nested_statements,
    walk,
)
from amp_migrate.trees.own_calls import named_arguments
from amp_migrate.trees.tree import Tree

_CLIP_NAME = re.compile(r"clip_?(master_)?grad", re.IGNORECASE)
_CLIPS = GRADIENT_FUNCTIONS - MEASURING  # what changes gradients
_LEAVING = (cst.Return, cst.Continue, cst.Break)
_PARAMETERS = "apex.amp.master_params"
_KNOWN_PACKAGES = sys.stdlib_module_names | {"torch", "apex"}  # Apex's functions have rules of their own
_NOT_ALWAYS = (
    "gradients are read where the optimizer does not always step, so they cannot be unscaled there",
    "read or clip gradients only on the iterations that step, directly before optimizer.step()",
)
_NOT_YET = (
    "gradients are clipped between two backward() calls of one step, where they cannot be unscaled yet",
    "clip gradients after the last backward(), directly before optimizer.step(), or run with --dtype bf16",
)
_WHERE_IT_STEPS = "if it does, call it where the optimizer steps, behind the scaler's unscale_(optimizer)"
_BEFORE_SUM = (
    "gradients are read before they are added up over all processes, each of which would unscale them by itself",
    "add up gradients directly after backward(), and read or clip them behind that, or run with --dtype bf16",
)
_IN_ONE = (
    "one function adds up gradients over all processes and clips them, and they cannot be unscaled between the two",
    "clip gradients in a statement of its own behind that, or run with --dtype bf16",
)


def gradient_uses(
    file: File,
    roles: Roles,
    body: Block,
    backwards: list[Backward],
    steps: list[OptimizerStep],
    dead: frozenset[Statement],
    values: ValueCalls | None = None,
) -> tuple[GradientUse | ScaledUse, ...] | Refusal:
    """Where the gradients of which optimizer must be unscaled: at most once per optimizer and step.

    Clipping where that cannot be yet goes by a scaled limit, which comes to the same.

    Args:
        values: knows what runs where names do not tell.
    """
    tree = file.tree
    order = tree.order
    starts = [order[b.statement] for b in backwards] or [order[body]]
    # An optimizer of the project reads gradients as every other does: in its step.
    # What goes backward from a gradient has the scale that is in it: see `Settings.scaled_already`.
    own = {b.statement for b in backwards} | {step.statement for step in steps}
    own |= {each for step in steps for each in inner_statements(step.statement)}
    nested = [each for each in nested_statements(body) if each not in dead]
    collected = of_collected(file, roles, [each for each in nested if order[each] > starts[0]])
    using = [
        s
        for s in nested
        if s not in own and order[s] > starts[0] and not _is_apart(tree, s, backwards)
        if uses_gradients(file, roles, s)
        or s in collected.reducing | collected.using
        or (
            _is_before_step(tree, s, backwards, steps)
            and any(_gives_away_parameters(file, roles, p) for p in header(s))
        )
    ]
    if len({dotted(step.optimizer) for step in steps}) == 1:
        using = [each for each in using if not _is_cleared(tree, each, body, backwards)]
    place = partial(_placed, file, roles, body, backwards, steps, dead, starts, own, values, collected.reducing)
    found = place(using)
    if isinstance(found, Refusal) and found.reason == _NOT_ALWAYS[0]:
        scaled = [each for each in using if not _is_of_plain_mode(file, each, backwards)]
        found = found if len(scaled) == len(using) else place(scaled)
    return found


def _is_of_plain_mode(file: File, statement: Statement, backwards: list[Backward]) -> bool:
    """Whether a statement only runs in a mode that is chosen once, and in which Apex scales no loss.

    The scaler is off there, as far as Apex was; where it is not, that shows in the result.
    """
    scaled = [each.statement for each in backwards if each.context is not None or each.wrapped or each.part is not None]
    facts = _modes(file, statement)
    return bool(scaled) and all(
        any((text, not outcome, names) in facts for text, outcome, names in _modes(file, each)) for each in scaled
    )


def _modes(file: File, statement: Statement) -> Facts:
    """What is known where a statement runs of the constants of its file."""
    around = [*file.tree.ancestors(statement)]
    tested = [(node, node.body in around) for node in around if isinstance(node, cst.If) and node.test not in around]
    facts = frozenset().union(*(implied(_test(file.tree, node), outcome) for node, outcome in tested))
    bound = file.scopes.of(statement)
    return frozenset(fact for fact in facts if all(_is_constant(file, bound.lookup(name)) for name in fact[2]))


def _is_constant(file: File, bindings: list[Binding]) -> bool:
    return [each.kind for each in bindings] == [BindingKind.ASSIGNMENT] and file.tree.function(bindings[0].node) is None


def _placed(
    file: File,
    roles: Roles,
    body: Block,
    backwards: list[Backward],
    steps: list[OptimizerStep],
    dead: frozenset[Statement],
    starts: list[int],
    own: set[Statement],
    values: ValueCalls | None,
    summing: frozenset[Statement],
    using: list[Statement],
) -> tuple[GradientUse | ScaledUse, ...] | Refusal:
    tree, order = file.tree, file.tree.order
    reducing = [each for each in using if each in summing or reduces_gradients(file, roles, each)]
    clipping = next((each for each in reducing if any(_clips(file, roles, part) for part in header(each))), None)
    if clipping is not None:
        return Refusal(file, clipping, *_IN_ONE)
    wanted: dict[OptimizerStep, list[Statement]] = {}
    for statement in (each for each in using if each not in reducing):
        after = steps_after(file, roles, statement, starts, steps)
        if any(_has_stepped(tree, step, statement, backwards) for step in steps):
            # What it reads is divided already; what the next backward pass adds, it does not see.
            after = [step for step in after if not goes_backward(tree, statement, step.statement, backwards)]
        elif not after and steps and not shows_no_size(file, roles, statement):
            return Refusal(file, statement, *_NOT_ALWAYS)
        for step in after:
            wanted.setdefault(step, []).append(statement)
    found: list[GradientUse | ScaledUse] = []
    kept: list[tuple[OptimizerStep, list[Statement], tuple[str, str] | None]] = []
    unscaled: set[Statement] = set()
    told = {} if reducing else _told_of_gradients(file, roles, body, backwards, steps, [*using, *own, *dead], values)
    for step, statements in told.items():
        # That somebody may read them speaks against nothing: where they cannot be unscaled for that, they are not.
        for first in range(len(statements)):
            every = [*wanted.get(step, ()), *statements[first:]]
            is_late = not any(goes_backward(tree, each, step.statement, backwards) for each in every)
            uses = [unscaled_before(tree, step, each, reducing) for each in _branches(tree, every, backwards, dead)]
            if is_late and all(isinstance(use, GradientUse) for use in uses):
                wanted[step] = every
                break
    for step, statements in wanted.items():
        # Between two backward() calls they cannot be unscaled yet; whether that matters shows in the result.
        early = [each for each in statements if goes_backward(tree, each, step.statement, backwards)]
        late = [each for each in statements if each not in early]
        branches = _branches(tree, late, backwards, dead) if late else []
        uses = [unscaled_before(tree, step, each, reducing) for each in branches]
        problem = next((use for use in uses if not isinstance(use, GradientUse)), None)
        if problem is None:
            found += [use for use in uses if isinstance(use, GradientUse)]
            unscaled.update(late)
        kept.append((step, early if problem is None else statements, problem))
    for step, statements, problem in kept:
        # Where one optimizer's are unscaled, a scaled limit is wrong for these; whether it is for others is seen later.
        for statement in (each for each in statements if each not in unscaled):
            clip = _scaled_clip(file, statement)
            scaled: tuple[ScaledUse, ...] = () if clip is None else (clip,)
            if problem is not None:
                scaled = on_scaled(file, roles, statement) or _scaled_in_function(file, roles, statement, step)
            found += [each for each in scaled if each not in found]
            if not scaled and problem is not None:
                return Refusal(file, statements[0], *problem)
            if not scaled and any(_clips(file, roles, part) for part in header(statement)):
                return Refusal(file, statement, *_NOT_YET)
    return tuple(sorted(found, key=lambda use: order[use.before]))


def _told_of_gradients(
    file: File,
    roles: Roles,
    body: Block,
    backwards: list[Backward],
    steps: list[OptimizerStep],
    known: Collection[Statement],
    values: ValueCalls | None = None,
) -> dict[OptimizerStep, list[Statement]]:
    """Where something unknown is given what has the optimizer of a step, before that: a callback, `hook(self)`.

    It sees gradients as the step will, and may clip them; so may what values show to be run.
    """
    order, found = file.tree.order, dict[OptimizerStep, list[Statement]]()
    starts = [order[each.statement] for each in backwards]
    for statement in nested_statements(body):
        if statement in known or not _is_before_step(file.tree, statement, backwards, steps):
            continue
        for step in steps_after(file, roles, statement, starts, steps):
            path, parts = dotted(step.optimizer) or "", header(statement)
            if any(_hands_over(file, roles, part, path) or _runs_reader(file, roles, part, values) for part in parts):
                found.setdefault(step, []).append(statement)
    return found


def told_of_scaled_gradients(roles: Roles, step: TrainingStep) -> Iterator[Finding]:
    """What is said of whoever is given an optimizer's object where no `unscale_()` can go, as it may read gradients."""
    tree, backwards, steps = step.file.tree, [*step.backwards], [*step.optimizer_steps]
    unscaled = [each.before for each in step.gradient_uses if isinstance(each, GradientUse)]
    found = _told_of_gradients(step.file, roles, tree.body(step.place), backwards, steps, [])
    for statement in dict.fromkeys(each for statements in found.values() for each in statements):
        if not any(tree.order[each] <= tree.order[statement] for each in unscaled):
            message = f"gradients are scaled where `{tree.quote(statement)}` may read them"
            yield Finding.at(tree, statement, RISKY_NUMERICS.code, Kind.NOTE, message, _WHERE_IT_STEPS)


def _hands_over(file: File, roles: Roles, part: cst.CSTNode, optimizer: str) -> bool:
    """Whether something unknown is given the object that has an optimizer, which is `optimizer` here."""
    holder, met = optimizer.rpartition(".")[0], set[cst.CSTNode]()
    waiting = [(file, part, holder)] if holder else []
    for where, code, owner in waiting:  # grows by the object's own methods
        for call in find(code, cst.Call):
            function = _called(where, roles, call)
            if function is None:
                if _is_unknown(where, call.func) and any(dotted(each.value) == owner for each in call.args):
                    return True
            elif isinstance(call.func, cst.Attribute) and dotted(call.func.value) == owner and function.node not in met:
                met.add(function.node)
                waiting.append((function.file, function.node.body, "self"))
    return False


def _runs_reader(file: File, roles: Roles, part: cst.CSTNode, values: ValueCalls | None) -> bool:
    """Whether code runs a function that reads gradients, and that only values tell: of one of several objects."""
    waiting, met = [(file, part)] if values is not None else [], set[cst.CSTNode]()
    for where, code in waiting:  # grows while it is gone through
        calls = _calls_run(where, roles, code)
        meant = (each for inside, call in calls for each in _asked_for(inside, roles, call, values))
        for each in (each for each in meant if each.node not in met):
            if _reads_gradients(each.file, roles, each.node.body):
                return True
            met.add(each.node)
            waiting.append((each.file, each.node.body))
    return False


def _asked_for(file: File, roles: Roles, call: cst.Call, values: ValueCalls | None) -> Iterator[FunctionRef]:
    """What a call may run that only values tell, of methods that read gradients, or by a name or out of a list."""
    if values is None or not _is_unknown(file, call.func) or _called(file, roles, call) is not None:
        return
    if isinstance(call.func, cst.Attribute):
        named = roles.project.may_call(file, call, "grad")
        is_asked = any(_reads_gradients(each.file, roles, each.node.body) for each in named)
    else:
        bound = [call.func, *(each.value for each in object_bindings(file, call.func))]
        is_asked = any(map(_is_by_name, bound)) or is_of_list(file, call)
    yield from filter(None, values.meant(file, call) if is_asked else ())


def _is_by_name(called: cst.BaseExpression | None) -> bool:
    """Whether something is asked for by a name: `getattr(callback, event)`."""
    return isinstance(called, cst.Call) and dotted(called.func) == "getattr" and bool(called.args)


def _is_unknown(file: File, called: cst.BaseExpression) -> bool:
    """Whether what is called is a value, or a part of one: no import, and nothing of Python's own."""
    node = called
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if not isinstance(node, cst.Call):
            node = node.value
        elif _is_by_name(node):
            node = node.args[0].value
        else:
            return False
    is_bound = isinstance(node, cst.Name) and file.scopes.of(node).find(node.value) is not None
    return is_bound and not file.names.full(called)


def _is_before_step(tree: Tree, statement: Statement, backwards: list[Backward], steps: list[OptimizerStep]) -> bool:
    """Whether a statement stands between a loss that goes backward and a step on its gradients."""
    return any(
        tree.order[statement] < tree.order[step.statement]
        and not any(
            tree.order[statement] < tree.order[each.statement] < tree.order[step.statement] for each in backwards
        )
        for step in steps
    )


def _is_apart(tree: Tree, statement: Statement, backwards: list[Backward]) -> bool:
    """Whether no loss has gone backward where a statement runs: it stands in another branch, in no loop of theirs."""
    around = [*tree.ancestors(statement)]
    for each in (backward.statement for backward in backwards):
        holder = next(
            (node for node in tree.ancestors(each) if node in around and isinstance(node, STATEMENT_TYPES)), None
        )
        is_looped = any(isinstance(node, LOOP_TYPES) for node in tree.ancestors(each) if node in around)
        if is_looped or not isinstance(holder, cst.If) or not exclude(tree, statement, each):
            return False
    return bool(backwards)


def _is_cleared(tree: Tree, statement: Statement, body: Block, backwards: list[Backward]) -> bool:
    """Whether a statement sees no gradients: a `zero_grad()` above it always runs, and no backward after that."""
    order, around = tree.order, [tree.block(statement), *tree.ancestors(tree.block(statement))]
    for each in nested_statements(body):
        func = each.value.func if isinstance(each, cst.Expr) and isinstance(each.value, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value != "zero_grad":
            continue
        if tree.block(each) not in around or tree.loop(each) is not tree.loop(statement):
            continue
        between = (b.statement for b in backwards if order[each] < order[b.statement] < order[statement])
        if order[each] < order[statement] and all(exclude(tree, statement, other) for other in between):
            return True
    return False


def _has_stepped(tree: Tree, step: OptimizerStep, statement: Statement, backwards: list[Backward]) -> bool:
    """Whether the optimizer has stepped on the gradients that a statement reads, whichever way the code has gone."""
    last: Statement = step.statement
    while isinstance(loop := tree.parents.get(tree.block(last)), LOOP_TYPES) and loop not in tree.ancestors(statement):
        last = loop  # `for optimizer in optimizers: optimizer.step()`
    between = (b for b in backwards if tree.order[last] < tree.order[b.statement] < tree.order[statement])
    return tree.order[last] < tree.order[statement] and not any(between) and _runs_where(tree, statement, last)


def _runs_where(tree: Tree, statement: Statement, other: Statement) -> bool:
    """Whether a statement runs only where another of its round does, as far as the tests of `if` tell."""
    around = [*tree.ancestors(statement)]
    tested = (node for node in around if isinstance(node, cst.If))
    known = frozenset().union(*(implied(_test(tree, node), node.body in around) for node in tested))
    node: cst.CSTNode = tree.block(other)
    while node not in around:
        above = tree.parents[node]
        if isinstance(above, cst.If):
            test = _test(tree, above)
            facts = implied(test, above.body is node)
            if _is_joined(test) or not facts or not facts <= known:
                return False
        elif not isinstance(above, (cst.Else, cst.With, cst.IndentedBlock)):
            return False
        node = above
    return True


def _test(tree: Tree, node: cst.If) -> ast.expr:
    return ast.parse(f"({tree.code(node.test)})", mode="eval").body


def _is_joined(test: ast.expr) -> bool:
    """Whether a test is of several parts, not all of which may be known."""
    return isinstance(test, ast.BoolOp) or (isinstance(test, ast.UnaryOp) and _is_joined(test.operand))


def goes_backward(tree: Tree, first: Statement, last: Statement, backwards: list[Backward]) -> bool:
    """Whether a loss goes backward between two statements."""
    order = tree.order
    between = (b.statement for b in backwards if order[first] < order[b.statement] < order[last])
    return not all(exclude(tree, first, each) for each in between)


def _branches(
    tree: Tree, statements: list[Statement], backwards: list[Backward], dead: frozenset[Statement]
) -> list[list[Statement]]:
    """Statements before a step, parted by the branches of an `if` each of which also goes backward by itself.

    What stands behind the `if` as well finds true gradients, if each of its branches has to.

    Args:
        dead: the statements that will be gone; a branch of these is none.
    """
    block = tree.common_block([*statements])
    around = tree.lift(statements[0], block)
    inside = [each for each in backwards if around in tree.ancestors(each.statement)]
    if not isinstance(around, cst.If) or not inside:
        return [statements]
    members = [each for each in blocks(around) if not dead.issuperset(nested_statements(each))]
    parts = [[each for each in statements if each in {*nested_statements(member)}] for member in members]
    is_whole = around.orelse is not None and all(
        any(tree.block(each) is member for each in part) for member, part in zip(members, parts, strict=True)
    )
    if not is_whole and any(tree.lift(each, block) is not around for each in statements):
        return [statements]
    return [branch for part in parts if part for branch in _branches(tree, part, backwards, dead)]


def unscaled_before(
    tree: Tree, step: OptimizerStep, statements: list[Statement], reducing: list[Statement]
) -> GradientUse | tuple[str, str]:
    """Where to unscale for some statements before a step; the fact that is against it, and a hint, where one is."""
    order = tree.order
    receiver = step.call.func.value if isinstance(step.call.func, cst.Attribute) else None
    if step.part is not None and step.optimizer is receiver and step.held is None:
        return (
            f"gradients are read that {tree.quote(step.call.func)}() steps by optimizers of its own",
            "unscale each of them by hand, or run with --dtype bf16, which needs no scaler",
        )
    anchor, asking = _anchor(tree, step, step.statement, statements), None
    if anchor is None and (asking := _asking(tree, step)) is not None:
        anchor = _anchor(tree, step, asking, statements)
    if anchor is None:
        return _NOT_ALWAYS
    if any(order[anchor] < order[each] < order[step.statement] for each in reducing):
        return _BEFORE_SUM
    test = None if asking is None else asking.test
    return GradientUse(anchor, step.held or step.optimizer, _loop_over(tree, step, anchor), test)


def on_scaled(file: File, roles: Roles, statement: Statement) -> tuple[ScaledUse, ...]:
    """The statement as clipping, or measuring, gradients that stay scaled; nothing for any other."""
    clip = _scaled_clip(file, statement)
    return tuple(_scaled_measures(file, roles, statement)) if clip is None else (clip,)


def _scaled_in_function(file: File, roles: Roles, statement: Statement, step: OptimizerStep) -> tuple[ScaledUse, ...]:
    """The same in a function that only this statement calls, where the scaler is at hand by the same words as here."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    function = roles.project.called(file, call) if isinstance(call, cst.Call) else None
    if function is None or not _has_scaler(file, function, step.optimizer) or roles.project.overriding(function):
        return ()
    sites = roles.project.call_sites(function) or ()
    if [site.call for site in sites] != [call]:
        return ()
    reading = [each for each in nested_statements(block_of(function.node)) if uses_gradients(file, roles, each)]
    scaled = [on_scaled(file, roles, each) for each in reading]
    return tuple(chain.from_iterable(scaled)) if all(scaled) else ()


def _has_scaler(file: File, function: FunctionRef, optimizer: cst.BaseExpression) -> bool:
    """Whether a function of a file has an optimizer, and so the scaler beside it, as who steps with it has."""
    if function.file is not file:
        return False
    if isinstance(optimizer, cst.Name):  # of a function round both, or of the file
        here, there = (file.scopes.of(node).lookup(optimizer.value) for node in (optimizer, block_of(function.node)))
        own = file.tree.function(optimizer)
        return bool(here) and here == there and all(file.tree.function(each.node) is not own for each in here)
    owner = file.tree.owner_class(optimizer)
    return owner is not None and function.owner is owner and (dotted(optimizer) or "").startswith("self.")


def _scaled_clip(file: File, statement: Statement) -> ScaledUse | None:
    """The statement as clipping to a limit, whose norm may be kept; None for any other."""
    call = statement.value if isinstance(statement, (cst.Expr, cst.Assign, cst.AugAssign)) else None
    names = CLIPPING.get(file.names.callee(call), ()) if isinstance(call, cst.Call) else ()
    given = named_arguments(call, names) if isinstance(call, cst.Call) and names else None
    if given is None or names[1] not in given or "error_if_nonfinite" in given:
        return None
    norm = None if isinstance(statement, cst.Expr) else call
    return ScaledUse(statement, given[names[1]], norm if isinstance(norm, cst.Call) else None)


def _scaled_measures(file: File, roles: Roles, statement: Statement) -> Iterator[ScaledUse]:
    """The statement as measuring gradients, where what comes out is kept, or given to a log.

    Whether that is proportional to them, and one number, shows in the result.
    """
    value = statement.value if isinstance(statement, (cst.Assign, cst.Expr)) else None
    if value is None or _clips(file, roles, value, of=_CLIPS):
        return
    if isinstance(statement, cst.Assign):
        yield ScaledUse(statement, None, value)
    elif isinstance(value, cst.Call) and not _reads_gradients(file, roles, value.func):
        given = (each for arg in value.args for each in _written_out(arg.value))
        measured = [each for each in given if _reads_gradients(file, roles, each)]
        if not any(file.names.callee(each) == _PARAMETERS for each in measured):  # whoever gets these may clip
            yield from (ScaledUse(statement, None, each) for each in measured)


def _written_out(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """A value, or those of a dictionary, list or tuple that is written out."""
    if isinstance(value, (cst.Dict, cst.List, cst.Tuple)):
        for element in value.elements:
            yield from _written_out(element.value)
    else:
        yield value


def _loop_over(tree: Tree, step: OptimizerStep, statement: Statement) -> cst.For | cst.CompFor | None:
    """The loop that an optimizer is the target of, where a statement is not in it."""
    name = tree.code(step.optimizer)
    each = in_each(step.statement, step.call)
    if each is not None and name in items(each):
        return each
    around = [each for each in tree.ancestors(step.statement) if isinstance(each, cst.For)]
    found = next((each for each in around if name in items(each)), None)
    return None if found is None or found in tree.ancestors(statement) else found


def steps_after(
    file: File, roles: Roles, statement: Statement, starts: list[int], steps: list[OptimizerStep]
) -> list[OptimizerStep]:
    """The steps whose gradients a statement reads: those that follow it before the next backward."""
    order = file.tree.order
    here = order[statement]
    limit = min((start for start in starts if start > here), default=None)
    following = [s for s in steps if order[s.statement] > here and (limit is None or order[s.statement] < limit)]
    if not following:  # two backwards before one step: the step comes after the next backward
        later = [s for s in steps if order[s.statement] > here]
        following = later[:1]
    by_name: dict[str | None, OptimizerStep] = {}
    for step in following:  # branches of one `if` may step the same optimizer: the first stands for all
        by_name.setdefault(dotted(step.optimizer), step)
    candidates = list(by_name.values())
    return (_owners(file, roles, candidates, statement) or candidates) if len(candidates) > 1 else candidates


def _owners(file: File, roles: Roles, steps: list[OptimizerStep], statement: Statement) -> list[OptimizerStep]:
    """The steps whose optimizer a statement names (`clip(optD, 1.0)`), or was made of parameters that it names.

    None where it names a module: whose parameters that has may be another optimizer's.
    """
    named = [node for part in header(statement) for node in walk(part)]
    calls = (node for node in named if isinstance(node, cst.Call))
    parameters = {file.tree.code(call) for call in calls if _names_parameters(call)}
    paths = {dotted(node) for node in named if isinstance(node, (cst.Name, cst.Attribute))} - {None}
    by_name = [each for each in steps if dotted(each.optimizer) in paths]
    if by_name and not parameters:
        given = (arg.value for call in named if isinstance(call, cst.Call) for arg in call.args)
        return [] if any(roles.is_module(file, each) for each in given) else by_name
    return [each for each in steps if each in by_name or _is_made_of(file, each, parameters)]


def _names_parameters(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "parameters"


def _is_made_of(file: File, step: OptimizerStep, parameters: set[str]) -> bool:
    """Whether an optimizer was built from parameters (`netD.parameters()`)."""
    path = dotted(step.optimizer)
    if path is None or not parameters:
        return False
    made = [b.value for b in file.scopes.of(step.optimizer).lookup(path) if isinstance(b.value, cst.Call)]
    return any(file.tree.code(node) in parameters for value in made for node in find(value, cst.Call))


def _anchor(tree: Tree, step: OptimizerStep, stepping: Statement, using: list[Statement]) -> Statement | None:
    """The statement to unscale before: it is reached once whenever the step is, and comes before every use.

    Args:
        stepping: the statement of the step, or the `if` around it that asks whether there is an optimizer.
    """
    loop = _loop_over(tree, step, using[0])
    target = tree.block(loop if isinstance(loop, cst.For) else stepping)
    while isinstance(around := tree.parents.get(target), cst.With) and around not in tree.ancestors(using[0]):
        target = tree.block(around)  # `with optimizer.skip_synchronize(): optimizer.step()`
    first = first_reached(tree, using, target)
    block = tree.block(first)
    inside_target = block is target or target in tree.ancestors(block)
    return first if inside_target or _is_followed(tree, first, stepping) else None


def _asking(tree: Tree, step: OptimizerStep) -> cst.If | None:
    """The `if` around a step that asks whether there is an optimizer alone: what is none has no gradients."""
    block = tree.block(step.statement)
    found = tree.parents.get(block)
    if not isinstance(found, cst.If) or found.body is not block or isinstance(tree.parents[found], cst.If):
        return None
    test = _test(tree, found)
    is_asked = {fact[:2] for fact in implied(test, True)} == {(tree.code(step.optimizer), True)}
    return found if is_asked and not _is_joined(test) else None


def _is_followed(tree: Tree, first: Statement, last: Statement) -> bool:
    """Whether a statement runs wherever one above it has run, by tests of `if` that come to the same both times."""
    around = {*tree.ancestors(first)}
    asked = reads(each.test for each in tree.ancestors(last) if isinstance(each, cst.If) and each not in around)
    inside = nested_statements(tree.common_block([first, last]))
    between = (each for each in inside if tree.order[first] <= tree.order[each] < tree.order[last])
    changed = (isinstance(each, _LEAVING) or not asked.isdisjoint(writes(each)) for each in between)
    return _runs_where(tree, first, last) and not any(changed)


def first_reached(tree: Tree, using: Sequence[Statement], target: Block) -> Statement:
    """The first of some statements, with the loops around it that do not hold `target`."""
    block = tree.common_block([*using])
    around_step = {*tree.ancestors(target)}
    for each in tree.ancestors(block):  # `for p in model.parameters(): p.grad...`, be it in an `if`
        if isinstance(each, LOOP_TYPES) and each not in around_step:
            block = tree.block(tree.statement(each))
    return min((tree.lift(each, block) for each in using), key=lambda each: tree.order[each])


def shows_no_size(file: File, roles: Roles, statement: Statement) -> bool:
    """Whether no scale matters to what a statement reads of gradients, as to a sign, as far as results have shown yet.

    Where it does matter, or nobody sees that it does not, the result tells: see `Settings.sized`. It is asked of what
    goes backward, and reads what that has made.
    """
    read = (each for part in header(statement) for each in _read_in(file, roles, part))
    return all(
        isinstance(node, cst.Attribute)
        and any(backward_calls(where.tree.body(node)))
        and (where.name, where.tree.position(node)[0]) not in roles.sized
        for where, node in read
    )


def uses_gradients(file: File, roles: Roles, statement: Statement) -> bool:
    """Whether a statement by itself reads or changes gradients."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return False
    return any(_reads_gradients(file, roles, part) for part in header(statement))


def _reads_gradients(file: File, roles: Roles, part: cst.CSTNode) -> bool:
    return any(True for _ in _read_in(file, roles, part))


def _read_in(file: File, roles: Roles, part: cst.CSTNode) -> Iterator[tuple[File, cst.Attribute | cst.Call]]:
    """Where some code reads gradients, in functions that it calls, too: `p.grad`, or a call that clips or measures."""
    for where, code in _run_with(file, roles, part):
        yield from ((where, node) for node in walk(code) if _is_read(node, where))


def _is_read(node: cst.CSTNode, file: File) -> TypeGuard[cst.Attribute | cst.Call]:
    """Whether a node reads gradients so that their scale may matter."""
    if isinstance(node, cst.Call):
        return _is_clip(file, node) and not (_is_clip(file, node, MEASURING) and _gives_weights_alone(file, node))
    if not isinstance(node, cst.Attribute) or node.attr.value != "grad" or file.names.full(node):
        return False
    return not _asks_no_value(file.tree, node)


def _run_with(file: File, roles: Roles, part: cst.CSTNode) -> Iterator[tuple[File, cst.CSTNode]]:
    """Some code, and the functions of the project that run with it, each once."""
    waiting, met = [(file, part)], set[cst.CSTNode]()
    for where, code in waiting:  # grows while it is gone through
        yield where, code
        called = (_called(where, roles, call) for call in find(code, cst.Call))
        new = {each.node: each for each in called if each is not None and each.node not in met}
        met.update(new)
        waiting += [(each.file, each.node.body) for each in new.values()]


def _calls_run(file: File, roles: Roles, part: cst.CSTNode) -> Iterator[tuple[File, cst.Call]]:
    """The calls in some code, and in the functions that run with it."""
    return ((where, call) for where, code in _run_with(file, roles, part) for call in find(code, cst.Call))


def _gives_away_parameters(file: File, roles: Roles, part: cst.CSTNode) -> bool:
    """Whether a library that nobody follows gets parameters: it may clip their gradients, by whatever name.

    To unscale them before it does no harm where it does not.
    """
    for where, call in _calls_run(file, roles, part):
        package = where.names.callee(call).partition(".")[0]
        if package and package not in _KNOWN_PACKAGES and _called(where, roles, call) is None:
            given = [each.value for each in call.args]
            is_given = any(isinstance(each, cst.Call) and _names_parameters(each) for each in given)
            if is_given or any(roles.is_module(where, each) for each in given):
                return True
    return False


def needs_true_gradients(file: File, roles: Roles, statement: Statement) -> bool:
    """Whether a statement reads or changes gradients otherwise than to add them up over processes."""
    if not uses_gradients(file, roles, statement):
        return False
    return not reduces_gradients(file, roles, statement) or any(_clips(file, roles, e) for e in header(statement))


def _clips(file: File, roles: Roles, part: cst.CSTNode, of: Collection[str] = GRADIENT_FUNCTIONS) -> bool:
    """Whether code clips gradients, in functions that it calls, too."""
    return any(_is_clip(where, call, of) for where, call in _calls_run(file, roles, part))


def _is_clip(file: File, call: cst.Call, of: Collection[str] = GRADIENT_FUNCTIONS) -> bool:
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    is_named_so = isinstance(name, cst.Name) and _CLIP_NAME.search(name.value) is not None
    return is_named_so or file.names.callee(call) in of


def _gives_weights_alone(file: File, call: cst.Call) -> bool:
    """Whether parameters are only gone through, and of each something else than the gradient is asked: `p.data`."""
    loop = next((each for each in file.tree.ancestors(call) if isinstance(each, cst.For)), None)
    if loop is None or not any(each is call for each in walk(loop.iter)):
        return False
    names = {each.value for each in find(loop.target, cst.Name)}
    said = [each for each in find(loop.body, cst.Name) if each.value in names]
    around = [file.tree.parents[each] for each in said]
    return all(isinstance(each, cst.Attribute) and each.attr.value != "grad" for each in around)


def _called(file: File, roles: Roles, call: cst.Call) -> FunctionRef | None:
    """What a call runs; of an object that is called, its `__call__`: `clip = Clipper(1.0)`, then `clip(model)`."""
    project, path = roles.project, dotted(call.func)
    found = project.meant(file, call, "grad") or project.method_of_given(file, call)
    if found is not None or path is None:
        return found
    own = file.tree.owner_class(call) if path == "self" else None
    if own is not None:
        method = method_of(own, "__call__")
        return None if method is None else project.reference(file, method)
    objects = project.methods(file, call.func, "__call__")
    return objects[0] if len(objects) == 1 else None


def _asks_no_value(tree: Tree, node: cst.Attribute) -> bool:
    """Whether any scale may do: `p.grad = None`, `p.grad is None`, `p.grad[mask] = 0`."""
    parent = tree.parents[node]
    if isinstance(parent, cst.Comparison) and parent.left is node and len(parent.comparisons) == 1:
        (asked,) = parent.comparisons
        return isinstance(asked.operator, (cst.Is, cst.IsNot)) and is_constant(asked.comparator, "None")
    target: cst.CSTNode = node
    while isinstance(parent, (cst.Subscript, cst.Attribute)) and parent.value is target:
        target, parent = parent, tree.parents[parent]
    statement = tree.parents.get(parent)
    if not isinstance(parent, cst.AssignTarget) or not isinstance(statement, cst.Assign):
        return False
    value = statement.value
    is_zero = isinstance(value, (cst.Integer, cst.Float)) and value.evaluated_value == 0
    return is_zero if isinstance(target, cst.Subscript) else is_constant(value, "None")
