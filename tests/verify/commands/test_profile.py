"""`amp-verify profile`: what a script computes in float32, for `amp-migrate --profile`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from amp_migrate.verify.cli import main
from click.testing import CliRunner, Result

pytestmark = pytest.mark.slow
SCRIPT = """
import torch
from torch import nn

class Distance(nn.Module):
    def forward(self, x):
        return (x * 300) * (x * 300)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.distance = Distance()

    def forward(self, x):
        with torch.no_grad():
            far = self.distance(x).mean()
        return self.fc(x) + far * 1e-6

device = torch.device("cuda")
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for _ in range(30):
    optimizer.zero_grad()
    loss = criterion(model(torch.ones(2, 4).to(device)), torch.tensor([0, 1]).to(device))
    loss.backward()
    optimizer.step()
"""


def profiled(folder: Path, text: str, *options: str) -> Result:
    script = folder / "train.py"
    script.write_text(text)
    arguments = ["profile", str(script), "--device", "cpu", "--isolate", "never", "--output", str(folder / "run.json")]
    return CliRunner().invoke(main, [*arguments, *options])


def test_what_leaves_the_range_without_gradients_is_kept_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = profiled(tmp_path, SCRIPT, "--steps", "7")
    assert result.exit_code == 0, result.output
    assert "over 7 optimizer steps" in result.stderr
    found = json.loads((tmp_path / "run.json").read_text())["ranges"]
    far = max(found, key=lambda each: float(each["largest"]))
    assert (far["file"], far["owner"], far["largest"]) == ("train.py", "Distance", 90000.0)
    command = [sys.executable, "-m", "amp_migrate", "--profile", "run.json", "--diff", "."]
    kept = subprocess.run(command, capture_output=True, text=True, check=False)
    added = [line for line in kept.stdout.splitlines() if line.startswith("+") and "cast_inputs" in line]
    assert len(added) == 1, kept.stdout


@pytest.mark.parametrize("autocast", [True, False])
def test_a_script_in_mixed_precision_is_measured_in_float32(tmp_path: Path, autocast: bool) -> None:
    text = SCRIPT.replace(
        "    loss = criterion(", f'    with torch.autocast("cuda", enabled={autocast}):\n        loss = criterion('
    )
    assert profiled(tmp_path, text, "--steps", "3").exit_code == 0
    found = json.loads((tmp_path / "run.json").read_text())["ranges"]
    assert {each["operation"] for each in found} >= {"linear", "cross_entropy", "mul"}


def test_a_script_that_fails_or_computes_nothing_is_told(tmp_path: Path) -> None:
    failed = profiled(tmp_path, "raise ValueError('no data')\n")
    assert (failed.exit_code, "no data" in failed.stdout) == (5, True)
    nothing = profiled(tmp_path, "import torch\n")
    assert (nothing.exit_code, nothing.stdout.startswith("VACUOUS")) == (4, True)
    assert not (tmp_path / "run.json").exists()
