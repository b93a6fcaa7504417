"""The table of operators is held to PyTorch: under CUDA's autocast, which fake tensors show, and without."""

from __future__ import annotations

import ast
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
import torch.nn.functional as F
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Tup, Value
from amp_migrate.flow.domain.dtypes import DTYPES, TENSOR_TYPES
from amp_migrate.flow.domain.tensor import NAMES, OTHER, Tensor, precisions
from amp_migrate.tables import operators as table
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .conftest import Texts
from .samples import SAMPLES

NAME = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
}
MADE = """
import torch
import torch.nn.functional as F
from torch import nn


def run():
    a = torch.rand(4, 4, device="cuda", dtype={0})
    b = torch.rand(4, 4, device="cuda", dtype={1})
    q = torch.rand(2, 4, 4, device="cuda", dtype={0})
    v = torch.rand(4, device="cuda", dtype={0})
    s = torch.rand((), device="cuda", dtype={1})
    i = torch.zeros(4, device="cuda", dtype=torch.int64)
    m = torch.zeros(4, 4, device="cuda", dtype=torch.bool)
    n = torch.rand(2, 3, 8, 8, device="cuda", dtype={0})
    k = torch.rand(3, 3, 3, 3, device="cuda", dtype={1})
    p = torch.rand(4, 4, device="cuda", dtype={0})
"""
BY_PARTS = ("F.affine_grid(a[None, :2, :3], [1, 3, 4, 4], align_corners=True)",)
PAIRS = [
    ("torch.float32", "torch.float32"),
    ("torch.float16", "torch.float16"),
    ("torch.float32", "torch.float16"),
    ("torch.float16", "torch.float32"),
]


@contextmanager
def autocast(on: bool) -> Iterator[None]:
    torch.set_autocast_enabled("cuda", on)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()


def said(on: bool, pair: tuple[str, str]) -> tuple[list[Value], set[str]]:
    """What the analysis says of each sample, and the operators that it has used for it."""
    lines = [MADE.format(*pair), f"    with torch.amp.autocast('cuda', dtype=torch.float16, enabled={on}):"]
    for index, sample in enumerate(SAMPLES):
        fresh = "        a = torch.rand(4, 4, device='cuda', dtype=" + pair[0] + ")\n" if "_(" in sample else ""
        lines.append(f"{fresh}        r{index} = {sample}")
    analysis = Analysis(Texts({"t.py": "\n".join(lines)}), ["t.py"]).run()
    values = {
        node.id: value
        for node, value in analysis.values.items()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return [values[f"r{index}"] for index in range(len(SAMPLES))], analysis.pytorch.used


def seen(on: bool, pair: tuple[str, str]) -> list[object]:
    """What PyTorch gives for each sample; None where it raises.

    In a region, on fake tensors that say they are on a GPU; outside, on true ones on the CPU.
    """
    scope: dict[str, object] = {"torch": torch, "F": F, "nn": nn}
    found: list[object] = []
    fresh = MADE.format(*pair).split("def run():")[1].replace("\n    ", "\n")
    samples = SAMPLES
    if not on:
        fresh = fresh.replace('"cuda"', '"cpu"')
        samples = tuple(each.replace("'cuda'", "'cpu'").replace(".cuda()", "") for each in SAMPLES)
    logging.disable(logging.CRITICAL)
    try:
        with FakeTensorMode() if on else nullcontext(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(fresh, scope)
            for sample in samples:
                if "_(" in sample:
                    exec(fresh, scope)
                try:
                    with autocast(on):
                        found.append(eval(sample, scope))
                except Exception:
                    found.append(None)
            return found
    finally:
        logging.disable(logging.NOTSET)


def tensors(value: Value) -> Tensor | None:
    for each in value:
        if isinstance(each, Tensor):
            return each
        if isinstance(each, Tup) and each.items:
            return tensors(each.items[0])
    return None


def name_of(result: object) -> str:
    while isinstance(result, (tuple, list)):
        result = result[0]
    if isinstance(result, torch.Tensor):
        return NAME.get(result.dtype, "int" if not result.dtype.is_floating_point else str(result.dtype))
    return ""


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("on", [True, False], ids=["in a region", "outside"])
def test_every_operator_gives_what_the_table_says(on: bool, pair: tuple[str, str]) -> None:
    values, _ = said(on, pair)
    wrong = []
    certain = 0
    for sample, value, result in zip(SAMPLES, values, seen(on, pair), strict=True):
        actual = name_of(result)
        if not actual or (on and sample in BY_PARTS):
            continue
        tensor = tensors(value)
        bits = OTHER if tensor is None else tensor.precision
        names = {NAMES[1 << bit] for bit in range(7) if bits >> bit & 1}
        if actual not in names and not bits & OTHER:
            wrong.append(f"{sample}: {actual}, said {precisions(bits)}")
        certain += names == {actual} and not bits & OTHER
        if bits & OTHER:
            wrong.append(f"{sample}: {actual}, said nothing")
    assert "\n".join(wrong) == ""
    assert certain / len(SAMPLES) > 0.8


@pytest.mark.parametrize("sample", BY_PARTS)
def test_what_fake_tensors_compute_by_parts_is_multiplied_in_low_precision(sample: str) -> None:
    """The kernel calls `bmm`, on whatever device: the CPU's autocast shows it."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = eval(sample, {"F": F, "a": torch.rand(4, 4)})
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
    assert precisions(tensor.precision) == name_of(result)


def test_every_operator_of_the_table_is_asked_for() -> None:
    _, used = said(True, PAIRS[0])
    assert sorted((table.RESULT.keys() | table.AUTOCAST.keys()) - used) == []


def test_the_table_of_dtypes_is_torchs() -> None:
    for name, precision in DTYPES.items():
        dtype = getattr(torch, name.removeprefix("torch."))
        kind = "complex" if dtype.is_complex else NAME.get(dtype, "int")
        assert isinstance(dtype, torch.dtype)
        assert kind == NAMES[precision], name


def test_the_table_of_tensor_types_is_torchs() -> None:
    for name, precision in TENSOR_TYPES.items():
        *module, kind = name.removeprefix("torch.").split(".")
        made = getattr(torch.cuda if module else torch, kind)
        dtype = torch.get_default_dtype() if made is torch.Tensor else made.dtype
        assert NAME.get(dtype, "int") == NAMES[precision], name
