"""What code is written for: an older PyTorch, and devices other than CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings
from click.testing import CliRunner

STEP = """\
import torch
model = torch.nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
DEPRECATED = """\
import torch
from torch.cuda.amp import GradScaler, autocast, custom_fwd
scaler = GradScaler(init_scale=4.0)
with autocast():
    y = x @ x
dtype = torch.get_autocast_gpu_dtype()
class F(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx, x):
        return x
"""
NATIVE_SCALER = """\
import torch
scaler = torch.amp.GradScaler("cuda")
with torch.amp.autocast("cuda"):
    loss = model(x).sum()
watch(scaler)
scaler.scale(loss).backward()
"""


def migrate(text: str, settings: Settings) -> FilePlan:
    plan = migrate_text(text.replace("for x in", "loader = []\nfor x in"), settings)
    assert [finding for finding in plan.findings if finding.kind is Kind.ERROR] == []
    assert migrate_text(plan.after, settings).after == plan.after
    return plan


@pytest.mark.parametrize(
    ("target", "scaler"),
    [
        ((2, 4), 'torch.amp.GradScaler("cuda")'),
        ((2, 3), 'torch.amp.GradScaler("cuda")'),
        ((2, 2), "torch.cuda.amp.GradScaler()"),
        ((1, 12), "torch.cuda.amp.GradScaler()"),
    ],
)
def test_a_new_scaler_is_one_that_the_target_has(target: tuple[int, int], scaler: str) -> None:
    after = migrate(STEP, Settings(target_torch=target)).after
    assert f"scaler = {scaler}\n" in after
    assert 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n' in after


def test_an_annotation_beside_a_new_scaler_names_the_class_that_the_target_has() -> None:
    text = """\
import torch
def step(model, optimizer: torch.optim.Optimizer, x):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step(model, optimizer, torch.ones(3).cuda())
"""
    after = migrate(text, Settings(target_torch=(2, 1))).after
    assert "scaler: torch.cuda.amp.GradScaler, x):" in after
    assert "scaler = torch.cuda.amp.GradScaler()" in after


def test_names_that_the_target_lacks_keep_their_old_spelling_without_a_word() -> None:
    plan = migrate(DEPRECATED, Settings(target_torch=(2, 2)))
    assert plan.after == DEPRECATED.replace(
        "from torch.cuda.amp import GradScaler, autocast, custom_fwd\n",
        "from torch.cuda.amp import GradScaler, custom_fwd\nfrom torch.amp import autocast\n",
    ).replace("autocast():", 'autocast(device_type="cuda", dtype=torch.float16):')
    assert {finding.code for finding in plan.findings} == {"AMP101"}


def test_a_newer_target_has_more_of_the_new_names() -> None:
    after = migrate(DEPRECATED, Settings(target_torch=(2, 3))).after
    assert 'GradScaler("cuda", init_scale=4.0)' in after
    assert "get_autocast_gpu_dtype()" in after
    assert "@custom_fwd\n" in after


def test_the_gpu_is_asked_for_bfloat16_in_the_words_of_the_target() -> None:
    new, old = (migrate(STEP, Settings(Dtype.AUTO, target_torch=target)).after for target in ((2, 4), (2, 3)))
    assert "torch.cuda.is_bf16_supported(including_emulation=False)" in new
    assert "torch.cuda.get_device_capability() >= (8, 0)" in old
    assert "is_bf16_supported" not in old


def test_an_old_scaler_that_keeps_its_name_still_goes_with_the_dtype() -> None:
    auto = migrate(DEPRECATED, Settings(Dtype.AUTO, target_torch=(2, 2))).after
    assert "scaler = GradScaler(init_scale=4.0, enabled=amp_dtype == torch.float16)\n" in auto
    watched = NATIVE_SCALER.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    bf16 = migrate(watched, Settings(Dtype.BF16, target_torch=(2, 2))).after
    assert "scaler = torch.cuda.amp.GradScaler(enabled=False)\n" in bf16


