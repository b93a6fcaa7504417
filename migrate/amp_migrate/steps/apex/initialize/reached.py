"""Which calls of `amp.initialize` come before a place of the script, on each way that leads there.

A way is a place with the calls of the functions around it, out to a module or to a function that nobody calls. Apex
casts in the whole process once it is initialized, so that a region asks what has been initialized on its way, which
another branch of an `if` has not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.imported import loaded_by
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.initialize.branches import branches_of, place_of
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.trees.nodes import IS_SCRIPT, LOOP_TYPES, Block, Statement, blocks, find, statements
from amp_migrate.trees.tree import Tree

# A place, and what leads there: it stands in the function that the next one calls.
Frames: TypeAlias = "tuple[tuple[File, cst.CSTNode], ...]"

_MAX_WAYS = 64
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})


class _Order(Enum):
    """How what initializes stands to a place, in the function in which their ways part, where it is not before it."""

    AFTER = "after"
    APART = "never both"
    UNKNOWN = "unknown"


@frozen
class _Branch:
    """A branch of an `if` before a place, in which what initializes always runs."""

    chain: cst.If
    block: Block


@frozen
class Way:
    """One way to a place.

    Attributes:
        before: what has been initialized on it, under the conditions that are still to be asked there.
        asked: the same, with all conditions of their scalers; what prepares models alone has none.
        doubtful: what may have been.
        is_apart: whether all that initializes stands in other branches than this way.
        may_be_plain: the same, or in branches before it that need not be taken.
        is_early: whether all that initializes on it does so later, and the place is not come to again.
    """

    before: tuple[Initialize, ...]
    asked: tuple[Initialize, ...]
    doubtful: tuple[Initialize, ...]
    is_apart: bool
    may_be_plain: bool
    is_early: bool


class _Scripts:
    """Tells scripts of their own from files of one program; what a file loads is looked for once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._loaded: dict[File, frozenset[File]] = {}

    def are_apart(self, one: tuple[File, cst.CSTNode], other: tuple[File, cst.CSTNode]) -> bool:
        """Whether no program runs two places of two files, of which neither is called: neither file loads the other.

        What a file does when it is started is not done when it is loaded.
        """
        return not self._is_loaded(one, other[0]) and not self._is_loaded(other, one[0])

    def may_run_others(self, frames: Sequence[tuple[File, cst.CSTNode]]) -> bool:
        """Whether a call on a way may run another function than the one that the way is of."""
        return any(self._project.is_of_several(call) for _, call in frames[1:])

    def _is_loaded(self, place: tuple[File, cst.CSTNode], by: File) -> bool:
        return place[0] in self._of(by) and not is_of_start(place[0].tree, place[1])

    def _of(self, file: File) -> frozenset[File]:
        if file not in self._loaded:
            self._loaded[file] = loaded_by(self._project, [file])
        return self._loaded[file]


def ways_to(project: Project, initializes: Sequence[Initialize], file: File, at: cst.CSTNode) -> list[Way] | None:
    """What has been initialized at a place, by the way to it; None where some way there cannot be seen."""
    ways = ways_of(project, file, at, ())
    if ways is None or not ways:
        return None
    known = [(each, ways_of(project, each.file, standing(each), ())) for each in initializes]
    scripts = _Scripts(project)
    return [_way(scripts, frames, known) for frames in ways]


def runs_early(project: Project, initializes: Sequence[Initialize], file: File, at: cst.CSTNode) -> bool:
    """Whether a place runs in float32 on every way to it, for what initializes comes later."""
    ways = _ways_by_call(project, initializes, file, at)
    return bool(ways) and all(each.is_early for each in ways)


def may_run_early(project: Project, initializes: Sequence[Initialize], file: File, at: cst.CSTNode) -> bool:
    """Whether a place runs in float32 on some way to it, for what initializes comes later."""
    return any(each.is_early for each in _ways_by_call(project, initializes, file, at))


def _ways_by_call(project: Project, initializes: Sequence[Initialize], file: File, at: cst.CSTNode) -> Sequence[Way]:
    """The ways to a place; none where weights that a wrapper of optimizers finds in float16 have been so before."""
    if any(each.what == "FP16_Optimizer" for each in initializes):
        return ()
    ways = ways_to(project, initializes, file, at)
    if ways is not None or not all(_is_beside(each, file, at) for each in initializes):
        return ways or ()
    # Whoever calls the function, what initializes in it does so once that has begun: in each process that is started.
    known: list[tuple[Initialize, list[Frames] | None]] = [(each, [((file, standing(each)),)]) for each in initializes]
    return [_way(_Scripts(project), ((file, at),), known)]


