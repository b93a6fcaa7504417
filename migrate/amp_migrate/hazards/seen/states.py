"""What a scaler and the gradients are in at one place of a function, and what each event makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from amp_migrate.hazards.seen.facts import Facts
from amp_migrate.hazards.seen.scaler_events import Act, Event


class Gradients(Enum):
    """What is in the gradients."""

    NONE = "none"  # nothing that this function has seen
    TRUE = "true"  # of a loss that was not scaled
    SCALED = "scaled"
    UNSCALED = "unscaled"  # scaled, and divided by the scale again
    SPENT = "spent"  # an optimizer has stepped on them
    UNKNOWN = "unknown"


class Stage(Enum):
    """What a scaler has done for an optimizer since its last update."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


@dataclass(frozen=True)
class State:
    """What holds before a statement, on one way to it.

    Attributes:
        gradients: what is in them.
        stages: of each optimizer that is not `READY`.
        stages_known: whether an optimizer without a stage is known to be `READY`.
        checked: whether gradients were looked at for infinities since the last update, which `update()` insists on;
            None where nobody knows.
        outdated: whether `update()` has changed the scale since the gradients were scaled.
        facts: what the tests on the way came to.
    """

    gradients: Gradients = Gradients.NONE
    stages: frozenset[tuple[str, Stage]] = frozenset()
    stages_known: bool = False
    checked: bool | None = None
    outdated: bool = False
    facts: Facts = frozenset()

    def stage(self, optimizer: str) -> Stage | None:
        """The stage of an optimizer; None where it is not known."""
        known = dict(self.stages)
        return known.get(optimizer, Stage.READY if self.stages_known else None)


def after(state: State, event: Event) -> State:
    """The state that an event leaves behind."""
    act = event.act
    if act is Act.SCALED_BACKWARD:
        mixed = state.gradients is Gradients.TRUE
        return replace(state, gradients=Gradients.UNKNOWN if mixed else Gradients.SCALED, outdated=False)
    if act is Act.BACKWARD:
        mixed = state.gradients in (Gradients.SCALED, Gradients.UNKNOWN)
        return replace(state, gradients=Gradients.UNKNOWN if mixed else Gradients.TRUE, outdated=False)
    if act is Act.UNSCALE:
        return replace(
            state, gradients=Gradients.UNSCALED, stages=_staged(state, event.optimizer, Stage.UNSCALED), checked=True
        )
    if act is Act.SCALER_STEP:
        return replace(
            state, gradients=Gradients.SPENT, stages=_staged(state, event.optimizer, Stage.STEPPED), checked=True
        )
    if act is Act.STEP:
        return replace(state, gradients=Gradients.SPENT)
    if act is Act.UPDATE:
        return replace(state, stages=frozenset(), stages_known=True, checked=False, outdated=True)
    if act is Act.HANDED_ON:
        return State(gradients=Gradients.UNKNOWN, facts=state.facts)
    return state


def _staged(state: State, optimizer: str, stage: Stage) -> frozenset[tuple[str, Stage]]:
    return frozenset({*(each for each in state.stages if each[0] != optimizer), (optimizer, stage)})
