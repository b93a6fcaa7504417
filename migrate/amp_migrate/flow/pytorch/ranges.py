"""Where the numbers of half precision end, or lie too far apart: beside large numbers, and in sums of many rounds.

`x + mask * -1e9` is minus infinity where x is float16, and a row of it NaN; `x * 3.2e4 + 2.9e4` has steps of 16 and is
infinite for an x above 1.2; and what is added 1000 times to what is 500 by then is rounded to a quarter.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.flow.domain.atoms import NEVER, Const, Obj, Tup, Value, tensor_of
from amp_migrate.flow.domain.contexts import OFF
from amp_migrate.flow.domain.tensor import (
    BF16,
    BOUNDED,
    CONTEST,
    EXTENT,
    F16,
    F32,
    FLOATING,
    HUGE,
    LOW,
    OPPOSITE,
    OTHER,
    SCORE,
    SIGNED,
    SWITCHED,
    Tensor,
)
from amp_migrate.flow.events import A_LARGE_NUMBER, A_LONG_SUM, OF_TOO_LARGE, TOO_LARGE, Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.containers import LIST
from amp_migrate.flow.python.frame import Frame
from amp_migrate.tables.operators import LINEAR, MIXING, PRODUCTS, QUOTIENTS, VIEWS, WEIGHTED

LARGEST = 65504  # of float16's numbers
_FACTORS_OF_ATTENTION = 3  # query, key and value; behind them a mask, which a softmax takes
_WHOLE = 2048  # from here on float16 has whole numbers only, and bfloat16 not even all of those
_SIDE = 256  # float16 ends at its square
_MANY = 32  # as a limit of whole numbers: a product of such has 1024, and 64 of these are float16's range
_UPPER = {"clamp": (2, "max"), "clip": (2, "max"), "clamp_max": (1, "max")}  # where the limit from above is given
_SUMS = frozenset("add sub subtract rsub".split())
_PRODUCTS = frozenset("mul multiply".split())
_COMPUTING = _PRODUCTS | _SUMS
LIMITING = frozenset("clamp clip clamp_min clamp_max relu abs".split())
# What has such numbers, as they are or with another sign, among its elements.
JOINING = frozenset("where cat concat concatenate stack".split())
_FILLING = JOINING | frozenset("masked_fill full_like new_full fill neg negative".split())


def is_too_large(value: Value | None) -> bool:
    """Whether a value is a number, whichever, that float16 does not have. It has infinities."""
    numbers = _numbers(value or NEVER)
    return bool(numbers) and all(map(_is_beyond_float16, numbers))


def _is_beyond_float16(number: float) -> bool:
    return LARGEST < abs(number) < float("inf")


def score(name: str, operands: Sequence[Value]) -> int:
    """Whether something is a score, or a difference of scores: it is computed of such alone, and in proportion."""
    tensors = [each for each in map(tensor_of, operands) if each is not None]
    first = tensors[0].tags & (SCORE | OPPOSITE | CONTEST)
    if name in PRODUCTS and name in WEIGHTED:
        return SCORE if len(tensors) > 1 and tensors[1].leaf else 0
    if name in VIEWS or name in ("sum", "mean"):
        return first
    if len(tensors) == 1:
        numbers = [each for value in operands if tensor_of(value) is None for each in _numbers(value)]
        is_turned = name in ("neg", "negative") or (name in (*_PRODUCTS, *QUOTIENTS) and any(n < 0 for n in numbers))
        is_turned |= name == "rsub" or (name in _SUMS - {"add"} and tensor_of(operands[0]) is None)
        is_linear = name in (*_COMPUTING, *QUOTIENTS, "neg", "negative")
        return first ^ (OPPOSITE if is_turned and first & SCORE else 0) if is_linear else 0
    second = tensors[1].tags & (SCORE | OPPOSITE | CONTEST)
    if name not in _SUMS or len(tensors) > 2 or not (first and second):
        return 0
    is_contest = bool((first ^ second) & OPPOSITE) is (name == "add")
    return CONTEST if (first | second) & CONTEST or is_contest else first


def extent(frame: Frame, name: str, operands: Sequence[Value]) -> int:
    """Whether something may be as large as the side of a box: a difference of what has any size, or a large multiple.

    So are sums, parts and limited values of such, and what holds some, but no fraction that is as small as they are
    large.
    """
    tensors = [each for each in map(tensor_of, operands) if each is not None and each.precision & (FLOATING | OTHER)]
    known = [each.tags & EXTENT for each in tensors]
    given = [numbers_of(frame, each) for each in operands]
    if name in (*_PRODUCTS, *QUOTIENTS) and len(given) == 2 and bool(given[0]) is not bool(given[1]):
        numbers = [abs(each) or 1.0 for each in given[0] or given[1]]  # 1: of what nobody knows
        factors = [1 / each for each in numbers] if name in QUOTIENTS else numbers
        is_inverse = name in QUOTIENTS and bool(given[0])
        is_small = is_inverse or max(factors) <= 1 / _SIDE
        return EXTENT if min(factors) >= _SIDE and not is_inverse else 0 if is_small or not known else known[0]
    if name in _SUMS - {"add"} and len(tensors) == 2 and not all(each.tags & BOUNDED for each in tensors):
        return EXTENT
    if name in JOINING:
        return EXTENT if any(known) else 0
    is_kept = name in LIMITING or name in MIXING or name in LINEAR - _PRODUCTS - QUOTIENTS
    return EXTENT if is_kept and known and all(known) else 0


def is_whole(name: str, args: Arguments) -> bool:
    """Whether something becomes whole numbers of a quantization: it is rounded, or limited to a range of many."""
    upper = _numbers(args.get(*_UPPER[name]) or NEVER) if name in _UPPER else []
    return name == "round" or min(upper, default=0) >= _MANY


def has_no_inverse(value: Value) -> bool:
    """Whether a value is a number, not zero, of which float16 does not have the inverse: a very low temperature."""
    return 0 < min(map(abs, _numbers(value)), default=0.0) < 1 / LARGEST


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
    if not computes and name not in _FILLING and name not in PRODUCTS:
        return False
    tensors = [each for each in map(tensor_of, operands) if each is not None]
    huge = [each for each in tensors if each.tags & HUGE]
    if name in PRODUCTS:
        if name == "scaled_dot_product_attention":
            huge = [each for each in huge if each not in tensors[_FACTORS_OF_ATTENTION:]]
        # Integers beside floating numbers raise: what may be either has them from elsewhere, as from a list of both.
        is_huge = any(each.precision & FLOATING & ~F16 for each in huge)
        if is_huge and is_float16(precision, is_switched=is_switched):
            frame.analysis.event(frame, Act.RISK, node, tensor=huge[0], why=OF_TOO_LARGE, is_sure=True)
        return False
    is_number = any(map(is_too_large, operands))
    if name in _PRODUCTS and len(tensors) == 1:
        huge = []  # times a number, which may make it small
    if (
        (computes or name in JOINING)
        and is_float16(precision, is_switched=is_switched)
        and (is_number or any(each.precision & ~F16 for each in huge))
    ):
        frame.analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=TOO_LARGE, is_sure=True)
    return (is_number or bool(huge)) and precision != F16


def narrowed(frame: Frame, tensor: Tensor, after: Tensor, node: ast.AST) -> None:
    """Note where such numbers get the dtype of what a region makes float16: `mask.to(scores.dtype)`."""
    # Where the region is on, whoever switches it.
    is_low = bool(after.precision & F16) and not after.precision & ~(F16 | F32) and bool(after.regions)
    if tensor.tags & HUGE and tensor.precision & ~F16 and is_low:
        frame.analysis.event(frame, Act.RISK, node, tensor=after, why=TOO_LARGE, is_sure=True)


def scaled_up(frame: Frame, name: str, operands: Sequence[Value], precision: int, node: ast.AST) -> None:
    """Note where something that a region has made low gets so large that half precision is too coarse for it.

    A sum with a large number is rounded to steps of its size; of a product the steps grow with it, but float16 ends.
    `(1 - mask) * -10000` is a penalty, for what a mask leaves out, and half precision has it exactly.
    """
    if len(operands) != 2 or not precision & LOW:
        return
    given = [numbers_of(frame, each) for each in operands]
    scaled = [tensor for each, known in zip(operands, given, strict=True) if not known and (tensor := tensor_of(each))]
    if len(scaled) != 1 or not scaled[0].regions:
        return
    numbers = given[0] or given[1]
    number = min(map(abs, numbers), default=0.0)
    if name in QUOTIENTS and not given[0]:
        number = 1 / number if number else 0.0
    is_product = name in (*_PRODUCTS, *QUOTIENTS) and any(each > 0 for each in numbers)
    is_coarse = name in _SUMS or (is_product and bool(precision & F16) and not scaled[0].tags & BOUNDED)
    # That a factor is no number of float16's is told where it meets something: see `follow`.
    if is_coarse and number >= _WHOLE and (number <= LARGEST or name in QUOTIENTS):
        is_sure = _is_low(scaled[0], precision)
        frame.analysis.event(frame, Act.RISK, node, tensor=scaled[0], why=A_LARGE_NUMBER, is_sure=is_sure)


def note_numbers(frame: Frame, data: Value, node: ast.AST) -> None:
    """Note the numbers that a tensor is made of: `torch.tensor([2.9e4, 3.1e4])`, a mean in some unit."""
    held = [each for each in data if not (isinstance(each, Tup) or (isinstance(each, Obj) and each.made_of is LIST))]
    known, site = frame.analysis.pytorch.numbers, frame.site(node)
    numbers = frozenset(_numbers(frozenset(held)) if all(isinstance(each, Const) for each in held) else ())
    before = known.get(site, numbers)
    known[site] = before | numbers if before and numbers else frozenset()  # of another call nobody knows them


def of_numbers(frame: Frame, node: ast.AST) -> int:
    """What the numbers of which a tensor is made in a place say of it: signs, and that float16 does not have some."""
    numbers = frame.analysis.pytorch.numbers.get(frame.site(node)) or (0,)
    is_signed, is_huge = min(numbers) < 0 < max(numbers), any(map(_is_beyond_float16, numbers))
    return (SIGNED if is_signed else 0) | (HUGE if is_huge else 0)


def numbers_of(frame: Frame, value: Value) -> list[float]:
    """The numbers that a value may be, or that are the elements of a tensor; none where it may be something else."""
    tensor = tensor_of(value)
    if tensor is None:
        return _numbers(value)
    made = [frame.analysis.pytorch.numbers.get(each) for each in tensor.born]
    return sorted(frozenset().union(*filter(None, made))) if all(made) else []


def summed_up(frame: Frame, name: str, old: Tensor, added: Sequence[Tensor], made_at: ast.AST, node: ast.AST) -> None:
    """Note where something low grows outside of all regions by what stands in the same place in every round.

    What only may be low is meant where it comes out of a region as it is: with something else that nobody knows, which
    is float32 in a program that was, it is float32.

    Args:
        old: what it was.
        added: what comes to it.
        made_at: the expression whose result it is behind each round.
        node: where this happens.
    """
    is_outside = frame.now.context.cuda.on == OFF and not frame.now.context.in_gradient
    births = frame.analysis.pytorch.births
    is_round = any(frame.site(made_at) in {each, *births.get(each, ())} for each in old.born)
    if name in _SUMS and is_outside and old.may_be_low and old.regions and is_round:
        is_sure = _is_low(old, old.precision)
        if is_sure or any(each.born & frame.analysis.pytorch.born_inside for each in added):
            frame.analysis.event(frame, Act.RISK, node, tensor=old, why=A_LONG_SUM, is_sure=is_sure)


def _is_low(tensor: Tensor, precision: int) -> bool:
    """Whether what comes of something is low for certain, wherever the region is on that has made that so."""
    return not precision & ~LOW or bool(tensor.tags & SWITCHED)


def _numbers(value: Value) -> list[float]:
    """The numbers that a value may be, with 0 for something else."""
    return [each.value if isinstance(each, Const) and each.kind in ("int", "float") else 0 for each in value]
