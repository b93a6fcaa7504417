"""Models in unedited scripts: found, compared part by part with float32, and kept in float32 in parts."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from amp_migrate.verify.recorder.part import Part
from amp_migrate.verify.runs.process import RunResult

pytestmark = pytest.mark.slow

Record = Callable[..., RunResult]

PRELUDE = """
import torch
from torch import nn
torch.manual_seed(0)

class Square(nn.Module):
    def forward(self, x):
        return (x * 3000).pow(2).mul(1e-6) + (x * 3000 * x * 3000).mul(1e-6)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.square = Square()
        self.head = nn.Linear(8, 2, bias=False)

    def forward(self, x):
        return self.head(self.square(self.drop(self.norm(self.fc(x)))))

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(16, 8).cuda()

def step(model, enabled=True):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=enabled):
        loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()
"""


def parts_of(result: RunResult) -> dict[str, Part]:
    assert result.ended_well, result.log.read_text()
    return {part.name: part for part in result.trace.parts}


def test_every_part_is_compared_with_itself_in_float32(record: Record) -> None:
    parts = parts_of(record("step(net)", prelude=PRELUDE, parts=True))
    assert list(parts) == ["", "fc", "norm", "drop", "square", "head"]
    assert parts["square"].nonfinite
    assert 65504 > parts["square"].largest > 1
    assert not parts["fc"].nonfinite
    assert 1e-5 < parts["fc"].error < 1e-2
    assert (parts["fc"].module_class, parts["fc"].leaf, parts[""].leaf) == ("Linear", True, False)
    assert (parts["fc"].flops, parts["head"].flops, parts[""].flops) == (2 * 16 * 64, 2 * 16 * 16, 2 * 16 * 80)
    assert parts["fc"].half_bytes == 16 * 8 * 2
    assert parts["drop"].error == 0  # both computations drop the same values


def test_what_computes_a_loss_is_a_part_where_its_class_is_the_users(record: Record) -> None:
    body = """
class Area(nn.Module):
    def forward(self, out):
        return (300 * out * out).mean()

area, mse = Area(), nn.MSELoss()
with torch.autocast("cuda", dtype=torch.float16):
    (area(net(x)) + mse(net(x), x[:, :2])).backward()
