"""Outputs of a region that are put into a buffer at tensors of indices, which takes its own dtype only.

`scores[topk] = out` copies into a float32 buffer where `topk` is a number or a slice, and raises where it is a tensor:
it becomes `scores[topk] = out.to(scores.dtype)`, as do the sources of `scatter_` and its like.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import Binding, dotted
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Cast, Edit
from amp_migrate.steps.outputs.held_outputs import HeldOutputs
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Statement, find
from amp_migrate.trees.own_calls import calls_of
from amp_migrate.write.editor import Editor

# Methods that put their last argument into the tensor they are called on.
_STORES = frozenset("index_add_ index_copy_ index_put_ masked_scatter_ scatter_ scatter_add_".split())
# Methods that give a tensor like the one they are called on.
_LIKE = frozenset(
    "clone contiguous cpu cuda detach double expand float new_empty new_full new_ones new_zeros repeat to".split()
)
# What counts.
_COUNTS = frozenset({"enumerate", "int", "len", "range"})


def cast_for_storage(editor: Editor, outputs: HeldOutputs) -> Iterator[Edit]:
    """The edits that cast what goes from the regions of a file to places in a buffer."""
    editor = editor.of(outputs.finder.file)
    for _, body in bodies(outputs.finder.file):
        assigned = any(isinstance(t.target, cst.Subscript) for each in find(body, cst.Assign) for t in each.targets)
        if not assigned and not any(map(_stores, find(body, cst.Call))):
            continue
        for statement, held in outputs.course(body):
            for buffer, value in _stored(outputs.finder, statement):
                root = outputs.root(value, statement, held.keys())
                if root is not None and _is_tensor(outputs.finder, buffer):
                    yield editor.edit(value, Cast(code("{}.to({}.dtype)", value, editor.text(buffer))))


def _stores(call: cst.Call) -> bool:
    is_store = isinstance(call.func, cst.Attribute) and call.func.attr.value in _STORES
    return is_store and bool(call.args) and not any(arg.keyword or arg.star for arg in call.args)


def _stored(finder: RegionFinder, statement: Statement) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What a statement puts values into, other than at numbers and slices, each with the value."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Subscript) and any(_may_be_tensor(finder, each) for each in target.slice):
            yield target.value, statement.value
    for call in filter(_stores, calls_of(statement)):
        yield cst.ensure_type(call.func, cst.Attribute).value, call.args[-1].value


def _may_be_tensor(finder: RegionFinder, element: cst.SubscriptElement) -> bool:
    """Whether an index may be a tensor: it is no slice, and is not seen to be a number."""
    index = element.slice.value if isinstance(element.slice, cst.Index) else None
    if isinstance(index, cst.Name):
        bindings = finder.roles.bindings(finder.file, index)
        return bool(bindings) and not any(_is_number(each, index.value) for each in bindings)
    return isinstance(index, (cst.Attribute, cst.Call, cst.Comparison, cst.Subscript))


def _is_number(binding: Binding, name: str) -> bool:
    """Whether a name is given a number: an integer, an arithmetic result, or the count of a loop."""
    if isinstance(binding.node, cst.For):
        counts = _counter(binding.node.iter)
        counted: cst.BaseExpression = binding.node.target
        if counts == "enumerate" and isinstance(counted, (cst.Tuple, cst.List)):
            counted = counted.elements[0].value
        return counts is not None and dotted(counted) == name
    value = binding.value
    return isinstance(value, (cst.Integer, cst.BinaryOperation)) or _counter(value) is not None


def _counter(node: cst.CSTNode | None) -> str | None:
    """The function of Python's that counts, where a call is one of it."""
    name = dotted(node.func) if isinstance(node, cst.Call) else None
    return name if name in _COUNTS else None


def _is_tensor(finder: RegionFinder, buffer: cst.BaseExpression) -> bool:
    """Whether a buffer is seen to be a tensor, and not a list or a dictionary."""
    values = [each.value for each in finder.roles.bindings(finder.file, buffer)]
    return (
        dotted(buffer) is not None
        and bool(values)
        and all(value is not None and _makes_tensor(finder, value) for value in values)
    )


def _makes_tensor(finder: RegionFinder, value: cst.BaseExpression) -> bool:
    if not isinstance(value, cst.Call):
        return False
    if finder.file.names.callee(value).startswith("torch."):
        return True
    if not isinstance(value.func, cst.Attribute) or value.func.attr.value not in _LIKE:
        return False
    return value.func.attr.value.startswith("new_") or _makes_tensor(finder, value.func.value)
