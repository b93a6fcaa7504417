"""The op lists against the installed PyTorch, whose CUDA autocast can be read off with fake tensors."""

from __future__ import annotations

import pytest
import torch
from amp_shim.policy import NATIVE_CUDA, Treatment
from amp_shim.policy.dispatch import enforce
from amp_shim.policy.operators import family_of, registered_operators
from gpu_suite.op_samples import (
    HALVES,
    OPERATORS,
    NotOnFakeTensorsError,
    arguments,
    fake_cuda_autocast,
    mixed_outcome,
    outcome,
    overload,
)


def takes_dtype(name: str) -> bool:
    return any(argument.name == "dtype" for argument in overload(name)._schema.arguments)


def predicted(treatment: Treatment, given: torch.dtype, region: torch.dtype) -> object:
    return {
        Treatment.HALF: region,
        Treatment.FLOAT: torch.float32,
        Treatment.FLOAT_KEEP_DTYPE: torch.float32,
        Treatment.PROMOTE: given,
        Treatment.BANNED: RuntimeError,
    }[treatment]


def test_every_operator_that_cuda_autocast_casts_is_listed() -> None:
    assert NATIVE_CUDA.families == {family_of(name) for name in registered_operators("AutocastCUDA")}


@pytest.mark.parametrize("region", HALVES)
@pytest.mark.parametrize("name", OPERATORS)
def test_list_predicts_what_cuda_autocast_does(name: str, region: torch.dtype) -> None:
    with fake_cuda_autocast(region):
        for given in (region, torch.float32):
            try:
                found = outcome(name, given, "cuda")
            except NotOnFakeTensorsError:
                pytest.skip(f"this PyTorch shows {name} on a GPU alone")
            assert found == predicted(NATIVE_CUDA.treatment(family_of(name)), given, region)


@pytest.mark.parametrize("region", HALVES)
@pytest.mark.parametrize("name", OPERATORS)
def test_cpu_stand_in_gives_the_dtype_of_cuda(name: str, region: torch.dtype) -> None:
    with enforce(NATIVE_CUDA, "cpu"), torch.autocast("cpu", dtype=region):
        for given in (region, torch.float32):
            assert outcome(name, given, "cpu") == predicted(NATIVE_CUDA.treatment(family_of(name)), given, region)


@pytest.mark.parametrize("name", [n for n in OPERATORS if NATIVE_CUDA.treatment(family_of(n)) is Treatment.PROMOTE])
def test_promoting_operators_take_mixed_types(name: str) -> None:
    with fake_cuda_autocast(torch.float16):
        assert mixed_outcome(name, torch.float16, "cuda") is torch.float32
    with enforce(NATIVE_CUDA, "cpu"), torch.autocast("cpu", dtype=torch.float16):
        assert mixed_outcome(name, torch.float16, "cpu") is torch.float32


@pytest.mark.parametrize("name", [n for n in OPERATORS if takes_dtype(n)])
def test_a_dtype_that_the_caller_names_is_kept(name: str) -> None:
    with enforce(NATIVE_CUDA, "cpu"), torch.autocast("cpu", dtype=torch.float16):
        result = overload(name)(*arguments(name, torch.float16, "cpu"), dtype=torch.float64)
    assert result.dtype is torch.float64
