"""Causes that only a GPU's kernels tell: waiting for the host, products off the matrix units, casts, layouts."""

from __future__ import annotations

from amp_migrate.verify.causes.measured import Diagnosis, Found, Measured
from amp_migrate.verify.recorded.kernels import Kernels

BUSY = 0.7
TENSOR_CORES = (7, 0)
MUCH_PLAIN = 0.2
MUCH_LAYOUT = 0.05
_NAMED = 60  # characters of a kernel's name; templates make some of them very long


def host(measured: Measured) -> Diagnosis:
    """Whether the GPU waits for the host, and what a step would take if it never did."""
    if not measured.on_gpu:
        return Diagnosis("host", Found.UNKNOWN, "whether a GPU would wait for the host cannot be told without one")
    if measured.kernels is None:
        return Diagnosis("host", Found.UNKNOWN, "no kernel was seen in the profile")
    milliseconds = measured.kernels.busy / 1e3 / measured.profiled
    busy = min(1.0, milliseconds / measured.step_ms)
    evidence = f"the GPU is busy for {milliseconds:.2f} ms of a step of {measured.step_ms:.2f} ms ({busy:.0%})"
    if busy < BUSY:
        evidence += "; if it never waited for the host, a step would take no more than that"
        return Diagnosis("host", Found.LIMITS, evidence, "torch.compile, CUDA graphs, a larger batch")
    return Diagnosis("host", Found.FINE, evidence)


def matrix_units(measured: Measured) -> Diagnosis:
    """Whether there are matrix units, and whether the products in half precision run on them."""
    if not measured.on_gpu:
        return Diagnosis("matrix units", Found.UNKNOWN, "which there are cannot be told without a GPU")
    name, capability = measured.environment["device"], measured.capability
    evidence = f"{name}, compute capability {capability[0]}.{capability[1]}"
    if capability < TENSOR_CORES or "GTX 16" in name:
        action = "it has no tensor cores: mixed precision saves memory here, and no time"
        return Diagnosis("matrix units", Found.LIMITS, evidence, action)
    kernels = measured.kernels
    if kernels is None or not kernels.half_products:
        return Diagnosis("matrix units", Found.FINE, evidence)
    evidence += f"; {_use(kernels)}"
    if kernels.plain > MUCH_PLAIN * kernels.half_products:
        action = "sizes that are multiples of 8, contiguous inputs; grouped convolutions have no kernels for them"
        return Diagnosis("matrix units", Found.LIMITS, evidence, action)
    return Diagnosis("matrix units", Found.FINE, evidence)


def _use(kernels: Kernels) -> str:
    """Of the time of products in half precision, what runs where."""
    used, plain = (part / kernels.half_products for part in (kernels.on_matrix_units, kernels.plain))
    text = f"{used:.0%} of the time of products in half precision is on them, {plain:.0%} is not"
    if not kernels.unknown:
        return text
    return f"{text}, {1 - used - plain:.0%} is in kernels of unknown names ({kernels.unknown[0][:_NAMED]})"


def layout(measured: Measured) -> Diagnosis:
    """How much of the GPU's time goes into changes between channels-first and channels-last."""
    if not measured.on_gpu:
        return Diagnosis("layout", Found.UNKNOWN, "which kernels change layouts cannot be told without a GPU")
    share = _share_of_time(measured.kernels, "layout")
    if share is None:
        return Diagnosis("layout", Found.UNKNOWN, "no kernel was seen in the profile")
    evidence = f"{share:.0%} of the GPU's time goes into changes between channels-first and channels-last"
    if share > MUCH_LAYOUT:
        action = "model.to(memory_format=torch.channels_last), and the inputs too"
        return Diagnosis("layout", Found.LIMITS, evidence, action)
    return Diagnosis("layout", Found.FINE, evidence)


def time_of_casts(measured: Measured) -> float | None:
    """The share of the GPU's time that casts to and from half precision take; None where it is not known."""
    return _share_of_time(measured.kernels, "casts")


def _share_of_time(kernels: Kernels | None, part: str) -> float | None:
    if kernels is None:
        return None
    microseconds: float = getattr(kernels, part)
    return microseconds / kernels.total
