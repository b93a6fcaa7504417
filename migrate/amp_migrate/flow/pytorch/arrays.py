"""Arrays of NumPy that are made of tensors in half precision: what is half as well, and who may not take it.

OpenCV has no float16, nor have `scipy.ndimage`, `numpy.linalg` and Pillow's `fromarray`; a sum of halves overflows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeGuard

from amp_migrate.flow.domain.atoms import (
    UNKNOWN,
    Const,
    Dtype,
    External,
    Native,
    Obj,
    Opaque,
    Some,
    Tup,
    Value,
    join_all,
    one,
    reads_of,
    units_of,
)
from amp_migrate.flow.domain.tensor import PURE, Tensor
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import ranges
from amp_migrate.flow.source import Site

_DEEPEST = 3
_COARSE: dict[type[ast.operator], str] = {
    ast.Add: "numpy.add",
    ast.Sub: "numpy.subtract",
    ast.Mult: "numpy.multiply",
    ast.Pow: "numpy.power",
}
_NOWHERE: frozenset[Site] = frozenset()
# What gives an array in the precision of its operands.
_SAME = frozenset(
    "transpose squeeze expand_dims reshape ravel flatten copy swapaxes moveaxis clip repeat take tile roll pad flip "
    "fliplr flipud rot90 round rint floor ceil abs absolute negative sqrt log nan_to_num maximum minimum concatenate "
    "stack vstack hstack dstack split array asarray ascontiguousarray atleast_1d atleast_2d atleast_3d".split()
)
# What gives all elements of what it is given, and no other.
_KEEPING = frozenset(
    "transpose squeeze expand_dims reshape ravel flatten copy swapaxes moveaxis flip concatenate stack vstack hstack "
    "dstack array asarray ascontiguousarray atleast_1d atleast_2d atleast_3d astype".split()
)
# What gives one number of all elements, or an array where an axis is named.
_REDUCED = frozenset("max min amax amin mean median".split())
# What overflows in half precision where it does not in single, refuses it, or keeps it for later.
_ELSE = frozenset(
    "sum nansum cumsum prod cumprod dot matmul inner einsum tensordot exp power square save savez savez_compressed "
    "tofile dump tobytes".split()
)


def of_tensor(tensor: Tensor, site: Site) -> Value:
    """The array that is made of a tensor."""
    return one(Some("ndarray", tensor.units, tensor.reads, frozenset({site}) if tensor.may_be_low else _NOWHERE))


def part(array: Some) -> Value:
    """What is taken from an array by an index, or in a loop: anything from one that may have been read from a file."""
    return one(array) if array.halves else UNKNOWN


def given(frame: Frame, values: Iterable[Value], node: ast.AST, name: str) -> None:
    """Note that something which may not take it gets an array in half precision."""
    halves = _NOWHERE.union(*(each.halves for value in values for each in _inside(frame, value) if _is_array(each)))
    if halves:
        frame.analysis.event(frame, Act.HALF_ARRAY, node, sources=halves, why=name)


def function(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """What a function of NumPy gives."""
    last = name.removeprefix("numpy.")
    if last in _ELSE or "." in last:
        given(frame, args.all(), node, name)
    is_same = last in _SAME or (last in _REDUCED and ("axis" in args.keywords or len(args.positional) > 1))
    is_shown = isinstance(args.node(0, "object"), (ast.List, ast.Tuple))
    is_huge = last in _KEEPING and has_huge(frame, args.positional[:1], with_numbers=is_shown)
    return one(Some("ndarray", PURE, _NOWHERE, _together(frame, args, node) if is_same else _NOWHERE, is_huge))


def has_huge(frame: Frame, values: Iterable[Value], *, with_numbers: bool = False) -> bool:
    """Whether one of some values is or holds an array with a number that float16 does not have.

    Args:
        with_numbers: whether numbers by themselves count, as where a list of them stands in the call. Of one that was
            filled elsewhere, they may be others than those here: a memory keeps states beside rewards.
    """
    held = (each for value in values for each in _inside(frame, value))
    return any(
        each.is_huge if _is_array(each) else with_numbers and isinstance(each, Const) and ranges.is_too_large(one(each))
        for each in held
    )


def method(frame: Frame, call: Native, args: Arguments, node: ast.AST) -> Value:
    """What a method of an array gives."""
    array, name = call.owner, call.name
    assert isinstance(array, Some)
    if name in _ELSE:
        given(frame, [one(array)], node, f"ndarray.{name}")
    is_same = name in _SAME or (name in _REDUCED and ("axis" in args.keywords or bool(args.positional)))
    halves = _together(frame, args.behind(one(array)), node) if is_same else _NOWHERE
    made = Some("ndarray", PURE, _NOWHERE, halves, name in _KEEPING and array.is_huge)
    return one(made) if made.is_huge else part(made)


def combined(frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
    """What an operator makes of an array and something else.

    With a number, NumPy computes in half precision: what is of the order of one stays near that, and is as good.
    """
    both = left | right
    halves = _together(frame, Arguments([left, right]), node)
    name = _COARSE.get(type(node.op), "") if isinstance(node, (ast.BinOp, ast.AugAssign)) else ""
    numbers = [each for value in (left, right) for each in value if isinstance(each, Const)]
    if halves and name and any(isinstance(each.value, (int, float)) and abs(each.value) > 1 for each in numbers):
        frame.analysis.event(frame, Act.HALF_ARRAY, node, sources=halves, why=name)
    return one(Some("ndarray", units_of(both), reads_of(both), halves))


def _together(frame: Frame, args: Arguments, node: ast.AST) -> frozenset[Site]:
    """Where what an operation makes of its operands was low: nowhere, if one of them may be more precise, or a type."""
    found = _NOWHERE
    if "dtype" in args.keywords:
        return found
    for value in args.all():
        for each in _inside(frame, value):
            if isinstance(each, Tensor):
                if not each.may_be_low:
                    return _NOWHERE
                found |= {frame.site(node)}
            elif _is_array(each):
                if not each.halves:
                    return _NOWHERE
                found |= each.halves
            elif isinstance(each, (Opaque, External, Dtype)) or (
                isinstance(each, (Const, Some)) and each.kind in _TYPES
            ):
                return _NOWHERE
    return found


_TYPES = ("str", "dtype")


def _is_array(atom: object) -> TypeGuard[Some]:
    return isinstance(atom, Some) and atom.kind == "ndarray"


def _inside(frame: Frame, value: Value, depth: int = 0) -> Iterable[object]:
    """What a value is, and what is in its tuples and lists."""
    for each in value:
        if isinstance(each, Tup) and depth < _DEEPEST:
            yield from _inside(frame, join_all((*each.items, each.rest or frozenset())), depth + 1)
        elif isinstance(each, Obj) and each.made_of is containers.LIST and depth < _DEEPEST:
            yield from _inside(frame, containers.contents(frame, each), depth + 1)
        else:
            yield each
