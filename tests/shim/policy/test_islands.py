"""`keep_fp32`: parts of a model that stay in float32."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.policy.islands import keep_fp32
from torch import Tensor, nn
from torch.optim import SGD

HALF, FLOAT = torch.float16, torch.float32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
        self.head = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


def dtypes(model: Any, dtype: torch.dtype | None = HALF) -> dict[str, str]:
    """The dtype that each linear layer gives inside a region, `half` or `float`."""
    seen: dict[str, str] = {}
    hooks = [
        module.register_forward_hook(
            lambda module, args, output, name=name: seen.__setitem__(name, "half" if output.dtype is HALF else "float")
        )
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    if dtype is None:
        model(torch.ones(2, 4))
    else:
        with torch.autocast("cpu", dtype=dtype):
            model(torch.ones(2, 4))
    for hook in hooks:
        hook.remove()
    return seen


def last(model: Net) -> nn.Linear:
    layer = model.head[1]
    assert isinstance(layer, nn.Linear)
    return layer


ALL_HALF = dict.fromkeys(("body.0", "body.2", "head.0", "head.1"), "half")


@pytest.mark.parametrize(
    ("parts", "islands"),
    [
        (("head.*",), ("head.0", "head.1")),
        (("head",), ("head.0", "head.1")),
        (("body.0", "head.1"), ("body.0", "head.1")),
        ((nn.Linear,), tuple(ALL_HALF)),
        (("*.0", nn.LayerNorm), ("body.0", "head.0")),
    ],
)
def test_named_parts_run_in_float_and_the_rest_in_half(
    parts: tuple[str | type[nn.Module], ...], islands: tuple[str, ...]
) -> None:
    model = Net()
    keep_fp32(model, *parts)
    assert dtypes(model) == {**ALL_HALF, **dict.fromkeys(islands, "float")}


def test_names_are_those_of_the_outermost_modules() -> None:
    assert keep_fp32(Net(), "head*", nn.LayerNorm).names == ("head", "body.1")


def test_closing_gives_the_model_back() -> None:
    model = Net()
    islands = keep_fp32(model, "head")
    islands.close()
    islands.close()
    assert dtypes(model) == ALL_HALF
    assert "forward" not in vars(model.head)


def test_a_forward_that_a_module_was_given_runs_in_its_island_and_stays() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.dtype)
        return x * 2

    seen: list[torch.dtype] = []
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].forward = twice
    islands = keep_fp32(model, "0")
    assert model(torch.ones(1, 2).half()).tolist() == [[2.0, 2.0]]
    assert seen == [torch.float32]
    islands.close()
    assert model[0].forward is twice


def test_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no module 'tail\.\*'"):
        keep_fp32(Net(), "tail.*")
    with pytest.raises(ValueError, match="of class Conv2d"):
        keep_fp32(Net(), nn.Conv2d)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_islands_train_under_apex_levels(level: str) -> None:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.5)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    keep_fp32(model, "head")
    assert dtypes(model, None)["head.1"] == "float"
    assert dtypes(model, None)["body.0"] == "half"
    before = [param.detach().clone() for param in model.parameters()]
    for _ in range(2):
        optimizer.zero_grad()
        with amp.scale_loss(model(torch.rand(3, 4)).float().sum() / 1024, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    assert {param.dtype for param in model.head.parameters()} == {FLOAT}
    assert not torch.equal(last(model).bias, before[-1])


def test_deep_copy_has_islands_of_its_own() -> None:
    model = Net()
    keep_fp32(model, "head")
    other = copy.deepcopy(model)
    nn.init.zeros_(last(other).weight)
    assert dtypes(other)["head.1"] == "float"
    with torch.autocast("cpu", dtype=HALF):
        assert torch.equal(other(torch.ones(1, 4)), last(other).bias[None])
    assert last(model).weight.any()


def test_whole_model_can_be_saved_and_loaded() -> None:
    model = Net()
    keep_fp32(model, "head")
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert dtypes(torch.load(file, weights_only=False)) == dtypes(model)


def test_compiled_model_keeps_its_islands() -> None:
    model = Net()
    keep_fp32(model, "head")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", dtype=HALF):
        expected = model(torch.ones(2, 4))
        found = compiled(torch.ones(2, 4))
    assert found.dtype is expected.dtype is FLOAT
    torch.testing.assert_close(found, expected)


def test_an_island_takes_half_arguments_by_keyword_too() -> None:
    attention = nn.MultiheadAttention(4, 1, batch_first=True)
    keep_fp32(nn.ModuleList([attention]), nn.MultiheadAttention)
    x = torch.ones(1, 2, 4)
    output, _ = attention(query=x.half(), key=x.half(), value=x.half())
    assert output.dtype is FLOAT


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")
def test_island_in_a_region_of_the_gpu_is_out_of_it() -> None:
    seen = []

    class Asks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(torch.is_autocast_enabled("cuda"))
            return x

    model = nn.Sequential(Asks())
    keep_fp32(model, "0")
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        model(torch.ones(1))
        assert torch.is_autocast_enabled("cuda")
    finally:
        torch.set_autocast_enabled("cuda", before)
    assert seen == [False]
