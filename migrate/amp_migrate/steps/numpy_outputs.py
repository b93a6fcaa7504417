"""Outputs of a region that go to NumPy, which has no bfloat16: `out.numpy()` becomes `out.float().numpy()`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.flow import targets
from amp_migrate.steps.model import Island, Region
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.regions import RegionFinder
from amp_migrate.steps.write_native import write_island
from amp_migrate.trees.calls import calls_of
from amp_migrate.trees.tree import Block, Statement, blocks, find, nested_statements

# Methods that keep a tensor's dtype, so that a chain of them ends in the dtype of its root.
_KEEPS_DTYPE = frozenset(
    (
        "abs chunk clamp clip clone contiguous cpu cuda data detach exp expand expand_as flatten flip gather log "
        "log_softmax masked_fill mean permute relu repeat reshape round sigmoid softmax split sqrt squeeze sum t tanh "
        "to transpose tril triu unflatten unsqueeze view view_as"
    ).split()
)


def float_for_numpy(draft: Draft, roles: Roles, regions: Sequence[Region]) -> None:
    """Cast what goes from the regions of a file to NumPy, in the function of each."""
    finder = RegionFinder(draft.file, roles)
    for _, body in bodies(draft.file) if regions else ():
        inside = [region for region in regions if draft.file.tree.body(region.first) is body]
        for root in float_roots(finder, body, inside):
            write_island(draft, Island((root,)))


def float_roots(finder: RegionFinder, body: Block, regions: list[Region]) -> Iterator[cst.BaseExpression]:
    """The expressions in a body that hold a region's output at the root of a chain that ends in `.numpy()`."""
    outputs = set(finder.outputs(regions))
    for statement in nested_statements(body):
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        for call in calls_of(statement):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy":
                root = _root(call.func.value, outputs)
                if root is not None:
                    yield root
        outputs |= _handed_on(statement, outputs)


def _handed_on(statement: Statement, outputs: set[str]) -> set[str]:
    """Names that a plain assignment gives an output to, cast by nothing on the way."""
    if blocks(statement) or not isinstance(statement, cst.Assign) or _root(statement.value, outputs) is None:
        return set()
    return {target.value for target in targets(statement) if isinstance(target, cst.Name)}


def _root(node: cst.BaseExpression, outputs: set[str]) -> cst.BaseExpression | None:
    """The output at the start of a chain of methods and subscripts; None where the chain changes the dtype."""
    if isinstance(node, cst.Name):
        return node if node.value in outputs else None
    if isinstance(node, cst.Subscript):
        inner = _root(node.value, outputs)
        # `out[0]` may take a tensor out of a tuple: it is that element which is cast.
        return node if inner is node.value else inner
    if isinstance(node, cst.Call):
        if any(_names_dtype(arg.value) for arg in node.args):
            return None
        return _root(node.func, outputs) if isinstance(node.func, cst.Attribute) else None
    if isinstance(node, cst.Attribute):
        inner = _root(node.value, outputs)
        if node.attr.value in _KEEPS_DTYPE:
            return inner
        # `out.logits` is a tensor in a structure; any other method of a tensor makes a dtype of its own.
        return node if inner is node.value and node.attr.value in ("logits", "loss", "last_hidden_state") else None
    return None


def _names_dtype(value: cst.BaseExpression) -> bool:
    return any(
        isinstance(each, cst.Attribute)
        and each.attr.value.startswith(("float", "double", "half", "bfloat", "int", "long"))
        for each in find(value, cst.Attribute)
    )
