"""`amp-verify doctor` on a script that waits for its data, one that waits for launches, and one that computes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_suite.amp_verify import amp_verify
from gpu_suite.arms import sources
from gpu_suite.sizes import Sizes

# For each, a cause that the doctor has to name, and those that it may not; what waits for data may be small, too.
BOUNDS: dict[str, tuple[set[str], set[str]]] = {
    "input": ({"input"}, set()),
    "launch": ({"host"}, {"input"}),
    "compute": (set(), {"input", "host"}),
}


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """The causes that the doctor names for each, with what was measured; saved one by one."""
    found: dict[str, Any] = dict(sizes.known or {})
    with tempfile.TemporaryDirectory() as name:
        script = sources(Path(name))["fp16"] / "bound.py"
        for bound in (each for each in sizes.bounds if each not in found):
            options = ["--device", sizes.device, "--steps", str(sizes.steps)]
            told = amp_verify("doctor", script, options, _arguments(bound, sizes))
            found[bound] = {"status": told.status, "said": told.said, "limits": {}}
            if told.document is not None:
                limiting = [each for each in told.document["diagnoses"] if each["found"] == "limits"]
                found[bound]["limits"] = {each["cause"]: each["evidence"] for each in limiting}
            save(found)


def told_apart(found: Mapping[str, Any]) -> dict[str, bool]:
    """For each script that was looked at, whether it is said to be bound by what bounds it."""
    named = {bound: set(told["limits"]) for bound, told in found.items()}
    return {bound: BOUNDS[bound][0] <= each and not BOUNDS[bound][1] & each for bound, each in named.items()}


def tune(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """What `amp-verify tune` finds faster in each, what computes first; saved one by one."""
    found: dict[str, Any] = dict(sizes.known or {})
    with tempfile.TemporaryDirectory() as name:
        script = sources(Path(name))["fp16"] / "bound.py"
        for bound in (each for each in reversed(sizes.bounds) if each not in found):
            options = ["--device", sizes.device, "--timing-runs", "2", "--timing-steps", "40"]
            told = amp_verify("tune", script, options, _arguments(bound, sizes))
            ways = told.document["ways"] if told.document is not None else []
            found[bound] = {"status": told.status, "said": told.said, "ways": ways}
            save(found)


def _arguments(bound: str, sizes: Sizes) -> list[str]:
    return ["--bound", bound, "--divide", str(sizes.divided)]
