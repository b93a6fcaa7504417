"""What is switched on where a statement runs: autocast, for which device and in which dtype, and gradients."""

from __future__ import annotations

from typing import Any

from amp_migrate.flow.domain.interned import Numbered
from amp_migrate.flow.domain.tensor import BF16, CPU, DEVICE, F16, LOW
from amp_migrate.flow.source import Site

ON, OFF = 1, 2


class Autocast(Numbered):
    """Autocast for one device, as far as it is known.

    Attributes:
        on: whether it may be on, may be off, as bits.
        dtype: the precisions that it may cast to.
        cache: whether it may keep the casts of weights.
        regions: the regions that may have switched it on.
        outermost: where the regions around it began, whose end lets go of the casts.
        asked: whether something that only a run knows decides whether it is on.
    """

    __slots__ = ("asked", "cache", "dtype", "on", "outermost", "regions")

    def __init__(
        self,
        on: int = OFF,
        dtype: int = LOW,
        cache: int = ON,
        regions: frozenset[Site] = frozenset(),
        outermost: frozenset[Site] = frozenset(),
        asked: bool = False,
    ) -> None:
        self.on, self.dtype, self.cache, self.regions = on, dtype, cache, regions
        self.outermost, self.asked = outermost, asked

    @property
    def may_be_on(self) -> bool:
        """Whether it may be on."""
        return bool(self.on & ON)

    def join(self, other: Autocast) -> Autocast:
        """What is known on one of two ways."""
        if self is other:
            return self
        return Autocast(
            self.on | other.on,
            _dtypes(self, other),
            self.cache | other.cache,
            self.regions | other.regions,
            self.outermost | other.outermost,
            self.asked or other.asked,
        )

    def decided_by_run(self) -> Autocast:
        """The same, if it may be on and off, where only a run knows which."""
        if self.on != ON | OFF:
            return self
        return Autocast(self.on, self.dtype, self.cache, self.regions, self.outermost, True)


def _dtypes(a: Autocast, b: Autocast) -> int:
    """The dtypes of those that may be on: what is off casts to nothing."""
    return (a.dtype if a.may_be_on else 0) | (b.dtype if b.may_be_on else 0) or a.dtype | b.dtype


_OFF = Autocast()


class Context(Numbered):
    """What is switched on at one place.

    Attributes:
        cuda: autocast on the GPU.
        cpu: autocast on the CPU.
        gradients: whether gradients may be recorded, may not be, as bits.
        in_gradient: whether it is inside a function of autograd's own: what runs there has no gradient of autograd's.
    """

    __slots__ = ("cpu", "cuda", "gradients", "in_gradient")

    def __init__(
        self, cuda: Autocast = _OFF, cpu: Autocast = _OFF, gradients: int = ON, in_gradient: bool = False
    ) -> None:
        self.cuda, self.cpu, self.gradients, self.in_gradient = cuda, cpu, gradients, in_gradient

    @property
    def is_low_in_training(self) -> bool:
        """Whether something runs in a region, be it as a run's switch has it, wherever it records gradients."""
        return self.cuda.on == ON or (self.cuda.may_be_on and self.gradients == ON)

    def but(self, **changes: Any) -> Context:
        """This context with something else switched."""
        names = ("cuda", "cpu", "gradients", "in_gradient")
        return Context(*(changes.get(name, getattr(self, name)) for name in names))

    def join(self, other: Context) -> Context:
        """What is known on one of two ways."""
        if self is other:
            return self
        return Context(
            self.cuda.join(other.cuda),
            self.cpu.join(other.cpu),
            self.gradients | other.gradients,
            self.in_gradient or other.in_gradient,
        )

    def where_called(self) -> Context:
        """This context of what is called out of sight: where autocast is on, so it is in all that this calls."""
        return self.but(cuda=self.cuda.decided_by_run(), cpu=self.cpu.decided_by_run())

    def low(self, place: int) -> tuple[Autocast, bool]:
        """The autocast that decides for tensors at a place, and whether it surely does.

        A tensor whose place nobody tells is where the autocast around it is meant for.
        """
        if place == DEVICE or (place & DEVICE and self.cuda.may_be_on):
            return self.cuda, not place & CPU
        if place & ~DEVICE and not place & 4:
            return self.cpu, place == 1
        return (self.cuda if self.cuda.may_be_on or not self.cpu.may_be_on else self.cpu), True


NO_CONTEXT = Context()
DEFAULT_DTYPE = {"cuda": F16, "cpu": BF16}
