"""Squares of distances as differences, `x² - 2xy + y²`, of a product that is rounded.

Its steps are as large as what tells one near neighbour from another: half precision has 1e-3 of them at one.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from amp_migrate.flow.domain.atoms import Opaque, Value, constant, tensor_of
from amp_migrate.flow.domain.tensor import LOW, NOTHING, SOME_TENSOR, Tensor
from amp_migrate.flow.events import OF_DISTANCE, Act
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import Site
from amp_migrate.frozen import frozen
from amp_migrate.tables import operators as table

# What tensors are told from others by: what made them, or where they come from, and which piece of that they are.
_Names: TypeAlias = "frozenset[tuple[Any, Any]]"
_ADDING = {"add": 1, "sub": -1, "subtract": -1, "rsub": -1}
_MULTIPLYING = frozenset("mul multiply".split())
_NORMS = frozenset("norm linalg.norm linalg.vector_norm".split())
_SUMS = frozenset("sum nansum mean nanmean".split())
_MOVING = table.VIEWS | frozenset("diag diagonal float positive index getitem".split())
_AS_IT_IS = 1
_ANY_SIGN = 0


@frozen
class _Term:
    """A product of matrices, or a sum of squares, in a sum.

    Attributes:
        sign: with which it is in the sum; 0 where nobody knows.
        factors: of what it is the product; of squares, one and the same twice.
        rounded: the product, where it is in half precision, and whether it is so for certain.
        is_diagonal: whether it is the diagonal alone: of the product of a matrix with itself, the squares.
    """

    sign: int
    factors: tuple[_Names, _Names]
    rounded: tuple[ast.AST, Site, bool] | None = None
    is_diagonal: bool = False

    def times(self, sign: int) -> _Term:
        """A multiple of it."""
        return self if sign == _AS_IT_IS else replace(self, sign=self.sign * sign)

    @property
    def is_square(self) -> bool:
        """Whether it is that of one thing."""
        return self.factors[0] == self.factors[1]

    @property
    def matters(self) -> bool:
        """Whether it can be one of two that are near each other: the squares, or the rounded product."""
        return self.rounded is not None or self.is_square

    def is_near(self, squares: _Term) -> bool:
        """Whether squares may be of its size, and of the other sign: those of what it is the product of."""
        of, (x, y) = squares.factors[0], self.factors
        is_other = not self.is_square or (squares.is_diagonal and not self.is_diagonal)
        return is_other and self.sign * squares.sign < 1 and not (of.isdisjoint(x) and of.isdisjoint(y))


@dataclass
class Terms:
    """What sums are made of, by where they are computed.

    Attributes:
        parts: the products and sums of squares in a sum.
        squares: what the elements are squares of.
        norms: what the norms are of.
        multiples: what is looked at in another shape, or multiplied with a number; with the sign.
    """

    parts: dict[Site, set[_Term]] = field(default_factory=lambda: defaultdict(set))
    squares: dict[Site, set[_Names]] = field(default_factory=lambda: defaultdict(set))
    norms: dict[Site, set[_Names]] = field(default_factory=lambda: defaultdict(set))
    multiples: dict[Site, set[tuple[_Names, int]]] = field(default_factory=lambda: defaultdict(set))

    def of(self, value: Value, sign: int = _AS_IT_IS) -> list[_Term]:
        """The terms of a value that stands in a sum with a sign."""
        return [each.times(sign) for site in _born(value) for each in self.parts.get(site, ())]

    def factor(self, value: Value) -> tuple[_Names, int]:
        """Of what a value is a multiple, and with which sign."""
        found: _Names = NOTHING
        signs = set()
        for name in _names(value):
            for of, sign in self.multiples.get(name[0]) or {(frozenset({name}), _AS_IT_IS)}:
                found |= of
                signs.add(sign)
        return found, signs.pop() if len(signs) == 1 else _ANY_SIGN


def follow(frame: Frame, name: str, operands: Sequence[Value], precision: int, node: ast.AST) -> None:
    """Note what is in a sum, and where a rounded product meets squares of its factors in one.

    Args:
        precision: that of the result, as bits.
    """
    terms, site = frame.analysis.pytorch.terms, frame.site(node)
    tensors = [each for each in operands if tensor_of(each) is not None]
    first = tensors[0]
    numbers = [constant(each) for each in operands if tensor_of(each) is None]
    sign = _sign(numbers) if len(tensors) == 1 else _ANY_SIGN
    found: list[_Term] = []
    if name in table.PRODUCTS and len(tensors) > 1:
        (x, of_x), (y, of_y) = map(terms.factor, tensors[-2:])
        rounded = (node, site, not precision & ~LOW) if precision & LOW else None
        product = _Term(of_x * of_y if len(tensors) == 2 else _ANY_SIGN, (x, y), rounded)
        products = [product] if x and y and product.matters else []
        found = _sum(frame, terms.of(first) if len(tensors) > 2 else [], products)
    elif name in _ADDING and len(tensors) == 2:
        signs = (_ADDING[name] if len(operands) == 2 else _ANY_SIGN, _AS_IT_IS)  # else with an `alpha`
        left, right = signs if name == "rsub" else reversed(signs)
        found = _sum(frame, terms.of(first, left), terms.of(tensors[1], right))
    elif name in _ADDING:
        is_taken = (name == "rsub") == (operands[0] is first)
        found = terms.of(first, _ADDING[name] if is_taken else _AS_IT_IS)
    elif name in _MULTIPLYING or (name in table.QUOTIENTS and operands[0] is first):
        found = [term for each in tensors[: None if name in _MULTIPLYING else 1] for term in terms.of(each, sign)]
        of, own = terms.factor(first)
        if of and len(tensors) == 1:
            terms.multiples[site].add((of, own * sign))
        elif of and name in _MULTIPLYING and of == terms.factor(tensors[1])[0]:
            found += _square(terms, site, of)
    elif name in ("neg", "negative"):
        found = terms.of(first, -1)
    elif name == "square" or (name == "pow" and numbers[:1] == [2]):
        found = _square(terms, site, terms.factor(first)[0])
    elif name in _NORMS:
        terms.norms[site].add(terms.factor(first)[0])
    elif name in _SUMS:
        squares = (each for born in _born(first) for each in terms.squares.get(born, ()))
        found = [*(_Term(1, (each, each)) for each in squares), *(each for each in terms.of(first) if each.is_square)]
    elif name in _MOVING:
        found = terms.of(first)
        if name == "diag":
            found = [replace(each, is_diagonal=True) for each in found]
        if name in table.VIEWS and not _born(first) and (of := terms.factor(first)[0]):
            terms.multiples[site].add((of, _AS_IT_IS))
    if found:
        terms.parts[site].update(found)


def _sum(frame: Frame, left: Sequence[_Term], right: Sequence[_Term]) -> list[_Term]:
    """The terms of two in their sum; told of those that are rounded, and may be of the other's size."""
    for some, others in ((left, right), (right, left)):
        squares = [each for each in others if each.is_square]
        for each in some if squares else ():
            if each.rounded is not None and any(map(each.is_near, squares)):
                node, site, is_sure = each.rounded
                frame.analysis.event(frame, Act.RISK, node, site=site, why=OF_DISTANCE, is_sure=is_sure)
    return [*left, *right]


