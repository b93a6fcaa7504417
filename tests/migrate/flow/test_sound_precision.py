"""Random programs are run, on tensors that say they are on a GPU: the analysis never contradicts what is seen."""

from __future__ import annotations

import ast
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
import torch
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Opaque, Value
from amp_migrate.flow.domain.tensor import (
    BF16,
    BOOL,
    COMPLEX,
    CUT,
    F16,
    F32,
    F64,
    FLOWS,
    INT,
    OTHER,
    Tensor,
    join_tensors,
)
from torch._subclasses.fake_tensor import FakeTensorMode

from .conftest import Texts
from .programs import Writer

BITS = {
    torch.float16: F16,
    torch.bfloat16: BF16,
    torch.float32: F32,
    torch.float64: F64,
    torch.bool: BOOL,
    torch.int64: INT,
    **dict.fromkeys((torch.complex32, torch.complex64, torch.complex128), COMPLEX),
}
Seen = dict[int, set[tuple[int, bool]]]


@contextmanager
def autocast(device: str, dtype: torch.dtype, enabled: bool = True) -> Iterator[None]:
    """CUDA's autocast on a machine without CUDA, where PyTorch's own switches itself off."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", enabled)
    torch.set_autocast_dtype("cuda", dtype)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])


def run(text: str, seed: int) -> Seen:
    """What is seen at each note, in one run."""
    random = Random(seed)
    seen: Seen = defaultdict(set)

    def note(number: int, value: object) -> None:
        if isinstance(value, torch.Tensor):
            seen[number].add((BITS[value.dtype], value.requires_grad))

    def fail(number: int) -> None:
        if random.random() < 0.5:
            raise ValueError(number)

    scope: dict[str, Any] = {
        "autocast": autocast,
        "note": note,
        "fail": fail,
        "flag": lambda k: random.random() < 0.5,
        "__name__": "program",
    }
    body = text.replace("from torch.amp import autocast\n", "").replace("from elsewhere import fail, flag, note\n", "")
    body = body.replace(".cuda()", "")
    logging.disable(logging.CRITICAL)
    try:
        with FakeTensorMode(), torch.device("cuda"):
            exec(compile(body, "program", "exec"), scope)
    except UnboundLocalError:
        pass
    finally:
        logging.disable(logging.NOTSET)
    return seen


def said(text: str) -> dict[int, Value]:
    """What the analysis says at each note."""
    analysis = Analysis(Texts({"p.py": text}), ["p.py"]).run()
    module = analysis.module("p.py")
    assert module is not None
    return {
        node.args[0].value: analysis.values.get(node.args[1], frozenset())
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "note"
        and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, int)
    }  # fmt: skip


def known(value: Value) -> Tensor | None:
    """What is said of a tensor; None where nothing is."""
    found: Tensor | None = None
    for each in value:
        if isinstance(each, Opaque):
            return None
        if isinstance(each, Tensor):
            found = each if found is None else join_tensors(found, each)
    return found


def contradictions(seed: int) -> tuple[list[str], int, int, int]:
    """What was seen and not said, in one program; how many notes there are, and how many are known, or certain."""
    text = Writer(seed).text()
    told = said(text)
    found: list[str] = []
    total = told_of = certain = 0
    seen: Seen = defaultdict(set)
    for each in range(3):
        for number, kinds in run(text, seed * 31 + each).items():
            seen[number] |= kinds
    for number, kinds in seen.items():
        tensor = known(told[number])
        total += 1
        if tensor is None and not any(isinstance(each, Opaque) for each in told[number]):
            found.append(f"seed {seed}, note {number}: {kinds} was not said at all")
        if tensor is None or tensor.precision & OTHER:
            continue
        told_of += 1
        certain += tensor.precision & (tensor.precision - 1) == 0
        for bits, needs_gradient in kinds:
            if not tensor.precision & bits:
                found.append(f"seed {seed}, note {number}: {bits} was seen, {tensor.precision} said")
            if not tensor.flows & (FLOWS if needs_gradient else CUT):
                found.append(
                    f"seed {seed}, note {number}: requires_grad={needs_gradient} was seen, {tensor.flows} said"
                )
    return found, total, told_of, certain


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_what_a_run_shows_is_never_denied_and_mostly_known(start: int) -> None:
    results = [contradictions(seed) for seed in range(start, start + 10)]
    assert [line for found, *_ in results for line in found] == []
    total = sum(each[1] for each in results)
    told_of = sum(each[2] for each in results)
    certain = sum(each[3] for each in results)
    assert total > 100
    # Every assignment may fail and then is another, so that few can be certain.
    assert told_of / total > 0.9
    assert certain / total > 0.3
