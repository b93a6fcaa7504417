"""Autocast's op lists: what the device does beside what the CPU does that stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from amp_shim.policy import NATIVE_CUDA, Treatment
from amp_shim.policy.dispatch import enforce
from amp_shim.policy.operators import family_of

from gpu_suite.op_samples import HALVES, OPERATORS, fake_cuda_autocast, mixed_outcome, outcome
from gpu_suite.sizes import Sizes


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """Every operator of CUDA's autocast, in both halves, on half, float32 and (where it promotes) mixed arguments.

    A rehearsal asks PyTorch's fake tensors in place of a GPU.
    """
    names = OPERATORS[: sizes.operators]
    save({"operators": len(names), "cases": [case for name in names for case in _cases(name, sizes.device)]})


def _cases(name: str, device: str) -> Iterator[dict[str, str]]:
    asked: dict[str, Callable[[torch.dtype, str], object]] = {
        "half": lambda half, on: outcome(name, half, on),
        "float32": lambda half, on: outcome(name, torch.float32, on),
    }
    if NATIVE_CUDA.treatment(family_of(name)) is Treatment.PROMOTE:
        asked["mixed"] = lambda half, on: mixed_outcome(name, half, on)
    for region in HALVES:
        for given, ask in asked.items():
            with _on_device(device, region):
                there = _told(ask(region, "cuda"))
            with enforce(NATIVE_CUDA, "cpu"), torch.autocast("cpu", dtype=region):
                here = _told(ask(region, "cpu"))
            yield {"operator": name, "region": _told(region), "given": given, "device": there, "stand_in": here}


def _told(found: object) -> str:
    return found.__name__ if isinstance(found, type) else str(found).removeprefix("torch.")


def _on_device(device: str, region: torch.dtype) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", dtype=region) if device == "cuda" else fake_cuda_autocast(region)


def disagreements(cases: list[dict[str, str]]) -> list[dict[str, str]]:
    """The cases in which the stand-in does something else than the device."""
    return [case for case in cases if case["device"] != case["stand_in"]]
