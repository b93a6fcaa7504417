"""What `amp-verify`'s recorder costs a step: `benchmarks/verify.py` on this device."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_suite.sizes import Sizes

SCRIPT = Path(__file__).parents[1] / "verify.py"


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """Step times with each recorder, as ratios to the step alone."""
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "verify.json"
        command = [
            sys.executable,
            str(SCRIPT),
            "--device",
            sizes.device,
            *sizes.recording_options,
            "--output",
            str(output),
        ]
        subprocess.run(command, check=True)
        save(json.loads(output.read_text(encoding="utf-8"))["ratios"])
