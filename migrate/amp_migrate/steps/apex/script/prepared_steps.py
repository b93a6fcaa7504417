"""Plain steps that train what Apex prepares: `initialize` reaches them, though none of their losses is scaled.

Where nothing of Apex is left, such a step would lose the casts that it had, or the switch that it had them under. So it
stays, with the script that prepares its optimizer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice

import libcst as cst

from amp_migrate.analysis.files import File, object_bindings, object_path
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.imported import loaded_by
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import is_within
from amp_migrate.plan.move import Refusal
from amp_migrate.report.finding import seen_from
from amp_migrate.steps.apex.beside.conditions import Condition, conditions
from amp_migrate.steps.apex.script.script_group import ApexScript
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.gradients.steppers import optimizer_steps
from amp_migrate.steps.model.route import Creation, Route
from amp_migrate.steps.read.fp32 import is_of_engine
from amp_migrate.steps.read.split import Key, key_of
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.steps.scaler.optimizer_origin import displayed
from amp_migrate.steps.statements.amp_signs import is_scaled
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.tables.apex_names import INITIALIZE, SHIM, USE_SHIM
from amp_migrate.tables.torch_names import is_optimizer_name
from amp_migrate.trees.nodes import Block, Statement, block_of, is_constant
from amp_migrate.trees.own_calls import argument


@frozen
class _Prepared:
    """A call that prepares optimizers, with what is true where it runs, and the statements that make them.

    Attributes:
        is_known: whether `made` are all of these.
    """

    file: File
    call: cst.Call
    when: frozenset[Condition]
    made: frozenset[Statement] = field(default=frozenset())
    is_known: bool = True


@frozen
class Preparing:
    """A call that prepares the optimizer of a step.

    Attributes:
        is_off: whether the step runs only where the call does not: the script's own switch leads to one of them.
    """

    file: File
    call: cst.Call
    is_off: bool


class PreparedOptimizers:
    """Knows which optimizers the calls of `amp.initialize` in some files prepare, by where they are made."""

    def __init__(self, project: Project, files: Iterable[File]) -> None:
        self._project = project
        self._calls = [self._read(file, call) for file, call in preparing(files)]

    def _read(self, file: File, call: cst.Call) -> _Prepared:
        optimizers = _optimizers(call)
        held = [] if optimizers is None else [each for one in displayed(optimizers) for each in _held(file, one)]
        routes = [[*self._ways(file, each)] for each in held]
        creations = [creation for found in routes for route in found for creation in route.creations]
        made = {creation.home for creation in creations}
        made.add(file.tree.statement(call))  # `net, opt = amp.initialize(model, optimizer)`
        is_known = bool(routes) and all(routes) and all(map(_makes_optimizer, creations))
        return _Prepared(file, call, conditions(file, call), frozenset(made), is_known)

    def never(self, made: Creation) -> bool:
        """Whether an optimizer is made that nothing of this prepares."""
        return _makes_optimizer(made) and all(each.is_known and made.home not in each.made for each in self._calls)

    def leaves(self, file: File, optimizer: cst.BaseExpression, apart: Collection[Statement]) -> bool:
        """Whether some optimizer that a place has is one that nothing prepares, made elsewhere than `apart`."""
        made = [creation for route in self._ways(file, optimizer) for creation in route.creations]
        return any(each.home not in apart and self.never(each) for each in made)

    def _ways(self, file: File, optimizer: cst.BaseExpression) -> Iterator[Route]:
        """The way to where an optimizer is made, and that of one which an object is given."""
        for gives in (False, True):
            route = Traveller(self._project, {}, gives=gives).reach(file, [optimizer])
            if isinstance(route, Route):
                yield route

    def preparing(self, file: File, optimizer: cst.BaseExpression) -> Preparing | None:
        """What prepares the optimizer of a step before that runs."""
        for route in self._ways(file, optimizer) if self._calls else ():
            places = [(file, optimizer), *((each.site.file, each.site.call) for each in route.arguments)]
            for each in self._calls:
                is_made = any(creation.home in each.made for creation in route.creations)
                if is_made and not any(_is_earlier(*place, each) for place in places):
                    apart = {condition.negated for condition in each.when}
                    is_off = any(not apart.isdisjoint(conditions(*place)) for place in places)
                    return Preparing(each.file, each.call, is_off)
        return None

    def __bool__(self) -> bool:
        return bool(self._calls)


def _held(file: File, optimizer: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What stands in the list that a name is given; the same where it is given none."""
    values = (each.value for each in object_bindings(file, optimizer) if object_path(optimizer) is not None)
    lists = [each for each in values if isinstance(each, (cst.Tuple, cst.List))]
    return [held for each in lists for held in displayed(each)] or [optimizer]


def _makes_optimizer(made: Creation) -> bool:
    """Whether a scaler would be made beside the call of an optimizer's class: not of what others have made."""
    value = made.home.value if isinstance(made.home, cst.Assign) else None
    return isinstance(value, cst.Call) and is_optimizer_name(made.file.names.callee(value))


