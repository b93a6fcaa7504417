"""The table of operators is held to PyTorch: under CUDA's autocast, which fake tensors show, and without."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from amp_migrate.flow.domain.dtypes import DTYPES, LIMITS, TENSOR_TYPES
from amp_migrate.flow.domain.tensor import NAMES, SPARSE, precisions
from amp_migrate.tables import operators as table
from gpu_suite.flow_samples import BY_PARTS, NAME, OF_SPARSE, PAIRS, SAMPLES, seen
from gpu_suite.flow_table import compared, said, tensors


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("on", [True, False], ids=["in a region", "outside"])
def test_every_operator_gives_what_the_table_says(on: bool, pair: tuple[str, str]) -> None:
    wrong, certain = compared(on, pair)
    assert "\n".join(wrong) == ""
    assert certain / len(SAMPLES) > 0.8


@pytest.mark.parametrize("sample", BY_PARTS)
def test_what_fake_tensors_compute_by_parts_is_multiplied_in_low_precision(sample: str) -> None:
    """The kernel calls `bmm`, on whatever device: the CPU's autocast shows it."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = eval(sample, {"torch": torch, "F": F, "a": torch.rand(4, 4)})
    (value,) = (each for each, text in zip(said(True, PAIRS[0])[0], SAMPLES, strict=True) if text == sample)
    tensor = tensors(value)
    assert result.dtype == torch.bfloat16
    assert tensor is not None
    assert precisions(tensor.precision) == "float16"


@pytest.mark.parametrize("pair", PAIRS[2:], ids="-".join)
@pytest.mark.parametrize(
    "sample",
    ["a * s", "s * a", "(a @ b.t()) * s", "torch.matmul(q, q) * s", "a.sum(1) * s", "a[0] * s", "a[1:] * s",
     "a.view(2, 8) * s", "F.normalize(a, dim=1) * s", "F.linear(v, a) * s", "a.flatten(1) * s", "a.unsqueeze(0) * s",
     "torch.einsum('ij,j->i', a, v) * s"],
)  # fmt: skip
def test_a_scalar_counts_for_less_than_what_surely_has_a_shape(sample: str, pair: tuple[str, str]) -> None:
    at = SAMPLES.index(sample)
    (value, _), result = said(True, pair), seen(True, pair)[at]
    tensor = tensors(value[at])
    assert tensor is not None
    assert precisions(tensor.precision) == result


def test_what_is_said_to_be_sparse_is_sparse() -> None:
    layouts = seen(False, PAIRS[0], samples=OF_SPARSE, what=lambda made: str(getattr(made, "layout", "")))
    known = (tensors(said(False, PAIRS[0])[0][SAMPLES.index(each)]) for each in OF_SPARSE)
    are_sparse = [each is not None and bool(each.tags & SPARSE) for each in known]
    actual = zip(OF_SPARSE, (each != "torch.strided" for each in layouts), strict=True)
    assert dict(zip(OF_SPARSE, are_sparse, strict=True)) == dict(actual)
    assert all(layouts)


def test_every_operator_of_the_table_is_asked_for() -> None:
    _, used = said(True, PAIRS[0])
    assert sorted((table.RESULT.keys() | table.AUTOCAST.keys()) - used) == []


@pytest.mark.parametrize("name", sorted(table.TAKING_NOTHING))
def test_what_takes_nothing_but_its_tensor_raises_where_it_is_given_more(name: str) -> None:
    own = torch.eye(2)
    getattr(own, name)()
    with pytest.raises(TypeError):
        getattr(own, name)(own)


def test_what_is_no_method_is_a_function_alone() -> None:
    names = {each for each in table.RESULT.keys() | table.AUTOCAST.keys() if "." not in each}
    plain = {each for each in table.NO_METHODS if not any(hasattr(torch.Tensor, form) for form in (each, each + "_"))}
    assert plain == table.NO_METHODS
    assert names | table.SEVERAL.keys() >= table.NO_METHODS


def test_the_table_of_dtypes_is_torchs() -> None:
    for name, precision in DTYPES.items():
        dtype = getattr(torch, name.removeprefix("torch."))
        kind = "complex" if dtype.is_complex else NAME.get(dtype, "int")
        assert isinstance(dtype, torch.dtype)
        assert kind == NAMES[precision], name


def test_the_numbers_of_dtypes_are_torchs_and_numpys() -> None:
    for name, numbers in LIMITS.items():
        package, last = name.split(".")
        dtype = getattr({"torch": torch, "numpy": np, "builtins": builtins}[package], last)
        known = torch.finfo(dtype) if package == "torch" else np.finfo(dtype)
        assert {each: float(getattr(known, each)) for each in numbers} == numbers, name


def test_the_table_of_tensor_types_is_torchs() -> None:
    for name, precision in TENSOR_TYPES.items():
        *module, kind = name.removeprefix("torch.").split(".")
        made = getattr(torch.cuda if module else torch, kind)
        dtype = torch.get_default_dtype() if made is torch.Tensor else made.dtype
        assert NAME.get(dtype, "int") == NAMES[precision], name
