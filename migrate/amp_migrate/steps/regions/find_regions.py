"""Where the autocast regions of a function go: round forward and loss, and round nothing that steps or goes backward.

A region is a run of sibling statements. In training it reaches from the first forward that the loss depends on to the
last statement that computes the loss; statements that train (`backward`, `step`) end it. In evaluation it covers a
forward and the losses computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.sigmoids import logits
from amp_migrate.frozen import frozen
from amp_migrate.pragmas import CELL
from amp_migrate.steps.model.training_step import Island, Region
from amp_migrate.steps.regions.kept_apart import nowhere
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.steps.statements.effects import Effects
from amp_migrate.steps.statements.no_grad import is_no_grad, is_switched_off
from amp_migrate.tables.operators import AUTOCAST, DTYPE_METHODS, RESULT, VIEWS
from amp_migrate.trees.nodes import Block, Statement, blocks, find, header, nested_statements, statements, walk_own
from amp_migrate.trees.own_calls import calls_of

# The operators that autocast casts for.
_CAST_FOR = (cst.Power, cst.PowerAssign, cst.MatrixMultiply, cst.MatrixMultiplyAssign)


@frozen
class Placement:
    """The regions of a function, and the losses that must stay outside them."""

    regions: tuple[Region, ...]
    islands: tuple[Island, ...]


class RegionFinder:
    """Finds regions in one file.

    Args:
        is_apart: whether a call runs a module that computed in float32 beside those which Apex prepared.
    """

    def __init__(self, file: File, roles: Roles, *, is_apart: Callable[[File, cst.Call], bool] = nowhere) -> None:
        self.file = file
        self._is_apart = is_apart
        self.tree = file.tree
        self.roles = roles
        self.effects = Effects(file, roles.project, roles.has_forward)
        self.assumed: set[Statement] = set()
        # Statements outside every region whose results go on from what was computed in one.
        self.derived: set[Statement] = set()
        self._calls: dict[Statement, list[cst.Call]] = {}
        self._banned: dict[cst.Call, bool] = {}

    def _calls_of(self, statement: Statement) -> list[cst.Call]:
        """The calls that a statement evaluates by itself; none of a definition."""
        if statement not in self._calls:
            is_definition = isinstance(statement, (cst.FunctionDef, cst.ClassDef))
            self._calls[statement] = [] if is_definition else list(calls_of(statement))
        return self._calls[statement]

    def assume(self, statement: Statement) -> None:
        """Take it that a statement runs a module, though that cannot be seen."""
        self.assumed.add(statement)

    def runs_forward(self, statement: Statement) -> bool:
        """Whether a statement by itself (not the blocks below it) runs a module."""
        return statement in self.assumed or bool(self.forwards(statement))

    def forwards(self, statement: Statement) -> list[cst.Call]:
        """The calls in a statement that run a module."""
        return [call for call in self._calls_of(statement) if self.roles.runs_forward(self.file, call)]

    def computes_loss(self, statement: Statement) -> bool:
        """Whether a statement by itself calls a criterion, or a function of the project that does."""
        calls = self._calls_of(statement)
        return any(self.roles.losses.computes(self.file, call) for call in calls) and not self._prepares(statement)

    def _prepares(self, statement: Statement) -> bool:
        """Whether a statement only makes what is called or unpacked later: `criterion = get_loss(args)`."""
        name = dotted(statement.targets[0].target) if isinstance(statement, cst.Assign) else None
        return name is not None and any(
            dotted(call.func) == name or any(arg.star and dotted(arg.value) == name for arg in call.args)
            for call in find(self.tree.body(statement), cst.Call)
        )

    def calls_module(self, statement: Statement) -> bool:
        """Whether a statement by itself runs a module without a function of the project in between."""
        calls = (call for call in self._calls_of(statement) if self.roles.calls_module(self.file, call))
        return any(not self._is_apart(self.file, call) for call in calls)

    def runs_apart(self, statement: Statement) -> bool:
        """Whether a statement by itself runs only modules that computed in float32 beside those which Apex prepared."""
        is_apart = any(self._is_apart(self.file, call) for call in self._calls_of(statement))
        return is_apart and not self.calls_module(statement)

    def may_train(self, statement: Statement) -> bool:
        """Whether a statement by itself may run a function of the project that goes backward."""
        return any(self.roles.may_train(self.file, call) for call in self._calls_of(statement))

    def may_train_unseen(self, statement: Statement) -> bool:
        """The same, by a call of which it cannot be seen what it runs: of others, `trains` knows at less cost."""
        unseen = (each for each in self._calls_of(statement) if self.roles.project.called(self.file, each) is None)
        return any(self.roles.may_train(self.file, each) for each in unseen)

    def trains(self, statement: Statement) -> bool:
        """Whether a statement by itself runs a function of the project that goes backward."""
        return any(self.roles.trains(self.file, call) for call in self._calls_of(statement))

    def gives(self, statement: Statement) -> bool:
        """Whether a statement by itself gives a value of a generator: a region round it is open in who takes that."""
        return any(isinstance(each, cst.Yield) for part in header(statement) for each in walk_own(part))

    def banned_calls(self, statement: Statement) -> list[cst.Call]:
        """The calls in a statement that autocast refuses, or that come to one."""
        return [call for call in self._calls_of(statement) if self.is_banned(call)]

    def is_banned(self, call: cst.Call) -> bool:
        """Whether a call is a loss that has to stay outside of regions.

        What runs the forward as well cannot: without it there is nothing in the region. Nor can what gets something
        that holds tensors, and cannot be cast as they are. Its loss stays in float32 where it is computed.
        """
        if call not in self._banned:
            self._banned[call] = self._is_banned(call)
        return self._banned[call]

    def _is_banned(self, call: cst.Call) -> bool:
        losses = self.roles.losses
        if losses.is_banned(self.file, call):
            return True
        if not losses.reaches_banned(self.file, call) or self.roles.runs_forward(self.file, call):
            return False
        return not any(
            isinstance(each.value, (cst.Name, cst.Attribute, cst.Subscript))
            and self.roles.project.holds_computed(self.file, each.value)
            for each in call.args
        )

    def training(
        self,
        body: Block,
        slices: Iterable[Statement],
        barriers: frozenset[Statement],
        taken_out: frozenset[cst.CSTNode] = frozenset(),
    ) -> Placement:
        """Place the regions of a function that trains.

        Args:
            slices: every statement that some loss of the function depends on.
            barriers: the statements that go backward or step.
            taken_out: arguments of refused losses that will be computed in a region before.
        """
        members = frozenset(slices)
        banned = frozenset(s for s in members if self.banned_calls(s))
        found: list[Region] = []
        self._place(body, members - banned, barriers | banned, found)
        computed = self.outputs(found)
        inputs = [self.island(s, computed).inputs for s in sorted(banned, key=lambda each: self.tree.order[each])]
        islands = [Island(tuple(value for value in each if value not in taken_out)) for each in inputs]
        return Placement(tuple(found), tuple(islands))

    def outputs(self, regions: Iterable[Region]) -> frozenset[str]:
        """The names that hold what came out of a forward once some regions have run."""
        found: set[str] = set()
        for region in regions:
            for statement in self.members(region):
                is_computed = self.runs_forward(statement) or bool(self.effects.reads(statement) & found)
                if is_computed and self.effects.assigns(statement):
                    found |= self.effects.writes(statement)
        return frozenset(found)

    def island(self, statement: Statement, computed: frozenset[str]) -> Island:
        """The arguments of a banned statement's losses that come out of a region, under the names `computed`."""
        banned = self.banned_calls(statement)
        calls = [c for c in self._calls_of(statement) if c in banned or self.roles.losses.is_call(self.file, c)]
        return Island(
            tuple(
                value
                for call in calls
                for arg in call.args
                if not arg.star and _is_tensor_path(arg.value) and reads([arg.value]) & computed
                for value in self._in_float(call, arg, computed)
            )
        )

    def _in_float(self, call: cst.Call, arg: cst.Arg, computed: frozenset[str]) -> list[cst.BaseExpression]:
        """What has to be cast for an argument of a loss: the argument, or for labels only what a region makes of them.

        A criterion that some ways make another one takes integers there, which must stay what they are.
        """
        value = logits(self.roles, self.file, arg.value) or arg.value
        if arg is call.args[0] or not self.roles.losses.may_be_another(self.file, call):
            return [value]
        values = (each.value for each in object_bindings(self.file, value))
        return [each for each in values if each is not None and reads([each]) & computed] or [value]

    def _place(
        self, block: Block, members: frozenset[Statement], barriers: frozenset[Statement], found: list[Region]
    ) -> None:
        run: list[Statement] = []
        for statement in statements(block):
            if self.begins_cell(statement):
                self._close(run, members, barriers, found)
                run = []
            # The cast of a weight that is cached without gradients must not serve a forward that needs them, so what
            # runs under no_grad never shares a region with what does not.
            own = own_statements(statement)
            if barriers.isdisjoint(own) and not any(self._is_quiet_forward(each) or self.gives(each) for each in own):
                run.append(statement)
                continue
            self._close(run, members, barriers, found)
            run = []
            if statement not in barriers:
                for inner in own_blocks(statement):
                    self._place(inner, members, barriers, found)
        self._close(run, members, barriers, found)

    def _goes_on_computing(self, statement: Statement, outputs: frozenset[str]) -> bool:
        """Whether a statement calls something on what came out of a region before: a term of a later loss.

        What autocast leaves as it is needs no region: `output.max(1)`, `delta.detach()`.
        """
        calls = self._calls_of(statement)
        if not calls or self.effects.reads(statement).isdisjoint(outputs):
            return False
        nodes = (node for part in header(statement) for node in walk_own(part))
        return may_be_cast(self.file, self.roles, (*calls, *nodes))

    def _derived_before(self, statement: Statement) -> frozenset[str]:
        """What statements outside every region have made of the results of regions before a statement."""
        body, order = self.tree.body(statement), self.tree.order
        before = (each for each in self.derived if order[each] < order[statement] and self.tree.body(each) is body)
        return frozenset().union(*map(self.effects.writes, before))

    def _is_quiet_forward(self, statement: Statement) -> bool:
        if isinstance(statement, cst.With):
            is_quiet = any(is_no_grad(self.file, item.item) for item in statement.items)
        else:
            is_quiet = not own_blocks(statement) and is_switched_off(self.file, statement)
        return is_quiet and any(self.runs_forward(each) for each in own_statements(statement))

    def _close(
        self,
        run: list[Statement],
        members: frozenset[Statement],
        barriers: frozenset[Statement],
        found: list[Region],
    ) -> None:
        """Turn a run of statements without barriers into at most one region."""

        if not run:
            return
        earlier = self.outputs(found) | self._derived_before(run[0])

        def is_worthy(statement: Statement) -> bool:
            return any(
                each in members
                and (self.runs_forward(each) or self.computes_loss(each) or self._goes_on_computing(each, earlier))
                for each in own_statements(statement)
            )

        worthy = [index for index, statement in enumerate(run) if is_worthy(statement)]
        if not worthy:
            return
        first = last = worthy[0]
        computed: set[str] = set()
        for index in range(first, len(run)):
            inner = [each for each in own_statements(run[index]) if each in members]
            if index in worthy or any(self.effects.reads(each) & computed for each in inner):
                last = index
                for each in inner:
                    computed |= self.effects.writes(each)
        only = run[first]
        if first == last and isinstance(only, (cst.With, cst.If, cst.Try)):
            holders = [b for b in own_blocks(only) if any(m in members for m in nested_statements(b))]
            if len(holders) == 1:  # the smallest natural block: inside `with torch.set_grad_enabled(...)`, not round it
                self._place(holders[0], members, barriers, found)
                return
        found.append(Region(run[first], run[last]))

    def begins_cell(self, statement: Statement) -> bool:
        """Whether a statement is the first of a notebook's cell: no region can go over the border."""
        parent = self.tree.parents[statement]
        line = parent if isinstance(parent, cst.SimpleStatementLine) else statement
        above = cast("Sequence[cst.EmptyLine]", getattr(line, "leading_lines", ()))
        return any(each.comment is not None and each.comment.value.startswith(CELL) for each in above)

    def members(self, region: Region) -> list[Statement]:
        """The statements in a region, those of the blocks below them included."""
        siblings = self.tree.siblings(region.first)
        run = siblings[siblings.index(region.first) : siblings.index(region.last) + 1]
        return [each for statement in run for each in own_statements(statement)]


