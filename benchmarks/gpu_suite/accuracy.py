"""What a ResNet-18 has learnt of real pictures when its training has ended: in float32, and migrated."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_suite.arms import ARMS, MIGRATED, MIGRATED_BF16, PLAIN, main_of, sources
from gpu_suite.sizes import Sizes
from gpu_suite.training import measured

TRAINED = tuple(arm for arm in ARMS if arm.name in (PLAIN, MIGRATED, MIGRATED_BF16))


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """One row for each training, saved one by one; other parts run beside it, so that it tells no times."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        found = sources(Path(name))
        for seed in range(sizes.whole_seeds):
            for arm in TRAINED:
                told = measured(main_of(arm, sizes.whole.script, found), sizes.whole, arm, seed, sizes.device)
                kept: dict[str, Any] = {key: told[key] for key in ("accuracy", "loss", "error") if key in told}
                rows.append({"workload": sizes.whole.name, "arm": arm.name, "seed": seed, **kept})
                save(rows)
