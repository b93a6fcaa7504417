"""PyTorch's examples through `amp-verify run`: `benchmarks/verify_examples.py` on this device, in float16."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_suite.sizes import Sizes

SCRIPT = Path(__file__).parents[1] / "verify_examples.py"


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """The verdicts, and the examples' commit; nothing without a checkout of them."""
    if sizes.examples is None:
        save({"commit": None, "verified": []})
        return
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "examples.json"
        command = [sys.executable, str(SCRIPT), str(sizes.examples), "--device", sizes.device, "--dtypes", "fp16"]
        if sizes.known is not None:
            output.write_text(json.dumps(sizes.known), encoding="utf-8")
            command.append("--go-on")
        command += ["--at-once", str(sizes.programs_at_once), *sizes.examples_options, "--output", str(output)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                if output.exists():
                    told = json.loads(output.read_text(encoding="utf-8"))
                    save({key: told[key] for key in ("commit", "verified")})
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
