"""`amp-migrate --prove`: what cannot be shown to be the same program is not written, and what was checked is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.planner import FilePlan
from amp_migrate.engine.workspace import Workspace
from amp_migrate.settings import Settings
from click.testing import CliRunner, Result

TRAIN = """import torch
from data import batches

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(command, ["--prove", *words])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that loses a statement of each file."""
    from amp_migrate.engine import migrate
    from amp_migrate.engine.planner import plan as planned

    def plan(workspace: Workspace, settings: Settings, parsed: dict[object, object]) -> tuple[FilePlan, ...]:
        plans = planned(workspace, settings, parsed)  # type: ignore[arg-type]
        lost = "    optimizer.zero_grad()\n"
        return tuple(FilePlan(each.source, each.after.replace(lost, ""), each.findings) for each in plans)

    monkeypatch.setattr(migrate, "plan", plan)
    monkeypatch.setattr(migrate, "_changed_again", lambda *_: {})


def test_what_was_checked_is_said() -> None:
    result = run("train.py")
    assert result.exit_code == 0
    assert result.stdout.startswith("train.py: checked: erasure, names, calls, scaler order\n")
    assert "scaler.step(optimizer)" in Path("train.py").read_text()


def test_a_report_for_programs_stays_one() -> None:
    result = run("--format", "json", "--diff", "train.py")
    assert json.loads(result.stderr.partition("\n")[2])["findings"]
    assert "train.py: checked: " in result.stderr


@pytest.mark.usefixtures("faulty")
def test_a_result_that_is_another_program_is_refused_and_the_difference_shown() -> None:
    result = run("train.py")
    assert result.exit_code == 2
    assert Path("train.py").read_text() == TRAIN
    assert "AMP002" in result.output
    assert (
        "the result is another program: nothing stands where the original has `optimizer.zero_grad()`" in result.output
    )


@pytest.mark.usefixtures("faulty")
def test_without_it_nothing_is_proved() -> None:
    assert CliRunner().invoke(command, ["train.py"]).exit_code == 0


@pytest.mark.usefixtures("faulty")
def test_files_that_belong_together_are_refused_together() -> None:
    Path("step.py").write_text(
        "import torch\n\n\ndef train(model, optimizer, x):\n    loss = model(x).sum()\n    loss.backward()\n"
        "    optimizer.step()\n"
    )
    main = TRAIN.replace(
        "    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n", "    train(model, optimizer, x)\n"
    )
    Path("train.py").write_text(main.replace("import torch\n", "import torch\nfrom step import train\n"))
    before = {name: Path(name).read_text() for name in ("step.py", "train.py")}
    result = run("train.py", "step.py")
    assert result.exit_code == 2
    assert {name: Path(name).read_text() for name in before} == before
    assert "the two belong together" in result.output
