"""`amp-verify run --resume-args`: both scripts save, and go on in the folder that they saved in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amp_migrate.cli import command as amp_migrate
from amp_migrate.verify.cli import main
from click.testing import CliRunner

SCRIPT = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume")
args = parser.parse_args()

torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.randint(0, 4, (256,))
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
start = 0
if args.resume:
    saved = torch.load(args.resume)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    start = saved["epoch"]
for epoch in range(start, args.epochs):
    for at in range(0, 256, 16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[at : at + 16].cuda()), y[at : at + 16].cuda())
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, "last.pt")
"""
LOADED = '        scaler.load_state_dict(saved["scaler"])\n'
GOES_ON = ("--resume-args", "--resume last.pt")


@pytest.fixture(autouse=True)
def _scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("train.py").write_text(SCRIPT)
    assert CliRunner().invoke(amp_migrate, ["train.py", "-o", "new.py"]).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instead", "exit_code", "said"),
    [
        (LOADED, 0, "tensors and settings are what they were"),
        ("        pass\n", 1, "loss scaler 0, "),
        (
            f"{LOADED}    optimizer.state.clear()\n",
            1,
            "optimizer 0, tensor 0.step is gone when it goes on; 17 more differ",
        ),
    ],
)
def test_what_was_saved_is_there_again(instead: str, exit_code: int, said: str) -> None:
    text = Path("new.py").read_text()
    assert text.count(LOADED) == 1
    Path("new.py").write_text(text.replace(LOADED, instead))
    words = ("run", "train.py", "new.py", "--device", "cpu", "--steps", "25", "--json", "run.json", *GOES_ON)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == exit_code, result.output
    check = next(each for each in json.loads(Path("run.json").read_text())["checks"] if each["id"] == "G18")
    assert (check["status"], said in check["detail"]) == ("fail" if exit_code else "pass", True), check["detail"]
    assert "training that goes on from a checkpoint" not in result.output
    assert not Path("last.pt").exists()  # it was saved, and read, in the runs' own folders


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--resume-args", " "), "--resume-args is empty"),
        (("--resume-args", "--resume 'last.pt"), "No closing quotation"),
        ((*GOES_ON, "--launch", "torchrun"), "--resume-args goes without --launch"),
    ],
)
def test_words_that_cannot_be_passed_on_are_wrong_usage(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["run", "train.py", "new.py", "--device", "cpu", *words])
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[-1]
