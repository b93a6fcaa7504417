"""O1: casts around functions of the user."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from amp_shim import amp
from torch import Tensor, nn

HALF, FLOAT = torch.float16, torch.float32


@pytest.fixture(autouse=True)
def o1(fresh_amp: None) -> None:
    amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=0)


def test_decorated_functions_get_their_arguments_cast() -> None:
    def dtypes(*args: Tensor, pair: tuple[Tensor, ...] = ()) -> list[torch.dtype]:
        return [tensor.dtype for tensor in (*args, *pair)]

    half, float_, count = torch.ones(1).half(), torch.ones(1), torch.ones(1, dtype=torch.int64)
    assert amp.half_function(dtypes)(float_, count, pair=(float_, half)) == [HALF, torch.int64, HALF, HALF]
    assert amp.float_function(dtypes)(half, pair=(half,)) == [FLOAT, FLOAT]
    assert amp.promote_function(dtypes)(half, float_) == [FLOAT, FLOAT]
    assert amp.promote_function(dtypes)(half, half) == [HALF, HALF]
    with amp.disable_casts():
        assert amp.half_function(dtypes)(float_) == [FLOAT]


def test_registered_function_is_cast_from_the_next_initialize_until_deactivation() -> None:
    module = SimpleNamespace(twice=lambda x: x + x)
    native = module.twice
    amp.register_float_function(module, "twice")
    assert module.twice(torch.ones(1).half()).dtype is HALF
    amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=0)
    assert module.twice(torch.ones(1).half()).dtype is FLOAT
    assert amp._amp_state.handle is not None
    amp._amp_state.handle._deactivate()
    assert module.twice is native


def test_registered_function_runs_in_the_widest_type_of_its_arguments() -> None:
    module = SimpleNamespace(dtypes=lambda *args: [arg.dtype for arg in args])
    amp.register_promote_function(module, "dtypes")
    amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=0)
    assert module.dtypes(torch.ones(1).half(), torch.ones(1)) == [FLOAT, FLOAT]
    assert module.dtypes(torch.ones(1).half()) == [HALF]


@pytest.mark.parametrize(("level", "half"), [("O1", HALF), ("O4", torch.bfloat16)])
def test_bfloat16_is_bfloat16_at_either_level_and_half_is_the_levels(level: str, half: torch.dtype) -> None:
    module = SimpleNamespace(dtype=lambda x: x.dtype)
    amp.register_bfloat16_function(module, "dtype")
    amp.initialize(nn.Linear(1, 1), opt_level=level, verbosity=0)
    assert module.dtype(torch.ones(1)) is torch.bfloat16
    assert amp.bfloat16_function(lambda x: x.dtype)(torch.ones(1)) is torch.bfloat16
    assert amp.half_function(lambda x: x.dtype)(torch.ones(1)) is half


def test_registering_a_missing_function_is_refused() -> None:
    with pytest.raises(ValueError, match="'nothing'"):
        amp.register_half_function(torch, "nothing")
