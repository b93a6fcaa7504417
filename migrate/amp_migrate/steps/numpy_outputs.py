"""Outputs of a region that go to NumPy, which has no bfloat16: `out.numpy()` becomes `out.float().numpy()`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.steps.draft import Draft
from amp_migrate.steps.held_outputs import HeldOutputs, root_of
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.write_native import as_float
from amp_migrate.trees import build
from amp_migrate.trees.calls import calls_of
from amp_migrate.trees.nodes import find


@dataclass(frozen=True)
class NumpyRoot:
    """An output that goes to NumPy.

    Attributes:
        node: the expression at the root of the chain that ends in `.numpy()`.
        is_floating: whether it is seen to be what a module or a loss computes, and not, say, drawn actions.
    """

    node: cst.BaseExpression
    is_floating: bool


def float_for_numpy(draft: Draft, outputs: HeldOutputs) -> None:
    """Cast what goes from the regions of a file to NumPy."""
    for root in numpy_roots(outputs):
        write_float(draft, root)


def write_float(draft: Draft, root: NumpyRoot) -> None:
    """Cast an output to float32: where it may be a tensor of integers, only if it is none."""
    draft.edits.change(root.node, as_float if root.is_floating else _as_float_if_floating)


def numpy_roots(outputs: HeldOutputs) -> Iterator[NumpyRoot]:
    """The outputs at the roots of chains that end in `.numpy()`, in source order."""
    for _, body in bodies(outputs.finder.file):
        if not any(_is_numpy(call) for call in find(body, cst.Call)):
            continue
        for statement, held in outputs.course(body):
            for call in filter(_is_numpy, calls_of(statement)):
                root = root_of(outputs.finder, cst.ensure_type(call.func, cst.Attribute).value, held.keys())
                if root is not None:
                    yield NumpyRoot(root, outputs.is_floating(root, held))


def _is_numpy(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy"


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
