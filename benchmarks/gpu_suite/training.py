"""Whole trainings in float32, TF32, migrated and hand-written mixed precision: time, memory, and what was learnt."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from amp_shim import amp

from gpu_suite.arms import ARMS, COMPARED, VARIANTS, Arm, Main, main_of, sources
from gpu_suite.sizes import Sizes, Workload


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """One row for each training, saved one by one.

    The arms take turns within a seed, so that a GPU that warms up favours none; each seed sees all workloads before
    the next one begins, so that a run that is cut off has fewer seeds and every workload.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        found = sources(Path(name))
        for workload, arm, seed in trainings(sizes):
            outcome = measured(main_of(arm, workload.script, found), workload, arm, seed, sizes.device)
            rows.append({"workload": workload.name, "arm": arm.name, "seed": seed, **outcome})
            save(rows)


def trainings(sizes: Sizes) -> Iterator[tuple[Workload, Arm, int]]:
    """What is trained, in this order: everything with the first seed, then what a migrated script is held to."""
    for seed in range(sizes.seeds):
        arms = COMPARED if seed else ARMS
        for workload in sizes.workloads:
            for arm in arms if seed % 2 == 0 else reversed(arms):
                yield workload, arm, seed
        for workload in sizes.workloads if sizes.variants and seed == 0 else ():
            for arm in VARIANTS:
                if not arm.scripts or workload.script in arm.scripts:
                    yield workload, arm, seed


def measured(main: Main, workload: Workload, arm: Arm, seed: int, device: str) -> dict[str, Any]:
    """What a training says of itself, or its error; it leaves nothing on the device, and no cast in the process."""
    words = [*workload.options, *arm.options, "--seed", str(seed), "--device", device]
    try:
        return main(words)
    except (RuntimeError, ValueError) as error:  # out of memory, or a kernel that this GPU has not
        return {"error": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
    finally:
        amp.reset()
        if device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
