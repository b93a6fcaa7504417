"""Numbers that keep a tensor from a singular point, and that half precision rounds onto it: `x.clamp(max=1 - 1e-7)`.

Such a number limits a tensor, whichever operator does that, is added to it, or is put in the place of some elements.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

from amp_migrate.flow.domain.atoms import NEVER, Const, Value, constant, tensor_of
from amp_migrate.flow.domain.tensor import BF16, F16, F32, FLOWS, LOW, OTHER, SCALAR, UNGUARDED, Tensor, is_same
from amp_migrate.flow.events import ROUNDED_GUARD, Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import ranges
from amp_migrate.flow.source import Site
from amp_migrate.frozen import frozen
from amp_migrate.tables import operators as table

# Of a number of each kind: the bits of its mantissa, and the exponent of the least number.
_GRIDS = {F16: (11, -24), BF16: (8, -133)}
_POINTS = (-1.0, 0.0, 1.0)
CLAMPS = frozenset("clamp clip clamp_min clamp_max".split())
_LIMITS = {**{name: table.FILLED[name] for name in CLAMPS}, "hardtanh": ((1, "min_val"), (2, "max_val"))}
_LARGER, _LESSER = frozenset("max maximum fmax".split()), frozenset("min minimum fmin".split())
# What gives elements of what it gets, and what gives zero for zero.
_CHOOSING = frozenset("where masked_fill cat concat concatenate stack index gather index_select masked_select".split())
_ROOTS = frozenset("sqrt abs absolute relu square".split())
_FILLS = frozenset("masked_fill index_fill scatter threshold pad".split())


@frozen
class _Guard:
    """A tensor that is kept from some points in vain: where, which it was, and the points."""

    node: ast.AST
    site: Site
    tensor: Tensor
    points: frozenset[float]


@dataclass
class Guards:
    """What is kept from points in vain, by where it is computed.

    Attributes:
        unshown: where nothing shows in a region that what is kept is low, by a number that float16 would round.
        numbers: the number that all elements are of what is computed in a place; None where it is not always one.
    """

    made: dict[Site, dict[_Guard, None]] = field(default_factory=lambda: defaultdict(dict))
    unshown: set[Site] = field(default_factory=set)
    numbers: dict[Site, float | None] = field(default_factory=dict)

    def of(self, tensor: Tensor) -> Iterator[_Guard]:
        """Those that a tensor's elements have gone through."""
        for site in sorted(tensor.born) if tensor.tags & UNGUARDED else ():
            yield from self.made.get(site, ())


def follow(frame: Frame, name: str, operands: Sequence[Value], node: ast.AST, args: Arguments) -> bool:
    """Note what is kept from a point in vain, and what is infinite there; whether the result may be such a point."""
    guards, site = frame.analysis.pytorch.guards, frame.site(node)
    tensors = [tensor_of(each) for each in operands]
    _note_number(frame, name, operands, site)
    for tensor, points, needs_gradient in _singular(name, operands, tensors):
        for guard in guards.of(tensor):
            if not points.isdisjoint(guard.points) and (tensor.flows & FLOWS or not needs_gradient):
                frame.analysis.event(
                    frame, Act.RISK, guard.node, site=guard.site, tensor=guard.tensor, why=ROUNDED_GUARD
                )
    found = [_Guard(node, site, tensor, points) for tensor, points in _rounded(frame, name, operands, args)]
    found += [
        _Guard(guard.node, guard.site, guard.tensor, moved)
        for at, tensor in enumerate(tensors)
        if tensor is not None and tensor.tags & UNGUARDED
        for guard in guards.of(tensor)
        if (moved := frozenset(_moved(name, operands, tensors, at, guard.points)))
    ]
    guards.made[site].update(dict.fromkeys(found)) if found else None
    in_region = bool(frame.now.context.cuda.outermost)
    if in_region and not found and any(_rounded(frame, name, operands, args, F32 | OTHER)):
        guards.unshown.add(site)
    return bool(found)


def _note_number(frame: Frame, name: str, operands: Sequence[Value], site: Site) -> None:
    """Note the number that a tensor is filled with so: `torch.ones_like(x) * 1e-8`, `torch.zeros_like(x) + 1e-8`."""
    pytorch = frame.analysis.pytorch
    made = {"mul": pytorch.ones, "multiply": pytorch.ones, "add": pytorch.zeros}.get(name, set())
    for value, other in permutations(operands, 2) if made and len(operands) == 2 else ():
        tensor, number = tensor_of(value), constant(other)
        if tensor is not None and tensor.born and tensor.born <= made and isinstance(number, (int, float)):
            known = pytorch.guards.numbers
            known[site] = number if known.get(site, number) == number else None


def stored(frame: Frame, tensor: Tensor, value: Value, node: ast.AST) -> Tensor:
    """A tensor that has got a number in the place of some elements: `x[x < 1e-8] = 1e-8`."""
    points = _rounded_of(tensor, product(_numbers(frame, value), _POINTS), LOW)
    if not points or not tensor.born:
        return tensor
    guards, guard = frame.analysis.pytorch.guards, _Guard(node, frame.site(node), tensor, points)
    for each in tensor.born:
        guards.made[each][guard] = None
    return tensor.but(tags=tensor.tags | UNGUARDED)


