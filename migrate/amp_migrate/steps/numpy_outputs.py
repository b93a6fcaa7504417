"""Outputs of a region that go to NumPy, which has no bfloat16: `out.numpy()` becomes `out.float().numpy()`.

An output that a function returns is followed to where the function is called in the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.roles import Roles
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
# Where a function returns one value and no tuple.
_WHOLE = -1


def float_for_numpy(draft: Draft, roles: Roles, regions: Sequence[Region]) -> None:
    """Cast what goes from the regions of a file to NumPy."""
    finder = RegionFinder(draft.file, roles)
    for root in NumpyOutputs(finder, regions).roots() if regions else ():
        write_float(draft, root)


@dataclass(frozen=True)
class NumpyRoot:
    """An output that goes to NumPy.

    Attributes:
        node: the expression at the root of the chain that ends in `.numpy()`.
        is_floating: whether it is seen to be what a module or a loss computes, and not, say, drawn actions.
    """

    node: cst.BaseExpression
    is_floating: bool


def write_float(draft: Draft, root: NumpyRoot) -> None:
    """Cast an output to float32: where it may be a tensor of integers, only if it is none."""
    draft.edits.change(root.node, as_float if root.is_floating else _as_float_if_floating)


class NumpyOutputs:
    """What goes from the regions of one file to NumPy, in their functions and in those that these return it to."""

    def __init__(self, finder: RegionFinder, regions: Sequence[Region]) -> None:
        self._finder = finder
        self._tree = finder.tree
        self._regions = regions
        self._returned: dict[cst.FunctionDef, dict[int, bool]] = {}

    def roots(self) -> Iterator[NumpyRoot]:
        """The outputs at the roots of chains that end in `.numpy()`, in source order."""
        for _, body in bodies(self._finder.file):
            if any(_is_numpy(call) for call in find(body, cst.Call)):
                yield from self._in(body)

    def _in(self, body: Block) -> Iterator[NumpyRoot]:
        for statement, held in self._course(body):
            for call in calls_of(statement):
                if _is_numpy(call):
                    assert isinstance(call.func, cst.Attribute)
                    root = _root(self._finder, call.func.value, held.keys())
                    if root is not None:
                        yield NumpyRoot(root, self._is_floating(root, held))

    def _course(self, body: Block) -> Iterator[tuple[Statement, dict[str, bool]]]:
        """The statements of a function with the names that hold outputs there, and whether these are floating."""
        inside = [region for region in self._regions if self._tree.body(region.first) is body]
        held = dict.fromkeys(self._finder.outputs(inside), False)
        for statement in nested_statements(body):
            if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                yield statement, held
                held.update(self._handed_on(statement, held))

    def _handed_on(self, statement: Statement, held: dict[str, bool]) -> dict[str, bool]:
        """The names that a plain assignment gives an output to, cast by nothing on the way."""
        if blocks(statement) or not isinstance(statement, cst.Assign):
            return {}
        returned = self._returned_by(statement.value) if isinstance(statement.value, cst.Call) else {}
        if returned:
            given = [pair for each in statement.targets for pair in _elements(each.target)]
            return {name.value: returned[at] for at, name in given if isinstance(name, cst.Name) and at in returned}
        root = _root(self._finder, statement.value, held.keys())
        if root is None:
            return {}
        is_floating = self._is_floating(root, held)
        return {target.value: is_floating for target in targets(statement) if isinstance(target, cst.Name)}

    def _returned_by(self, call: cst.Call) -> dict[int, bool]:
        """Which values that a function of the file returns are outputs, by place; a single one is at `_WHOLE`."""
        function = self._finder.roles.project.called(self._finder.file, call)
        if function is None or function.file is not self._finder.file:
            return {}
        node = function.node
        if node not in self._returned:
            self._returned[node] = {}  # a recursive function is decided by its other returns
            found: dict[int, bool] = {}
            for statement, held in self._course(block_of(node)):
                if isinstance(statement, cst.Return) and statement.value is not None:
                    for at, value in _elements(statement.value):
                        root = _root(self._finder, value, held.keys())
                        if root is not None:
                            found[at] = self._is_floating(root, held) and found.get(at, True)
                        elif self._is_run_inside(value, statement):
                            found[at] = found.get(at, True)
            self._returned[node] = found
        return self._returned[node]

    def _is_run_inside(self, value: cst.BaseExpression, statement: Statement) -> bool:
        """Whether a returned value is the call of a module, in a region."""
        is_module = isinstance(value, cst.Call) and self._finder.roles.calls_module(self._finder.file, value)
        return is_module and any(statement in self._finder.members(region) for region in self._regions)

    def _is_floating(self, root: cst.BaseExpression, held: dict[str, bool]) -> bool:
        name = root.value if isinstance(root, cst.Name) else None
        return (name is not None and held.get(name, False)) or _is_floating(self._finder, root)


def _is_numpy(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy"


def _elements(node: cst.BaseExpression) -> list[tuple[int, cst.BaseExpression]]:
    """The values of a tuple with their places; any other expression is a whole."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return [(index, each.value) for index, each in enumerate(node.elements)]
    return [(_WHOLE, node)]


def _root(finder: RegionFinder, node: cst.BaseExpression, outputs: Collection[str]) -> cst.BaseExpression | None:
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