def may_be_cast(file: File, roles: Roles, nodes: Iterable[cst.CSTNode]) -> bool:
    """Whether autocast may compute something of some code in another way than it is computed without."""
    return any(
        not _is_left_by_autocast(file, roles, each)
        if isinstance(each, cst.Call)
        else isinstance(getattr(each, "operator", None), _CAST_FOR)
        for each in nodes
    )


def _is_left_by_autocast(file: File, roles: Roles, call: cst.Call) -> bool:
    """Whether a call is of an operator of tensors that computes under autocast as it does without."""
    full = file.names.callee(call)
    if full and not full.startswith("torch."):
        return False
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    is_known = name in RESULT or name in VIEWS or name in DTYPE_METHODS
    return is_known and name not in AUTOCAST and (bool(full) or roles.project.called(file, call) is None)


def own_blocks(statement: Statement) -> tuple[Block, ...]:
    """The blocks below a statement that run when it does: none of a definition."""
    return () if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else blocks(statement)


def own_statements(statement: Statement) -> list[Statement]:
    """A statement, and those of the blocks below it that run when it does."""
    return [statement, *(inner for block in own_blocks(statement) for inner in nested_statements(block))]


def _is_tensor_path(value: cst.BaseExpression) -> bool:
    """Whether an argument names a value (`out`, `out[0]`, `out.view(-1)`) rather than computing with several."""
    return isinstance(value, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