def _is_beside(initialize: Initialize, file: File, at: cst.CSTNode) -> bool:
    return initialize.file is file and file.tree.function(initialize.home) is file.tree.function(at)


def still_asked(project: Project, initialize: Initialize, at: cst.CSTNode) -> tuple[str, ...] | None:
    """What decides at a place of its function whether an initialization has run; None where it need not be before."""
    ways = [((initialize.file, each),) for each in (standing(initialize), at)]
    before = _order(_Scripts(project), initialize, *ways)
    return before.switch if isinstance(before, Initialize) else None


def ways_before(project: Project, initialize: Initialize, file: File, at: cst.CSTNode) -> list[Frames]:
    """The ways to what initializes, but for those of which no program goes on to a place, as that of another script."""
    scripts, here = _Scripts(project), ways_of(project, file, at, ()) or ()
    ways = ways_of(project, initialize.file, standing(initialize), ()) or ()
    return [each for each in ways if any(_order(scripts, initialize, each, way) is not _Order.APART for way in here)]


def standing(initialize: Initialize) -> Statement:
    """The statement that initializes, in the words of the function that the scaler is made in."""
    tree = initialize.file.tree
    is_there = initialize.statement in tree.parents
    is_same = is_there and tree.function(initialize.statement) is tree.function(initialize.home)
    return initialize.statement if is_same else initialize.home


def ways_of(project: Project, file: File, at: cst.CSTNode, seen: tuple[cst.CSTNode, ...]) -> list[Frames] | None:
    """The ways to a place, each from it outwards; None where they cannot all be seen."""
    node = file.tree.function(at)
    if node is None:
        return [((file, at),)]
    if node in seen:
        return []
    function = project.reference(file, node)
    sites = project.running(function)
    if sites is None or len(seen) >= MAX_HOPS or any(True for _ in project.possible_calls(function)):
        return None
    found: list[Frames] = [] if sites else [((file, at),)]
    for site in sites:
        outer = ways_of(project, site.file, site.call, (*seen, node))
        if outer is None:
            return None
        found += (((file, at), *each) for each in outer)
        if len(found) > _MAX_WAYS:
            return None
    return found


def _way(scripts: _Scripts, frames: Frames, known: Sequence[tuple[Initialize, list[Frames] | None]]) -> Way:
    before: list[Initialize] = []
    asked: list[Initialize] = []
    doubtful: list[Initialize] = []
    orders: set[_Order] = set()
    chosen: dict[Initialize, list[_Branch]] = {}
    for initialize, ways in known:
        found = [_order(scripts, initialize, each, frames) for each in ways or ()] or [_Order.UNKNOWN]
        orders.update(each for each in found if isinstance(each, _Order))
        seen = [each for each in found if isinstance(each, Initialize)]
        branches = [each for each in found if isinstance(each, _Branch)]
        # That it is not before by one of its ways says nothing, where it is by another.
        if len({each.switch for each in seen}) == 1:
            before.append(seen[0])
            asked.append(seen[0] if initialize.optimizers is None else initialize)
        elif seen or _Order.UNKNOWN in found:
            doubtful.append(initialize)
        elif branches:
            chosen[initialize] = branches
    if _is_every_branch(chosen):
        before += chosen
        asked += chosen
        chosen = {}
    may_be_plain = not before and not doubtful and orders <= {_Order.APART}
    is_apart = may_be_plain and not chosen and _Order.APART in orders
    may_be_plain = may_be_plain and (is_apart or bool(chosen))
    is_early = _Order.AFTER in orders and not (before or doubtful or chosen) and not any(map(_is_lazy, frames))
    return Way(tuple(before), tuple(asked), (*doubtful, *chosen), is_apart, may_be_plain, is_early)


def _is_lazy(frame: tuple[File, cst.CSTNode]) -> bool:
    """Whether a place may run later than what it is made by: in a generator, a coroutine or a lambda."""
    tree, at = frame[0].tree, frame[1]
    function = tree.function(at)
    if function is not None and (function.asynchronous or any(True for _ in find(function.body, cst.Yield))):
        return True
    return any(isinstance(each, (cst.GeneratorExp, cst.Lambda)) for each in tree.ancestors(at))


def _is_every_branch(chosen: Mapping[Initialize, Sequence[_Branch]]) -> bool:
    """Whether each branch of an `if` initializes, under one condition, or leaves."""
    branches = [each for found in chosen.values() for each in found]
    if not branches or len({(each.switch, each.limits) for each in chosen}) > 1:
        return False
    chain = branches[0].chain
    taken = {each.block for each in branches}
    return (
        all(each.chain is chain for each in branches)
        and branches_of(chain)[-1][0] is None
        and all(each in taken or _leaves_block(each) for each in blocks(chain))
    )


