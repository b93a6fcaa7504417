"""Evaluation and inference beside migrated training: their forwards get regions too, and no scaler."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.analysis.roles import GRAD, Roles
from amp_migrate.frozen import frozen
from amp_migrate.steps.model.training_step import Island, Region, TrainingStep
from amp_migrate.steps.read.value_calls import ValueCalls, is_of_list
from amp_migrate.steps.regions.find_regions import Placement, RegionFinder
from amp_migrate.steps.regions.kept_apart import nowhere
from amp_migrate.steps.regions.quiet_regions import place_quiet_regions
from amp_migrate.steps.statements.amp_signs import uses_amp
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.steps.statements.no_grad import is_no_grad, is_quiet, switching_off
from amp_migrate.trees.nodes import Block, Statement, block_of, find, last_word, nested_statements
from amp_migrate.trees.own_calls import calls_in, calls_of

_EVALUATION_NAME = re.compile(
    r"(^|_)(eval\w*|test\w*|valid\w*|val|infer\w*|predict\w*|sample\w*|generate\w*)(_|$)", re.I
)


class EvaluationRegions:
    """Places regions round forwards that run without gradients, beside training steps that have moved.

    Methods of modules are left out: they run inside the region of whoever calls the module. So do the functions that
    steps call in theirs: where they are called without gradients, the region is round the call.

    Args:
        moved: the steps that have moved, of whichever files.
        of_process: whether all of the process computed in low precision, whatever it ran without gradients.
        is_apart: whether a call runs a module that computed in float32 beside those which Apex prepared.
        in_float32: whether a statement computed in float32, whatever it runs.
        training: the files whose steps stay in float32, with all that they come from, unless they have moved.

    Attributes:
        within: the functions that run in the regions of the steps.
    """

    def __init__(
        self,
        roles: Roles,
        moved: Sequence[TrainingStep],
        *,
        of_process: bool = False,
        is_apart: Callable[[File, cst.Call], bool] = nowhere,
        in_float32: Callable[[File, Statement], bool] = lambda *_: False,
        training: Sequence[File] = (),
    ) -> None:
        self._roles, self._moved = roles, moved
        self._of_process = of_process
        self._is_apart, self._in_float32 = is_apart, in_float32
        self._training = training
        # What a step computes beside the call for a penalty is in its regions, before that.
        self._round_penalties = frozenset(call.statement for step in moved for call in step.penalty_calls)
        within = called_within(roles, moved)
        self.within = frozenset(within)
        self._helpers = {f.node for f in within.values() if not uses_amp(f.file, block_of(f.node), f.node)}

    def of(
        self,
        file: File,
        among: Collection[cst.FunctionDef] | None = None,
        round_calls: frozenset[cst.FunctionDef] = frozenset(),
    ) -> Placement:
        """Those of a file, in some of its functions; None for the whole file.

        Args:
            round_calls: the functions, of whichever files, that have their regions round the calls of them.
        """
        apart, helpers = self.within | round_calls, self._helpers | round_calls
        finder = RegionFinder(file, self._roles, is_apart=self._is_apart)
        regions: list[Region] = []
        islands: list[Island] = []
        quiet = list(switching_off(file))
        for function, body in bodies(file):
            if among is not None and function not in among:
                continue
            if function is not None and (function in apart or self._runs_in_callers(file, function)):
                continue
            if function is not None and self._left.gives(function):
                continue
            step = next((each for each in self._moved if each.file is file and each.function is function), None)
            whole = step is None and function is not None and _is_evaluation(file, function)
            whole = whole or self._of_process
            if step is None and not whole and not any(_has_or_is_in(file, body, each) for each in quiet):
                continue  # most functions: nothing in them runs without gradients
            if step is None and (_differentiates(file, body) or uses_amp(file, body, function)):
                continue

            def runs_quietly(statement: Statement, whole: bool = whole) -> bool:
                return whole or is_quiet(file, statement)

            def in_float32(statement: Statement) -> bool:
                is_left = statement in self._left.statements or statement in self._round_penalties
                return is_left or self._in_float32(file, statement)

            taken = () if step is None else step.regions
            placed = place_quiet_regions(finder, body, taken, runs_quietly, helpers, in_float32)
            regions.extend(placed.regions)
            islands.extend(placed.islands)
        return Placement(tuple(regions), tuple(islands))

    @cached_property
    def _left(self) -> _Left:
        """What the steps compute from that have not moved."""
        moved = {backward.statement for step in self._moved for backward in step.backwards}
        left = [
            (file, statement, body)
            for file in self._training
            for function, body in bodies(file)
            for statement, _ in backward_calls(body)
            if statement not in moved and not uses_amp(file, body, function)
        ]
        statements = {each: file for file, statement, body in left for each in self._sources(file, statement, body)}
        calls = [(file, call) for each, file in statements.items() for call in calls_of(each)]
        project = self._roles.project
        functions = called_below(self._roles, calls)
        calls += [(each.file, call) for each in functions.values() for call in find(each.node.body, cst.Call)]
        unknown = frozenset(last_word(call.func) for file, call in calls if project.called(file, call) is None)
        return _Left(frozenset(statements), frozenset(functions), unknown)

    def _sources(self, file: File, at: Statement, body: Block) -> list[Statement]:
        """The statements of a body that give what a statement reads, in whichever order: they may be in a loop."""
        effects = RegionFinder(file, self._roles).effects
        found, waiting = [at], [each for each in nested_statements(body) if each is not at]
        read = set(effects.reads(at))
        while more := [each for each in waiting if not read.isdisjoint(effects.writes(each))]:
            found += more
            waiting = [each for each in waiting if each not in more]
            read.update(*map(effects.reads, more))
        return found

    def first_with_gradients(self, file: File, function: cst.FunctionDef | None) -> Region | None:
        """Where a function that goes backward by itself, and has no step, first runs what regions elsewhere are for."""
        body = file.tree.module if function is None else block_of(function)
        if function in self.within or uses_amp(file, body, function):
            return None
        finder = RegionFinder(file, self._roles, is_apart=self._is_apart)
        in_float32 = partial(self._in_float32, file)
        placed = place_quiet_regions(finder, body, (), lambda _: True, self._helpers, in_float32)
        return next(iter(placed.regions), None)

    def _runs_in_callers(self, file: File, function: cst.FunctionDef) -> bool:
        """Whether the regions of what a function computes stand round the calls of it: none does where it trains."""
        is_method = _is_module_method(file, self._roles, function)
        return is_method and not self._roles.goes_backward(self._roles.project.reference(file, function))


@frozen
class _Left:
    """What a step that stays in float32 computes from: to change it is to move half of the step.

    Attributes:
        statements: those of the functions that go backward, and they themselves.
        functions: those that are called there, however deep.
        unknown: what else is called there by a name of which nothing says whose it is.
    """

    statements: frozenset[Statement]
    functions: frozenset[cst.FunctionDef]
    unknown: frozenset[str]

    def gives(self, function: cst.FunctionDef) -> bool:
        """Whether such a step may compute from what a function gives."""
        return function in self.functions or function.name.value in self.unknown


def _differentiates(file: File, body: Block) -> bool:
    """Whether a body takes gradients by itself: of a loss that nothing scales, they would vanish in float16."""
    taken = (file.names.callee(call) == GRAD for _, call in calls_in(body))
    return any(True for _ in backward_calls(body)) or any(taken)


def is_named_evaluation(file: File, call: cst.Call) -> bool:
    """Whether a call is one of evaluation, by the name of what it calls."""
    return _EVALUATION_NAME.search(last_word(call.func)) is not None


def evaluated_elsewhere(
    project: Project,
    moved: Collection[File],
    evaluates: Callable[[File, cst.Call], bool] = is_named_evaluation,
    running: Collection[File] = (),
) -> dict[File, set[cst.FunctionDef]]:
    """The functions of other files that evaluate for files whose steps have moved, and for no others.

    Args:
        evaluates: whether a call is one of evaluation.
        running: the files that run those, whose calls evaluate for them, too.
    """
    found: dict[File, set[cst.FunctionDef]] = defaultdict(set)
    calling = (*moved, *running)

    def is_seen(site: CallSite) -> bool:
        return site.file in calling or site.file.tree.function(site.call) in found.get(site.file, ())

    calls = [(file, call) for file in calling for call in file.calls]
    for file, call in calls:  # grows while it is gone through
        function = project.called(file, call) if evaluates(file, call) else None
        if function is None or function.file in moved or function.node in found[function.file]:
            continue
        sites = project.call_sites(function)
        if sites is not None and all(map(is_seen, sites)):
            found[function.file].add(function.node)
            calls += ((function.file, each) for each in find(function.node.body, cst.Call))
    for file in calling:
        for _, function in _evaluating_when_called(project, file, moved):
            if project.users(function) <= {*calling}:
                found[function.file].add(function.node)
    return {file: functions for file, functions in found.items() if functions}


def evaluated_by_others(
    roles: Roles,
    moved: Collection[File],
    evaluated: Mapping[File, Collection[cst.FunctionDef]],
    evaluates: Callable[[File, cst.Call], bool],
    running: Collection[File] = (),
) -> Iterator[tuple[File, cst.BaseExpression, FunctionRef | None]]:
    """What is called, or handed on to be, that evaluates in another file, where no region can stand: others do so, too.

    Or nobody knows whose method of that name it is. With each goes the function that is called, where it is known.

    Args:
        evaluated: the functions of other files that evaluate for those that have moved, and for no others.
        evaluates: whether a call is one of evaluation.
        running: the files that run those, whose calls evaluate for them, too.
    """
    within = {
        file: [c for node in nodes for c in find(node.body, cst.Call) if _is_of_derived(roles.project, file, c)]
        for file, nodes in evaluated.items()
    }
    for file, calls in (within | {file: [*file.calls] for file in (*moved, *running)}).items():
        called = ((c.func, _evaluating(roles, file, c, evaluates), roles.project.called(file, c)) for c in calls)
        handed_on = ((name, [function], None) for name, function in _evaluating_when_called(roles.project, file, moved))
        for node, functions, known in chain(called, handed_on):
            is_own = any(each.file in moved or each.node in evaluated.get(each.file, ()) for each in functions)
            is_low = any(uses_amp(each.file, block_of(each.node), each.node) for each in functions)
            evaluates_there = any(roles.has_forward(each) and not roles.goes_backward(each) for each in functions)
            if not is_own and not is_low and evaluates_there:
                yield file, node, known


def evaluated_by_objects(
    roles: Roles, moved: Collection[File], within: Collection[cst.FunctionDef]
) -> Iterator[tuple[File, cst.Call]]:
    """The calls of objects, in functions of other files that are called, whose `__call__` evaluates in another file.

    Args:
        within: the functions that run in the regions of steps.
    """
    project = roles.project
    methods = (
        (file, method)
        for file in project.library.mentioning("__call__")
        for method in (() if file in moved else file.methods.get("__call__", ()))
    )
    evaluating = {
        method
        for file, method in methods
        if not _is_module_method(file, roles, method) and not uses_amp(file, block_of(method), method)
        if roles.has_forward(project.reference(file, method))
    }
    calls = ((file, call) for file in moved for call in file.calls)
    for function in called_below(roles, calls).values() if evaluating else ():
        if function.node in within or function.file in moved:
            continue
        for call in find(function.node.body, cst.Call):
            if any(each.node in evaluating for each in project.methods(function.file, call.func, "__call__")):
                yield function.file, call


def evaluated_in_lists(
    roles: Roles, values: ValueCalls, moved: Collection[File], within: Collection[cst.FunctionDef]
) -> Iterator[tuple[File, cst.Call]]:
    """The calls of what a list has (`for call in calls: call(step, model)`) that may evaluate in another file.

    Args:
        within: the functions that run in the regions of steps.
    """
    for file in moved:
        for call in file.calls:
            if is_of_list(file, call) and any(roles.is_module(file, each.value) for each in call.args):
                functions = (each for each in values.may_run(file, call) if each.file not in moved)
                if any(_evaluates_in_float32(roles, each) for each in functions if each.node not in within):
                    yield file, call


def _evaluates_in_float32(roles: Roles, function: FunctionRef) -> bool:
    is_low = uses_amp(function.file, block_of(function.node), function.node)
    return roles.has_forward(function) and not is_low and not roles.goes_backward(function)


def _evaluating_when_called(
    project: Project, file: File, moved: Collection[File]
) -> Iterator[tuple[cst.BaseExpression, FunctionRef]]:
    """The functions of files that have not moved which evaluate, and which a file hands on for others to call."""
    for name, function in project.handed_on(file):
        if function.file not in moved and function.owner is None and _is_evaluation(function.file, function.node):
            yield name, function


def _evaluating(
    roles: Roles, file: File, call: cst.Call, evaluates: Callable[[File, cst.Call], bool]
) -> list[FunctionRef]:
    """The functions that a call may run, where it evaluates: by its name, or by what is seen of the function."""
    is_of_derived = _is_of_derived(roles.project, file, call)
    if is_named_evaluation(file, call) and (is_of_derived or any(roles.is_module(file, a.value) for a in call.args)):
        return list(roles.project.may_call(file, call, "torch"))
    known = roles.project.called(file, call)
    if known is None or not (_is_evaluation(known.file, known.node) or evaluates(file, call)):
        return []
    return [] if _is_module_method(known.file, roles, known.node) else [known]  # the call of one has a region


def _is_of_derived(project: Project, file: File, call: cst.Call) -> bool:
    """Whether a call is of a method of the object itself that its class has not: one that derives from it has."""
    is_own = (dotted(call.func) or "").rpartition(".")[0] == "self"
    return is_own and project.called(file, call) is None


def _has_or_is_in(file: File, body: Block, quiet: cst.CSTNode) -> bool:
    return body in file.tree.ancestors(quiet) or quiet in file.tree.ancestors(body)


def called_within(roles: Roles, moved: Iterable[TrainingStep]) -> dict[cst.FunctionDef, FunctionRef]:
    """The functions that run in the regions of steps, however deep: they compute in low precision already."""
    calls = ((step.file, call) for step in moved for region in step.regions for call in _calls_in(step, region, roles))
    return called_below(roles, calls)


def called_below(roles: Roles, calls: Iterable[tuple[File, cst.Call]]) -> dict[cst.FunctionDef, FunctionRef]:
    """The functions that some calls run, however deep, and those that they are given."""
    found: dict[cst.FunctionDef, FunctionRef] = {}
    met, todo = set[cst.CSTNode](), [*calls]
    while todo:
        file, call = todo.pop()
        function = roles.project.called(file, call)
        meant = () if function is None else roles.project.written(function)
        run = [*roles.functions_given(file, call)] if function is None else [(e.file, e.node) for e in meant]
        for where, node in (each for each in run if each[1] not in met):
            met.add(node)
            if isinstance(node, cst.FunctionDef):
                found[node] = roles.project.reference(where, node)
            todo += [(where, each) for each in find(node.body, cst.Call)]
    return found


def _calls_in(step: TrainingStep, region: Region, roles: Roles) -> Iterator[cst.Call]:
    return (call for statement in RegionFinder(step.file, roles).members(region) for call in calls_of(statement))


def _is_module_method(file: File, roles: Roles, function: cst.FunctionDef) -> bool:
    """Whether a function is a method of a module, or the `forward` that a base out of sight calls for its caller."""
    owner = file.tree.owner_class(function)
    if owner is None or roles.is_module_class(file, owner):
        return owner is not None
    unseen = roles.project.unseen_bases(file, owner) if function.name.value == "forward" else ()
    return any("." in where.names.full(base) for where, base in unseen)


def _is_evaluation(file: File, function: cst.FunctionDef) -> bool:
    """Whether all of a function evaluates: it says so by decorator, by `model.eval()`, or by its name."""
    if any(is_no_grad(file, each.decorator) for each in function.decorators):
        return True
    if _EVALUATION_NAME.search(function.name.value):
        return True
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "eval" and not call.args
        for call in find(function.body, cst.Call)
    )
