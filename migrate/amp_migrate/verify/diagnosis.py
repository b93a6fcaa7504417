"""What keeps mixed precision from making a script faster: a rule for each cause, each with its measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

from amp_migrate.verify.speed import TF32_CAPABILITY
from amp_migrate.verify.trace import LOW_DTYPES, Anatomy, Product, Profile

WARM_UP = 3
MUCH_DATA = MUCH_OPTIMIZER = 0.2
ENOUGH_HALF = 0.5
ODD_SHARE = 0.1
BUSY = 0.7
WORTH_IT = 1.3
TENSOR_CORES = (7, 0)
HALF_OVER_FLOAT, HALF_OVER_TF32 = 8.0, 2.0  # peak rates of matrix units; 16 instead of 8 from A100 on


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
    """

    environment: Mapping[str, Any]
    anatomy: Anatomy
    phases: Mapping[str, float]
    profile: Profile
    profiled: int
    step_ms: float

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


def diagnose(measured: Measured) -> tuple[Diagnosis, ...]:
    """All causes, those that limit first."""
    found = [rule(measured) for rule in _RULES]
    return tuple(sorted(found, key=lambda one: list(Found).index(one.found)))


def _precision(measured: Measured) -> Diagnosis:
    products = measured.anatomy.products
    total = sum(each.flops for each in products)
    if not total:
        return Diagnosis("precision", Found.UNKNOWN, "no matrix product or convolution was seen")
    half = sum(each.flops for each in products if each.dtype in LOW_DTYPES) / total
    evidence = f"{half:.0%} of the floating-point operations of matrix products and convolutions are in half precision"
    if half == 0:
        return Diagnosis("precision", Found.LIMITS, evidence, "migrate the script: amp-migrate")
    if half >= ENOUGH_HALF:
        return Diagnosis("precision", Found.FINE, evidence)
    whole = sorted({each.operation for each in products if each.dtype not in LOW_DTYPES})
    return Diagnosis("precision", Found.LIMITS, evidence, f"look for .float() and regions before {', '.join(whole)}")


def _matrix_units(measured: Measured) -> Diagnosis:
    if not measured.on_gpu:
        return Diagnosis("matrix units", Found.UNKNOWN, "which there are cannot be told without a GPU")
    name, capability = measured.environment["device"], measured.capability
    evidence = f"{name}, compute capability {capability[0]}.{capability[1]}"
    if capability < TENSOR_CORES or "GTX 16" in name:
        action = "it has no tensor cores: mixed precision saves memory here, and no time"
        return Diagnosis("matrix units", Found.LIMITS, evidence, action)
    return Diagnosis("matrix units", Found.FINE, evidence)


def _tf32(measured: Measured) -> Diagnosis:
    if not measured.on_gpu:
        return Diagnosis("TF32", Found.UNKNOWN, "whether float32 runs on matrix units cannot be told without a GPU")
    kinds = ("convolutions", measured.environment["tf32_convolutions"]), ("products", measured.environment["tf32"])
    used = [kind for kind, on in kinds if on]
    if not used or measured.capability < TF32_CAPABILITY:
        return Diagnosis("TF32", Found.FINE, "float32 does not run on matrix units")
    action = f"expect about {HALF_OVER_TF32:g} times from them, not {HALF_OVER_FLOAT:g}"
    return Diagnosis("TF32", Found.LIMITS, f"float32 {' and '.join(used)} already use TF32", action)


def _input(measured: Measured) -> Diagnosis:
    share = measured.share("data")
    milliseconds = measured.phases.get("data", 0.0)
    evidence = f"{milliseconds:.2f} ms of {measured.phases['step']:.2f} ms wait for data ({share:.0%})"
    if share > MUCH_DATA:
        action = "more workers, pinned memory, cheaper transforms: this time stays whatever the precision"
        return Diagnosis("input", Found.LIMITS, evidence, action)
    return Diagnosis("input", Found.FINE, evidence)


def _optimizer(measured: Measured) -> Diagnosis:
    share = measured.share("optimizer")
    evidence = f"{measured.phases.get('optimizer', 0.0):.2f} ms are the optimizer's step ({share:.0%}), in float32"
    if share > MUCH_OPTIMIZER:
        return Diagnosis("optimizer", Found.LIMITS, evidence, "fused=True or foreach=True; a larger batch")
    return Diagnosis("optimizer", Found.FINE, evidence)


