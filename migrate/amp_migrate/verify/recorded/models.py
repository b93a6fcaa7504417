"""The models of a run, and their parts beside themselves in float32, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A module that the script calls by itself and trains: what the calling code calls it, and where it first does."""

    variable: str
    path: str
    line: int


@dataclass(frozen=True)
class Part:
    """A part of a model beside itself in float32 on the same inputs; the worst of its calls.

    Attributes:
        model: index among the models.
        name: as in `named_modules()`; empty for the model itself.
        module_class: its class.
        leaf: it has no parts of its own.
        calls: how often it was called.
        nonfinite: it gave an infinity or a NaN where float32 gives none.
        overflow: gradients became infinite or NaN on their way back through it.
        largest: the largest absolute value of its results in float32.
        vanishing: the largest share of its results that float16 has no number for but zero.
        error: relative difference of its results.
        harm: norm of the difference times norm of the gradient there.
        flops: floating-point operations of its matrix products and convolutions, in the forward pass of one call.
        half_bytes: bytes of its half-precision results of one call.
    """

    model: int
    name: str
    module_class: str
    leaf: bool
    calls: int
    nonfinite: bool
    overflow: bool
    largest: float
    vanishing: float
    error: float
    harm: float
    flops: int
    half_bytes: int
