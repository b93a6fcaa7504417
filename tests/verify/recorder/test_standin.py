"""The CPU stand-in, exercised in one script that says "cuda" in every way that scripts do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import Launch, RunResult, execute

pytestmark = pytest.mark.slow

SCRIPT = """
import io
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
device = torch.device("cuda", 0)
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
assert device.type == "cuda" and device == torch.device("cuda:0")

# Tensors and modules reach the CPU however they are moved.
moved = [
    torch.zeros(2, device="cuda"), torch.ones(2, device=device), torch.tensor([1.0], device="cuda:0"),
    torch.randn(2).cuda(), torch.randn(2).cuda(0, non_blocking=True), torch.randn(2).to(device),
    torch.randn(2).to("cuda", torch.float64), torch.randn(2).to(device="cuda"), torch.randn(2).to(0),
    torch.zeros_like(torch.ones(2), device=device), torch.ones(2).new_zeros(2, device="cuda"),
    torch.ones(2).type("torch.cuda.DoubleTensor"), torch.cuda.FloatTensor([1.0]), torch.ones(2).pin_memory(),
    torch.arange(3, device="cuda"), torch.randperm(3, device="cuda", generator=torch.Generator("cuda")),
    torch.zeros(2, device=0), torch.randn(2).to(device=torch.cuda.current_device()),
]
assert all(tensor.device.type == "cpu" for tensor in moved)
assert moved[6].dtype is torch.float64 and moved[11].dtype is torch.float64
model = nn.Linear(4, 2, device="cuda").cuda().to("cuda").to(device, torch.float32).to(0).to(device=0)
assert model.weight.device.type == "cpu" and isinstance(model.weight, nn.Parameter)
assert nn.DataParallel(model).cuda()(torch.ones(3, 4).cuda()).shape == (3, 2)
with torch.device("cuda"):
    assert torch.ones(1).device.type == "cpu"
generator = torch.Generator(device="cuda").manual_seed(1)
assert isinstance(generator, torch.Generator)

# Files written on a GPU machine and here.
file = io.BytesIO()
torch.save(model.state_dict(), file)
for location in ("cuda", device, {"cuda:0": "cuda:0"}, None, lambda storage, name: storage):
    file.seek(0)
    assert torch.load(file, map_location=location)["weight"].device.type == "cpu"

# Calls that ask or command the device.
torch.cuda.set_device(0)
torch.cuda.synchronize()
torch.cuda.empty_cache()
torch.cuda.manual_seed_all(0)
torch.cuda.reset_peak_memory_stats()
torch.cuda.set_rng_state(torch.cuda.get_rng_state())
assert torch.cuda.max_memory_allocated() == 0
assert torch.cuda.get_device_name(0) and torch.cuda.get_device_properties(0).total_memory > 0
assert torch.cuda.is_bf16_supported()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
    assert torch.cuda.current_stream().device == device
if hasattr(torch, "accelerator"):
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
    torch.accelerator.synchronize()

# Autocast is CUDA's: on, in its default dtype, with its lists, seen by those who ask.
x = torch.ones(3, 4, device="cuda")
assert torch.get_autocast_dtype("cuda") is torch.float16 and not torch.is_autocast_enabled("cuda")
with torch.autocast("cuda"):
    assert torch.is_autocast_enabled("cuda") and torch.is_autocast_enabled()
    half = model(x)
    assert half.dtype is torch.float16
    assert half.softmax(-1).dtype is torch.float32 and nn.LayerNorm(2)(half).dtype is torch.float32
    with torch.autocast("cuda", enabled=False):
        assert model(x).dtype is torch.float32
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert model(x).dtype is torch.bfloat16
    assert model(x).dtype is torch.float16
    try:
        nn.BCELoss()(half.sigmoid(), half.sigmoid())
    except RuntimeError as error:
        assert "unsafe to autocast" in str(error)
    else:
        raise AssertionError("BCELoss is banned under CUDA autocast")
assert not torch.is_autocast_enabled("cuda") and not torch.is_autocast_enabled("cpu")
assert model(x).dtype is torch.float32
with torch.cuda.amp.autocast(dtype=torch.bfloat16):
    assert model(x).dtype is torch.bfloat16


class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, value):
        assert value.dtype is torch.float32
        return value * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        return gradient * 2


with torch.autocast("cuda"):
    Double.apply(model(x)).sum().backward()

# The scaler scales, and optimizers that look for a capturing stream find none.
for scaler in (torch.amp.GradScaler("cuda"), torch.cuda.amp.GradScaler(), torch.amp.GradScaler()):
    assert scaler.is_enabled()
    assert scaler.scale(torch.ones(1, device="cuda")).item() == 65536
for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
    optimizer = kind(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        loss = model(x).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("whole")
"""


def test_a_script_that_says_cuda_in_every_way_runs_on_the_cpu(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    spec = RecorderSpec(trace=str(tmp_path), parent=os.getpid(), shim=str(prepare.shim_folder()), device="cpu", steps=0)
    launch = Launch((sys.executable, str(script)), tmp_path, tmp_path, timeout=120, threads=1)
    result = execute(Run(Arm.ORIGINAL), launch, spec, lambda process: nullcontext())
    assert result.returncode == 0, result.log.read_text()
    assert (tmp_path / "stdout.log").read_text() == "whole\n"
    assert result.trace.stand_in


COMPILING = """
seen = []
class Net(nn.Linear):
    def forward(self, x):
        result = super().forward(x)
        seen.append(result.dtype)
        return result
net = torch.compile(Net(4, 1).cuda(), mode="reduce-overhead")
print(isinstance(net, nn.Module), type(net._orig_mod).__name__, list(net.state_dict())[0])
@torch.compile
def loss_of(x):
    return net(x).pow(2).mean()
@torch.compile(fullgraph=True)
def twice(x):
    return x * 2
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    with torch.autocast("cuda"):
        loss = twice(loss_of(torch.ones(2, 4, device="cuda")))
    loss.backward()
    optimizer.step()
print(*seen)
"""


def test_what_a_script_compiles_runs_as_it_is_written_and_is_told(record: Callable[..., RunResult]) -> None:
    result = record(COMPILING)
    assert result.ended_well, result.log.read_text()
    lines = (result.folder / "stdout.log").read_text().splitlines()
    assert lines == ["True Net _orig_mod.weight", "torch.float16 torch.float16"]
    assert len(result.trace.steps) == 2
    assert result.trace.uncompiled


@pytest.mark.parametrize(
    ("text", "told"),
    [("model.compile(dynamic=True)", True), ("torch.compile(model, disable=True)", False), ("", False)],
)
def test_a_model_that_is_compiled_in_place_is_told_and_one_that_is_not_is_not(
    text: str, told: bool, record: Callable[..., RunResult]
) -> None:
    result = record(f"{text}\nloss_of().backward()\noptimizer.step()\n")
    assert result.ended_well, result.log.read_text()
    assert result.trace.uncompiled == told