def _order(scripts: _Scripts, initialize: Initialize, way: Frames, frames: Frames) -> _Order | _Branch | Initialize:
    """How one way to what initializes stands to a way to a place.

    Returns:
        What is still to be asked at the place, where it is before that.
    """
    mine, theirs = list(way), list(frames)
    shared: list[tuple[File, cst.CSTNode]] = []
    while len(mine) > 1 and len(theirs) > 1 and mine[-1][1] is theirs[-1][1]:
        shared.append(mine.pop())
        theirs.pop()
    (file, first), (where, second) = mine[-1], theirs[-1]
    tree = file.tree
    is_again = any(each.tree.loop(call) is not None for each, call in shared)
    if shared and tree.function(first) is not where.tree.function(second):  # one call by a value runs one of them
        return _Order.UNKNOWN if is_again else _Order.APART
    if file is not where:
        return _Order.APART if scripts.are_apart(mine[-1], theirs[-1]) else _Order.UNKNOWN
    if tree.function(first) is not tree.function(second):
        return _Order.UNKNOWN
    block = tree.common_block([first, second])
    one, other = tree.lift(first, block), tree.lift(second, block)
    is_again = is_again or tree.loop(one) is not None
    if one is other:
        return _Order.APART if not is_again and _are_apart(tree, one, first, second) else _Order.UNKNOWN
    if tree.order[one] > tree.order[other]:
        return _Order.UNKNOWN if is_again else _Order.AFTER
    if isinstance(one, cst.If) and not is_again and _leaves(tree, one, first):
        return _Order.APART
    home = initialize.home
    if len(mine) == 1 and home in tree.ancestors(one):
        # What is asked round both is not asked again.
        conditions = place_of(file, initialize.statement, initialize.optimizers)[1]
        is_own = one is initialize.statement and initialize.switch[: len(conditions)] == conditions
        return replace(initialize, switch=initialize.switch[len(conditions) :]) if is_own else _Order.UNKNOWN
    # Below the function in which the ways part, what initializes must run whenever the call is made.
    nodes = [home, *(call for _, call in mine[1:])]
    inside = zip(mine[:-1], nodes[:-1], strict=True)
    runs = all(always_runs(each.tree, node, None) for (each, _), node in inside) and not scripts.may_run_others(mine)
    if runs and always_runs(tree, nodes[-1], one):
        return initialize
    branch = _branch(tree, one, nodes[-1]) if runs and isinstance(one, cst.If) else None
    if branch is None or tree.block(tree.statement(nodes[-1])) is not branch:
        return _Order.UNKNOWN
    return _Branch(cst.ensure_type(one, cst.If), branch)


def _are_apart(tree: Tree, statement: Statement, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    """Whether two nodes stand in branches of one `if`."""
    return isinstance(statement, cst.If) and None not in (
        _branch(tree, statement, first),
        _branch(tree, statement, second),
    )


def _branch(tree: Tree, chain: cst.If, node: cst.CSTNode) -> Block | None:
    """The branch of an `if` that a node stands in; None where it is a part of a test."""
    around = {*tree.ancestors(node)}
    return next((each for each in blocks(chain) if each in around), None)


def _leaves(tree: Tree, chain: cst.If, node: cst.CSTNode) -> bool:
    """Whether nothing behind an `if` runs after the branch of it that a node stands in."""
    block = _branch(tree, chain, node)
    return block is not None and _leaves_block(block)


def _leaves_block(block: Block) -> bool:
    last = statements(block)[-1]
    value = last.value if isinstance(last, cst.Expr) else None
    is_exit = isinstance(value, cst.Call) and dotted(value.func) in _EXITS
    return isinstance(last, (cst.Return, cst.Raise)) or is_exit


def is_of_start(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a place runs where its file is the script that was started, and never where others import it."""
    around = [*tree.ancestors(node)]
    tests = [each for each in around if isinstance(each, cst.If) and tree.code(each.test) in IS_SCRIPT]
    return tree.function(node) is None and any(each.body in around for each in tests)


def always_runs(tree: Tree, node: cst.CSTNode, within: Statement | None) -> bool:
    """Whether no `if`, loop or `except` decides whether a node runs, in its function or in a statement round it."""
    if node is within:
        return True
    for each in tree.ancestors(node):
        if isinstance(each, (cst.If, cst.ExceptHandler, *LOOP_TYPES)):
            return False
        if each is within or isinstance(each, cst.FunctionDef):
            return True
    return True
