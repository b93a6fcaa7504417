"""What a run has done is counted, in whichever process it was done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.parts.work import Work
from click.testing import CliRunner

STEP = """\
import torch

model = torch.nn.Linear(1, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in range(9):
    loss = model(torch.ones(1).cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LINES = STEP.count("\n")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, "train.py").write_text(STEP)
    Path("model.py").write_text("import torch\n\n\nclass Net(torch.nn.Module): ...\n")
    Path("other.py").write_text("x = 1\n")


def statistics(*words: str) -> dict[str, dict[str, int]]:
    result = CliRunner().invoke(command, ["--check", "--statistics", "--format", "json", *words])
    assert result.exit_code == 1, result.output
    found: dict[str, dict[str, int]] = json.loads(result.stdout)["statistics"]
    assert list(found["work"]) == [what.value for what in Work]
    return found


@pytest.mark.parametrize("words", [["."], [".", "--workers", "1"]])
def test_only_what_may_change_is_given_to_libcst(words: list[str]) -> None:
    found = statistics(*words)
    work = found["work"]
    assert found["codes"] == {"AMP501": 2}
    assert (work["files parsed by LibCST"], work["lines parsed by LibCST"]) == (2, 2 * LINES)
    assert work["lines looked at by Python's parser"] == 4
    assert work["plans made"] == 2  # one of each project
    assert work["edits planned"] > 0


def test_every_run_counts_for_itself() -> None:
    assert statistics("a/train.py") == statistics("a/train.py")


def test_other_processes_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = statistics(".")["work"]
    monkeypatch.setattr("amp_migrate.engine.parts.in_parts.PART_BYTES", 1)
    shared = statistics(".", "--workers", "2")["work"]
    assert {what: shared[what] for what in ("lines parsed by LibCST", "edits planned")} == {
        what: alone[what] for what in ("lines parsed by LibCST", "edits planned")
    }


def test_a_person_reads_them_under_the_report() -> None:
    lines = CliRunner().invoke(command, ["--check", "--statistics", "."]).stdout.splitlines()
    assert lines[-1].split(maxsplit=1) == ["2", "findings of AMP501"]
    assert lines[-2].split(maxsplit=1)[1] == "edits planned"


@pytest.mark.parametrize("words", [["--quiet"], ["--format", "sarif"]])
def test_there_must_be_a_report_to_tell_them_in(words: list[str]) -> None:
    result = CliRunner().invoke(command, ["--statistics", *words, "."])
    assert (result.exit_code, "--statistics are told in a report" in result.stderr) == (2, True)