def _reads(measured: Measured) -> Diagnosis:
    reads = measured.anatomy.reads
    count = sum(reads.values()) / measured.anatomy.steps
    evidence = f"{count:.1f} reads of values per step" + (f" ({', '.join(sorted(reads))})" if reads else "")
    if count > 2:  # a loss scaler makes one, and a loss that is printed another
        return Diagnosis("reads", Found.LIMITS, evidence, "each makes the host wait for a GPU: read less often")
    return Diagnosis("reads", Found.FINE, evidence)


def _casts(measured: Measured) -> Diagnosis:
    seen, steps = measured.anatomy, measured.anatomy.steps
    evidence = (
        f"{seen.weight_casts / steps:.0f} weights and {seen.other_casts / steps:.0f} other tensors are cast to half "
        f"precision per step, {seen.cast_bytes / steps / 2**20:.1f} MiB"
    )
    products = len(seen.products)
    if products and seen.other_casts / steps > 2 * products:
        return Diagnosis("casts", Found.LIMITS, evidence, "cast once, before the loop or at its top")
    return Diagnosis("casts", Found.FINE, evidence)


def _shapes(measured: Measured) -> Diagnosis:
    products = measured.anatomy.products
    total = sum(each.flops for each in products)
    odd = sorted((each for each in products if _is_odd(each)), key=lambda each: -each.flops)
    share = sum(each.flops for each in odd) / total if total else 0.0
    named = "; ".join(f"{each.operation} {'x'.join(map(str, each.sizes))}" for each in odd[:3])
    evidence = f"{share:.0%} of those operations have a size that is no multiple of 8" + (f": {named}" if named else "")
    if share > ODD_SHARE:
        return Diagnosis("shapes", Found.LIMITS, evidence, "pad classes, vocabulary, channels or the batch; measure it")
    return Diagnosis("shapes", Found.FINE, evidence)


def _is_odd(product: Product) -> bool:
    return any(size % 8 for size in product.sizes)


def _host(measured: Measured) -> Diagnosis:
    if not measured.on_gpu:
        return Diagnosis("host", Found.UNKNOWN, "whether a GPU would wait for the host cannot be told without one")
    busy = min(1.0, measured.profile.total / 1e3 / measured.profiled / measured.step_ms)
    evidence = f"the GPU is busy for {busy:.0%} of a step"
    if busy < BUSY:
        return Diagnosis("host", Found.LIMITS, evidence, "torch.compile, CUDA graphs, a larger batch")
    return Diagnosis("host", Found.FINE, evidence)


def _mostly_tf32(measured: Measured) -> bool:
    """Whether most of the matrix operations run in TF32 where they are in float32."""
    products = measured.anatomy.products
    convolved = sum(each.flops for each in products if each.operation.startswith("conv"))
    kind = "tf32_convolutions" if 2 * convolved > sum(each.flops for each in products) else "tf32"
    return measured.capability >= TF32_CAPABILITY and bool(measured.environment[kind])


def _ceiling(measured: Measured) -> Diagnosis:
    profile = measured.profile
    if not profile.total:
        return Diagnosis("ceiling", Found.UNKNOWN, "no operation was timed")
    part = profile.products / profile.total * (1 - measured.share("data"))
    rate = HALF_OVER_TF32 if measured.on_gpu and _mostly_tf32(measured) else HALF_OVER_FLOAT
    likely, best = (1 / (1 - part + part / times) if part < 1 else times for times in (rate, 1e9))
    where = "GPU" if measured.on_gpu else "processor"
    evidence = (
        f"matrix products and convolutions take {part:.0%} of the {where} time of a step: {likely:.1f} times as fast "
        f"with them {rate:g} times as fast, {best:.1f} times at most"
    )
    if likely < WORTH_IT:
        return Diagnosis("ceiling", Found.LIMITS, evidence, "the rest of the step is what to work on")
    return Diagnosis("ceiling", Found.FINE, evidence)


_RULES: tuple[Callable[[Measured], Diagnosis], ...] = (
    _ceiling,
    _precision,
    _input,
    _optimizer,
    _host,
    _matrix_units,
    _tf32,
    _shapes,
    _casts,
    _reads,
)
