"""The range of what a script's lines compute in float32, and that looking at it changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.verify.recorded.events import from_events
from amp_migrate.verify.recorded.recording import Range
from amp_migrate.verify.runs.process import RunResult

pytestmark = pytest.mark.slow

Record = Callable[..., RunResult]
PRELUDE = """
import torch
from torch import nn
torch.manual_seed(0)

class Square(nn.Module):
    def forward(self, x):
        return x * x * 1000

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return self.fc(x) * 2000

class Area(nn.Module):
    def forward(self, x):
        return (x * 3000).mean()

class Alone(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.weight * 4000

class Teacher(nn.Module):
    def forward(self, x):
        return x * 90000

def shifted(x):
    return x + 5000

net = nn.Sequential(Block(), Square(), nn.Dropout(0.5)).cuda()
alone, area = Alone().cuda(), Area()
optimizer = torch.optim.SGD([*net.parameters(), *alone.parameters()], lr=0.01)
x = torch.ones(16, 8).cuda()
"""
STEP = """
loss = area(shifted(net(x))) + alone(x).sum()
hidden = torch.ones(4, requires_grad=True).masked_fill(torch.ones(4, dtype=torch.bool), float("-inf"))
with torch.no_grad():
    net(x) * 7000
    area(Teacher()(x))
with torch.inference_mode():
    Teacher()(x * 2)
half = net(x).half() * 10
torch.func.vmap(lambda each: each * 8000)(net(x))
loss.backward()
optimizer.step()
print(loss.item(), torch.rand(2).tolist())
"""


def found(result: RunResult) -> dict[str, Range]:
    assert result.ended_well, result.log.read_text()
    return {each.text: each for each in result.trace.ranges if each.operation in ("mul", "add", "masked_fill")}


def test_ranges_are_those_of_lines_and_operations(record: Record) -> None:
    ranges = found(record(STEP, prelude=PRELUDE, census=True, ranges=True))
    owners = {text: each.owner for text, each in ranges.items()}
    assert owners == {
        "return self.fc(x) * 2000": "",  # it has parts of its own
        "return x * x * 1000": "Square",
        "return (x * 3000).mean()": "Area",  # a loss has no parameters
        "return x * self.weight * 4000": "",  # a model as a whole
        "return x + 5000": "",
        "return x * 90000": "Teacher",
        "loss = area(shifted(net(x))) + alone(x).sum()": "",
        'hidden = torch.ones(4, requires_grad=True).masked_fill(torch.ones(4, dtype=torch.bool), float("-inf"))': "",
    }
    assert (ranges["return x * self.weight * 4000"].largest, ranges["return x * self.weight * 4000"].smallest) == (
        4000.0,
        1.0,
    )
    assert ranges["return x + 5000"].smallest >= 5000
    assert (ranges["return x * 90000"].largest, ranges["return x * 90000"].smallest) == (180000.0, 90000.0)
    masked = next(each for text, each in ranges.items() if text.startswith("hidden"))
    assert (masked.largest, masked.smallest) == (0.0, 0.0)  # of which none is finite


LOOP = """
for step in range(2):
    state = torch.full((4,), 1.0 + 200 * step, requires_grad=True)
    for time in range(LENGTH):
        state = state + 1
    (net(x).sum() + state.sum()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("length", "largest"), [(8, 209.0), (15, 209.0), (16, 217.0), (40, 241.0)])
def test_one_in_eight_is_looked_at_where_a_line_runs_often_in_a_step(
    record: Record, length: int, largest: float
) -> None:
    ranges = found(record(LOOP.replace("LENGTH", str(length)), prelude=PRELUDE, census=True, ranges=True))
    looked = ranges["state = state + 1"]
    assert (looked.smallest, looked.largest) == (2.0, largest)


def test_looking_changes_nothing_of_the_training(record: Record) -> None:
    seen, alone = (record(STEP, prelude=PRELUDE, census=True, ranges=ranges) for ranges in (True, False))
    assert seen.trace.ranges
    assert not alone.trace.ranges
    assert (seen.folder / "stdout.log").read_text() == (alone.folder / "stdout.log").read_text()
    assert seen.trace.counted == alone.trace.counted


def test_what_several_devices_compute_at_a_line_is_one_range() -> None:
    event = {"kind": "range", "file": "train.py", "line": 3, "text": "y = x * x", "operation": "mul", "owner": ""}
    first, second = {"largest": 3.0, "smallest": 0.5}, {"largest": 7.0, "smallest": float("inf")}
    trace = from_events([{**event, **first}, {**event, **second}])
    assert trace.ranges == (Range("train.py", 3, "y = x * x", "mul", "", 7.0, 0.5),)
