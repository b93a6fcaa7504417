"""What keeps the migrated trainings from being faster: `amp-verify doctor` on each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_suite.amp_verify import amp_verify
from gpu_suite.arms import sources
from gpu_suite.sizes import Sizes


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """The causes that limit each workload, migrated to float16, with what was measured; saved one by one."""
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        migrated = sources(Path(name))["fp16"]
        for workload in sizes.workloads:
            if sizes.diagnosed and workload.name not in sizes.diagnosed:
                continue
            options = ["--device", sizes.device, "--steps", str(sizes.steps)]
            told = amp_verify("doctor", migrated / workload.script, options, [*workload.options, "--steps", "50"])
            found[workload.name] = [f"exit status {told.status}: {told.said}"]
            if told.document is not None:
                limiting = [each for each in told.document["diagnoses"] if each["found"] == "limits"]
                found[workload.name] = [f"{each['cause']}: {each['evidence']}" for each in limiting]
            save(found)
