"""`--keep-float32`: a class of modules computes in float32 inside every region, wherever it is defined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings
from click.testing import CliRunner

ENERGY = """\
class Energy(nn.Module):
    def forward(self, x):
        return x / (x * x).sum(1, keepdim=True)
"""
STEP = """\
model = nn.Sequential(nn.Linear(3, 64), Energy(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
DECORATOR = '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n'


@pytest.mark.parametrize("prove", [False, True])
def test_a_forward_gets_float32_and_no_autocast(migrate: Callable[..., FilePlan], prove: bool) -> None:
    plan = migrate(f"{ENERGY}\n\n{STEP}", keep_float32=("Energy",), prove=prove)
    assert ENERGY.replace("    def", f"{DECORATOR}    def") in plan.after
    found = [(each.code, each.line) for each in plan.findings if each.kind is Kind.MIGRATED]
    assert ("AMP505", 5) in found
    assert "AMP504" not in {each.code for each in plan.findings}  # nothing in there is computed in half precision


def test_one_that_says_what_it_computes_in_is_left(migrate: Callable[..., FilePlan]) -> None:
    own = ENERGY.replace("    def", f"{DECORATOR}    def")
    assert own in migrate(f"{own}\n\n{STEP}", keep_float32=("Energy",)).after


def test_the_class_may_be_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(f"import torch\nfrom torch import nn\n\n\n{ENERGY}")
    (tmp_path / "train.py").write_text(f"import torch\nfrom torch import nn\n\nfrom nets import Energy\n\n{STEP}")
    plans = migrate_paths([tmp_path], Settings(keep_float32=("Energy",))).changed
    assert {each.source.path.name: [finding.code for finding in each.findings] for each in plans} == {
        "nets.py": ["AMP505"],
        "train.py": ["AMP501"],
    }


def test_a_class_that_is_not_there_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import torch\nfrom torch import nn\n\n\n{ENERGY}\n\n{STEP}")
    result = CliRunner().invoke(command, ["--check", str(script), "--keep-float32", "Energy,Enegry"])
    assert (result.exit_code, result.stderr) == (
        1,
        "note: --keep-float32 Enegry: no class of that name here\n",
    )


def test_what_is_no_name_of_a_class_is_wrong_usage() -> None:
    result = CliRunner().invoke(command, ["--keep-float32", "model.1", "."])
    assert (result.exit_code, "'model.1' is not the name of a class" in result.stderr) == (2, True)


def test_an_older_pytorch_has_nothing_to_write_it_with() -> None:
    result = CliRunner().invoke(command, ["--keep-float32", "Energy", "--target-torch", "2.3", "."])
    assert (result.exit_code, "came with PyTorch 2.4" in result.stderr) == (2, True)
