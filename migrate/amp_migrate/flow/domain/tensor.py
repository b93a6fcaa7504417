"""What is known of a tensor: precision, range, place, gradient, and the power of the loss scale that is in it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from amp_migrate.flow.domain.interned import Numbered, remembered
from amp_migrate.flow.source import Site
from amp_migrate.implications import Facts

# Precisions, as a set of bits: what a value may be. OTHER is a precision that nobody knows.
F16, BF16, F32, F64, INT, BOOL, COMPLEX, OTHER = (1 << i for i in range(8))
LOW = F16 | BF16
FLOATING = LOW | F32 | F64
NAMES = {F16: "float16", BF16: "bfloat16", F32: "float32", F64: "float64", INT: "int", BOOL: "bool", COMPLEX: "complex"}

# Places, ranks, and whether a gradient flows, as sets of bits.
CPU, DEVICE, ANYWHERE = 1, 2, 4
MPS = 8  # a device that is named, and is none of CUDA's: no tensor's place
SCALAR, VECTOR, MATRIX = 1, 2, 4  # of no dimension, of one, of two or more
SHAPED = VECTOR | MATRIX
CUT, FLOWS = 1, 2

# What is known of a tensor's range, as a set of bits.
PROBABILITY = 1  # in [0, 1], the ends excluded in exact arithmetic
COMPLEMENT = 2  # one minus a probability
ROUNDED = 4  # a probability, or its complement, that has been in half: it may be exactly 0 or 1
BOUNDED = 8  # not larger than one: normalised, a cosine, a tanh
GRAM = 16  # products of a matrix with itself, summed over many elements
SQUARE = 32  # squares, or powers
SUMMED = 64  # summed over many elements
EXPONENTIAL = 128
BUFFER = 256  # a module's buffer, or computed from buffers alone
PRODUCT = 512  # a product of matrices
PATIENT = 1024  # an epsilon has been added
WEIGHED = 2048  # multiplied by a rounded complement of a probability, and added to others: it may be exactly 0
HALVED = 4096  # its gradient comes through what a region has made float16
PERHAPS_HALVED = 8192  # its gradient comes through what a region has made float16, or bfloat16
NORMALIZED = 16384  # its gradient comes through a batch or instance norm in float16
UNGUARDED = 32768  # kept from some point by a number that its precision rounds onto it
SWITCHED = 65536  # float32 only where a region is off about which a run decides
HUGE = 131072  # it has elements that float16 does not have
ROUGH = 262144  # a product of matrices in half precision, or a sum, part or multiple of one: beyond its range, infinite
INVERSE = 524288  # the inverse of a matrix
A_GRADIENT = 1048576  # the gradient of a leaf itself, be it looked at in another shape
OF_OVERFLOW = (
    2097152  # whether gradients are finite, elements of them by that, or the gradients with others in their place
)
PARTLY = 4194304  # some of its elements are probabilities that have been in half
SIGNED = 8388608  # constants of both signs, or computed from such alone
OF_INVERSE = 16777216  # a product with the inverse of a matrix, or with such a product, and not with weights
EXTENT = 33554432  # as large as the side of a box: a difference of what may have any size, or a large multiple
LEARNED = 67108864  # computed from what may be a parameter, to which no gradient may come any more
TOTAL = 134217728  # probabilities that have been in half are added up: zero where all of them are rounded to it
WIDENED = 268435456  # float32 because something low was cast to it, or computed from such
SCORE = 536870912  # what a layer with weights gives, or a sum, mean, part or multiple of such alone
OPPOSITE = 1073741824  # such a score times a number below zero
CONTEST = 2147483648  # a difference of two scores: whoever learns its weights makes that as large as they get
WHOLE = 4294967296  # whole numbers, of which eight bits or so are used: rounded, or kept within such limits
LOWERED = 8589934592  # its gradient comes through what a region has computed in half precision
NEAR_ZERO = 17179869184  # kept from zero by a number of which float16 does not have the inverse
STEEP = 34359738368  # the inverse of such, which float16 may not have
BROUGHT = 68719476736  # brought to the CPU in so many words
SPARSE = 137438953472  # it may have values and their indices, and no other elements
WAY_OF_GRADIENT = HALVED | PERHAPS_HALVED | NORMALIZED | LOWERED

# A power of a scaler's scale: None is none at all; ("?", 0) is one that nobody knows.
Unit: TypeAlias = "tuple[Any, float] | None"
Units: TypeAlias = "frozenset[Unit]"
PURE: Units = frozenset({None})
ANY_UNIT: Unit = ("?", 0)
IN_A_TERM = math.inf  # the power of a scale that is in one term of a sum of losses, and not in another
UNKNOWN_UNITS: Units = frozenset({None, ANY_UNIT})
_MOST_UNITS = 6
_MOST_ORIGINS = 8
_MOST_LEAVES = 24
_MOST_MADE = 160
_MOST_EITHER = 400
_MOST_TESTS = 2
UNKNOWN_LEAF = "?"
NO_LEAF = "none"  # in a choice: that it may be none of the others

# A leaf, the function that decides, and what its tests have come to where the leaf is spared, and where it is not.
Spared: TypeAlias = "tuple[Any, Any, Facts, Facts]"
Leaves: TypeAlias = "frozenset[Any]"
NOTHING: frozenset[Any] = frozenset()
A_PIECE: frozenset[Any] = frozenset({None})


_FACTS = (
    *("precision", "rank", "place", "tags", "flows", "regions"),
    *("leaf", "reach", "surely", "units", "reads", "born", "spared", "piece", "unread", "normed"),
)
_facts_of = attrgetter(*_FACTS)


class Tensor(Numbered):
    """A tensor; immutable, one object for each content.

    Attributes:
        precision: what it may be, as bits.
        rank: whether it may be a scalar, a vector, a matrix or more.
        place: where it may be.
        tags: what is known of its range.
        flows: whether a gradient flows through it, may or may not.
        regions: the autocast regions that may have made it low.
        leaf: what it may be itself, where it is a parameter, or a tensor that gets a gradient of its own.
        reach: the leaves that a backward pass through it may come to.
        surely: those of them that it comes to on every way; a set in it is of leaves of which it comes to one.
        units: the powers of a loss scale that may be in it.
        reads: where the gradients were read that it is made of.
        born: the operation that made its elements, be they looked at in another shape since; empty if unknown.
        spared: the leaves of which a test in some function tells whether a backward pass comes to them.
        piece: where it got its name, if it is a piece of what was made, or one of many; `None` before it has one, and
            empty for the whole. Of what nobody knows it is the way to it there.
        unread: where code that nobody could read computed it in a region, if nothing has been made of it since but
            sums, parts and multiples: a loss that goes backward is then one that nobody has seen.
        normed: the leaves that what batch and instance norms get in float16 comes of, if its gradient comes through
            such norms.
    """

    __slots__ = (
        *(
            "born",
            "flows",
            "leaf",
            "normed",
            "piece",
            "place",
            "precision",
            "rank",
            "reach",
            "reads",
            "regions",
            "spared",
            "surely",
            "tags",
            "units",
            "unread",
        ),
    )

    def __init__(
        self,
        precision: int,
        rank: int,
        place: int,
        tags: int,
        flows: int,
        regions: frozenset[Site],
        leaf: Leaves,
        reach: Leaves,
        surely: Leaves,
        units: Units,
        reads: frozenset[Site],
        born: frozenset[Site],
        spared: frozenset[Spared] = NOTHING,
        piece: frozenset[Hashable] = NOTHING,
        unread: frozenset[Site] = NOTHING,
        normed: Leaves = NOTHING,
    ) -> None:
        self.precision, self.rank, self.place, self.tags, self.flows = precision, rank, place, tags, flows
        self.regions, self.leaf, self.reach, self.surely = regions, leaf, reach, surely
        self.units, self.reads, self.born, self.spared, self.piece = units, reads, born, spared, piece
        self.unread, self.normed = unread, normed

    def but(self, **changes: Any) -> Tensor:
        """This tensor with other facts."""
        return Tensor(*(dict(zip(_FACTS, _facts_of(self), strict=True)) | changes).values())

    @property
    def may_be_low(self) -> bool:
        """Whether it may be float16 or bfloat16."""
        return bool(self.precision & LOW)

    @property
    def is_low(self) -> bool:
        """Whether it is float16 or bfloat16 on every way."""
        return bool(self.precision & LOW) and not self.precision & ~LOW

    @property
    def sure_leaves(self) -> Leaves:
        """The leaves that a gradient of what is computed from it surely comes to: itself, too, where it is one."""
        return self.surely | self.leaf if len(self.leaf) == 1 else self.surely

    @property
    def is_known(self) -> bool:
        """Whether its precision is known, be it one of several."""
        return not self.precision & OTHER

    def __repr__(self) -> str:
        return f"Tensor({precisions(self.precision)})"


def precisions(bits: int) -> str:
    """A precision in words: `float16 or float32`."""
    known = [name for bit, name in NAMES.items() if bits & bit]
    return " or ".join([*known, "unknown"] if bits & OTHER else known)


def made(precision: int, rank: int = SCALAR | SHAPED, place: int = ANYWHERE, **facts: Any) -> Tensor:
    """A tensor of which the rest of what can be known is: no gradient, no scale, no range."""
    return _MADE.but(precision=precision, rank=rank, place=place, **facts)


_MADE = Tensor(
    OTHER, SCALAR | SHAPED, ANYWHERE, 0, CUT, NOTHING, NOTHING, NOTHING, NOTHING, PURE, NOTHING, NOTHING
)  # fmt: skip
SOME_TENSOR = _MADE.but(flows=CUT | FLOWS)
"""A tensor of which nothing is known."""


def join_tensors(a: Tensor, b: Tensor) -> Tensor:
    """What is known of a tensor that is one of two."""
    return a if a is b else _join_tensors(a, b)


@remembered(200_000)
def _join_tensors(a: Tensor, b: Tensor) -> Tensor:
    born = a.born | b.born if a.born and b.born else NOTHING
    units = a.units | b.units
    return Tensor(
        a.precision | b.precision,
        a.rank | b.rank,
        a.place | b.place,
        a.tags | b.tags,
        a.flows | b.flows,
        a.regions | b.regions,
        a.leaf | b.leaf,
        few_leaves(a.reach | b.reach),
        sure_of_either(a.surely, b.surely),
        units if len(units) <= _MOST_UNITS else UNKNOWN_UNITS,
        a.reads | b.reads,
        born if len(born) <= _MOST_ORIGINS else NOTHING,
        a.spared & b.spared,
        a.piece | b.piece,
        a.unread | b.unread,
        few_leaves(a.normed | b.normed),
    )


def sure_of_either(a: Leaves, b: Leaves) -> Leaves:
    """What a tensor surely depends on that is one of two: what both do, and one of what each does beside that.

    Layers stand beside layers, and tensors by themselves beside such: what a forward wraps in a parameter is there
    beside its layers, and not in place of them.
    """
    both, rest = a & b, (a - b, b - a)
    if not all(rest):
        return both
    alike = [[frozenset(filter(are_so, own)) for own in rest] for are_so in (_are_by_themselves, _are_of_modules)]
    return both.union(*[one_of(one | other) for one, other in alike if one and other] or [one_of(rest[0] | rest[1])])


def _are_by_themselves(leaves: Any) -> bool:
    return all(getattr(each, "name", None) == "" for each in each_of([leaves]))


def _are_of_modules(leaves: Any) -> bool:
    return not any(getattr(each, "name", None) == "" for each in each_of([leaves]))


def one_of(leaves: Leaves) -> Leaves:
    """That something depends on one of some leaves, and nobody knows on which."""
    found = each_of(leaves)
    return frozenset({found}) if found and len(found) <= _MOST_EITHER else NOTHING


def one_or_none(every: Sequence[Leaves]) -> Leaves:
    """That something depends on leaves of one of several things, of which some have none, and nobody knows on which."""
    both = frozenset.intersection(*every) if every else NOTHING
    own = [each - both for each in every]
    return one_of(NOTHING.union(*own) | {NO_LEAF}) if any(own) and not all(own) else NOTHING


def each_of(leaves: Iterable[Any]) -> Leaves:
    """The leaves that something depends on, be it on one of several."""
    return frozenset(leaf for each in leaves for leaf in (each if isinstance(each, frozenset) else [each]))


def is_same(a: Tensor, b: Tensor) -> bool:
    """Whether two operands are one tensor, be they looked at in two shapes."""
    return len(a.born) == 1 and a.born == b.born and a.piece == b.piece and len(a.piece) < 2 and None not in a.piece


def told_apart(whole: Tensor, a: Tensor, b: Tensor, code: Any, in_a: Facts, in_b: Facts) -> Tensor:
    """A tensor that is one of two as a test has come out, which tells what a backward pass comes to."""
    found = a.spared | b.spared if a.reach == b.reach else NOTHING
    for one, other, here, there in ((a, b, in_a, in_b), (b, a, in_b, in_a)):
        found |= {(leaf, code, there, here) for leaf in one.reach - other.reach if leaf != UNKNOWN_LEAF}
    return whole.but(spared=found)


def settled(tensor: Tensor, code: Any) -> list[tuple[Facts, Tensor]]:
    """What a tensor is as tests of a function have come out that tell from what it is computed, with what they came to.

    It is the tensor alone where no test tells, and where more of them do than are worth all their combinations.
    """
    tests = sorted({(there, here) for _, at, there, here in tensor.spared if at is code}, key=_in_words)
    ways: list[tuple[Facts, Tensor]] = [(NOTHING, tensor)]
    for spared, reached in tests if len(tests) <= _MOST_TESTS else ():
        leaves = frozenset(
            leaf for leaf, at, there, here in tensor.spared if (at, there, here) == (code, spared, reached)
        )
        ways = [
            way
            for facts, known in ways
            for way in (
                (facts | reached, known.but(surely=known.surely | leaves)),
                (facts | spared, known.but(reach=known.reach - leaves, surely=known.surely - leaves)),
            )
        ]
    return [(facts, known.but(spared=NOTHING)) for facts, known in ways] if len(ways) > 1 else ways


def _in_words(test: tuple[Facts, Facts]) -> list[list[tuple[str, bool]]]:
    return [sorted(fact[:2] for fact in facts) for facts in test]


def spared_of(tensors: Sequence[Tensor]) -> frozenset[Spared]:
    """What is known to be spared of what is computed from some tensors."""
    if not any(each.spared for each in tensors):
        return NOTHING
    every = NOTHING.union(*(each.spared for each in tensors))
    kept = (
        entry
        for entry in every
        if all(entry in each.spared or entry[0] not in each.reach | each.leaf for each in tensors)
    )
    return frozenset(kept)


def few_leaves(leaves: Leaves) -> Leaves:
    """Leaves, of which those that nobody knows are one where there are many of them.

    Of what a call gives, as a layer of a package is, there is no more than the text has.
    """
    if len(leaves) <= _MOST_LEAVES or (len(leaves) <= _MOST_MADE and sum(map(_is_found, leaves)) <= _MOST_LEAVES):
        return leaves
    return unknown_as_one(leaves)


def _is_found(leaf: Any) -> bool:
    """Whether nobody knows the owner of a leaf, and it is not what a call gives, but taken from something."""
    path = getattr(getattr(leaf, "owner", None), "path", None)
    return path is not None and (len(path) != 2 or str(path[1]).startswith((".", "[")))


@remembered(10_000)
def unknown_as_one(leaves: Leaves) -> Leaves:
    """Leaves, of which those that nobody knows are one."""
    known = frozenset(each for each in leaves if not hasattr(getattr(each, "owner", None), "path"))
    return leaves if len(known) == len(leaves) else known | {UNKNOWN_LEAF}


def multiplied(a: Units, b: Units, sign: int = 1) -> Units:
    """The scale in a product, or with `sign=-1` in a quotient."""
    if a is PURE and b is PURE:
        return PURE
    return _few(frozenset(_product(x, y, sign) for x in a for y in b))


def powered(a: Units, power: float | None) -> Units:
    """The scale in a power; an unknown one for an exponent that is not known."""
    if a is PURE or a == PURE:
        return PURE
    return frozenset(
        None if x is None else (x[0], x[1] * power) if power and abs(x[1] * power) <= 4 else ANY_UNIT for x in a
    )


def _product(x: Unit, y: Unit, sign: int) -> Unit:
    if y is None:
        return x
    if x is None:
        return (y[0], y[1] * sign)
    if x[0] != y[0] or x[0] == "?":
        return ANY_UNIT
    power = x[1] + sign * y[1]
    return None if power == 0 else (x[0], power) if abs(power) <= 4 or power == IN_A_TERM else ANY_UNIT


def _few(units: Units) -> Units:
    return PURE if units == PURE else units if len(units) <= _MOST_UNITS else UNKNOWN_UNITS


# Of two floating types, a tensor of the wider; float16 and bfloat16 together give float32.
_ORDER = (BOOL, INT, F16, BF16, F32, F64, COMPLEX)


def promoted(a: int, b: int) -> int:
    """The precisions that two operands of one category (both with a shape, or both scalars) may give together."""
    if a == b and a & (a - 1) == 0:
        return a
    found = 0
    for x in (1 << i for i in range(8) if a >> i & 1):
        for y in (1 << i for i in range(8) if b >> i & 1):
            if OTHER in (x, y):
                known = y if x == OTHER else x
                # What is unknown may be wider, or of less; complex is the widest there is.
                found |= COMPLEX if known == COMPLEX else OTHER | (known & LOW)
            elif {x, y} == {F16, BF16}:
                found |= F32
            else:
                found |= max(x, y, key=_ORDER.index)
    return found


_CATEGORY = {BOOL: 0, INT: 1, F16: 2, BF16: 2, F32: 2, F64: 2, COMPLEX: 3}


def combined(precisions_: list[tuple[int, int]]) -> int:
    """PyTorch's type promotion: the precision of an operation on operands, each given by its precision and rank.

    A scalar tensor counts for less than one with a shape, unless it is of a higher category: boolean, integer,
    floating, complex. A number of Python counts for less than both, and is not given here.
    """
    result, rank = precisions_[0]
    for precision, other in precisions_[1:]:
        found = 0
        for own in (SCALAR, SHAPED):
            for its in (SCALAR, SHAPED):
                if rank & own and other & its:
                    found |= _pair(result, own, precision, its)
        result, rank = found, broadcast(rank, other)
    return result


def broadcast(a: int, b: int) -> int:
    """The ranks that an operation on two tensors, element by element, may give: the higher of theirs."""
    higher = (max(x, y) for x in (SCALAR, VECTOR, MATRIX) if a & x for y in (SCALAR, VECTOR, MATRIX) if b & y)
    return functools.reduce(operator.or_, higher, 0)


def _pair(a: int, a_rank: int, b: int, b_rank: int) -> int:
    if a_rank == b_rank:
        return promoted(a, b)
    if a_rank == SCALAR:
        a, b = b, a
    found = 0  # `a` has a shape, `b` is a scalar
    for x in (1 << i for i in range(8) if a >> i & 1):
        for y in (1 << i for i in range(8) if b >> i & 1):
            if OTHER in (x, y):
                found |= x if x != OTHER and y == OTHER and x & (FLOATING | COMPLEX) else OTHER
            elif _CATEGORY[y] > _CATEGORY[x]:
                # The default type takes the place of what has none of the higher category.
                found |= y
            else:
                found |= x
    return found
