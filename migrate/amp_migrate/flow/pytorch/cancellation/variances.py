"""Variances as differences, `E[xy] - E[x] E[y]`: what means that are rounded leave of them may be zero, or below it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from amp_migrate.flow.domain.atoms import Opaque, Value, constant, tensors_in
from amp_migrate.flow.domain.tensor import LOW, NOTHING, WIDENED, Tensor
from amp_migrate.flow.events import CANCELLED, Act
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import Site
from amp_migrate.frozen import frozen
from amp_migrate.tables import operators as table

# What made a value, or where it comes from; empty where nobody knows.
_Identity: TypeAlias = "frozenset[Any]"
_DIFFERENCES = frozenset(("sub", "subtract"))
_JOINS = frozenset("cat concat concatenate stack".split())
_POWERS = frozenset(("pow", "square"))
_MEANS = table.PRODUCTS | frozenset(
    "mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d".split()
)


@frozen
class _Mean:
    """A mean over a window: where, of what, with which weights, and whether it, or these, are rounded."""

    site: Site
    operator: str
    of: _Identity
    weights: _Identity
    is_low: bool


@dataclass
class Moments:
    """What means and products are made of, by where they are computed.

    Attributes:
        means: the means.
        products: the factors of products of two; a square has one factor twice.
        joined: what tensors that others were joined in are made of.
    """

    means: dict[Site, set[_Mean]] = field(default_factory=lambda: defaultdict(set))
    products: dict[Site, set[tuple[_Identity, _Identity]]] = field(default_factory=lambda: defaultdict(set))
    joined: dict[Site, set[Any]] = field(default_factory=lambda: defaultdict(set))

    def rounded(self, whole: _Identity, part: _Identity) -> frozenset[Site]:
        """The rounded means that a difference may be made of, where it is that of a mean of products and of means."""
        means = [mean for site in whole if site in self.means for mean in self.means[site]]
        halves = [pair for site in part if site in self.products for pair in self.products[site]]
        return frozenset(
            each.site
            for mean in means
            for factors in self._factors(mean)
            for pair in halves
            for first in self._means_of(mean, factors[0], pair[0])
            for second in self._means_of(mean, factors[1], pair[1])
            for each in (mean, first, second)
            if each.is_low
        )

    def _factors(self, mean: _Mean) -> list[tuple[_Identity, _Identity]]:
        parts = mean.of.union(*(self.joined[site] for site in mean.of if site in self.joined))
        return [pair for site in parts if site in self.products for pair in self.products[site] if all(pair)]

    def _means_of(self, like: _Mean, factor: _Identity, made: _Identity) -> list[_Mean]:
        """The means of a factor over the same window, among those that something was made as."""
        found = [mean for site in made if site in self.means for mean in self.means[site]]
        return [
            each
            for each in found
            if (each.operator, each.weights) == (like.operator, like.weights) and self._is_among(factor, each.of)
        ]

    def _is_among(self, factor: _Identity, parts: _Identity) -> bool:
        return factor == parts or any(factor <= self.joined[site] for site in parts if site in self.joined)


def follow(frame: Frame, name: str, operands: Sequence[Value], precision: int, node: ast.AST) -> None:
    """Note a mean or a product, and whether the difference of such may cancel.

    Args:
        precision: that of the result, as bits.
    """
    moments = frame.analysis.pytorch.moments
    if name in _MEANS:
        weights = _identity(operands[1]) if len(operands) > 1 else NOTHING
        is_low = bool(precision & LOW) or any(each.tags & WIDENED for of in operands[1:2] for each in tensors_in(of))
        site = frame.site(node)
        moments.means[site].add(_Mean(site, name, _identity(operands[0]), weights, is_low))
    elif name in _JOINS:
        moments.joined[frame.site(node)] |= NOTHING.union(*map(_identity, operands))
    elif name in _POWERS:
        if name == "square" or (len(operands) > 1 and constant(operands[1]) == 2):
            moments.products[frame.site(node)].add((_identity(operands[0]),) * 2)
    elif name in ("mul", "multiply") and len(operands) == 2:
        moments.products[frame.site(node)].add((_identity(operands[0]), _identity(operands[1])))
    elif name in _DIFFERENCES and len(operands) == 2 and (rounded := moments.rounded(*map(_identity, operands))):
        frame.analysis.event(frame, Act.RISK, node, why=CANCELLED, sources=rounded)


def _identity(value: Value) -> _Identity:
    """What tells a value from others: where its elements were made, or the parameter that it is."""
    found: set[Any] = set()
    for each in value:
        tensor = each if isinstance(each, Tensor) else each.tensor if isinstance(each, Opaque) else None
        own = tensor.born or tensor.leaf if tensor is not None else NOTHING
        if not own and isinstance(each, Opaque) and each.path:
            own = frozenset((each.path,))
        if not own:
            return NOTHING
        found |= own
    return frozenset(found)
