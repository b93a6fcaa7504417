"""Numbers that float16 does not have: `x + mask * -1e9` is minus infinity where x is float16, and a row of it NaN."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.flow.domain.atoms import Const, Value, tensor_of
from amp_migrate.flow.domain.tensor import BF16, F16, HUGE
from amp_migrate.flow.events import TOO_LARGE, Act
from amp_migrate.flow.python.frame import Frame

LARGEST = 65504  # of float16's numbers
_PRODUCTS = frozenset("mul multiply".split())
_COMPUTING = _PRODUCTS | frozenset("add sub subtract rsub".split())
# What has such numbers, as they are or with another sign, among its elements.
_FILLING = frozenset("masked_fill full_like new_full fill where neg negative cat concat concatenate stack".split())


def is_too_large(value: Value | None) -> bool:
    """Whether a value is a number, whichever, that float16 does not have. It has infinities."""
    numbers = [each.value if isinstance(each, Const) and each.kind in ("int", "float") else 0 for each in value or ()]
    return bool(numbers) and all(LARGEST < abs(each) < float("inf") for each in numbers)


def is_float16(precision: int, *, is_switched: bool) -> bool:
    """Whether something is float16 for certain, wherever a run switches the region on that made it so."""
    return precision == F16 or (is_switched and bool(precision & F16) and not precision & BF16)


def follow(
    frame: Frame, name: str, operands: Sequence[Value], precision: int, node: ast.AST, *, is_switched: bool
) -> bool:
    """Note where something becomes infinite in float16 for such a number; whether the result has such elements.

    A number by itself goes into what it meets, and so does a tensor into one that is changed in place.

    Args:
        precision: what comes out.
        is_switched: whether that is float32 only where a run switches the region off.
    """
    computes = name in _COMPUTING
    if not computes and name not in _FILLING:
        return False
    tensors = [each for each in map(tensor_of, operands) if each is not None]
    is_number = any(map(is_too_large, operands))
    huge = [each for each in tensors if each.tags & HUGE]
    if name in _PRODUCTS and len(tensors) == 1:
        huge = []  # times a number, which may make it small
    if (
        computes
        and is_float16(precision, is_switched=is_switched)
        and (is_number or any(each.precision & ~F16 for each in huge))
    ):
        frame.analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=TOO_LARGE, is_sure=True)
    return (is_number or bool(huge)) and precision != F16
