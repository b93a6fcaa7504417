"""Places the regions of forwards that no gradient flows through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice, takewhile

import libcst as cst

from amp_migrate.frozen import frozen
from amp_migrate.steps.model.training_step import Island, Region
from amp_migrate.steps.regions.find_regions import Placement, RegionFinder, own_blocks, own_statements
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.steps.statements.no_grad import is_no_grad
from amp_migrate.trees.nodes import Block, Statement, blocks, statements


def place_quiet_regions(
    finder: RegionFinder,
    body: Block,
    taken: Iterable[Region],
    is_quiet: Callable[[Statement], bool],
    helpers: Collection[cst.FunctionDef] = (),
    in_float32: Callable[[Statement], bool] = lambda _: False,
) -> Placement:
    """The regions of a body's forwards that run without gradients.

    Args:
        taken: the regions that exist already.
        is_quiet: whether a statement runs without gradients.
        helpers: the functions that compute in the regions of those who call them.
        in_float32: whether a statement is to stay outside of regions.
    """
    covered = {each for region in taken for each in finder.members(region)}
    placer = _Placer(finder, covered, is_quiet, helpers, in_float32)
    placer.walk(body)
    return Placement(tuple(placer.regions), tuple(placer.islands))


@frozen
class _Span:
    """A region as far as it has been followed, and the names of what is computed in it."""

    first: Statement
    last: Statement
    computed: frozenset[str]


class _Placer:
    def __init__(
        self,
        finder: RegionFinder,
        covered: set[Statement],
        is_quiet: Callable[[Statement], bool],
        helpers: Collection[cst.FunctionDef],
        in_float32: Callable[[Statement], bool],
    ) -> None:
        self.finder = finder
        self.covered = covered
        self.is_quiet = is_quiet
        self.helpers = helpers
        self.in_float32 = in_float32
        self.regions: list[Region] = []
        self.islands: list[Island] = []

    def walk(self, block: Block) -> None:
        """A region starts at a forward and goes on to the last loss or forward computed from it, or that comes next."""
        span: _Span | None = None
        siblings = statements(block)
        for index, statement in enumerate(siblings):
            gives = any(map(self.finder.gives, own_statements(statement)))
            # What a statement runs is asked last, and where something ends with it: it may take a program to know.
            if span is not None and (gives or self._is_border(statement) or self._runs_apart(statement)):
                self._close(span)
                span = None
            behind = takewhile(lambda each: not self._is_border(each), islice(siblings, index + 1, None))
            shares = self._shares(statement, behind)
            computed = frozenset() if span is None else span.computed
            chooses = _chooses_loss(self.finder, statement, self.covered, computed)
            whole = (shares or chooses) and not gives
            for inner in () if whole else own_blocks(statement):
                self.walk(inner)
            if statement in self.covered or gives or (own_blocks(statement) and not whole):
                continue
            follows = chooses or not computed.isdisjoint(self.finder.effects.reads(statement))
            if self.finder.banned_calls(statement):
                if follows:
                    self.islands.append(self.finder.island(statement, computed))
                continue
            is_forward = (shares or self._is_forward(statement)) and not self.in_float32(statement)
            if not is_forward and not chooses and not (follows and _only_computes_loss(self.finder, statement)):
                continue
            written = frozenset().union(*map(self.finder.effects.writes, own_statements(statement)))
            if span is not None and (follows or siblings[index - 1] is span.last):
                span = _Span(span.first, statement, computed | written)
            else:
                self._close(span)
                span = _Span(statement, statement, written)
        self._close(span)

    def _is_border(self, statement: Statement) -> bool:
        """Whether a region ends before a statement: a cell begins, or another region is round it, or in it."""
        return self.finder.begins_cell(statement) or not self.covered.isdisjoint(own_statements(statement))

    def _runs_apart(self, statement: Statement) -> bool:
        return any(map(self.finder.runs_apart, own_statements(statement)))

    def _is_forward(self, statement: Statement) -> bool:
        # Most statements are not quiet; whether something runs a module may take other files to know.
        runs = self.is_quiet(statement) and (self.finder.calls_module(statement) or self._calls_helper(statement))
        return runs and not _only_sets(self.finder, statement) and not self.finder.may_train(statement)

    def _calls_helper(self, statement: Statement) -> bool:
        """Whether a statement runs a module by a function that computes in the regions of those who call it."""
        called = (self.finder.roles.project.called(self.finder.file, call) for call in self.finder.forwards(statement))
        return any(each is not None and each.node in self.helpers for each in called) if self.helpers else False

    def _close(self, span: _Span | None) -> None:
        if span is not None:
            whole = Region(span.first, span.last)
            inside = set(self.finder.members(whole))  # where one begins, below a branch, it is in a region already
            self.regions = [*(each for each in self.regions if each.first not in inside), whole]

    def _shares(self, statement: Statement, behind: Iterable[Statement]) -> bool:
        """Whether a `with torch.no_grad():` is to be in one region with what stands behind it.

        A loss there has to see autocast as well, or it is computed in half precision.
        """
        return (
            isinstance(statement, cst.With)
            and self.covered.isdisjoint(own_statements(statement))
            and _feeds_loss(self.finder, statement, behind)
        )


def _only_sets(finder: RegionFinder, statement: Statement) -> bool:
    """Whether a statement tells a model something, `net.unused_modules_off()`: nothing goes in, nothing comes out."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.args:
        return False
    return call.func.attr.value != "forward" and not finder.roles.is_seen_to_compute(finder.file, call)


def _feeds_loss(finder: RegionFinder, statement: cst.With, behind: Iterable[Statement]) -> bool:
    """Whether a plain `with torch.no_grad():` runs a forward, and a loss behind it reads the result."""
    if not any(is_no_grad(finder.file, item.item) for item in statement.items):
        return False
    inner = own_statements(statement)[1:]
    if any(map(own_blocks, inner)) or any(map(finder.banned_calls, inner)) or not any(map(finder.calls_module, inner)):
        return False
    results = finder.outputs([Region(inner[0], inner[-1])])
    return any(
        _chooses_loss(finder, each, set(), results)
        if own_blocks(each)
        else finder.effects.reads(each) & results and (_only_computes_loss(finder, each) or finder.banned_calls(each))
        for each in behind
    )


def _only_computes_loss(finder: RegionFinder, statement: Statement) -> bool:
    """Whether a statement computes a loss by itself, and goes nowhere with it: what trains a head does by itself."""
    return finder.computes_loss(statement) and not finder.may_train(statement)


def _chooses_loss(
    finder: RegionFinder, statement: Statement, covered: set[Statement], computed: frozenset[str]
) -> bool:
    """Whether a statement is an `if` that takes one or another loss of what was computed."""
    if not isinstance(statement, cst.If) or any(True for block in blocks(statement) for _ in backward_calls(block)):
        return False
    inside = own_statements(statement)[1:]
    # First what the statements themselves tell: whether something runs a module may take other files to know.
    if not any(finder.effects.reads(each) & computed and finder.computes_loss(each) for each in inside):
        return False
    is_apart = covered.isdisjoint(inside) and not any(map(finder.banned_calls, inside))
    return is_apart and not any(map(finder.calls_module, inside))
