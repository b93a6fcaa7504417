"""What `amp-verify doctor` measures in a script, and what a cause is that is found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

from amp_migrate.verify.recorded.kernels import Kernels
from amp_migrate.verify.recorded.recording import Anatomy, Profile

WARM_UP = 3


class Found(str, Enum):
    """What a rule found."""

    LIMITS = "limits"
    FINE = "fine"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """One cause.

    Attributes:
        evidence: the measurement; what would be needed for it where there is none.
        action: what to do about it; empty where it limits nothing.
    """

    cause: str
    found: Found
    evidence: str
    action: str = ""


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        environment: of the runs.
        phases: median milliseconds of a step, by phase; "step" is all of it.
        profile: of `profiled` steps in full precision where a CPU stands in for a GPU.
        step_ms: median milliseconds of a step that nothing disturbs.
        one_batch_ms: the same where the data loaders give one batch again and again; None where that was not asked.
        kernels: what a GPU did in the profiled steps; None without one.
    """

    environment: Mapping[str, Any]
    anatomy: Anatomy
    phases: Mapping[str, float]
    profile: Profile
    profiled: int
    step_ms: float
    one_batch_ms: float | None = None
    kernels: Kernels | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU that was measured."""
        return not self.environment["stand_in"]

    def share(self, phase: str) -> float:
        """A phase's share of a step."""
        return self.phases.get(phase, 0.0) / self.phases["step"]

    @property
    def capability(self) -> tuple[int, int]:
        """The GPU's compute capability."""
        major, minor = self.environment["capability"]
        return (major, minor)


def medians(steps: tuple[Mapping[str, float], ...]) -> dict[str, float]:
    """Median milliseconds by phase, after the warm-up."""
    steady = steps[WARM_UP:]
    names = sorted({name for step in steady for name in step})
    return {name: median(step.get(name, 0.0) for step in steady) for name in names}
