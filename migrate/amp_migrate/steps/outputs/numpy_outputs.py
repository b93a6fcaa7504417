"""Outputs of a region that go to NumPy, which has no bfloat16: `out.numpy()` becomes `out.float().numpy()`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import passed
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Cast, Edit
from amp_migrate.steps.model.training_step import Region
from amp_migrate.steps.outputs.held_outputs import HeldOutputs, root_of
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Block, Statement, block_of, statements
from amp_migrate.trees.own_calls import calls_of
from amp_migrate.write.editor import Editor

# Functions that ask a tensor for its array.
_ARRAYS = frozenset({"numpy.array", "numpy.asarray"})


@dataclass(frozen=True)
class NumpyRoot:
    """An output that goes to NumPy.

    Attributes:
        finder: knows the file it is in: that of the region, or of a function that is handed the output.
        node: the expression at the root of the chain that ends in `.numpy()`.
        is_floating: whether it is seen to be what a module or a loss computes, and not, say, drawn actions.
    """

    finder: RegionFinder
    node: cst.BaseExpression
    is_floating: bool

    @property
    def holds_loss(self) -> bool:
        """Whether it is a name that is given a loss, which autocast computes in float32."""
        bound = self.finder.roles.bindings(self.finder.file, self.node)
        statements = (self.finder.tree.statement(each.node) for each in bound if each.value is not None)
        return any(map(self.finder.computes_loss, statements))


def float_for_numpy(editor: Editor, outputs: HeldOutputs) -> Iterator[Edit]:
    """The edits that cast what goes from the regions of a file to NumPy, there and in functions that are handed it."""
    return (write_float(editor, root) for root in numpy_roots(outputs))


def write_float(editor: Editor, root: NumpyRoot) -> Edit:
    """The edit that casts an output to float32: where it may be a tensor of integers, only if it is none."""
    editor = editor.of(root.finder.file)
    return editor.as_float(root.node) if root.is_floating else editor.edit(root.node, _float_if_floating(root.node))


def numpy_roots(outputs: HeldOutputs) -> Iterator[NumpyRoot]:
    """The outputs at the roots of chains that end in `.numpy()`, in source order."""
    for _, body in bodies(outputs.finder.file):
        yield from _roots(outputs, body, (), frozenset())


def _roots(
    outputs: HeldOutputs, body: Block, given: Collection[str], seen: frozenset[cst.FunctionDef]
) -> Iterator[NumpyRoot]:
    """Those in a body, and in the functions of the project that it hands outputs to.

    Args:
        given: names that hold an output at its beginning.
        seen: the functions that have been looked into on the way.
    """
    for statement, held in outputs.course(body, given):
        runs = statement in outputs.covered
        if not held and not runs:
            continue
        for value in _for_numpy(outputs.finder, statement):
            root = outputs.root(value, statement, held.keys())
            if root is not None:
                yield NumpyRoot(outputs.finder, root, outputs.is_floating(root, held))
        for call in calls_of(statement):
            yield from _in_called(outputs.finder, call, held.keys(), seen, runs=runs)


def _for_numpy(finder: RegionFinder, statement: Statement) -> Iterator[cst.BaseExpression]:
    """What a statement makes arrays of, or puts into one: `x.numpy()`, `array[i] = x`."""
    yield from filter(None, (_given_to_numpy(finder, call) for call in calls_of(statement)))
    if not isinstance(statement, (cst.Assign, cst.AugAssign)):
        return
    target = statement.target if isinstance(statement, cst.AugAssign) else statement.targets[0].target
    if isinstance(target, cst.Subscript) and _is_array(finder, target.value):
        yield statement.value


def _is_array(finder: RegionFinder, node: cst.BaseExpression) -> bool:
    """Whether a name is only given what NumPy makes."""
    made = [each.value for each in finder.roles.bindings(finder.file, node)]
    return bool(made) and all(each is not None and finder.file.names.callee(each).startswith("numpy.") for each in made)


def _given_to_numpy(finder: RegionFinder, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor that a call makes an array of; None for any other call."""
    if _is_method(call, "numpy"):
        return cst.ensure_type(call.func, cst.Attribute).value
    # What else is an argument there may be a list of numbers.
    value = call.args[0].value if call.args and finder.file.names.callee(call) in _ARRAYS else None
    return value if _is_method(value, "cpu") or _is_method(value, "detach") else None


def _is_method(node: cst.CSTNode | None, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def _in_called(
    finder: RegionFinder, call: cst.Call, held: Collection[str], seen: frozenset[cst.FunctionDef], *, runs: bool
) -> Iterator[NumpyRoot]:
    """Those in a function that a call hands an output to, or runs in a region."""
    if not runs and all(arg.star or root_of(finder, arg.value, held) is None for arg in call.args):
        return
    function = finder.roles.project.called(finder.file, call)
    if function is None or function.node in seen or len(seen) == MAX_HOPS:
        return
    params = function.node.params
    given: set[str] = set()
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        name = param.name.value
        found = passed(function.node, call, name, bound=function.is_bound)
        if found is not None and found.argument is not None and root_of(finder, found.argument.value, held) is not None:
            given.add(name)
    body = block_of(function.node)
    inside = HeldOutputs(RegionFinder(function.file, finder.roles), _whole(body) if runs else ())
    yield from _roots(inside, body, given, seen | {function.node})


def _whole(body: Block) -> tuple[Region, ...]:
    """All of a function, as one region."""
    found = statements(body)
    return (Region(found[0], found[-1]),)


def _float_if_floating(node: cst.BaseExpression) -> Cast:
    return Cast(code("({x}.float() if {x}.is_floating_point() else {x})", x=node))
