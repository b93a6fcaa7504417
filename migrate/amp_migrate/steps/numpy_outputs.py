"""Outputs of a region that go to NumPy: `out.numpy()` becomes `out.float().numpy()`.

NumPy has no bfloat16, and what takes its arrays (images, sounds, transforms, sums of many numbers) mostly no float16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.calls import passed
from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.flow import targets
from amp_migrate.steps.model import Region
from amp_migrate.steps.output_chains import chain_root, is_floating
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.regions import RegionFinder
from amp_migrate.steps.write_native import as_float
from amp_migrate.trees import build
from amp_migrate.trees.calls import calls_of
from amp_migrate.trees.nodes import Block, Statement, block_of, blocks, nested_statements


@dataclass(frozen=True)
class NumpyRoot:
    """An output at the start of what goes to NumPy.

    Attributes:
        finder: knows the file it is in: that of the region, or of a function that is given the output.
        node: the expression that holds the output.
    """

    finder: RegionFinder
    node: cst.BaseExpression

    @property
    def holds_loss(self) -> bool:
        """Whether it is a name that is given a loss, which autocast computes in float32."""
        bound = self.finder.roles.bindings(self.finder.file, self.node)
        statements = (self.finder.tree.statement(each.node) for each in bound if each.value is not None)
        return any(map(self.finder.computes_loss, statements))


def float_for_numpy(
    draft_of: Callable[[File], Draft], file: File, roles: Roles, regions: Sequence[Region], dtype: Dtype
) -> None:
    """Cast what goes from the regions of a file to NumPy, in the function of each and in those it is handed to."""
    finder = RegionFinder(file, roles)
    for _, body in bodies(file) if regions else ():
        inside = [region for region in regions if file.tree.body(region.first) is body]
        for root in numpy_roots(finder, body, finder.outputs(inside)):
            # NumPy has float16: a loss, which is float32 in most cases, needs no cast in case that it is not.
            if dtype is not Dtype.FP16 or not root.holds_loss:
                write_float(draft_of(root.finder.file), root)


def write_float(draft: Draft, root: NumpyRoot) -> None:
    """Cast an output to float32: where it may be a tensor of integers, only if it is none."""
    if root.node not in draft.edits.changes:
        draft.edits.change(root.node, as_float if is_floating(root.finder, root.node) else _as_float_if_floating)


def numpy_roots(
    finder: RegionFinder, body: Block, given: Collection[str], seen: frozenset[cst.FunctionDef] = frozenset()
) -> Iterator[NumpyRoot]:
    """The expressions that hold an output at the root of a chain that ends in `.numpy()`.

    Args:
        body: where they are looked for, as in the functions of the project that it hands outputs to.
        given: the names of the outputs.
        seen: the functions that have been looked into on the way.
    """
    outputs = set(given)
    for statement in nested_statements(body) if outputs else ():
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        for call in calls_of(statement):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy":
                root = chain_root(finder, call.func.value, outputs)
                if root is not None:
                    yield NumpyRoot(finder, root)
            else:
                yield from _in_called(finder, call, outputs, seen)
        outputs |= _handed_on(finder, statement, outputs)


def _in_called(
    finder: RegionFinder, call: cst.Call, outputs: set[str], seen: frozenset[cst.FunctionDef]
) -> Iterator[NumpyRoot]:
    """Those in a function that a call hands an output to."""
    if all(arg.star or chain_root(finder, arg.value, outputs) is None for arg in call.args):
        return
    function = finder.roles.project.called(finder.file, call)
    if function is None or function.node in seen:
        return
    params = function.node.params
    given: set[str] = set()
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        name = param.name.value
        found = passed(function.node, call, name, bound=function.is_bound)
        if (
            found is not None
            and found.argument is not None
            and chain_root(finder, found.argument.value, outputs) is not None
        ):
            given.add(name)
    inside = RegionFinder(function.file, finder.roles)
    yield from numpy_roots(inside, block_of(function.node), given, seen | {function.node})


def _handed_on(finder: RegionFinder, statement: Statement, outputs: set[str]) -> set[str]:
    """Names that a plain assignment gives an output to, cast by nothing on the way."""
    if (
        blocks(statement)
        or not isinstance(statement, cst.Assign)
        or chain_root(finder, statement.value, outputs) is None
    ):
        return set()
    return {target.value for target in targets(statement) if isinstance(target, cst.Name)}


def _as_float_if_floating(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.BaseExpression)
    receiver = build.grouped(node)
    is_floating = cst.Call(cst.Attribute(receiver.deep_clone(), cst.Name("is_floating_point")))
    return cst.IfExp(
        test=is_floating,
        body=cst.Call(cst.Attribute(receiver, cst.Name("float"))),
        orelse=node.deep_clone(),
        lpar=[cst.LeftParen()],
        rpar=[cst.RightParen()],
    )
