"""What the shim costs beside a hand-written native loop: training steps, in pairs, in one process.

    python benchmarks/shim.py
    python benchmarks/shim.py --device cuda --seconds 60

Every round times all arms one after the other and then again in reverse order; an arm's ratio is taken within its
round, so that a busy or warming machine weighs on both sides. Where there is no GPU the CPU computes in bfloat16: the
arm "scaling alone" then is what the shim adds to a native region, and O4, whose kernels let the CPU stand in for a GPU,
says nothing about the cost on one. Time on the CPU is processor time of one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
import torchvision
from amp_shim import amp
from shim_machine import RESULTS, machine
from torch import Tensor, nn
from torch.optim import SGD


@dataclass(frozen=True)
class Workload:
    """A model, and the shape of a batch for it."""

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Ratio:
    """An arm of one workload: its step time over the native one's, median and quartiles over the rounds."""

    workload: str
    arm: str
    rounds: int
    milliseconds: float
    ratio: float
    quartiles: tuple[float, float]


class Arm:
    """One way to train; `amp`'s process-wide state is this arm's own while it steps."""

    def __init__(self, workload: Workload, device: str, level: str | None, **options: Any) -> None:
        torch.manual_seed(0)
        self._device = device
        self._model = workload.model().to(device)
        self._x = torch.randn(workload.shape, device=device)
        self._optimizer = SGD(self._model.parameters(), lr=1e-4, momentum=0.9)
        self._level = level
        self._own_region = level is None or options.get("patch_torch_functions") is False
        self._scaler = torch.amp.GradScaler(device, enabled=level is None)
        if level is not None:
            amp.initialize(self._model, self._optimizer, opt_level=level, loss_scale="dynamic", verbosity=0, **options)
        self._state = dict(vars(amp._amp_state))
        amp.reset()

    def enter(self) -> None:
        vars(amp._amp_state).update(self._state)
        if amp._amp_state.handle is not None:
            amp._amp_state.handle.activate()

    def step(self) -> None:
        self._optimizer.zero_grad()
        with self._region():
            loss = _loss(self._model(self._x))
        if self._level is None:
            self._scaler.scale(loss).backward()
            self._scaler.step(self._optimizer)
            self._scaler.update()
            return
        with amp.scale_loss(loss, self._optimizer) as scaled_loss:
            scaled_loss.backward()
        self._optimizer.step()

    def seconds(self, steps: int) -> float:
        """Seconds for one step, as the mean of `steps`."""
        self.enter()
        clock = time.perf_counter if self._device == "cuda" else time.process_time
        _wait(self._device)
        start = clock()
        for _ in range(steps):
            self.step()
        _wait(self._device)
        taken = clock() - start
        amp.reset()
        return taken / steps

    def _region(self) -> AbstractContextManager[object]:
        dtype = torch.float16 if self._device == "cuda" else torch.bfloat16
        return torch.autocast(self._device, dtype=dtype) if self._own_region else nullcontext()


def _loss(output: Tensor) -> Tensor:
    return output.float().pow(2).mean()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def workloads(device: str) -> list[Workload]:
    """ResNet-18 and a transformer of 12 layers, in sizes that suit the device."""
    width, length, batch, side, images = (768, 512, 16, 224, 128) if device == "cuda" else (64, 32, 4, 32, 4)

    def transformer() -> nn.Module:
        layer = nn.TransformerEncoderLayer(width, max(width // 64, 4), 4 * width, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 12)

    return [
        Workload("ResNet-18", torchvision.models.resnet18, (images, 3, side, side)),
        Workload("transformer, 12 layers", transformer, (batch, length, width)),
    ]


def arms(workload: Workload, device: str) -> dict[str, Arm]:
    """The native loop first; then the shim's ways."""
    casts, masters = ("O1", "O2") if device == "cuda" else ("O4", "O5")
    return {
        "native": Arm(workload, device, None),
        "O1, scaling alone": Arm(workload, device, "O1", patch_torch_functions=False),
        casts: Arm(workload, device, casts),
        masters: Arm(workload, device, masters),
    }


def measure(workload: Workload, device: str, seconds: float, steps: int) -> list[Ratio]:
    """Rounds until `seconds` have passed, at least three."""
    found = arms(workload, device)
    for arm in found.values():
        arm.seconds(2)
    times: dict[str, list[float]] = {name: [] for name in found}
    end = time.perf_counter() + seconds
    while len(times["native"]) < 3 or time.perf_counter() < end:
        there = {name: arm.seconds(steps) for name, arm in found.items()}
        back = {name: found[name].seconds(steps) for name in reversed(found)}
        for name in found:
            times[name].append((there[name] + back[name]) / 2)
    return [_ratio(workload.name, name, times[name], times["native"]) for name in found]


def _ratio(workload: str, arm: str, times: list[float], native: list[float]) -> Ratio:
    ratios = [mine / theirs for mine, theirs in zip(times, native, strict=True)]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return Ratio(workload, arm, len(ratios), median(times) * 1e3, median(ratios), (low, high))


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=30, help="for each workload (default: 30)")
    parser.add_argument("--steps", type=int, default=2, help="steps between two readings of the clock (default: 2)")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--output", type=Path, help="default: results/shim-DEVICE.json beside this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios: list[Ratio] = []
    print(f"{'':24}{'':20}{'ms':>9}{'ratio':>8}  quartiles    rounds")
    for workload in workloads(options.device):
        if options.only not in workload.name:
            continue
        for each in measure(workload, options.device, options.seconds, options.steps):
            ratios.append(each)
            spread = f"{each.quartiles[0]:.3f}-{each.quartiles[1]:.3f}"
            print(
                f"{each.workload:24}{each.arm:20}{each.milliseconds:9.1f}{each.ratio:8.3f}  {spread}  {each.rounds:6}",
                flush=True,
            )
    output = options.output or RESULTS / f"shim-{options.device}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(options.device), "ratios": [asdict(each) for each in ratios]}
    output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
