"""What a scaler and the gradients are in where something happens, on every way to it, as `flow` has found it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum

from amp_migrate.flow.domain import machine as states
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import AGAIN, NO_GRAD, Grad, Machine
from amp_migrate.flow.domain.tensor import ANY_UNIT, Tensor
from amp_migrate.flow.events import Event
from amp_migrate.flow.pytorch.gradients import stage
from amp_migrate.frozen import frozen


class Gradients(Enum):
    """What is in the gradients."""

    NONE = "none"  # or what nobody in sight has made
    TRUE = "true"  # of a loss that was not scaled
    SCALED = "scaled"
    UNSCALED = "unscaled"  # scaled, and divided by the scale again
    MIXED = "mixed"  # of several losses, or terms of one, that are scaled in different ways
    SPENT = "spent"  # an optimizer has stepped on them
    UNKNOWN = "unknown"


def gradients_at(event: Event) -> list[tuple[Machine, Atom, Grad]]:
    """The gradients that something is about, where there are some: on which way to it, of which optimizer."""
    about = ((machine, each) for machine, _, about, _ in event.reached for each in about if isinstance(each, Atom))
    found = ((machine, each, machine.grad(each) or NO_GRAD) for machine, each in about)
    return [(machine, each, grad) for machine, each, grad in found if grad.kind != states.EMPTY]


class Stage(Enum):
    """What a scaler has done for an optimizer since its last update."""

    READY = states.READY
    UNSCALED = states.UNSCALED_BY
    STEPPED = states.STEPPED


_GRADIENTS = {
    states.EMPTY: Gradients.NONE,
    states.TRUE: Gradients.TRUE,
    states.SCALED: Gradients.SCALED,
    states.UNSCALED: Gradients.UNSCALED,
    states.MIXED: Gradients.MIXED,
}


@frozen
class State:
    """What holds before something happens, on one way to it, for one scaler and one optimizer.

    Attributes:
        gradients: what is in the optimizer's.
        stage: what the scaler has done for it; None where nobody knows.
        checked: whether gradients were looked at for infinities since the last update, which `update()` insists on;
            None where nobody knows.
        outdated: whether the scale was updated since the backward pass.
        is_others: whether the gradients were scaled by another scaler.
    """

    gradients: Gradients
    stage: Stage | None
    checked: bool | None
    outdated: bool
    is_others: bool

    @classmethod
    def of(cls, machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> State:
        """What a state of `flow` says of a scaler and an optimizer."""
        grad = machine.grad(optimizer) or NO_GRAD
        kind = states.UNKNOWN if grad.kind == states.MIXED and grad.guessed else grad.kind
        known = None if scaler is None or optimizer is None else stage(machine, scaler, optimizer)
        return cls(
            Gradients.SPENT if grad.spent else _GRADIENTS.get(kind, Gradients.UNKNOWN),
            Stage(known) if known in (states.READY, states.UNSCALED_BY, states.STEPPED) else None,
            machine.get(("checked", scaler)),
            grad.outdated,
            grad.kind == states.SCALED and scaler is not None and grad.scaler is not scaler,
        )


@frozen
class Seen:
    """The states in which something happens.

    Attributes:
        first: when no loop around it has come round.
        again: when one has.
    """

    first: set[State] = field(default_factory=set)
    again: set[State] = field(default_factory=set)

    @classmethod
    def of(cls, machines: Iterable[Machine], scalers: Iterable[Atom | None], optimizers: Iterable[Atom | None]) -> Seen:
        """What is seen of some scalers and optimizers, of which it may be any."""
        found = cls()
        found.add(machines, scalers, optimizers)
        return found

    def add(
        self, machines: Iterable[Machine], scalers: Iterable[Atom | None], optimizers: Iterable[Atom | None]
    ) -> None:
        """See some scalers and optimizers in further states."""
        pairs = [(scaler, optimizer) for scaler in list(scalers) or [None] for optimizer in list(optimizers) or [None]]
        for machine in machines:
            into = self.again if machine.get(AGAIN) else self.first
            into.update(State.of(machine, scaler, optimizer) for scaler, optimizer in pairs)

    def always(self, holds: Callable[[State], bool]) -> bool:
        """Whether something holds on all ways, either at first or in every later iteration."""
        return any(bool(known) and all(map(holds, known)) for known in (self.first, self.again))


def is_scaled(tensor: Tensor) -> bool:
    """Whether the scale is in a tensor that is no gradient."""
    return not tensor.reads and bool(tensor.units) and None not in tensor.units and ANY_UNIT not in tensor.units
