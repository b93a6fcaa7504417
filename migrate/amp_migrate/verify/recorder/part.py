"""What is measured of one part of a model: written by the recorder, read by the harness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Part:
    """A part of a model, and the worst of all its calls under grad mode.

    Attributes:
        model: which model, in the order of first calls.
        name: as in `named_modules()`; empty for the model itself.
        module_class: its class.
        leaf: it has no parts of its own.
        calls: how often it was called.
        nonfinite: it gave an infinity or a NaN where float32 gives none.
        overflow: gradients became infinite or NaN on their way back through it.
        largest: the largest absolute value in float32.
        vanishing: the largest share of values that float16 has no number for but zero.
        error: the largest relative difference, as a 2-norm.
        harm: the largest product of the difference's norm and the norm of the gradient there.
        flops: floating-point operations of its matrix products and convolutions, in the forward pass of one call.
        half_bytes: bytes of its half-precision results of one call.
        owner: the class in the user's code that has its forward; empty for a forward of PyTorch's, and for one that a
            decorator would not get as it is.
        learns: it has parameters, or a part of it has.
    """

    model: int
    name: str
    module_class: str
    leaf: bool
    calls: int = 0
    nonfinite: bool = False
    overflow: bool = False
    largest: float = 0.0
    vanishing: float = 0.0
    error: float = 0.0
    harm: float = 0.0
    flops: int = 0
    half_bytes: int = 0
    owner: str = ""
    learns: bool = True

    @property
    def is_model(self) -> bool:
        """Whether it is a whole model, and no part of one; what computes a loss is none."""
        return not self.name and self.learns