def test_a_native_scaler_with_a_use_that_is_not_understood_is_switched_off() -> None:
    plan = migrate(NATIVE_SCALER, Settings(Dtype.BF16))
    assert 'scaler = torch.amp.GradScaler("cuda", enabled=False)\n' in plan.after
    enabled = NATIVE_SCALER.replace('"cuda")\nwith', '"cuda", enabled=use_amp)\nwith')
    assert 'torch.amp.GradScaler("cuda", enabled=False)\n' in migrate(enabled, Settings(Dtype.BF16)).after


def test_regions_that_keep_their_deprecated_name_keep_float16_and_its_scaler() -> None:
    plan = migrate(DEPRECATED, Settings(Dtype.BF16, ignore=("AMP101",)))
    assert "with autocast():\n" in plan.after
    assert 'GradScaler("cuda", init_scale=4.0)\n' in plan.after
    assert [finding.line for finding in plan.findings if finding.code == "AMP510"] == [4]


def test_apex_without_a_native_form_stays_where_the_target_is_too_old_for_the_shim() -> None:
    text = """\
import torch
from apex import amp
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O5")
"""
    plan = migrate(text, Settings(target_torch=(2, 1)))
    assert plan.after == text
    assert {(finding.code, finding.kind) for finding in plan.findings} == {
        ("AMP290", Kind.LEFT),
        ("AMP301", Kind.LEFT),
    }
    assert "from amp_shim import amp\n" in migrate(text, Settings(target_torch=(2, 4))).after


def test_apex_moves_to_the_scaler_that_the_target_has() -> None:
    text = """\
import torch
from apex import amp
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in range(3):
    loss = model(x).sum()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    assert "scaler = torch.cuda.amp.GradScaler()\n" in migrate(text, Settings(target_torch=(2, 1))).after
    xpu = migrate(text, Settings(device_type="xpu")).after
    assert 'scaler = torch.amp.GradScaler("xpu")\n' in xpu
    assert 'torch.amp.autocast(device_type="xpu", dtype=torch.float16)' in xpu


def test_new_regions_and_scalers_are_for_the_device_that_was_asked_for() -> None:
    after = migrate(STEP, Settings(device_type="xpu")).after
    assert 'scaler = torch.amp.GradScaler("xpu")\n' in after
    assert 'with torch.amp.autocast(device_type="xpu", dtype=torch.float16):\n' in after


def test_what_names_its_device_keeps_it() -> None:
    after = migrate(DEPRECATED, Settings(device_type="xpu")).after
    assert after == migrate(DEPRECATED, Settings()).after


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--target-torch", "1.9"], "torch.amp came with PyTorch 1.12, which is the oldest target"),
        (["--target-torch", "two"], "'two' is not a version of PyTorch such as 2.1"),
        (["--device-type", "gpu"], "'gpu' is not one of 'cuda', 'cpu', "),
        (["--device-type", "xpu", "--dtype", "auto"], "--dtype auto asks a CUDA GPU what it has"),
        (["--device-type", "xpu", "--target-torch", "2.2"], "a GradScaler for xpu came with PyTorch 2.3"),
    ],
)
def test_what_cannot_be_written_for_is_refused(args: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [*args, str(tmp_path)])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("target", "scaler"), [("2.1", "torch.cuda.amp.GradScaler()"), ("2.3.1", 'GradScaler("cuda")')]
)
def test_the_target_is_an_option_of_the_project(
    target: str, scaler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(STEP)
    Path("pyproject.toml").write_text(f'[tool.amp-migrate]\ntarget-torch = "{target}"\n')
    assert scaler in CliRunner().invoke(command, ["--diff", "train.py"]).stdout


def test_a_target_newer_than_all_that_is_known_is_the_newest() -> None:
    assert migrate(STEP, Settings(target_torch=(3, 1))).after == migrate(STEP, Settings()).after
