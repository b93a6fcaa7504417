"""The fixes in a SARIF report make of the files what the codemod makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.cli import command
from amp_migrate.report.change import FileChange
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

ENGINE = """\
def train(model, optimizer, x):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRAIN = """\
import torch
from engine import train

model = torch.nn.Linear(1, 1).cuda()
train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, torch.ones(1).cuda())"""


def fixed(text: str, replacements: list[dict[str, Any]]) -> str:
    """A text with replacements as SARIF means them: from the end, so that none moves another."""
    lines = [f"{line}\n" for line in text.split("\n")]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for each in reversed(replacements):
        region = each["deletedRegion"]
        begin, end = (starts[region[f"{side}Line"] - 1] + region[f"{side}Column"] - 1 for side in ("start", "end"))
        text = text[:begin] + each.get("insertedContent", {"text": ""})["text"] + text[end:]
    return text


def test_a_fix_holds_all_that_changes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"engine.py": ENGINE, "train.py": TRAIN.replace("train(model, torch", "# train(model, torch")}
    texts["names.py"] = "\ufeffimport torch\r\nscaler = torch.cuda.amp.GradScaler()\r\n"
    for name, text in texts.items():
        Path(name).write_bytes(text.encode())
    shown = CliRunner().invoke(command, ["--check", "--format", "sarif", "."])
    results = json.loads(shown.stdout)["runs"][0]["results"]
    fixes = [fix for result in results for fix in result.get("fixes", ())]
    assert [[each["artifactLocation"]["uri"] for each in fix["artifactChanges"]] for fix in fixes] == [
        ["engine.py", "train.py"],
        ["names.py"],
    ]
    assert CliRunner().invoke(command, ["."]).exit_code == 0
    for fix in fixes:
        for change in fix["artifactChanges"]:
            name = change["artifactLocation"]["uri"]
            before = texts[name].removeprefix("\ufeff")
            assert fixed(before, change["replacements"]) == Path(name).read_bytes().decode("utf-8-sig"), name


def test_what_was_written_needs_no_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    assert "fixes" not in CliRunner().invoke(command, ["--format", "sarif", "."]).stdout


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "\f\n"]), max_size=6)


@given(LINES, LINES, st.sampled_from(["", "end"]), st.sampled_from(["", "end", "other"]))
def test_hunks_make_the_new_text_of_the_old(before: list[str], after: list[str], last: str, new_last: str) -> None:
    change = FileChange("a.py", "".join(before) + last, "".join(after) + new_last)
    replacements = [
        {
            "deletedRegion": {
                "startLine": hunk.line,
                "startColumn": hunk.column,
                "endLine": hunk.end_line,
                "endColumn": hunk.end_column,
            },
            "insertedContent": {"text": hunk.text},
        }
        for hunk in change.hunks
    ]
    assert fixed(change.before, replacements) == change.after