def _square(terms: Terms, site: Site, of: _Names) -> list[_Term]:
    """The terms of something that is multiplied with itself, element by element: it may be a norm."""
    norms = [each for born, _ in of if born in terms.norms for each in terms.norms[born]]
    if of:
        terms.squares[site].add(of)
    return [_Term(1, (each, each)) for each in norms if each]


def _sign(numbers: Sequence[object]) -> int:
    """The sign of what is multiplied with a number, or divided by it."""
    number = numbers[0] if numbers else None
    return (number > 0) - (number < 0) if isinstance(number, (int, float)) else _ANY_SIGN


def _known(value: Value) -> Iterator[tuple[Opaque | None, Tensor]]:
    """The tensors that a value is known to be, or to hold; each with what it is in, if that is not known."""
    for each in value:
        if isinstance(each, Tensor):
            yield None, each
        elif isinstance(each, Opaque) and (each.tensor or each.path):
            yield each, each.tensor or SOME_TENSOR


def _born(value: Value) -> frozenset[Site]:
    """Where a value was made, as far as that is known."""
    return NOTHING.union(*(tensor.born for _, tensor in _known(value)))


def _names(value: Value) -> _Names:
    """What is known of what a value is; nothing of one that is one of many."""
    found: set[tuple[Any, Any]] = set()
    for unknown, tensor in _known(value):
        own = tensor.born or tensor.leaf or frozenset((unknown.path,) if unknown and unknown.path else ())
        found |= {(each, tensor.piece) for each in own if None not in tensor.piece}
    return frozenset(found)
