"""The benchmarks that give ratios of step times, on this device: the shim's, and those of `amp-verify`'s recorder."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpu_suite.sizes import Sizes

BENCHMARKS = Path(__file__).parents[1]


def shim(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """Step times of the shim's ways to train, as ratios to the native loop's."""
    save(_ratios("shim.py", sizes.device, sizes.shim_options))


def recording(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """Step times with each recorder, as ratios to the step alone."""
    save(_ratios("verify.py", sizes.device, sizes.recording_options))


def _ratios(script: str, device: str, options: Sequence[str]) -> Any:
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "ratios.json"
        command = [sys.executable, str(BENCHMARKS / script), "--device", device, *options, "--output", str(output)]
        subprocess.run(command, check=True)
        return json.loads(output.read_text(encoding="utf-8"))["ratios"]
