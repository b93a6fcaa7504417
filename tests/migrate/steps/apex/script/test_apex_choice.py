"""`--apex` and `--apex-o2`: whether an Apex script goes to native AMP, to the shim, or to whichever is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Apex, Settings
from click.testing import CliRunner

SCRIPT = """\
import torch
from apex import amp
from apex.normalization import FusedLayerNorm
model = torch.nn.Sequential(torch.nn.Linear(3, 4), FusedLayerNorm(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level={})
for x in range(3):
    loss = model(x).sum()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ON_SHIM = SCRIPT.replace("from apex", "from amp_shim")


def planned(text: str, **options: Apex) -> FilePlan:
    settings = Settings(**options)  # type: ignore[arg-type]  # all options here are of one type
    plan = migrate_text(text, settings)
    assert migrate_text(plan.after, settings).after == plan.after
    return plan


def test_shim_takes_the_whole_script() -> None:
    plan = planned(SCRIPT.format('"O1"'), apex=Apex.SHIM)
    assert plan.after == ON_SHIM.format('"O1"')
    assert [each for each in plan.findings if each.code == "AMP290" and "that was asked for" in each.message]


def test_native_leaves_what_has_no_native_form() -> None:
    text = SCRIPT.format('"O5"')
    plan = planned(text, apex=Apex.NATIVE)
    assert plan.after == text.replace("FusedLayerNorm(4)", "torch.nn.LayerNorm(4)").replace(
        "from apex.normalization import FusedLayerNorm\n", ""
    )
    left = {each.code for each in plan.findings if each.kind is Kind.LEFT}
    assert left == {"AMP290", "AMP301"}


@pytest.mark.parametrize("apex", [Apex.AUTO, Apex.NATIVE])
def test_what_has_a_native_form_gets_it(apex: Apex) -> None:
    plan = planned(SCRIPT.format('"O1"'), apex=apex)
    assert "scaler.scale(loss).backward()" in plan.after
    assert "apex" not in plan.after


@pytest.mark.parametrize("level", ['"O2"', '"O3"', "args.opt_level"])
def test_float16_weights_stay_on_request(level: str) -> None:
    assert "scaler.scale(loss)" in planned(SCRIPT.format(level)).after
    kept = ON_SHIM.format(level).replace("from amp_shim.normalization import FusedLayerNorm\n", "")
    plan = planned(SCRIPT.format(level), apex_o2=Apex.SHIM)
    assert plan.after == kept.replace("FusedLayerNorm(4)", "torch.nn.LayerNorm(4)")
    assert [each for each in plan.findings if "float16 weights were asked to stay" in each.message]


@pytest.mark.parametrize("level", ['"O0"', '"O1"'])
def test_other_levels_do_not_care(level: str) -> None:
    assert planned(SCRIPT.format(level), apex_o2=Apex.SHIM).after == planned(SCRIPT.format(level)).after


def test_o3_is_told_to_have_float32_weights_now() -> None:
    notes = [each.message for each in planned(SCRIPT.format('"O3"')).findings if each.code == "AMP210"]
    assert ["now the weights are float32 under autocast" in note for note in notes] == [True]


@pytest.mark.parametrize(("option", "key"), [(["--apex", "shim"], "apex"), (["--apex-o2", "shim"], "apex-o2")])
def test_choice_is_an_option_of_the_command_and_of_the_project(
    option: list[str], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT.format('"O2"'))
    by_option = CliRunner().invoke(command, ["--diff", *option, "train.py"]).stdout
    assert "+from amp_shim import amp\n" in by_option
    Path("pyproject.toml").write_text(f'[tool.amp-migrate]\n{key} = "shim"\n')
    assert CliRunner().invoke(command, ["--diff", "train.py"]).stdout == by_option
