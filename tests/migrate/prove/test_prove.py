"""What is another program than the original is not written, and `--prove` says what was checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.workspace import Workspace
from amp_migrate.prove.check import Change, Project, faults
from amp_migrate.prove.code.program import Others
from amp_migrate.settings import Settings
from click.testing import CliRunner, Result

TRAIN = """import torch
from data import batches

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in batches:
    print(len(x))
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(command, ["--prove", *words])


def run_as_usual(*words: str) -> Result:
    return CliRunner().invoke(command, list(words))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that loses a statement of each file."""
    from amp_migrate.engine import migrate
    from amp_migrate.engine.planner import plan as planned

    def plan(workspace: Workspace, settings: Settings, *given: Any) -> tuple[FilePlan, ...]:
        plans = planned(workspace, settings, *given)
        lost = "    print(len(x))\n"
        return tuple(FilePlan(each.source, each.after.replace(lost, ""), each.findings) for each in plans)

    monkeypatch.setattr(migrate, "plan", plan)


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
    result = run_as_usual("train.py")
    assert result.exit_code == 2
    assert Path("train.py").read_text() == TRAIN
    assert "AMP002" in result.output
    assert "the result is another program: nothing stands where the original has `print(len(x))`" in result.output


CAST = (
    TRAIN
    + """
with torch.no_grad():
    out = model(x)
    save(out.cpu().numpy())
"""
)


def test_a_cast_of_what_a_model_from_elsewhere_gives_is_taken_for_one_of_floats_but_with_prove() -> None:
    text = CAST.replace("torch.nn.Linear(3, 3)", "build()").replace("import batches", "import batches, build")
    Path("train.py").write_text(text)
    assert run_as_usual("--dtype", "bf16", "--diff", "train.py").exit_code == 0
    result = run("--dtype", "bf16", "--diff", "train.py")
    assert result.exit_code == 2
    assert "`out.float()` stands where the original has `out`" in result.output


def test_a_cast_of_whole_numbers_is_always_a_difference() -> None:
    before = "import torch\n\n\ndef best(out):\n    first = out.argmax(1)\n    return first.cpu()\n"
    project = Project(lambda *_: None, Others(lambda *_: None, lambda _: False), ((2, 6), (2, 6)))
    for after, is_wrong in (("first.float().cpu()", True), ("first.cpu()", False)):
        change = Change("a.py", before, before.replace("first.cpu()", after))
        assert bool(faults([change], project, is_strict=False)) is is_wrong
    change = Change(
        "a.py",
        before.replace(".argmax(1)", ".mean(1)"),
        before.replace(".argmax(1)\n    return first", ".mean(1)\n    return first.float()"),
    )
    assert not faults([change], project, is_strict=False)


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
    result = run_as_usual("train.py", "step.py")
    assert result.exit_code == 2
    assert {name: Path(name).read_text() for name in before} == before
    assert "the two belong together" in result.output


def test_a_scaler_made_on_one_way_and_used_on_both_is_refused() -> None:
    before = TRAIN.replace("optimizer = torch", "if fast:\n    optimizer = torch").replace(
        "for x", "else:\n    optimizer = make(model)\nfor x"
    )
    after = before.replace("\nelse:", '\n    scaler = torch.amp.GradScaler("cuda")\nelse:')
    after = after.replace(
        "    loss.backward()\n    optimizer.step()\n",
        "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n",
    )
    project = Project(lambda *_: None, Others(lambda *_: None, lambda _: False), ((2, 6), (2, 6)))
    assert faults([Change("a.py", before, after)], project)["a.py"].message == (
        "the result uses `scaler` where it may have no value"
    )


def test_a_decorator_may_name_what_it_decorates() -> None:
    text = (
        "from torch import nn\n\ntry:\n    from apex.parallel import SyncBatchNorm\n\n"
        "    norms = (nn.BatchNorm2d, SyncBatchNorm)\nexcept ImportError:\n    norms = (nn.BatchNorm2d,)\n\n\n"
        "class Wrapper:\n    @property\n    def lr(self):\n        return 1\n\n"
        "    @lr.setter\n    def lr(self, value: float) -> None:\n        self.put('lr', value, first=self.flag)\n\n"
        "    def put(self, key: str, value, first: bool = True):\n        return value\n"
    )
    Path("wrapper.py").write_text(text)
    result = run_as_usual("wrapper.py")
    assert result.exit_code == 0
    assert "SyncBatchNorm is now torch.nn.SyncBatchNorm" in result.output
