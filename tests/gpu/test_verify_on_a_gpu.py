"""A fixture from its original to a verdict, on the device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FIXTURE = Path(__file__).parents[2] / "fixtures/cuda_amp_linear"
AMP_VERIFY = "from amp_migrate.verify.cli import main; main()"


@pytest.mark.gpu  # without one, the fixtures of the rehearsal go the same way
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_fixture_is_migrated_and_passes_and_is_timed(tmp_path: Path) -> None:
    options = ["--device", "cuda", "--timing-runs", "2", "--timing-steps", "30", "--json", "out.json"]
    arguments = ["--width", "64", "--steps", "60", "--device", "cuda"]
    done = subprocess.run(
        [sys.executable, "-c", AMP_VERIFY, "run", str(FIXTURE / "train.py"), *options, "--", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert told["verdict"] == "PASS"
    assert told["speed"] is not None
    assert told["memory"] is not None
