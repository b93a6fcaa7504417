"""What the shim adds to a training step on the host, where nothing else is left to measure.

    python benchmarks/shim_host.py

Forward and backward pass are the same beside the shim and beside native AMP; what differs is what happens around them.
So the steps timed here have as many parameters as ResNet-18 and a transformer of 12 layers, but so small that only host
work is left, and gradients that lie ready in place of a forward and a backward pass through layers. Two sizes show that
the difference does not come from tensors. Divided by the time of a native step at a realistic size it is the share that
the shim has there, at most: a GPU computes meanwhile.

Rounds go there and back. A difference is taken within its round; an operator that a policy overrides is timed alone,
for several numbers of calls.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from amp_shim import amp
from amp_shim.policy import NATIVE_CUDA
from amp_shim.policy.dispatch import enforce
from shim_machine import RESULTS, machine
from torch import Tensor, nn

from shim import Arm, Workload, workloads

SIZES = (8, 128)
CALLS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Added:
    """Microseconds that a step costs more than the native one: median and quartiles over the rounds.

    least: the difference of the least step times, which no other program lengthened. share: the median over the time
    of a native step at a realistic size.
    """

    workload: str
    arm: str
    elements: int
    rounds: int
    native: float
    added: float
    quartiles: tuple[float, float]
    least: float
    share: float


class Step:
    """A training step without its layers; `amp`'s process-wide state is this one's own while it runs."""

    def __init__(self, count: int, elements: int, level: str | None) -> None:
        self._level = level
        self._model = nn.ParameterList(nn.Parameter(torch.zeros(elements)) for _ in range(count))
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4, momentum=0.9)
        self._scaler = torch.amp.GradScaler("cpu", enabled=level is None)
        self._loss = torch.ones((), requires_grad=True)
        if level is not None:
            amp.initialize(self._model, self._optimizer, opt_level=level, loss_scale="dynamic", verbosity=0)
        # Zeros, because unscaling in place would make other values smaller with every step.
        self._params = list(self._model.parameters())
        self._grads = [torch.zeros_like(param) for param in self._params]
        self._state = dict(vars(amp._amp_state))
        amp.reset()

    def __call__(self) -> None:
        self._optimizer.zero_grad()
        if self._level is None:
            self._backward(self._scaler.scale(self._loss))
            self._scaler.step(self._optimizer)
            self._scaler.update()
            return
        with amp.scale_loss(self._loss, self._optimizer) as scaled_loss:
            self._backward(scaled_loss)
        self._optimizer.step()

    def microseconds(self, steps: int) -> float:
        """Processor time of one step, as the mean of `steps`."""
        vars(amp._amp_state).update(self._state)
        if amp._amp_state.handle is not None:
            amp._amp_state.handle.activate()
        taken = _processor_time(self, steps)
        amp.reset()
        return taken

    def _backward(self, loss: Tensor) -> None:
        loss.backward()
        for param, grad in zip(self._params, self._grads, strict=True):
            param.grad = grad


def around_the_layers(workload: Workload, rounds: int) -> list[Added]:
    """What O1 and O2 add around the forward and the backward pass of a workload, at each size."""
    native_step = Arm(workload, "cpu", None)
    native_step.seconds(1)
    realistic = min(native_step.seconds(1) for _ in range(3)) * 1e6
    count = len(list(workload.model().parameters()))
    found = []
    for elements in SIZES:
        arms = {str(level): Step(count, elements, level) for level in (None, "O1", "O2")}
        times = _rounds({name: partial(step.microseconds, 10) for name, step in arms.items()}, rounds)
        found += [
            _added(workload.name, level, elements, times["None"], times[level], realistic) for level in ("O1", "O2")
        ]
    return found


def overridden_calls(rounds: int) -> list[Added]:
    """What `k` calls of an operator cost more where a policy overrides it."""
    x = torch.zeros(8)
    policy = NATIVE_CUDA.with_float("gelu")

    def region(enforced: bool, calls: int) -> float:
        def run() -> None:
            for _ in range(calls):
                nn.functional.gelu(x)

        with enforce(policy, "cpu") if enforced else nullcontext(), torch.autocast("cpu"):
            return _processor_time(run, 50)

    found = []
    for calls in CALLS:
        times = _rounds({str(enforced): partial(region, enforced, calls) for enforced in (False, True)}, rounds)
        found.append(_added(f"{calls} calls", "policy", x.numel(), times["False"], times["True"], float("inf")))
    return found


def _rounds(arms: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in arms}
    for arm in arms.values():
        arm()
    for _ in range(rounds):
        there = {name: arm() for name, arm in arms.items()}
        back = {name: arms[name]() for name in reversed(arms)}
        for name in arms:
            times[name].append(min(there[name], back[name]))
    return times


def _added(
    workload: str, arm: str, elements: int, native: Sequence[float], mine: Sequence[float], realistic: float
) -> Added:
    differences = [own - theirs for own, theirs in zip(mine, native, strict=True)]
    low, middle, high = quantiles(differences, n=4, method="inclusive")
    least = min(mine) - min(native)
    return Added(
        workload, arm, elements, len(differences), median(native), middle, (low, high), least, middle / realistic
    )


def _processor_time(run: Callable[[], Any], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - start) / times * 1e6


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=RESULTS / "shim-host.json", help="default: %(default)s")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: list[Added] = []
    print(f"{'microseconds of a step':24}{'':8}{'elements':>9}{'native':>9}{'added':>8}{'least':>8}  quartiles, share")
    for workload in workloads("cpu"):
        found += around_the_layers(workload, options.rounds)
    found += overridden_calls(options.rounds)
    for each in found:
        spread = f"{each.quartiles[0]:.0f} to {each.quartiles[1]:.0f}, {each.share:.2%}"
        numbers = f"{each.native:9.0f}{each.added:8.0f}{each.least:8.0f}"
        print(f"{each.workload:24}{each.arm:8}{each.elements:9}{numbers}  {spread}")
    result = {"machine": machine("cpu"), "added": [asdict(each) for each in found]}
    options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