optimizer.step()
"""
    result = record(body, prelude=PRELUDE, parts=True)
    assert result.ended_well, result.log.read_text()
    found = {part.module_class: part for part in result.trace.parts}
    assert (found["Area"].owner, found["Area"].learns, found["Area"].is_model) == ("Area", False, False)
    assert (found["Net"].owner, found["Net"].is_model, found["Linear"].owner) == ("Net", True, "")
    assert [model.variable for model in result.trace.models] == ["net", "area"]


def test_models_that_are_local_variables_of_main_have_parts_too(record: Record) -> None:
    classes, run = PRELUDE.split("net = Net()")
    body = f"net = Net(){run}step(net)"
    text = classes + "def main():\n" + textwrap.indent(body, "    ") + "\nmain()\n"
    assert list(parts_of(record(text, prelude="", parts=True))) == ["", "fc", "norm", "drop", "square", "head"]


def test_harm_is_a_difference_that_the_loss_feels(record: Record) -> None:
    text = """
    net.square = nn.Identity()
    with torch.no_grad():
        net.head.weight.mul_(0.0)
    step(net)
    """
    parts = parts_of(record(text, prelude=PRELUDE, parts=True))
    assert parts["fc"].error > 0
    assert parts["fc"].harm == 0


def test_gradients_that_overflow_are_seen_where_they_do(record: Record) -> None:
    text = """
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()
        @staticmethod
        def backward(ctx, gradient):
            return gradient * float("inf")

    class Odd(nn.Module):
        def forward(self, x):
            return Scaled.apply(x)

    net.square = Odd()
    step(net)
    """
    parts = parts_of(record(text, prelude=PRELUDE, parts=True))
    assert [name for name, part in parts.items() if part.overflow] == ["square"]


def test_comparing_changes_nothing_of_the_training(record: Record) -> None:
    text = """
    net.square = nn.Identity()
    print([step(net) for _ in range(3)], net.norm.running_mean.tolist(), torch.rand(2).tolist())
    """
    seen, alone = (record(text, prelude=PRELUDE, parts=parts) for parts in (True, False))
    assert len(parts_of(seen)) == 6
    assert (seen.folder / "stdout.log").read_text() == (alone.folder / "stdout.log").read_text()


def test_a_part_that_cannot_be_called_twice_is_left_alone(record: Record) -> None:
    text = """
    class Once(nn.Module):
        calls = 0
        def forward(self, x):
            self.calls += 1
            assert self.calls == 1
            return x
    net.square = Once()
    step(net)
    """
    parts = parts_of(record(text, prelude=PRELUDE, parts=True))
    assert parts["square"].calls == 1
    assert parts["square"].largest == 0


def test_models_are_named_as_the_script_names_them_where_it_calls_them(record: Record) -> None:
    text = """
    class Trainer:
        def __init__(self):
            self.model = Net().cuda()
        def train(self):
            self.model(x)
    Trainer().train()
    with torch.no_grad():
        Net().cuda()(x)
    nn.Sequential(nn.ReLU())(x)
    step(net)
    print(net(x).mean().item() != 0)
    """
    result = record(text, prelude=PRELUDE, parts=True)
    assert [model.variable for model in result.trace.models] == ["self.model", "model"]
    lines = (result.folder / "script.py").read_text().splitlines()
    assert "self.model(x)" in lines[result.trace.models[0].line - 1]
    assert "loss = model(x)" in lines[result.trace.models[1].line - 1]


@pytest.mark.parametrize(("islands", "finite"), [((), False), (((0, "square"),), True), (((0, ""),), True)])
def test_parts_in_float32_are_so_from_the_first_call(
    record: Record, islands: tuple[tuple[int, str], ...], finite: bool
) -> None:
    text = """
    dtypes = []
    net.fc.register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    print(step(net), dtypes)
    """
    said = (record(text, prelude=PRELUDE, islands=islands).folder / "stdout.log").read_text()
    assert ("inf" not in said and "nan" not in said) is finite
    assert ("torch.float32" in said) is (islands == ((0, ""),))


def test_the_islands_of_the_second_model_are_not_those_of_the_first(record: Record) -> None:
    text = """
    dtypes = []
    other = nn.Sequential(nn.Linear(8, 8)).cuda()
    other[0].register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    net.fc.register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    with torch.autocast("cuda", dtype=torch.float16):
        net(other(x))
    print(*dtypes)
    """
    result = record(text, prelude=PRELUDE, islands=((1, "fc"),))
    assert (result.folder / "stdout.log").read_text().split() == ["torch.float16", "torch.float32"]


@pytest.mark.parametrize(("tf32", "said"), [(True, "True True"), (False, "False False"), (None, "False True")])
def test_tf32_is_as_asked_for_from_the_first_call_on(record: Record, tf32: bool | None, said: str) -> None:
    text = """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    matmul.allow_tf32, cudnn.allow_tf32 = False, True
    net(x)
    print(matmul.allow_tf32, cudnn.allow_tf32)
    """
    result = record(text, prelude=PRELUDE, timing=True, tf32=tf32)
    assert (result.folder / "stdout.log").read_text().strip() == said


def test_weights_become_channels_last_and_optimizers_fused(record: Record) -> None:
    text = """
    net = nn.Sequential(nn.Conv2d(3, 4, 3)).cuda()
    optimizers = [torch.optim.AdamW(net.parameters()), torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)]
    net(torch.ones(2, 3, 5, 5).cuda()).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    last = net[0].weight.is_contiguous(memory_format=torch.channels_last)
    print(last, *(optimizer.param_groups[0]["fused"] for optimizer in optimizers))
    """
    for variants, said in (((), "False None None"), (("channels_last", "fused"), "True True None")):
        result = record(text, prelude=PRELUDE, variants=variants)
        assert result.ended_well, result.log.read_text()
        assert (result.folder / "stdout.log").read_text().strip() == said


def test_regions_of_float16_become_regions_of_bfloat16_without_a_scale(record: Record) -> None:
    text = """
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = net(x)
    print(out.dtype, scaler.scale(torch.tensor(1.0)).item(), scaler.is_enabled())
    """
    result = record(text, prelude=PRELUDE, bfloat16=True)
    assert (result.folder / "stdout.log").read_text().split() == ["torch.bfloat16", "1.0", "False"]
