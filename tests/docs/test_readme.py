"""What the front page shows is what the tools do."""

from __future__ import annotations

import re
from pathlib import Path

import click
from amp_migrate.cli import command
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_before_and_after_are_what_the_codemod_makes_of_it(tmp_path: Path) -> None:
    diffs = re.findall(r"^```diff\n(.*?)^```$", README, re.M | re.S)
    assert len(diffs) == 3  # float32, torch.cuda.amp and Apex
    script = tmp_path / "train.py"
    for diff in diffs:
        lines = diff.splitlines(keepends=True)
        script.write_text("".join(line[1:] for line in lines if line[0] in " -"))
        assert CliRunner().invoke(command, [str(script)]).exit_code == 0
        assert script.read_text() == "".join(line[1:] for line in lines if line[0] in " +")


def test_every_option_is_on_the_page_of_all_options() -> None:
    page = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    assert [name for each in options for name in each.opts if f"`{name}" not in page] == []
