"""Comments above what was left as it was."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings
from click.testing import CliRunner

SETTINGS = Settings(annotate=True)


def annotated(text: str, settings: Settings = SETTINGS) -> str:
    plan = migrate_text(dedent(text).removeprefix("\n"), settings)
    assert [finding for finding in plan.findings if finding.kind is Kind.ERROR] == []
    assert migrate_text(plan.after, settings).after == plan.after
    return plan.after


def added(text: str, settings: Settings = SETTINGS) -> list[tuple[str, str]]:
    """Every comment that was put in, with the line below it."""
    lines = annotated(text, settings).splitlines()
    return [(line, below.strip()) for line, below in pairwise(lines) if line.lstrip().startswith("# amp-migrate: AMP")]


CLOSURE = """
    import torch
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.LBFGS(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(3)).sum()
        # the slow part
        loss.backward()
        return loss

    optimizer.step(closure)
"""


def test_the_reason_stands_above_what_was_left_and_below_other_comments() -> None:
    text = annotated(CLOSURE)
    plan = migrate_text(text, Settings())
    (finding,) = plan.findings
    lines = text.splitlines()
    assert lines[finding.line - 2] == (
        lines[finding.line - 1][: finding.column - 1] + f"# amp-migrate: {finding.code} {finding.message}"
    )
    assert [line for line in lines if not line.lstrip().startswith("# amp-migrate")] == dedent(CLOSURE).splitlines()[1:]


def test_nothing_is_put_in_where_nobody_asked() -> None:
    assert "amp-migrate" not in annotated(CLOSURE, Settings())


def test_a_comment_is_not_repeated_when_its_reason_changes() -> None:
    text = annotated(CLOSURE)
    (comment,) = [line for line in text.splitlines() if "amp-migrate" in line]
    older = text.replace(comment, f"{comment[: comment.index('AMP590')]}AMP590 an older reason")
    assert annotated(older) == older


def test_the_first_statement_of_a_file_can_have_one() -> None:
    text = "from torch.cuda.amp import *\nx = 1\n"
    (pair,) = added(text)
    assert pair[0].startswith("# amp-migrate: AMP190 from torch.cuda.amp import * left as it was: ")
    assert pair[1] == "from torch.cuda.amp import *"


def test_statements_of_several_lines_and_on_one_line_with_their_head_have_it_above() -> None:
    text = """
        import torch
        make = dict(
            scaler=torch.cuda.amp.GradScaler,
        )
        if make: run(torch.cuda.amp.autocast)
    """
    assert [below for _, below in added(text)] == ["make = dict(", "if make: run(torch.cuda.amp.autocast)"]


def test_two_places_of_one_statement_have_one_comment_for_each_code() -> None:
    text = "import torch\nf(torch.cuda.amp.autocast, torch.cuda.amp.autocast, torch.cuda.amp.GradScaler)\n"
    lines = annotated(text).splitlines()
    assert [line[:21] for line in lines[1:3]] == ["# amp-migrate: AMP101", "# amp-migrate: AMP103"]
    assert len(lines) == 4


def test_what_nobody_wants_to_hear_of_gets_no_comment() -> None:
    text = "import torch\nf(torch.cuda.amp.autocast)  # amp-migrate: ignore[AMP101]\n"
    assert annotated(text) == text
    assert annotated(text.partition("  #")[0] + "\n", Settings(annotate=True, ignore=("AMP101",))).count("#") == 0
    skipped = "# amp-migrate: skip-file\nimport torch\nf(torch.cuda.amp.autocast)\n"
    assert annotated(skipped) == skipped


def test_what_was_migrated_in_the_same_file_still_is() -> None:
    text = "import torch\nf(torch.cuda.amp.autocast)\nwith torch.cuda.amp.autocast():\n    pass\n"
    after = annotated(text)
    assert after.count("# amp-migrate: AMP101 ") == 1
    assert 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):' in after


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_are_those_of_the_file(newline: str) -> None:
    text = f"import torch{newline}f(torch.cuda.amp.autocast){newline}"
    after = migrate_text(text, SETTINGS).after
    assert after.count(newline) == after.count("\n") == 3


def test_the_option_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\nf(torch.cuda.amp.autocast)\n")
    result = CliRunner().invoke(command, ["--annotate", "train.py"])
    assert result.exit_code == 0
    assert "# amp-migrate: AMP101 " in Path("train.py").read_text()


def test_a_cell_of_a_notebook_has_it_inside(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": text} for text in ("import torch", "f(torch.cuda.amp.autocast)")]
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    result = CliRunner().invoke(command, ["--annotate", str(notebook)])
    assert result.exit_code == 0
    first, second = (cell["source"] for cell in json.loads(notebook.read_text())["cells"])
    assert first == "import torch"
    lines = "".join(second).splitlines()
    assert lines[0].startswith("# amp-migrate: AMP101 ")
    assert lines[1:] == ["f(torch.cuda.amp.autocast)"]
