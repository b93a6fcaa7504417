"""What a loss depends on: the statements before a backward that some value of it comes from."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Collection, Iterator
from functools import partial

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import single_parameters
from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings, object_path
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.losses import is_class_name
from amp_migrate.steps.model.training_step import Backward
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.data_flow import key_of, reads, targets, writes
from amp_migrate.steps.statements.no_grad import is_quiet
from amp_migrate.tables import operators, torch_names
from amp_migrate.trees.nodes import LOOP_TYPES, Block, Statement, block_of, blocks, find, nested_statements, statements
from amp_migrate.trees.own_calls import calls_of

_BUILTINS = frozenset(dir(builtins))
# What tensors and Python's own objects can do, of which no forward is one.
_PLAIN_METHODS = (
    frozenset(operators.RESULT)
    | frozenset(operators.AUTOCAST)
    | frozenset(operators.DTYPE_METHODS)
    | operators.NO_TENSORS
    | {"detach", "cpu", "cuda", "to"}
    | {name for each in (dict, list, set, str, int, object) for name in dir(each)}
)
_OF_NO_TENSOR = ("step", "parameters")
# What is asked of a loss: of what a class makes, anything else is asked of an object that keeps a model, `MAML(model)`.
_OF_LOSSES = frozenset("backward item detach cpu mean sum".split())
_LIBRARIES = frozenset((*sys.stdlib_module_names, "numpy", "torch"))
# Functions that give back another module, and run none.
_COPIES = re.compile(r"_*(deep)?(copy|clone)(_|$)")


class Slices:
    """Finds them in one file.

    Args:
        regions: knows what runs a forward there, and is told what must.
        dead: statements that will be gone, and count for nothing.
    """

    def __init__(self, file: File, roles: Roles, regions: RegionFinder, dead: frozenset[Statement]) -> None:
        self.file = file
        self.tree = file.tree
        self.roles = roles
        self.regions = regions
        self.dead = dead

    def before(self, body: Block, backward: Backward) -> tuple[list[Statement], bool]:
        """The statements the loss depends on, looked for in ever wider loops until a forward is among them."""
        order = self.tree.order
        at = backward.statement
        scopes = [block_of(loop) for loop in self.tree.loops(at)]
        found: list[Statement] = []
        seen: list[tuple[list[Statement], list[Statement]]] = []
        for scope in [*scopes, body]:
            before = [
                s
                for s in nested_statements(scope)
                if order[s] < order[at] and s not in self.dead and (not blocks(s) or isinstance(s, cst.For))
            ]
            wanted = reads([backward.loss]) if backward.part is None else self.regions.effects.reads(at)
            sliced = self.regions.effects.backward_slice(wanted, before, at)
            found = [each for each in sliced if each not in self.tree.ancestors(at)]  # `for loss in losses:`
            filled = {self.regions.effects.fills(each) for each in found}
            if any(self._runs_forward(each, filled) for each in found):
                return found, True
            seen.append((found, before))
            # A function of the project that runs the forward itself needs none to be taken for granted before it.
            given = [] if backward.computes else [each for each in found if self._hands_on_a_module(each)]
            if given:
                for each in given:
                    self.regions.assume(each)
                return found, True
        for part, before in seen if not backward.computes and backward.part is None else ():
            kept = self._keeping(part, backward, before)
            if kept:
                return [*part, *kept], True
        return found, False

    def _runs_forward(self, statement: Statement, filled: Collection[str | None]) -> bool:
        """Whether a statement runs a forward, and not only a method of a module that sums up what it was filled with.

        Args:
            filled: the objects that keep what the methods are given which the slice calls.
        """
        return statement in self.regions.assumed or any(
            not (isinstance(call.func, cst.Attribute) and key_of(call.func.value) in filled)
            or self.roles.project.called(self.file, call) is None
            or self.roles.is_seen_to_compute(self.file, call)
            for call in self.regions.forwards(statement)
        )

    def _keeping(
        self, found: Collection[Statement], backward: Backward, before: Collection[Statement]
    ) -> list[Statement]:
        """The forwards that keep what a loss comes from: `model(x, y)` for `model.loss`, `net(scene)` for `scene.y`.

        The second gives nothing that anybody takes: it is there for what it does to what it is given.
        """
        nodes = [backward.loss, *found]
        read = reads([backward.loss]).union(*map(self.regions.effects.reads, found))
        kept = {dotted(each.value) for node in nodes for each in find(node, cst.Attribute) if self._is_kept(each)}
        taken: list[Statement] = []
        for each in before:
            if each in found or blocks(each) or is_quiet(self.file, each):
                continue
            forwards = self.regions.forwards(each)
            args = [arg.value for call in forwards for arg in call.args] if isinstance(each, cst.Expr) else []
            is_given = any(isinstance(arg, cst.Name) and arg.value in read and self._is_object(arg) for arg in args)
            if is_given or any(dotted(call.func) in kept for call in forwards):
                taken.append(each)
        return taken

    def _is_object(self, node: cst.Name) -> bool:
        """Whether a name stands for an object of a class of the project, in which something may be kept."""
        made = [each.value for each in object_bindings(self.file, node)]
        return bool(made) and all(isinstance(each, cst.Call) and self._makes_object(each) for each in made)

    def _makes_object(self, call: cst.Call) -> bool:
        found = self.roles.project.definition(self.file, call.func)
        return found is not None and isinstance(found[1], cst.ClassDef)

    def _is_kept(self, node: cst.Attribute) -> bool:
        """Whether an attribute is a value that is read: no `model.parameters()`, and no switch."""
        parent = self.tree.parents[node]
        is_called = isinstance(parent, cst.Call) and parent.func is node
        return not is_called and dotted(node.value) is not None and node.attr.value != "training"

    def forwards_of_outputs(
        self, body: Block, members: set[Statement], barriers: frozenset[Statement]
    ) -> set[Statement]:
        """Forwards on what the step computes that no loss depends on: outside a region, the input would be half.

        Those that feed such a forward are among them.
        """
        effects, order = self.regions.effects, self.tree.order
        computed: set[str] = set()
        for statement in sorted(members, key=lambda each: order[each]):
            if self.regions.runs_forward(statement) or effects.reads(statement) & computed:
                computed |= effects.writes(statement)
        forwards = [
            each
            for each in nested_statements(body)
            if each not in members
            and each not in barriers
            and each not in self.dead
            and not blocks(each)
            and self.regions.calls_module(each)
            and not is_quiet(self.file, each)
        ]
        found = {each for each in forwards if effects.reads(each) & computed}
        needed = frozenset().union(*map(effects.reads, found))
        return found | {each for each in forwards if effects.writes(each) & needed}

    def unknown_call(self, found: Collection[Statement], backward: Backward) -> cst.Call | None:
        """The first call of a slice that may be the forward, for all that can be seen: in the loop, if there is one."""
        loop = self.tree.loop(backward.statement)
        inside = [each for each in self._unknown(found) if loop is None or loop in self.tree.ancestors(each)]
        ordered = sorted(inside, key=lambda each: self.tree.order[each])
        unknown = (call for each in ordered for call in calls_of(each) if self._is_unknown(call))
        calls = [call for call in unknown if not self.roles.losses.is_call(self.file, call)]
        return next((call for call in calls if _method_of(call, "forward")), next(iter(calls), None))

    def unknown_within(self, found: Collection[Statement]) -> tuple[FunctionRef, cst.Call] | None:
        """What a function of a slice calls that it is given, and that may be the forward, with that function."""
        ordered = sorted(found, key=lambda each: self.tree.order[each])
        for called in (call for each in ordered for call in calls_of(each)):
            function = self.roles.project.called(self.file, called)
            if function is None:
                continue
            given = {each.name.value for each in single_parameters(function.node)} - {"self", "cls"}
            calls = [call for each in nested_statements(block_of(function.node)) for call in calls_of(each)]
            whole = [call for call in calls if isinstance(call.func, cst.Name) and call.func.value in given]
            methods = [call for call in calls if (_method_of(call) or "").partition(".")[0] in given]
            unknown = next((call for call in (*whole, *methods) if self._is_unknown(call, function.file)), None)
            if unknown is not None:
                return function, unknown
        return None

    def trained_tensor(self, found: Collection[Statement], backward: Backward) -> str | None:
        """What a tensor is, of those that the loss is computed of, that is trained by itself.

        An optimizer of the function gets it, `Adam([x])`, or it is made to get a gradient, as for updates by hand.
        """
        read = reads([backward.loss]).union(*map(self.regions.effects.reads, found))
        body = self.tree.body(backward.statement)
        for call in (each for each in self.file.calls if self.tree.body(each) is body and each.args):
            is_optimizer = torch_names.is_optimizer_name(self.file.names.callee(call))
            given = call.args[0].value if is_optimizer else None
            tensors = [each.value for each in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else []
            names = [each.value for each in tensors if isinstance(each, cst.Name) and each.value in read]
            if names:
                return f"`{names[0]}` is what the optimizer steps"
        for statement in nested_statements(body):
            value = statement.value if isinstance(statement, cst.Assign) else None
            own = writes(statement) & read if isinstance(value, cst.Call) and _asks_for_gradient(value) else ()
            if own:
                return f"`{min(own)}` gets a gradient by itself"
        return None

    def is_same_in_each_round(self, found: Collection[Statement], backward: Backward) -> bool:
        """Whether a loop goes backward on the same of what was given before it: no forward that callers ran is in that.

        The graph of one is gone after the first round.
        """
        loop = self.tree.loop(backward.statement)
        if not isinstance(loop, cst.For) or backward.part is not None or backward.call.args:
            return False
        inside = [each for each in found if loop in self.tree.ancestors(each)]
        read = reads([backward.loss]).union(*map(self.regions.effects.reads, inside))
        return read.isdisjoint(writes(loop))

    def assume_forward(self, body: Block, found: list[Statement], backward: Backward) -> bool:
        """Take for the forward what a slice calls that cannot be seen: the loss has its gradient from somewhere.

        That is a method which subclasses fill in or which is inherited from out of sight; else what is called in the
        loop, where nothing that was given before it has a gradient in every round; else what calls its object before.
        Or the object that keeps the loss has run a forward before: `trainer.forward(x)`, then `trainer.optimize()`.
        """
        at = backward.statement
        for statement in found:
            value = statement.value if isinstance(statement, cst.Assign) else None
            if isinstance(value, cst.Call) and self._is_out_of_sight(value):
                self.regions.assume(statement)
                return True
        unknown = self._unknown(found)
        before = {each: list(self._on_its_objects(each, body, at)) for each in unknown}
        loops = [loop for loop in self.tree.ancestors(at) if isinstance(loop, LOOP_TYPES)]
        in_loops = ([each for each in unknown if loop in self.tree.ancestors(each)] for loop in loops)
        taken = next(filter(None, in_loops), [each for each in unknown if before[each]])
        for each in taken:
            found += (other for other in before[each] if other not in found)
            for assumed in (each, *before[each]):
                self.regions.assume(assumed)
        if not taken and backward.of_object and isinstance(backward.call.func, cst.Attribute):
            keeper = reads([backward.call.func.value])
            taken = self._forwards_of(keeper, [*(block_of(loop) for loop in loops), body], at)
            found += taken
        return bool(taken)

    def _forwards_of(self, keeper: frozenset[str], scopes: list[Block], at: Statement) -> list[Statement]:
        """The statements before `at` in which a method of an object runs a forward, in the narrowest scope of some."""
        order = self.tree.order
        for scope in scopes:
            taken = [
                each
                for each in nested_statements(scope)
                if order[each] < order[at]
                and not blocks(each)
                and each not in self.dead
                and any(_is_method_of(call, keeper) for call in self.regions.forwards(each))
                and not is_quiet(self.file, each)
            ]
            if taken:
                return taken
        return []

    def _on_its_objects(self, unknown: Statement, body: Block, at: Statement) -> Iterator[Statement]:
        """The statements before `at` that call the object of a method: `learner(x)` for `learner.calculate_loss()`."""
        owners = {(dotted(call.func) or "").rpartition(".")[0] for call in calls_of(unknown) if self._is_unknown(call)}
        owners -= {"", "self"}
        order = self.tree.order
        for statement in nested_statements(body) if owners else ():
            if blocks(statement) or order[statement] >= order[at] or statement in self.dead or statement is unknown:
                continue
            called = [dotted(each.func) or "" for each in calls_of(statement) if self._is_unknown(each)]
            is_same = any(not owners.isdisjoint((path, path.rpartition(".")[0])) for path in called)
            if is_same and not is_quiet(self.file, statement):
                yield statement

    def _hands_on_a_module(self, statement: Statement) -> bool:
        """Whether a statement calls what cannot be seen with a module: `inferer(images, model)` runs its forward."""
        hands_on = any(
            self.roles.project.called(self.file, call) is None
            and (dotted(call.func) or "").partition(".")[0] not in _BUILTINS
            and not self.file.names.callee(call).startswith(("torch.", "apex."))
            and not _COPIES.match((dotted(call.func) or "").rpartition(".")[2])
            and any(not arg.star and self.roles.is_module(self.file, arg.value) for arg in call.args)
            for call in calls_of(statement)
        )
        makes = any(is_class_name(dotted(call.func) or "") for call in calls_of(statement))
        return hands_on and not any(
            self._is_called_later(each) or (makes and self.file.called_on(each) - _OF_LOSSES)
            for each in targets(statement)
        )

    def _is_called_later(self, target: cst.BaseExpression) -> bool:
        """Whether what a name is given is called, steps or has parameters: `net, opt = prepare(net, opt)` is no tensor.

        Or is asked in a loop, in which it was not made, for what no tensor has: `faster = convert(net)`.
        """
        path = object_path(target)
        if path is None:
            return False
        body, around = self.tree.body(target), set(self.tree.loops(target))
        calls = [call for call in self.file.calls if self.tree.body(call) is body]
        asked = (each for each in calls if not around.issuperset(self.tree.loops(each)))
        is_called = any(path in (object_path(c.func), *map(partial(_method_of, c), _OF_NO_TENSOR)) for c in calls)
        return is_called or any(f"{_method_of(c)}.".startswith(f"{path}.") for c in asked)

    def _unknown(self, found: Collection[Statement]) -> list[Statement]:
        """The statements of a slice that compute by what cannot be seen, and have a gradient."""
        effects = self.regions.effects
        return [
            each
            for each in found
            if any(map(self._is_unknown, calls_of(each)))
            and effects.reads(each).isdisjoint(effects.writes(each))  # `loss = reduced(loss)` goes on from a loss
            and not is_quiet(self.file, each)
        ]

    def _is_unknown(self, call: cst.Call, file: File | None = None) -> bool:
        """Whether nothing is known of what a call runs, not even that it is no forward."""
        file = file or self.file
        path, full = dotted(call.func), file.names.callee(call)
        if path is None:
            return isinstance(call.func, cst.Subscript)  # `self.models[name](x)`
        if self.roles.project.called(file, call) is not None:
            return False
        owner, _, name = path.rpartition(".")
        if full.partition(".")[0] in _LIBRARIES:
            return False
        return name not in (_PLAIN_METHODS if owner else _BUILTINS)

    def _is_out_of_sight(self, call: cst.Call) -> bool:
        path, owner = dotted(call.func) or "", self.tree.owner_class(call)
        if owner is None or path.count(".") != 1 or not path.startswith("self."):
            return False
        function = self.roles.project.called(self.file, call)
        if function is not None:
            return all(
                isinstance(each, (cst.Raise, cst.Pass, cst.Expr)) for each in statements(block_of(function.node))
            )
        return not self.file.class_attribute(owner, path) and not self.roles.losses.is_call(self.file, call)


def _is_method_of(call: cst.Call, keeper: frozenset[str]) -> bool:
    return isinstance(call.func, cst.Attribute) and reads([call.func.value]) == keeper


def _method_of(call: cst.Call, name: str = "") -> str | None:
    """What a call is a method of, as a path, if it has a name, or is none of a tensor's; None for any other call."""
    func = call.func
    if not isinstance(func, cst.Attribute) or (func.attr.value != name if name else func.attr.value in _PLAIN_METHODS):
        return None
    return object_path(func.value)


def _asks_for_gradient(call: cst.Call) -> bool:
    """Whether a call makes a tensor that gets a gradient of its own."""
    asked = [each.value for each in call.args if each.keyword is not None and each.keyword.value == "requires_grad"]
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "requires_grad_":
        asked = [each.value for each in call.args] or [cst.Name("True")]
    return any(isinstance(each, cst.Name) and each.value == "True" for each in asked)
