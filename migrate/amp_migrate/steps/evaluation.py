"""Evaluation and inference beside migrated training: their forwards get regions too, and no scaler."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.model import Island, Region, TrainingStep
from amp_migrate.steps.native import uses_amp
from amp_migrate.steps.no_grad import is_no_grad, is_quiet
from amp_migrate.steps.read_fp32 import backward_calls, bodies
from amp_migrate.steps.regions import Placement, RegionFinder, own_blocks, own_statements
from amp_migrate.trees.calls import calls_of
from amp_migrate.trees.nodes import Block, Statement, find, statements

_EVALUATION_NAME = re.compile(
    r"(^|_)(eval\w*|test\w*|valid\w*|val|infer\w*|predict\w*|sample\w*|generate\w*)(_|$)", re.I
)


def evaluation_regions(
    file: File, roles: Roles, moved: list[TrainingStep], among: Collection[cst.FunctionDef] | None = None
) -> Placement:
    """The regions of forwards that run without gradients, in a file whose training steps have moved.

    Methods of modules are left out: they run inside the region of whoever calls the module.

    Args:
        among: the functions to look at; None for the whole file.
    """
    finder = RegionFinder(file, roles)
    regions: list[Region] = []
    islands: list[Island] = []
    within = _called_within(file, roles, finder, moved)
    for function, body in bodies(file):
        if among is not None and function not in among:
            continue
        if function is not None and (function in within or _is_module_method(file, roles, function)):
            continue
        step = next((each for each in moved if each.function is function), None)
        if step is None and (any(True for _ in backward_calls(body)) or uses_amp(file, body, function)):
            continue
        whole = step is None and function is not None and _is_evaluation(file, function)

        def runs_quietly(statement: Statement, whole: bool = whole) -> bool:
            return whole or is_quiet(file, statement)

        placed = _place(finder, body, () if step is None else step.regions, runs_quietly)
        regions.extend(placed.regions)
        islands.extend(placed.islands)
    return Placement(tuple(regions), tuple(islands))


def evaluated_elsewhere(project: Project, moved: Collection[File]) -> dict[File, set[cst.FunctionDef]]:
    """The functions of other files that evaluate for files whose steps have moved, and for no others."""
    found: dict[File, set[cst.FunctionDef]] = defaultdict(set)
    for file in moved:
        for call in file.calls:
            name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
            if not isinstance(name, cst.Name) or not _EVALUATION_NAME.search(name.value):
                continue
            function = project.called(file, call)
            if function is None or function.file in moved or function.node in found[function.file]:
                continue
            sites = project.call_sites(function)
            if sites is not None and all(site.file in moved for site in sites):
                found[function.file].add(function.node)
    return {file: functions for file, functions in found.items() if functions}


def _place(
    finder: RegionFinder, body: Block, taken: Iterable[Region], is_quiet: Callable[[Statement], bool]
) -> Placement:
    """Place the regions of forwards that no gradient flows through.

    Args:
        taken: the regions that exist already.
        is_quiet: whether a statement runs without gradients.
    """
    covered = {each for region in taken for each in finder.members(region)}
    regions: list[Region] = []
    islands: list[Island] = []
    _evaluate(finder, body, covered, is_quiet, regions, islands)
    return Placement(tuple(regions), tuple(islands))


def _evaluate(
    finder: RegionFinder,
    block: Block,
    covered: set[Statement],
    is_quiet: Callable[[Statement], bool],
    regions: list[Region],
    islands: list[Island],
) -> None:
    """A region starts at a forward and goes on to the last loss or forward that is computed from it, or comes next."""
    start: Statement | None = None
    end: Statement | None = None
    computed: frozenset[str] = frozenset()
    previous: Statement | None = None
    siblings = statements(block)
    for index, statement in enumerate(siblings):
        is_next, previous = previous is not None and previous is end, statement
        if start is not None and end is not None and finder.begins_cell(statement):
            regions.append(Region(start, end))
            start = end = None
        # A loss behind `with torch.no_grad():` has to see autocast as well, or it is computed in half precision.
        shares = (
            isinstance(statement, cst.With)
            and covered.isdisjoint(own_statements(statement))
            and _feeds_loss(finder, statement, siblings[index + 1 :])
        )
        for inner in () if shares else own_blocks(statement):
            _evaluate(finder, inner, covered, is_quiet, regions, islands)
        if statement in covered or (own_blocks(statement) and not shares):
            continue
        follows = start is not None and bool(finder.effects.reads(statement) & computed)
        if finder.banned_calls(statement):
            if follows:
                islands.append(finder.island(statement, computed))
            continue
        is_forward = shares or (
            finder.calls_module(statement) and is_quiet(statement) and not _only_sets(finder, statement)
        )
        if not is_forward and not (follows and finder.computes_loss(statement)):
            continue
        written = frozenset().union(*map(finder.effects.writes, own_statements(statement)))
        if follows or is_next:
            end = statement
            computed |= written
        else:
            if start is not None and end is not None:
                regions.append(Region(start, end))
            start = end = statement
            computed = written
    if start is not None and end is not None:
        regions.append(Region(start, end))


def _only_sets(finder: RegionFinder, statement: Statement) -> bool:
    """Whether a statement tells a model something, `net.unused_modules_off()`: nothing goes in, nothing comes out."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.args:
        return False
    return call.func.attr.value != "forward" and not finder.roles.is_seen_to_compute(finder.file, call)


def _feeds_loss(finder: RegionFinder, statement: cst.With, behind: Sequence[Statement]) -> bool:
    """Whether a plain `with torch.no_grad():` runs a forward, and a loss behind it reads the result."""
    if not any(is_no_grad(finder.file, item.item) for item in statement.items):
        return False
    inner = own_statements(statement)[1:]
    if any(map(own_blocks, inner)) or any(map(finder.banned_calls, inner)) or not any(map(finder.calls_module, inner)):
        return False
    results = finder.outputs([Region(inner[0], inner[-1])])
    return any(
        finder.effects.reads(each) & results and (finder.computes_loss(each) or finder.banned_calls(each))
        for each in behind
        if not own_blocks(each)
    )


def _called_within(file: File, roles: Roles, finder: RegionFinder, moved: list[TrainingStep]) -> set[cst.FunctionDef]:
    """The functions that run in the regions of steps, however deep: they compute in low precision already."""
    found: set[cst.FunctionDef] = set()
    todo = [(file, call) for step in moved for region in step.regions for call in _calls_in(finder, region)]
    while todo:
        function = roles.project.called(*todo.pop())
        if function is not None and function.node not in found:
            found.add(function.node)
            todo += [(function.file, call) for call in find(function.node.body, cst.Call)]
    return found


def _calls_in(finder: RegionFinder, region: Region) -> Iterator[cst.Call]:
    return (call for statement in finder.members(region) for call in calls_of(statement))


def _is_module_method(file: File, roles: Roles, function: cst.FunctionDef) -> bool:
    owner = file.tree.owner_class(function)
    return owner is not None and roles.is_module_class(file, owner)


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
