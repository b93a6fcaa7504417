"""`record()`: which operator ran in which dtype."""

from __future__ import annotations

import pytest
import torch
from amp_shim.policy import NATIVE_CUDA, autocast
from amp_shim.policy.recording import Recording, Row, record
from torch import nn

HALF, FLOAT = torch.float16, torch.float32


def rows(recording: Recording) -> dict[tuple[str, torch.dtype], tuple[int, int]]:
    return {(row.operator, row.dtype): (row.calls, row.flops) for row in recording.rows}


def test_operators_are_counted_with_their_work() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Softmax(-1))
    with record() as seen:
        model(torch.ones(3, 4))
    assert rows(seen) == {
        ("addmm", FLOAT): (2, 2 * 3 * 4 * 8 + 2 * 3 * 8 * 2),
        ("relu", FLOAT): (1, 0),
        ("_softmax", FLOAT): (1, 0),
    }
    assert seen.share(FLOAT) == 1.0
    assert seen.share(HALF) == 0.0


def test_dtypes_are_those_of_native_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), record() as seen:
        torch.ones(2, 2) @ torch.ones(2, 2)
        torch.ones(2, 2).exp()
    assert rows(seen) == {("mm", torch.bfloat16): (1, 16), ("exp", FLOAT): (1, 0)}


@pytest.mark.parametrize("float_part", [False, True])
def test_stand_in_counts_the_type_that_it_stands_for(float_part: bool) -> None:
    policy = NATIVE_CUDA.with_float("bmm") if float_part else NATIVE_CUDA
    x = torch.ones(2, 2, requires_grad=True)
    with autocast(policy, "cpu", dtype=HALF), record() as seen:
        y = torch.mm(x, x)
        torch.bmm(y[None].expand(3, 2, 2), y[None].expand(3, 2, 2)).sum()
    assert rows(seen) == {
        ("mm", HALF): (1, 16),
        ("bmm", FLOAT if float_part else HALF): (1, 48),
        ("sum", FLOAT): (1, 0),
    }
    assert seen.share(HALF) == (0.25 if float_part else 1.0)


def test_backward_pass_is_left_out() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    with record() as seen:
        (x @ x).sum().backward()
    assert rows(seen) == {("mm", FLOAT): (1, 16), ("sum", FLOAT): (1, 0)}
    assert x.grad is not None


def test_composite_operators_are_taken_apart_in_inference_mode_too() -> None:
    layer = nn.Linear(4, 4)
    with torch.inference_mode(), record() as seen:
        layer(torch.ones(2, 4))
    assert rows(seen) == {("addmm", FLOAT): (1, 64)}


def test_nothing_is_recorded_after_the_block() -> None:
    with record() as seen:
        torch.ones(2).exp()
    torch.ones(2).exp()
    assert seen.rows == (Row("exp", FLOAT, 1, 0),)
    assert seen.share(FLOAT) == 0.0


def test_table_shows_the_most_work_first() -> None:
    with record() as seen:
        torch.ones(2).exp()
        torch.ones(2, 2) @ torch.ones(2, 2)
        torch.ones(2, 6) @ torch.ones(6, 2).double().float()
        torch.ones(2, 2).double() @ torch.ones(2, 2).double()
    heading, first, second, third = str(seen).splitlines()
    assert heading.split() == ["operator", "dtype", "calls", "of", "FLOPs"]
    assert first.split() == ["mm", "float32", "2", "80.0%"]
    assert second.split() == ["mm", "float64", "1", "20.0%"]
    assert third.split() == ["exp", "float32", "1"]
