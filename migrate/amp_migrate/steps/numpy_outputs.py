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
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.regions import RegionFinder
from amp_migrate.steps.write_native import as_float
from amp_migrate.trees import build
from amp_migrate.trees.calls import calls_of
from amp_migrate.trees.nodes import Block, Statement, block_of, blocks, find, nested_statements

# Methods that keep a tensor's dtype, so that a chain of them ends in the dtype of its root.
_KEEPS_DTYPE = frozenset(
    (
        "abs chunk clamp clip clone contiguous cpu cuda data detach exp expand expand_as flatten flip gather log "
        "log_softmax masked_fill mean permute relu repeat reshape round sigmoid softmax split sqrt squeeze sum t tanh "
        "to transpose tril triu unflatten unsqueeze view view_as"
    ).split()
)
# Tensors in the structure that a Hugging Face model gives back.
_STRUCTURE = frozenset({"logits", "loss", "last_hidden_state"})
_MAX_DEPTH = 6


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
        draft.edits.change(root.node, as_float if _is_floating(root.finder, root.node) else _as_float_if_floating)


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
                root = _root(finder, call.func.value, outputs)
                if root is not None:
                    yield NumpyRoot(finder, root)
            else:
                yield from _in_called(finder, call, outputs, seen)
        outputs |= _handed_on(finder, statement, outputs)


def _in_called(
    finder: RegionFinder, call: cst.Call, outputs: set[str], seen: frozenset[cst.FunctionDef]
) -> Iterator[NumpyRoot]:
    """Those in a function that a call hands an output to."""
    if all(arg.star or _root(finder, arg.value, outputs) is None for arg in call.args):
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
            and _root(finder, found.argument.value, outputs) is not None
        ):
            given.add(name)
    inside = RegionFinder(function.file, finder.roles)
    yield from numpy_roots(inside, block_of(function.node), given, seen | {function.node})


def _handed_on(finder: RegionFinder, statement: Statement, outputs: set[str]) -> set[str]:
    """Names that a plain assignment gives an output to, cast by nothing on the way."""
    if blocks(statement) or not isinstance(statement, cst.Assign) or _root(finder, statement.value, outputs) is None:
        return set()
    return {target.value for target in targets(statement) if isinstance(target, cst.Name)}


def _root(finder: RegionFinder, node: cst.BaseExpression, outputs: set[str]) -> cst.BaseExpression | None:
    """The output at the start of a chain of methods and subscripts; None where the chain changes the dtype."""
    if isinstance(node, cst.Name):
        return node if node.value in outputs else None
    if isinstance(node, cst.Subscript):
        inner = _root(finder, node.value, outputs)
        # `out[0]` may take a tensor out of a tuple: it is that element which is cast.
        return node if inner is node.value else inner
    if isinstance(node, cst.Call):
        if any(_names_dtype(arg.value) for arg in node.args):
            return None
        name = finder.file.names.callee(node)
        if name.startswith("torch."):
            keeps = name.rpartition(".")[2] in _KEEPS_DTYPE and bool(node.args)
            return _root(finder, node.args[0].value, outputs) if keeps else None
        return _root(finder, node.func, outputs) if isinstance(node.func, cst.Attribute) else None
    if isinstance(node, cst.Attribute):
        inner = _root(finder, node.value, outputs)
        if node.attr.value in _KEEPS_DTYPE:
            return inner
        # `out.logits` is a tensor in a structure; any other method of a tensor makes a dtype of its own.
        return node if inner is node.value and node.attr.value in _STRUCTURE else None
    return None


def _is_floating(finder: RegionFinder, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a value is seen to be what a module or a loss computes, and not, say, actions that are drawn from it."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, cst.Call):
        if finder.roles.is_module(finder.file, node.func) or finder.roles.losses.is_call(finder.file, node):
            return True
        full = finder.file.names.callee(node)
        if full.startswith("torch."):
            name, values = full.rpartition(".")[2], [each.value for each in node.args[:1]]
        elif isinstance(node.func, cst.Attribute):
            name, values = node.func.attr.value, [node.func.value]
        else:
            return False
        if name not in _KEEPS_DTYPE or any(_names_dtype(each.value) for each in node.args):
            return False
        return any(_is_floating(finder, each, depth + 1) for each in values)
    if isinstance(node, cst.Name):
        order, statement = finder.tree.order, finder.tree.statement(node)
        bound = [each for each in finder.roles.bindings(finder.file, node) if order[each.node] < order[statement]]
        given = [each.value for each in bound if not isinstance(each.node, cst.AugAssign)]  # `x += y` keeps the dtype
        return bool(given) and all(each is not None and _is_floating(finder, each, depth + 1) for each in given)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus) and _is_floating(finder, node.expression, depth + 1)
    if isinstance(node, cst.BinaryOperation):
        return any(_is_floating(finder, each, depth + 1) for each in (node.left, node.right))
    if isinstance(node, cst.Attribute):
        return node.attr.value in _STRUCTURE or _is_floating(finder, node.value, depth + 1)
    return isinstance(node, cst.Subscript) and _is_floating(finder, node.value, depth + 1)


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


def _names_dtype(value: cst.BaseExpression) -> bool:
    return any(
        isinstance(each, cst.Attribute)
        and each.attr.value.startswith(("float", "double", "half", "bfloat", "int", "long"))
        for each in find(value, cst.Attribute)
    )
