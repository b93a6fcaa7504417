from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.verify.runs.checkouts import apart
from amp_migrate.verify.runs.target import Target
from click.testing import CliRunner

LOOP = """
import torch


def train(model, optimizer, steps{parameter}):
    for step in range(steps):
        x = torch.randn(8, 4, device="cuda")
        optimizer.zero_grad()
        {forward}
"""
PLAIN = "loss = model(x).square().mean(); loss.backward(); optimizer.step()"
SCALED = """with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"""
TRAIN = """
import sys
sys.path.append(".")
import torch
from lib.loop import train

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
{call}
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path]:
    """A repository before its migration and after it; `lib/loop.py` and `tools/train.py` differ."""
    texts = {
        "old": (LOOP.format(parameter="", forward=PLAIN), "train(model, optimizer, 25)"),
        "new": (
            LOOP.format(parameter=", scaler", forward=SCALED),
            "train(model, optimizer, 25, torch.amp.GradScaler('cuda'))",
        ),
    }
    for name, (loop, call) in texts.items():
        for folder in (".git", "lib", "tools"):
            (tmp_path / name / folder).mkdir(parents=True)
        (tmp_path / name / "lib" / "loop.py").write_text(loop)
        (tmp_path / name / "lib" / "same.py").write_text("")
        (tmp_path / name / "tools" / "train.py").write_text(TRAIN.format(call=call))
    (tmp_path / "new" / "lib" / "added.py").write_text("")
    return tmp_path / "old", tmp_path / "new"


def test_scripts_of_two_checkouts_load_their_own_versions_of_what_differs(checkouts: tuple[Path, Path]) -> None:
    old, new = checkouts
    differ = [Path("lib/loop.py"), Path("tools/train.py")]
    original, migrated = apart(Target(old / "tools/train.py"), Target(new / "tools/train.py"))
    assert original.changed == {new / path: old / path for path in differ}
    assert migrated.changed == {old / path: new / path for path in differ}


def test_scripts_of_one_checkout_and_of_none_load_what_they_find(checkouts: tuple[Path, Path], tmp_path: Path) -> None:
    old, _ = checkouts
    (tmp_path / "train.py").write_text("")
    for other in (old / "lib/loop.py", tmp_path / "train.py"):
        both = apart(Target(old / "tools/train.py"), Target(other))
        assert [dict(each.changed) for each in both] == [{}, {}]


@pytest.mark.slow
def test_a_migrated_repository_is_verified_beside_its_old_checkout(
    checkouts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from amp_migrate.verify.cli import main

    old, new = checkouts
    monkeypatch.chdir(new)
    result = CliRunner().invoke(main, ["run", str(old / "tools/train.py"), "tools/train.py", "--device", "cpu"])
    assert result.exit_code == 0, result.output
