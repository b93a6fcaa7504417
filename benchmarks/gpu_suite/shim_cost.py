"""What the shim costs beside a hand-written loop: `benchmarks/shim.py` on this device."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_suite.sizes import Sizes

SCRIPT = Path(__file__).parents[1] / "shim.py"


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """Step times of the shim's ways to train, as ratios to the native loop's."""
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "shim.json"
        command = [sys.executable, str(SCRIPT), "--device", sizes.device, *sizes.shim_options, "--output", str(output)]
        subprocess.run(command, check=True)
        save(json.loads(output.read_text(encoding="utf-8"))["ratios"])
