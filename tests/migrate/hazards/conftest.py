"""Scripts whose hazards are marked in the text: a line that ends in `# AMP606` is one, all others are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype, Settings

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

"""
_MARK = re.compile(r"# (AMP6\d\d)$")


@pytest.fixture
def marked() -> Callable[..., tuple[Finding, ...]]:
    """Assert that a text has exactly the hazards that are marked in it, and is left as it is."""

    def check(text: str, dtype: str = "fp16") -> tuple[Finding, ...]:
        whole = HEAD + dedent(text).removeprefix("\n")
        compile(whole, "train.py", "exec")
        plan = migrate_text(whole, Settings(dtype=Dtype(dtype), select=("AMP6",)))
        expected = [
            (number, mark[1]) for number, line in enumerate(whole.splitlines(), 1) if (mark := _MARK.search(line))
        ]
        assert [(each.line, each.code) for each in plan.findings] == expected
        assert {each.kind for each in plan.findings} <= {Kind.HAZARD}
        assert plan.after == whole
        return plan.findings

    return check


@pytest.fixture
def marked_files(tmp_path: Path) -> Callable[..., tuple[Finding, ...]]:
    """Assert the same of several files, each given by its name without `.py`."""

    def check(**texts: str) -> tuple[Finding, ...]:
        expected = []
        for name, text in texts.items():
            whole = dedent(text).removeprefix("\n")
            (tmp_path / f"{name}.py").write_text(whole)
            marks = ((number, _MARK.search(line)) for number, line in enumerate(whole.splitlines(), 1))
            expected += [(f"{name}.py", number, mark[1]) for number, mark in marks if mark]
        outcome = migrate([tmp_path], Settings(dtype=Dtype("fp16"), select=("AMP6",)))
        found = [(Path(each.path).name, each.line, each.code) for each in outcome.findings]
        assert sorted(found) == sorted(expected)
        assert {each.kind for each in outcome.findings} <= {Kind.HAZARD}
        return outcome.findings

    return check


@pytest.fixture
def clean(marked: Callable[..., tuple[Finding, ...]]) -> Callable[[str], None]:
    """Assert that a text has no hazard at all."""

    def check(text: str, dtype: str = "fp16") -> None:
        assert not _MARK.search(text)
        assert marked(text, dtype) == ()

    return check
