"""Numbers that keep a tensor from a singular point, and that half precision rounds onto it: `x.clamp(max=1 - 1e-7)`."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from amp_migrate.flow.domain.atoms import Const, Value, constant, tensor_of
from amp_migrate.flow.domain.tensor import BF16, F16, F32, FLOWS, LOW, OTHER, UNGUARDED, Tensor, is_same
from amp_migrate.flow.events import ROUNDED_GUARD, Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import Site
from amp_migrate.tables import operators as table

# Of a number of each kind: the bits of its mantissa, and the exponent of the least number.
_GRIDS = {F16: (11, -24), BF16: (8, -133)}
CLAMPS = frozenset("clamp clip clamp_min clamp_max".split())


@dataclass(frozen=True)
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
    """

    made: dict[Site, dict[_Guard, None]] = field(default_factory=lambda: defaultdict(dict))
    unshown: set[Site] = field(default_factory=set)

    def of(self, tensor: Tensor) -> Iterator[_Guard]:
        """Those that a tensor's elements have gone through."""
        for site in sorted(tensor.born) if tensor.tags & UNGUARDED else ():
            yield from self.made.get(site, ())


def follow(frame: Frame, name: str, operands: Sequence[Value], node: ast.AST, args: Arguments) -> bool:
    """Note what is kept from a point in vain, and what is infinite there; whether the result may be such a point."""
    guards, site = frame.analysis.pytorch.guards, frame.site(node)
    tensors = [tensor_of(each) for each in operands]
    for tensor, points, needs_gradient in _singular(name, operands, tensors):
        for guard in guards.of(tensor):
            if not points.isdisjoint(guard.points) and (tensor.flows & FLOWS or not needs_gradient):
                frame.analysis.event(
                    frame, Act.RISK, guard.node, site=guard.site, tensor=guard.tensor, why=ROUNDED_GUARD
                )
    found = [_Guard(node, site, tensor, points) for tensor, points in _rounded(name, operands, tensors, args)]
    found += [
        _Guard(guard.node, guard.site, guard.tensor, moved)
        for tensor in tensors[:2]
        if tensor is not None and tensor.tags & UNGUARDED
        for guard in guards.of(tensor)
        if (moved := frozenset(_moved(name, operands, tensors, guard.points)))
    ]
    guards.made[site].update(dict.fromkeys(found)) if found else None
    in_region = bool(frame.now.context.cuda.outermost)
    if in_region and not found and any(_rounded(name, operands, tensors, args, F32 | OTHER)):
        guards.unshown.add(site)
    return bool(found)


def _rounded(
    name: str,
    operands: Sequence[Value],
    tensors: Sequence[Tensor | None],
    args: Arguments,
    precision: int = LOW,
) -> Iterator[tuple[Tensor, frozenset[float]]]:
    """A tensor that numbers are to keep from points which they are rounded to where it is low, with the points.

    Args:
        precision: which it may have; of others than low ones what float16 would round counts.
    """
    other = OTHER & ~precision
    low = [each for each in tensors if each is not None and each.precision & precision and not each.precision & other]
    if not low:
        return
    grid = low[0].precision if precision == LOW else F16
    points: set[float] = set()
    if name in CLAMPS:
        for position, word in table.FILLED[name]:
            for bound in _numbers(args.get(position, word)):
                inside = bound if word == "min" else -bound
                near = [point for point in (-1.0, 0.0, 1.0) if inside > (point if word == "min" else -point)]
                points |= {point for point in near if _is_rounded_to(bound, point, grid)}
    elif name == "add" and sum(each is not None for each in tensors) == 1:
        added = [number for each in operands for number in _numbers(each)]
        points |= {0.0 for number in added if number and _is_rounded_to(number, 0.0, grid)}
    if points:
        yield low[0], frozenset(points)


def _numbers(value: Value | None) -> list[float]:
    return [float(each.value) for each in value or () if isinstance(each, Const) and each.kind in ("int", "float")]


def _is_rounded_to(number: float, point: float, precision: int) -> bool:
    """Whether a low precision that something may have takes a number for a point near it."""
    if not math.isfinite(number) or abs(number - point) > 0.5:
        return False
    for kind, (bits, least) in _GRIDS.items():
        step = 2.0 ** max(math.frexp(number)[1] - bits, least)
        if precision & kind and round(number / step) * step == point:
            return True
    return False


def _moved(
    name: str, operands: Sequence[Value], tensors: Sequence[Tensor | None], points: frozenset[float]
) -> Iterator[float]:
    """Where an operator moves points to."""
    numbers = [constant(each) for each in operands[:2]]
    for point in points:
        if name in ("neg", "negative"):
            yield -point
        elif name == "square" or (name == "pow" and numbers[-1] == 2):
            yield point * point
        elif name in ("mul", "multiply") and len(tensors) == 2 and tensors[0] and tensors[1]:
            if is_same(tensors[0], tensors[1]):
                yield point * point
        elif name in ("sub", "subtract", "rsub", "add") and len(operands) == 2:
            at = 0 if isinstance(numbers[0], (int, float)) else 1
            if isinstance(numbers[at], (int, float)) and abs(numbers[at]) == 1:
                left, right = (numbers[0], point) if at == 0 else (point, numbers[1])
                left, right = (right, left) if name == "rsub" else (left, right)
                yield left + right if name == "add" else left - right


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