def preparing(files: Iterable[File]) -> Iterator[tuple[File, cst.Call]]:
    """The calls of `amp.initialize` that are given optimizers, or may be: be it Apex's or the shim's."""
    for file in (each for each in files if "initialize" in each.tree.text):
        on_shim = (each for each in file.calls if file.names.callee(each) == f"{SHIM}.amp.initialize")
        for call in (*amp_calls(file, "initialize"), *on_shim):
            given = _optimizers(call)
            is_open = given is None and any(each.star for each in call.args)
            if is_open or (given is not None and not is_constant(given, "None")):
                yield file, call


def _optimizers(call: cst.Call) -> cst.BaseExpression | None:
    return argument(call, "optimizers", INITIALIZE.index("optimizers"))


def _is_earlier(file: File, at: cst.CSTNode, prepared: _Prepared) -> bool:
    """Whether a place runs before a call prepares anything: it stands above, and not in one loop with it."""
    tree, call = file.tree, prepared.call
    if file is not prepared.file or tree.function(at) is not tree.function(call) or tree.loop(call) is not None:
        return False
    return tree.order[tree.statement(at)] < tree.order[tree.statement(call)]


def plain_steps_of(script: ApexScript, project: Project, roles: Roles) -> Iterator[Refusal]:
    """The plain steps that train what a script prepares, in its own files and in those that it loads."""
    prepared = PreparedOptimizers(project, script.files)
    if not prepared:
        return
    known = {key_of(each.gathered.step) for each in script.all_steps}
    gone = [fold.dead for each in script.all_steps for fold in each.folds]
    for file in (each for each in _loaded(project, script.files) if "backward" in each.tree.text):
        for function, calls in _plain_steps(file, roles, known, gone):
            for statement in calls[:1]:
                stepped = (prepared.preparing(*each) for each in _stepped(project, roles, (file, function), known))
                for by in islice(filter(None, stepped), 1):
                    line = file.tree.position(statement)[0]
                    where = f"{seen_from(file.name, by.file.name)}:{line}"
                    where = f"line {line}" if file is by.file else where
                    if by.is_off and file in script.files:
                        continue  # which leaves it as it is
                    what = "computes in float32 where this is switched off" if by.is_off else "does not scale its loss"
                    reason = f"a step that {what} trains what this prepares ({where})"
                    yield Refusal(by.file, by.call, reason, USE_SHIM)


def plain_steps_in(
    file: File, project: Project, roles: Roles, known: Collection[Key], gone: Sequence[cst.CSTNode]
) -> Iterator[Statement]:
    """The statements in a file that take a loss backward which nothing scales, to step an optimizer.

    Args:
        known: the functions that have other steps.
        gone: branches that will not be there.
    """
    for function, calls in _plain_steps(file, roles, known, gone):
        if calls and any(True for _ in _stepped(project, roles, (file, function), known)):
            yield from calls


def without_step_in(
    file: File, project: Project, roles: Roles, known: Collection[Key]
) -> Iterator[cst.FunctionDef | None]:
    """The functions of a file that take a loss backward which nothing scales, and for which nothing steps."""
    for function, calls in _plain_steps(file, roles, known, ()):
        if calls and not any(True for _ in _stepped(project, roles, (file, function), known)):
            yield function


def _plain_steps(
    file: File, roles: Roles, known: Collection[Key], gone: Sequence[cst.CSTNode]
) -> Iterator[tuple[cst.FunctionDef | None, list[Statement]]]:
    for function, body in bodies(file):
        if (file, function) not in known:
            yield function, list(_plain(file, roles, body, gone))


def _loaded(project: Project, files: Sequence[File]) -> Collection[File]:
    return dict.fromkeys([*files, *sorted(loaded_by(project, files), key=lambda each: each.name)])


def _plain(file: File, roles: Roles, body: Block, gone: Sequence[cst.CSTNode]) -> Iterator[Statement]:
    """The statements of a body that take a loss backward which nothing scales."""
    for statement, call in backward_calls(body):
        is_plain = not is_scaled(cst.ensure_type(call.func, cst.Attribute).value) and not file.names.callee(call)
        if is_plain and not is_of_engine(file, roles, call) and not is_within(file.tree, call, gone):
            yield statement


def _stepped(
    project: Project, roles: Roles, key: Key, known: Collection[Key], depth: int = 0
) -> Iterator[tuple[File, cst.BaseExpression]]:
    """The optimizers that a function steps, or that its callers do where it steps none itself."""
    file, function = key
    steps = list(optimizer_steps(roles, file, file.tree.module if function is None else block_of(function)))
    yield from ((file, step.optimizer) for step in steps)
    if not steps and function is not None and depth < MAX_HOPS:
        for site in project.call_sites(project.reference(file, function)) or ():
            caller = site.file, site.file.tree.function(site.call)
            if caller not in known:
                yield from _stepped(project, roles, caller, known, depth + 1)
