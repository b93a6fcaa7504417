"""`amp-verify fix`: the smallest change that passes is written, and nothing where none does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.cli import command as amp_migrate
from amp_migrate.verify.cli import main
from amp_migrate.verify.commands.fix import next_step
from amp_migrate.verify.experiments.float32_parts import Localised
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.verdict import Limits, assess
from click.testing import CliRunner, Result

SCRIPT = """\
import torch
from torch import nn


class Unit(nn.Module):
    def forward(self, x):
        return {forward}


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), Unit(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    x = 300 * torch.randn(16, 8).cuda()
    loss = nn.functional.mse_loss({output}, x[:, :1] / 300)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
UNIT = "x / (x * x).sum(1, keepdim=True).sqrt()"
DECORATOR = '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n    def forward'
pytestmark = pytest.mark.slow


def fix(script: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["fix", str(script), "--device", "cpu", *words])


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path / "train.py"


def test_a_class_is_kept_in_float32_and_the_original_runs_once(script: Path) -> None:
    text = SCRIPT.format(forward=UNIT, output="model(x)")
    script.write_text(text)
    shown = fix(script, "--diff")
    assert (shown.exit_code, script.read_text()) == (0, text)
    assert f"+{DECORATOR.splitlines()[0]}\n" in shown.stdout
    result = fix(script, "--json", "tries.json")
    assert result.exit_code == 0, result.output
    assert script.read_text().count(DECORATOR) == 1
    assert result.stderr.count("s  original: 30 steps") == 1
    tries = json.loads(Path("tries.json").read_text())["tries"]
    assert [(each["options"], each["verdict"]) for each in tries] == [
        ([], "FAIL"),
        (["--keep-float32", "Unit"], "PASS"),
    ]
    assert CliRunner().invoke(amp_migrate, ["--undo", "."]).exit_code == 0
    assert script.read_text() == text


def test_what_passes_at_once_is_written_as_it_is(script: Path) -> None:
    script.write_text(SCRIPT.format(forward="torch.relu(x)", output="model(x / 300)"))
    result = fix(script)
    assert result.exit_code == 0, result.output
    assert "custom_fwd" not in script.read_text()
    assert "scaler.scale(loss).backward()" in script.read_text()


def test_what_overflows_in_a_function_and_in_a_model_s_own_forward_is_kept_where_it_stands(script: Path) -> None:
    net = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 64), nn.Linear(64, 1)

    def forward(self, x):
        h = self.first(x)
        big = h * h * 3
        return self.last(big / 1e6)


def energy(out):
    square = out * out * 2e3 * 1.5e3
    return square / (1e5 + square.mean())
"""
    text = SCRIPT.format(forward="x", output="energy(model(x))")
    unit = text[text.index("class Unit") : text.index("torch.manual_seed")]
    text = text.replace(unit, f"{net.lstrip()}\n\n")
    script.write_text(text.replace(text[text.index("nn.Sequential") : text.index(".cuda()")], "Net()"))
    result = fix(script, "--dtype", "fp16", "--json", "tries.json")
    assert result.exit_code == 0, result.output
    island = 'with torch.amp.autocast(device_type="cuda", enabled=False):\n'
    written = script.read_text()
    assert f"        {island}            big = h.float() * h.float() * 3\n" in written
    assert f"    {island}        square = out.float() * out.float() * 2e3 * 1.5e3\n" in written
    tries = json.loads(Path("tries.json").read_text())["tries"]
    assert [(each["options"], each["verdict"]) for each in tries] == [
        (["--dtype", "fp16"], "FAIL"),
        (["--dtype", "fp16", "--profile"], "PASS"),
    ]


def test_where_nothing_passes_nothing_is_written(script: Path) -> None:
    output = "(model(x / 300) * 2.0**20) @ torch.full((1, 1), 2.0**-20).cuda()"
    text = SCRIPT.format(forward="torch.relu(x)", output=output)
    script.write_text(text)
    result = fix(script, "--dtype", "fp16")
    assert (result.exit_code, script.read_text()) == (1, text)
    assert "no part of a model to keep in float32: not a part of a model" in result.stdout
    assert result.stdout.endswith(
        "nothing was written; tried: --dtype fp16\nnext: the script passed in bfloat16: --dtype bf16\n"
    )
    assert fix(script).exit_code == 0  # in bfloat16
    assert "dtype=torch.bfloat16" in script.read_text()


def test_what_no_class_of_the_script_s_own_holds_is_named_to_be_kept_by_hand(
    make_evidence: Callable[..., Evidence],
) -> None:
    verdict = assess(make_evidence(), Limits())
    lines = ('keep_fp32(model, "head")', 'keep_fp32(critic, "net.2")')
    assert next_step(Localised("", lines=lines, bfloat16=True), verdict) == (
        'the script passed with `keep_fp32(model, "head")` and `keep_fp32(critic, "net.2")` before the first call: '
        "keep_fp32 is of amp_shim.policy"
    )
    failed = replace(verdict, advice="end the autocast region after the loss")
    assert next_step(Localised("the edit, not precision"), failed) == "end the autocast region after the loss"
    assert next_step(None, failed) == "end the autocast region after the loss"
