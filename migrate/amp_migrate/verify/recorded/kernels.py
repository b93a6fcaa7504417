"""What a GPU did in the profiled steps, read from the trace that PyTorch's profiler writes (Chrome's format).

A kernel is known by its name and by the operator that launched it: both carry the same `External id`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_migrate.verify.recorder.products import PRODUCT

_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_CASTS = frozenset({"aten::copy_", "aten::_to_copy"})
# How the kernels are called that change the order of a tensor's dimensions between cuDNN's two.
_LAYOUT = re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw", re.IGNORECASE)
# Instruction shapes and names that only kernels for matrix units have, of cuBLAS, cuDNN, CUTLASS and FlashAttention.
_MATRIX_UNITS = re.compile(
    r"884|1688|16816|16832|hmma|imma|tensorop|wgmma|gmma|nvjet|xmma|flash_|fmha|_sm(80|90|100)_", re.IGNORECASE
)
# Names of those that are known to do without.
_PLAIN = re.compile(r"sgemm|hgemm|dgemm|gemv|simt|scalar", re.IGNORECASE)


@dataclass(frozen=True)
class Kernels:
    """Microseconds on the GPU, over all profiled steps.

    Attributes:
        total: all kernels, copies and fills.
        busy: the time in which there was at least one of them.
        products: kernels of matrix products and convolutions.
        half_products: those of them whose inputs are in half precision.
        on_matrix_units, plain: what of `half_products` runs on matrix units and what does not, as far as the kernels'
            names tell; the rest is of unknown kernels.
        unknown: names of those.
        casts: copies between float32 and half precision.
        layout: changes between channels-first and channels-last.
    """

    total: float = 0.0
    busy: float = 0.0
    products: float = 0.0
    half_products: float = 0.0
    on_matrix_units: float = 0.0
    plain: float = 0.0
    unknown: tuple[str, ...] = ()
    casts: float = 0.0
    layout: float = 0.0


def read(path: Path) -> Kernels | None:
    """What the trace in a file says; None where it holds no kernel, as that of a CPU, or cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return of_events(document["traceEvents"])


def of_events(events: Iterable[Mapping[str, Any]]) -> Kernels | None:
    """What the events of a trace say; None where there is no kernel."""
    operators: dict[int, Mapping[str, Any]] = {}
    work: list[Mapping[str, Any]] = []
    for event in events:
        if event.get("cat") == "cpu_op":
            operators[event["args"].get("External id", -1)] = event
        elif event.get("cat") in _ON_GPU:
            work.append(event)
    if not any(event["cat"] == "kernel" for event in work):
        return None
    times = dict.fromkeys(("products", "half_products", "on_matrix_units", "plain", "casts", "layout"), 0.0)
    unknown: dict[str, float] = {}
    for event in work:
        name, duration = event["name"], event["dur"]
        operator = operators.get(event.get("args", {}).get("External id", -2), {})
        called, types = operator.get("name", ""), operator.get("args", {}).get("Input type", ())
        if _LAYOUT.search(name):
            times["layout"] += duration
        elif PRODUCT.match(called):
            times["products"] += duration
            if any(_is_half(kind) for kind in types):
                times["half_products"] += duration
                if _MATRIX_UNITS.search(name):
                    times["on_matrix_units"] += duration
                elif _PLAIN.search(name):
                    times["plain"] += duration
                else:
                    unknown[name] = unknown.get(name, 0.0) + duration
        elif called in _CASTS and {_is_half(kind) for kind in types if _is_floating(kind)} == {True, False}:
            times["casts"] += duration
    return Kernels(
        total=sum(event["dur"] for event in work),
        busy=_covered((event["ts"], event["ts"] + event["dur"]) for event in work),
        unknown=tuple(sorted(unknown, key=lambda name: -unknown[name])),
        **times,
    )


def _is_half(kind: str) -> bool:
    return kind in ("c10::Half", "c10::BFloat16")


def _is_floating(kind: str) -> bool:
    return _is_half(kind) or kind in ("float", "double")


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much of the time is in at least one of the spans."""
    covered, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        covered += max(0.0, last - max(first, end))
        end = max(end, last)
    return covered