def _rounded(
    frame: Frame,
    name: str,
    operands: Sequence[Value],
    args: Arguments,
    precision: int = LOW,
) -> Iterator[tuple[Tensor, frozenset[float]]]:
    """A tensor that numbers are to keep from points which they are rounded to where it is low, with the points.

    Args:
        precision: which it may have; of others than low ones what float16 would round counts.
    """
    for kept, points in _kept(frame, name, operands, args):
        tensor = tensor_of(kept)
        if tensor is not None and (rounded := _rounded_of(tensor, points, precision)):
            yield tensor, rounded


def _rounded_of(tensor: Tensor, points: Iterable[tuple[float, float]], precision: int) -> frozenset[float]:
    """Of points, each with a number for what is to be kept from it, those that the number is rounded to."""
    if not tensor.precision & precision or tensor.precision & OTHER & ~precision:
        return frozenset()
    grid = tensor.precision if precision == LOW else F16
    return frozenset(point for number, point in points if _is_rounded_to(number, point, grid))


def _kept(
    frame: Frame, name: str, operands: Sequence[Value], args: Arguments
) -> Iterator[tuple[Value, Iterable[tuple[float, float]]]]:
    """What an operator keeps from points: each with the numbers that do so, and the points."""
    pairs = permutations(operands, 2)
    if name in _LIMITS:
        for position, word in _LIMITS[name]:
            limits = _numbers(frame, args.get(position, word))
            yield operands[0], _inside(limits, 1 if word.startswith("min") else -1)
    elif name in _LARGER | _LESSER:
        for kept, limit in pairs:
            yield kept, _inside(_numbers(frame, limit), 1 if name in _LARGER else -1)
    elif name == "add":
        for kept, number in pairs:
            yield kept, [(each, 0.0) for each in _numbers(frame, number) if each]
    elif name == "where":
        for kept, number in pairs:
            yield kept, product(_numbers(frame, number), _POINTS)
    elif name in _FILLS:
        for place in table.FILLED[name]:
            yield operands[0], product(_numbers(frame, args.get(*place)), _POINTS)


def _inside(limits: Iterable[float], side: int) -> list[tuple[float, float]]:
    """Limits with the points that they are beyond: 1 for least values, -1 for greatest."""
    return [(limit, point) for limit, point in product(limits, _POINTS) if (limit - point) * side > 0]


def _numbers(frame: Frame, value: Value | None) -> list[float]:
    """The numbers that a value may be, or a tensor's: one by itself gets the precision of what it meets.

    A tensor of many that is not low makes all that it meets more precise.
    """
    tensor = tensor_of(value or NEVER)
    if tensor is not None and (tensor.rank == SCALAR or tensor.may_be_low):
        filled = [frame.analysis.pytorch.guards.numbers.get(each) for each in tensor.born]
        if filled and None not in filled:
            return sorted(each for each in filled if each is not None)
        return ranges.numbers_of(frame, value or NEVER)
    return [float(each.value) for each in value or () if isinstance(each, Const) and each.kind in ("int", "float")]


def _is_rounded_to(number: float, point: float, precision: int) -> bool:
    """Whether a low precision that something may have takes a number for a point near it."""
    if number == point or not math.isfinite(number) or abs(number - point) > 0.5:
        return False
    for kind, (bits, least) in _GRIDS.items():
        step = 2.0 ** max(math.frexp(number)[1] - bits, least)
        if precision & kind and round(number / step) * step == point:
            return True
    return False


def _moved(
    name: str, operands: Sequence[Value], tensors: Sequence[Tensor | None], at: int, points: frozenset[float]
) -> Iterator[float]:
    """Where an operator moves points of the operand at a place to."""
    numbers = [constant(each) for each in operands[:2]]
    for point in points:
        if name in ("neg", "negative"):
            yield -point
        elif name in _CHOOSING or (point == 0 and at == 0 and _stays_zero(name, numbers)):
            yield point
        elif name == "square" or (name == "pow" and numbers[-1] == 2):
            yield point * point
        elif name in ("mul", "multiply"):
            if point == 0 or (len(tensors) == 2 and tensors[0] and tensors[1] and is_same(tensors[0], tensors[1])):
                yield point * point
        elif name in ("sub", "subtract", "rsub", "add") and len(operands) == 2:
            number = numbers[1 - at]
            if isinstance(number, (int, float)) and abs(number) == 1:
                left, right = (point, number) if at == 0 else (number, point)
                left, right = (right, left) if name == "rsub" else (left, right)
                yield left + right if name == "add" else left - right


def _stays_zero(name: str, numbers: Sequence[object]) -> bool:
    """Whether an operator makes zero of a first operand that is zero."""
    exponent = numbers[-1] if name == "pow" else None
    return name in _ROOTS or name in table.QUOTIENTS or (isinstance(exponent, (int, float)) and exponent > 0)


def _singular(
    name: str, operands: Sequence[Value], tensors: Sequence[Tensor | None]
) -> Iterator[tuple[Tensor, frozenset[float], bool]]:
    """The operand that an operator is infinite for at some points, with them, and whether only its derivative is."""
    is_quotient = name in table.QUOTIENTS
    tensor = tensors[1] if is_quotient and len(tensors) > 1 else tensors[0]
    points, needs_gradient = table.SINGULAR.get(name, ((), False))
    if name == "pow":
        exponent = constant(operands[1]) if len(operands) > 1 else None
        if isinstance(exponent, (int, float)) and exponent < 1:
            points, needs_gradient = (0.0,), exponent > 0
    if tensor is not None and points:
        yield tensor, frozenset(points), needs_gradient
