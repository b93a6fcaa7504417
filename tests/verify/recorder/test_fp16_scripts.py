"""Scripts with Apex's `FP16_Optimizer` under the recorder."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.verify.runs.process import RunResult

Record = Callable[..., RunResult]

TRAIN = """
from apex.fp16_utils import FP16_Optimizer, network_to_half
model = network_to_half(model)
optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), dynamic_loss_scale=True)
for step in range(3):
    optimizer.zero_grad()
    loss = loss_of().float()
    optimizer.backward(loss * (1e30 if step == 1 else 1e-3))
    optimizer.step()
"""


@pytest.mark.torch
def test_losses_are_unscaled_and_skipped_steps_are_counted(record: Record) -> None:
    trace = record(TRAIN).trace
    first = trace.backwards[0]
    assert first.scale == pytest.approx(65536.0, rel=1e-3)
    assert first.loss < 100
    assert [step.skipped for step in trace.steps] == [False, True, False]
    assert [each.value for each in trace.scales] == [65536.0, 32768.0, 32768.0]


@pytest.mark.torch
def test_amp_off_leaves_float32(record: Record) -> None:
    trace = record(TRAIN, amp_off=True).trace
    assert trace.backwards[0].scale == 1.0
    assert [step.skipped for step in trace.steps] == [False, False, False]
    assert {scale.value for scale in trace.scales} == {1.0}


@pytest.mark.torch
def test_what_it_zeroes_is_counted_and_what_it_says_of_itself_is_not_printed_with_amp_off(record: Record) -> None:
    result = record(TRAIN, amp_off=True)
    assert [step.zeroed for step in result.trace.steps] == [1, 1, 1]
    assert (result.folder / "stdout.log").read_text(encoding="utf-8") == ""
