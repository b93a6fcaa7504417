"""Regions and casts that do not stand in the text: what a planner asks about before anything is written."""

from __future__ import annotations

from dataclasses import dataclass

from amp_migrate.flow.domain.tensor import F16
from amp_migrate.flow.source import Site


@dataclass(frozen=True)
class Region:
    """A run of sibling statements that is taken to stand in a region of autocast.

    Attributes:
        first: where the first of them begins.
        last: where the last of them ends.
        dtype: the precision that it casts to, as bits.
        enabled: whether it is switched on; False makes it an island of float32.
        cache: whether it keeps the casts of weights.
    """

    first: Site
    last: Site
    device: str = "cuda"
    dtype: int = F16
    enabled: bool = True
    cache: bool = True


@dataclass(frozen=True)
class Overlay:
    """What is taken to be there.

    Attributes:
        regions: the regions.
        float32: expressions whose tensors are taken to be cast by `.float()`.
        scaled: calls of `backward` that are taken to be of a loss scaled by one scaler, that of the plan.
        stepped: calls of an optimizer's `step` that are taken to be that scaler's, with an `update` behind.
    """

    regions: tuple[Region, ...] = ()
    float32: frozenset[Site] = frozenset()
    scaled: frozenset[Site] = frozenset()
    stepped: frozenset[Site] = frozenset()
