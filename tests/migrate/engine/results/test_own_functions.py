"""A function of autograd's own that gets float32 on one way and float16 on another: any way that raises is enough."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from torch import nn


class Covariance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, wide=False):
{first}        ctx.save_for_backward(x)
        return torch.bmm(x, x.relu().transpose(1, 2))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.bmm(grad + grad.transpose(1, 2), {saved}), None


class Pool(nn.Module):
    def __init__(self, mode="linear"):
        super().__init__()
        self.layer, self.mode = nn.Linear(8, 8), mode
        if mode == "linear":
            self.mix = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x)
{ways}        return Covariance.apply(x).flatten(1)


def train(batches):
    model = Pool(mode="sum").cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
IN_FLOAT32 = "        x = x.softmax(2)\n"
UNKNOWN_OR_FLOAT32 = IN_FLOAT32 + '        if self.mode == "linear":\n            x = self.mix(x)\n'
LOW_OR_FLOAT32 = "        if self.mode == 'sum':\n            x = x.softmax(2)\n"
FLOAT32_INSIDE = "        if x.shape[1] > 3:\n            x = x.float()\n"
MIXED = "operands differ in precision"


@pytest.mark.parametrize("ways", [UNKNOWN_OR_FLOAT32, LOW_OR_FLOAT32])
def test_float32_on_one_of_the_ways_to_it(ways: str) -> None:
    text = TEXT.format(first="", saved="x", ways=ways)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert MIXED in plan.findings[0].message


def test_float32_on_one_of_the_ways_inside() -> None:
    text = TEXT.format(first=FLOAT32_INSIDE, saved="x", ways="")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert MIXED in plan.findings[0].message


@pytest.mark.parametrize(
    ("first", "saved", "ways"),
    [
        ("", "x", ""),
        ("", "x.type(grad.dtype)", UNKNOWN_OR_FLOAT32),
        ("", "x.to(grad.dtype)", LOW_OR_FLOAT32),
        (FLOAT32_INSIDE, "x.to(grad)", ""),
    ],
)
def test_one_precision_on_each_of_the_ways(first: str, saved: str, ways: str) -> None:
    plan = migrate_text(TEXT.format(first=first, saved=saved, ways=ways), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_the_precision_of_each_way_by_itself() -> None:
    """On each of them what `backward` multiplies is of one precision, and of two only if ways are mixed up."""
    text = TEXT.format(first="", saved="x", ways=LOW_OR_FLOAT32)
    text = text.replace("torch.bmm(x, x.relu().transpose(1, 2))", "x * 2")
    text = text.replace("torch.bmm(grad + grad.transpose(1, 2), x)", "torch.bmm(grad.transpose(1, 2), x)")
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones_like(x)",
        "torch.ones(x.shape, device=x.device).type(x.dtype)",
        "torch.ones(x.shape).to(x.device, x.dtype)",
        "torch.ones(x.shape).type_as(x)",
        "torch.ones(x.shape, dtype=x.dtype, device=x.device)",
        "x.new_ones(x.shape, dtype=x.dtype)",
    ],
)
def test_what_is_made_in_the_dtype_of_a_low_tensor_is_as_low(made: str) -> None:
    text = TEXT.format(first="", saved="x", ways="").replace("torch.bmm(x, x.relu().transpose(1, 2))", "x.float() * 2")
    text = text.replace("save_for_backward(x)", f"save_for_backward({made})")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert MIXED in plan.findings[0].message


KERNEL = """\
import torch
from kernels import bent, product_cuda
from torch import nn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return product_cuda(x, y)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
{ways}        return Product.apply(x, y)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    loss = model(torch.rand(4, 8).cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_kernel_gets_float32_where_its_function_is_called() -> None:
    plan = migrate_text(KERNEL.format(ways=""), Settings())
    assert "Product.apply(x, y.float())" in plan.after
    assert "scaler.step(optimizer)" in plan.after


def test_no_operand_of_a_kernel_is_like_another_because_that_comes_first() -> None:
    """Only what changes in place says what the others have to be."""
    after = migrate_text(KERNEL.format(ways="        if x.shape[0] > 3:\n            y = bent(y)\n"), Settings()).after
    assert "        return Product.apply(x, y.float() if y.is_floating_point() else y)\n" in after
    assert "                y = bent(y.float())\n" in after
    assert migrate_text(after, Settings()).after == after


HANDED_IN = """\
import argparse
import torch
from torch import nn
from apex import amp

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()


def product(core, x):
    return torch.einsum("io,bi->bo", core, x)


def with_backward(forward):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, core):
            ctx.save_for_backward(x, core)
            return forward(core, x)

        @staticmethod
        def backward(ctx, grad):
            x, core = ctx.saved_tensors
            return forward(core.t(), grad), torch.einsum("bi,bo->io", x, grad)

    return lambda core, x: Product.apply(x, core)


class Layer(nn.Module):
    def __init__(self, product):
        super().__init__()
        self.core = nn.Parameter(torch.randn(16, 8))
        self.product = product

    def forward(self, x):
        return self.product(self.core, x)


net = nn.Sequential({before}, Layer(with_backward(product)), nn.Linear(8, 4)).cuda()
optimizer = torch.optim.Adam(net.parameters())
if args.fp16:
    net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
for x, y in torch.load("batches.pt"):
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    optimizer.zero_grad()
    if args.fp16:
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
    else:
        loss.backward()
    optimizer.step()
"""


def test_float32_beside_a_gradient_that_is_float16_where_an_option_says_so() -> None:
    """What may be float32 only because the option may be off is no float32 where it is on."""
    plan = migrate_text(HANDED_IN.replace("{before}", "nn.LayerNorm(16)"), Settings())
    assert "amp.scale_loss(loss, optimizer)" in plan.after
    assert any(f"{MIXED}: einsum" in each.message for each in plan.findings)


def test_one_precision_whatever_an_option_says() -> None:
    text = HANDED_IN.replace("{before}", "nn.Linear(16, 16)")
    text = text.replace("return forward(core.t(), grad), ", "return None, ")
    plan = migrate_text(text, Settings())
    assert "scaler.step(optimizer)" in plan.after
