"""O0, O2, O3: what becomes of the model."""

from __future__ import annotations

import copy
import io
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from amp_shim import amp
from torch import Tensor, nn

HALF, FLOAT = torch.float16, torch.float32
Pair = namedtuple("Pair", "left right")


class Echo(nn.Module):
    """Keeps the dtypes of what reaches `forward` and returns what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.seen: Any = None

    def forward(self, value: Any, **named: Any) -> Any:
        self.seen = value
        return value


def initialized(level: str, model: nn.Module, **options: Any) -> Any:
    return amp.initialize(model, opt_level=level, verbosity=0, **options)


def dtypes(module: nn.Module) -> set[torch.dtype]:
    return {tensor.dtype for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()}


def test_o2_keeps_affine_batch_norms_and_halves_the_rest() -> None:
    model = nn.ModuleList(
        [nn.BatchNorm2d(2), nn.BatchNorm1d(2, affine=False), nn.LayerNorm(2), nn.GroupNorm(1, 2), nn.Embedding(3, 2)]
    )
    initialized("O2", model)
    assert [dtypes(module) for module in model] == [{FLOAT}, {HALF}, {HALF}, {HALF}, {HALF}]


@pytest.mark.parametrize(("level", "expected"), [("O0", FLOAT), ("O3", HALF), ("O5", torch.bfloat16)])
def test_level_casts_weights_and_keeps_integer_buffers(level: str, expected: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = model[0].weight
    initialized(level, model)
    assert model[0].weight is weight
    assert weight.dtype is expected
    assert model[1].num_batches_tracked.dtype is torch.int64


def test_inputs_are_cast_to_the_model_and_outputs_to_float() -> None:
    model = initialized("O2", Echo())
    given = {
        "double": torch.ones(1, dtype=torch.float64),
        "nested": [torch.ones(1), (torch.ones(1),)],
        "ids": torch.ones(1, dtype=torch.int64),
        "name": "text",
        "none": None,
    }
    out = model(given)
    assert model.seen["double"].dtype is HALF
    assert model.seen["nested"][1][0].dtype is HALF
    assert model.seen["ids"].dtype is torch.int64
    assert model.seen["name"] == "text"
    assert model.seen["none"] is None
    assert out["double"].dtype is FLOAT
    assert isinstance(out["nested"][1], tuple)


def test_containers_keep_their_class() -> None:
    model = initialized("O3", Echo())
    pair = model(Pair(torch.ones(1), 1))
    assert isinstance(pair, Pair)
    assert pair.left.dtype is FLOAT
    ordered = model(OrderedDict(a=torch.ones(1)))
    assert type(ordered) is OrderedDict
    assert type(model.seen) is OrderedDict
    assert model.seen["a"].dtype is HALF


def test_object_with_a_to_method_is_asked_to_cast_itself() -> None:
    class Batch:
        def __init__(self, x: Tensor) -> None:
            self.x = x

        def to(self, dtype: torch.dtype) -> Batch:
            return Batch(self.x.to(dtype))

    model = initialized("O3", Echo())
    model(Batch(torch.ones(1)))
    assert model.seen.x.dtype is HALF


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_outputs_can_be_given_a_type_of_their_own(level: str) -> None:
    model = initialized(level, Echo(), cast_model_outputs=torch.float64)
    assert model(torch.ones(1)).dtype is torch.float64


def test_forward_called_directly_is_cast_too() -> None:
    model = initialized("O2", nn.Linear(2, 2))
    assert model.forward(torch.ones(1, 2)).dtype is FLOAT


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
def test_state_dict_shows_float_only(level: str) -> None:
    model = initialized(level, nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.BatchNorm2d(2, affine=False)))
    state = model.state_dict()
    assert {v.dtype for k, v in state.items() if "num_batches" not in k} == {FLOAT}
    if level != "O0":
        assert model[0].weight.dtype is HALF


def test_extra_state_passes_through_the_state_dict() -> None:
    class Counting(nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"calls": 3}

        def set_extra_state(self, state: Any) -> None:
            assert state == {"calls": 3}

    model = initialized("O2", Counting(2, 2))
    assert model.state_dict()["_extra_state"] == {"calls": 3}
    model.load_state_dict(model.state_dict())


def test_deep_copy_runs_its_own_weights() -> None:
    model = initialized("O2", nn.Linear(2, 2, bias=False))
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.weight.zero_()
    x = torch.ones(1, 2)
    assert torch.equal(twin(x), torch.zeros(1, 2))
    assert not torch.equal(model(x), torch.zeros(1, 2))


def test_whole_model_can_be_saved_and_loaded() -> None:
    model = initialized("O2", nn.Linear(2, 2))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    twin = torch.load(file, weights_only=False)
    x = torch.ones(1, 2)
    assert torch.equal(twin(x), model(x))


def test_momentum_from_before_is_cast_with_the_model() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    amp.initialize(model, optimizer, opt_level="O3", verbosity=0)
    assert optimizer.state[model.weight]["momentum_buffer"].dtype is HALF
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
