"""Numbers that keep a tensor from a singular point in float32, and that half precision rounds onto it."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

import pytest
from amp_migrate.flow.events import Act

from .conftest import Told

Tell = Callable[..., Told]
LOOP = """
def clamped(x, eps=1e-6):
    return x.clamp(-1 + eps, 1 - eps)

model = nn.Linear(8, 8).cuda()
for y in [torch.rand(2, 8, device="cuda")]:
    with torch.amp.autocast("cuda", dtype=torch.{dtype}, enabled={enabled}):
        x = model(y)
{body}
"""
IN_VAIN = [
    "loss = torch.acos(x.clamp(-1 + 1e-7, 1 - 1e-7))  # in vain",
    "x = x.clamp(max=0.9999999)  # in vain\nloss = torch.asin(x.float())",
    "x = torch.clip(x, -0.9999, 0.9999)  # in vain\nloss = torch.atanh(x.t())",
    "x = x.clamp(max=1 - 1e-5)  # in vain\nloss = torch.log(1 - x) + torch.sqrt(1 - x * x)",
    "x = x.clamp(min=1e-5 - 1)  # in vain\nloss = torch.log1p(x) + torch.log(x + 1)",
    "x = x.clamp(1e-6, 1 - 1e-6)  # in vain\nloss = torch.logit(x)",
    "x = torch.min(x, torch.tensor(1 - 1e-6))  # in vain\nloss = x.acos()",
    "x = torch.minimum(x.new_tensor(1 - 1e-6), x)  # in vain\nloss = (1 - x).log()",
    "x = F.hardtanh(x, -0.999999, 0.999999)  # in vain\nloss = x.atanh()",
    "x = x.masked_fill(x == 1, 0.999999)  # in vain\nloss = (1 - x).log()",
]
IN_VAIN_IN_FLOAT16 = [
    "loss = x.relu().add(1e-12).sqrt()  # in vain",
    "x = x.clamp_min(1e-8)  # in vain\nloss = x.rsqrt() + x.reciprocal() + x**0.5",
    "loss = y / (x.abs() + 1e-8)  # in vain",
    "loss = torch.log(x.tanh().abs() + 1e-10)  # in vain",
    # The number is a tensor, of one element or of the precision of what it limits.
    "least = torch.tensor(1e-10).cuda()\nx = torch.max(least, x)  # in vain\nloss = 10 * torch.log10(x)",
    "x = torch.maximum(x, x.new_tensor(1e-10))  # in vain\nloss = x.log2()",
    "x = torch.fmax(x, torch.full_like(x, 1e-10))  # in vain\nloss = x.log()",
    "x = torch.max(x, torch.ones_like(x) * 1e-10)  # in vain\nloss = x.log()",
    "x = torch.where(x > 1e-10, x, 1e-10 * x.new_ones(2, 8))  # in vain\nloss = x.log()",
    "x = x.relu() + (torch.zeros_like(x) + 1e-10)  # in vain\nloss = x.log()",
    "x = torch.max(x, torch.full((), 1e-10))  # in vain\nloss = x.log()",
    "x = x.clip(min=torch.tensor(1e-10))  # in vain\nloss = x.log()",
    "x = x.relu() + torch.as_tensor(1e-10)  # in vain\nloss = x.log()",
    "x = x.relu() + torch.finfo(torch.float32).tiny  # in vain\nloss = x.log()",
    "x = x.relu().clamp_(1e-10)  # in vain\nloss = x.log()",
    "x = x.relu().add_(1e-10)  # in vain\nloss = x.log()",
    "x = x.relu()\nx += 1e-10  # in vain\nloss = x.log()",
    # It is put in the place of what is less, or is zero.
    "x = F.threshold(x, 1e-10, 1e-10)  # in vain\nloss = x.log()",
    "x = torch.where(x > 1e-10, x, 1e-10)  # in vain\nloss = x.log()",
    "x = torch.where(x == 0, torch.tensor(1e-10), x)  # in vain\nloss = x.log()",
    "x = x.where(x > 1e-10, torch.full_like(x, 1e-10))  # in vain\nloss = x.log()",
    "x = x.masked_fill(x < 1e-10, 1e-10)  # in vain\nloss = y / x",
    "x[x < 1e-10] = 1e-10  # in vain\nloss = x.log()",
    "import numpy as np\nx = x.abs()\nx[x == 0] = np.finfo(float).eps  # in vain\nloss = 1 / x",
    # What comes of it is zero as well.
    "x = x.detach().relu() + 1e-10  # in vain\nloss = y / x.sqrt().mul(2)",
    "x = x.clamp(min=1e-10)  # in vain\nloss = 1 / torch.stack([x, x]).pow(0.5)",
    "x = x.clamp(min=1e-10)  # in vain\nloss = (x / x.exp()).log()",
]
HOLDS = [
    # Half precision has the number, or one that is as good.
    "loss = torch.acos(x.clamp(-0.99, 0.99))",
    "loss = (x.relu() + 1e-6).sqrt()",
    "loss = torch.logit(x.clamp(0.01, 0.99))",
    # It is kept from another point than the one where the operator is infinite.
    "loss = torch.log(x.clamp(0.1, 1 - 1e-7))",
    "loss = torch.acos(x.clamp(min=1e-8))",
    "loss = (x.abs() + 1e-8) / 2",
    "loss = torch.max(x, torch.tensor(1e-6)).log()",
    "loss = (x.relu() + torch.finfo(x.dtype).eps).log() + (x.abs() + torch.finfo(torch.float16).tiny).log()",
    "loss = torch.where(x > 1e-10, x, 1).log()",
    "x[x == 0] = 1e-6\nloss = x.log()",
    "x = x.clone()\nloss = x.log()\nx[x == 0] = 1e-10",
    "loss = torch.min(x, torch.tensor(1e-10)).log()",
    "loss = x.max(0).values.log() + torch.max(x, 0)[0].log()",
    # A tensor of float32 with elements makes float32 of what it limits.
    "loss = torch.max(x, torch.full((8,), 1e-10, device='cuda')).log()",
    "loss = x / torch.max(x.norm(), torch.tensor(1e-10))",
    "loss = torch.max(x, torch.ones((2, 8), device='cuda') * 1e-10).log()",
    "loss = torch.max(x, torch.ones_like(x) * 1e-6).log() + (x.relu() + torch.zeros_like(x) * 1e-10 + 1).log()",
    "loss = torch.max(x, torch.ones_like(x) + 1e-10).log()",
    # No operator is infinite there, or it has been left behind.
    "loss = x.clamp(-1 + 1e-7, 1 - 1e-7).tanh()",
    "loss = ((x + 1e-8).exp() + 1).log()",
    # In float32: before the region, in it by a cast, or since autocast says so.
    "loss = torch.acos(y.clamp(-1 + 1e-7, 1 - 1e-7))",
    "loss = torch.acos(x.float().clamp(-1 + 1e-7, 1 - 1e-7))",
    "loss = x / (x.norm() + 1e-12)",
    "loss = x / torch.sqrt((x - x.mean()).pow(2).mean(-1, keepdim=True) + 1e-12)",
    "loss = (x.softmax(-1) * x.exp() + 1e-8).log()",
    # Without a gradient, the root of zero is as good as that of 1e-12.
    "loss = x.detach().clamp(min=1e-12).sqrt()",
]


def text(body: str, dtype: str = "float16", enabled: object = True) -> str:
    return LOOP.format(dtype=dtype, enabled=enabled, body=indent(body, " " * 8))


def marked(whole: str) -> list[int]:
    return [at for at, line in enumerate(whole.removeprefix("\n").splitlines(), 1) if line.endswith("# in vain")]


@pytest.mark.parametrize("body", IN_VAIN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_limit_that_is_rounded_to_one(told: Tell, body: str, dtype: str) -> None:
    assert told(text(body, dtype)).lines(Act.RISK)[:1] == marked(text(body, dtype))
    assert told(text(body, dtype, enabled=False)).lines(Act.RISK) == []


@pytest.mark.parametrize("body", IN_VAIN_IN_FLOAT16)
def test_a_number_that_is_zero_in_float16_alone(told: Tell, body: str) -> None:
    assert told(text(body)).lines(Act.RISK) == marked(text(body))
    assert told(text(body, "bfloat16")).lines(Act.RISK) == []


def test_it_is_told_where_the_limit_is_which_another_function_sets(told: Tell) -> None:
    assert told(text("loss = clamped(x).acos()")).lines(Act.RISK) == [2]
    assert told(text("loss = clamped(y).acos()\nloss = clamped(x) + 1")).lines(Act.RISK) == []


@pytest.mark.parametrize("body", HOLDS)
@pytest.mark.parametrize("enabled", [True, "args.amp"])
def test_what_is_kept_from_it_in_half_precision_as_well(told: Tell, body: str, enabled: object) -> None:
    assert told(text(body, enabled=enabled)).lines(Act.RISK) == []


@pytest.mark.parametrize("body", [*IN_VAIN, *IN_VAIN_IN_FLOAT16])
def test_a_region_that_a_run_switches_may_be_on(told: Tell, body: str) -> None:
    assert told(text(body, enabled="args.amp")).lines(Act.RISK)[:1] == marked(text(body))


CALLED_BACK = """
def length(x):
    return torch.sqrt(torch.clamp({summed}, min=1e-8))

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def of_edge(self, edges):
        return length(self.inner(edges.x))

    def forward(self, graph):
        graph.apply_edges(self.of_edge)
        return graph.edata

model = Layer().cuda()
with torch.amp.autocast("cuda", dtype=torch.float16):
    model(something)
"""


@pytest.mark.parametrize(
    ("summed", "is_in_vain"),
    [
        ("torch.sum(torch.square(x), -1)", False),
        ("x.square()", False),
        ("x.abs()", True),
        ("torch.relu(x)", True),
    ],
)
def test_what_is_called_out_of_sight_has_its_layers_and_its_squares_in_one_region(
    told: Tell, summed: str, is_in_vain: bool
) -> None:
    answer = told(CALLED_BACK.format(summed=summed))
    assert bool([each for each in answer.events(Act.RISK) if "singular" in each.why]) is is_in_vain
