"""The shim beside the `apex.amp` that NVIDIA deleted: the same trainings from the same seeds, step by step.

    git clone https://github.com/NVIDIA/apex && git -C apex checkout cb65b8ed^
    python benchmarks/apex_reference.py apex

Apex's Python is taken from the checkout and needs no installation. The sides run in processes of their own. Where
there is no GPU, the CPU stands in: Apex is told that every tensor is on the GPU, and runs on the CPU's half kernels; at
O1 the shim rounds to half around float32 arithmetic instead, so losses differ there by rounding.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import torch
from amp_shim import amp as shim_amp
from apex_cases import CASES, Case, batches, poison
from shim_machine import RESULTS, machine
from torch import Tensor, nn

LEVELS = ("O0", "O1", "O2", "O3")


@dataclass(frozen=True)
class Training:
    """What one training did: losses of all passes, scales after each, skipped steps, norms of the final weights."""

    losses: list[float]
    scales: list[float]
    skipped: list[int]
    weights: list[float]
    milliseconds: float


@dataclass(frozen=True)
class Comparison:
    """Apex and the shim in one case at one opt level.

    loss_difference, weight_difference: the largest, relative to Apex's. milliseconds: of a step, the median.
    """

    case: str
    level: str
    steps: int
    loss_difference: float
    weight_difference: float
    same_scales: bool
    same_skips: bool
    skipped: list[int]
    apex_milliseconds: float
    shim_milliseconds: float


def train(amp: Any, case: Case, level: str, device: str, steps: int) -> Training:
    """Train by Apex's API, given as its module `amp`."""
    model, optimizer = _start(amp, case, level, device)
    losses: list[Tensor] = []
    scales, skipped, times = [], [], []
    for step in range(steps):
        if step == case.resumed:
            model, optimizer = _resume(amp, case, level, device, model, optimizer)
        start = time.perf_counter()
        optimizer.zero_grad()
        for number, (x, y) in enumerate(batches(case, step, device)):
            loss = nn.functional.cross_entropy(model(x), y)
            delays = case.delayed and number + 1 < case.passes
            which = 0 if case.delayed else number
            with amp.scale_loss(loss, optimizer, loss_id=which, delay_unscale=delays) as scaled_loss:
                scaled_loss.backward()
                if step in case.overflows and number == 0 and level != "O0":
                    poison(model)
            losses.append(loss.detach())
            scales.append(float(amp._amp_state.loss_scalers[which].loss_scale()))
        if optimizer._amp_stash.already_patched:
            skipped.append(step)
        else:
            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 5.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    weights = [param.detach().double().norm().item() for param in model.parameters()]
    return Training([loss.item() for loss in losses], scales, skipped, weights, median(times) * 1e3)


def _start(amp: Any, case: Case, level: str, device: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = case.model().to(device)
    optimizer = case.optimizer(model.parameters())
    dynamic = {"loss_scale": "dynamic"} if level != "O0" else {}
    amp.initialize(model, optimizer, opt_level=level, num_losses=case.passes, verbosity=0, **dynamic)
    return model, optimizer


def _resume(amp: Any, case: Case, level: str, device: str, model: nn.Module, optimizer: Any) -> tuple[nn.Module, Any]:
    states = copy.deepcopy((model.state_dict(), optimizer.state_dict(), amp.state_dict()))
    if level == "O1":
        amp._amp_state.handle._deactivate()
    model, optimizer = _start(amp, case, level, device)
    for part, state in zip((model, optimizer, amp), states, strict=True):
        part.load_state_dict(state)
    return model, optimizer


def load_apex(folder: Path, device: str) -> Any:
    """`apex.amp` of a checkout, without its extensions and without the packages that need them."""
    if device == "cpu":
        _answer_for_cuda()
    package: Any = ModuleType("apex")
    package.__path__ = [str(folder / "apex")]
    package.deprecated_warning = lambda message: None
    sys.modules["apex"] = package
    from apex import amp  # type: ignore[import-not-found]

    return amp


def _answer_for_cuda() -> None:
    """Apex asks for types by name, and for `is_cuda`: every tensor of the CPU passes for one of the GPU."""
    for name in ("FloatTensor", "HalfTensor", "IntTensor"):
        setattr(torch.cuda, name, getattr(torch, name))
    native = Tensor.type

    def type_(self: Tensor, dtype: Any = None, **options: Any) -> Any:
        return native(self).replace("torch.", "torch.cuda.") if dtype is None else native(self, dtype, **options)

    tensor: Any = Tensor
    tensor.type = type_
    tensor.is_cuda = property(lambda self: True)


def train_all(amp: Any, level: str, device: str, steps: int) -> list[Training]:
    """Every case at one opt level, one after the other."""
    trainings = []
    for case in CASES:
        trainings.append(train(amp, case, level, device, steps))
        if level == "O1":
            amp._amp_state.handle._deactivate()
    return trainings


def compare(folder: Path, level: str, device: str, steps: int) -> Iterator[Comparison]:
    """Train every case on both sides, each side in a process of its own."""
    sides = (_in_a_process(folder, side, level, device, steps) for side in ("apex", "shim"))
    for case, apex, shim in zip(CASES, *sides, strict=True):
        yield Comparison(
            case.name,
            level,
            steps,
            _farthest(apex.losses, shim.losses),
            _farthest(apex.weights, shim.weights),
            apex.scales == shim.scales,
            apex.skipped == shim.skipped,
            apex.skipped,
            apex.milliseconds,
            shim.milliseconds,
        )


def _in_a_process(folder: Path, side: str, level: str, device: str, steps: int) -> list[Training]:
    command = [sys.executable, __file__, str(folder), "--device", device, "--steps", str(steps)]
    command += ["--side", side, "--level", level]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    # Both sides say on stdout that a step is skipped; the result is the last line.
    return [Training(**each) for each in json.loads(printed.splitlines()[-1])]


def _farthest(reference: Sequence[float], others: Sequence[float]) -> float:
    return max(abs(other - mine) / abs(mine) for mine, other in zip(reference, others, strict=True))


def main() -> None:
    """Compare, print, and write the result; with `--side`, train that side and print what it did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("folder", type=Path, help="a checkout of NVIDIA/apex that has apex/amp")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=30, help="default: %(default)s")
    parser.add_argument("--output", type=Path, help="default: results/apex-reference-DEVICE.json beside this file")
    parser.add_argument("--side", choices=["apex", "shim"], help=argparse.SUPPRESS)
    parser.add_argument("--level", choices=LEVELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.folder / "apex" / "amp" / "__init__.py").is_file():
        parser.error(f"{options.folder} has no apex/amp; check out a commit from before May 2025, such as cb65b8ed^")
    if options.side:
        torch.set_num_threads(1)
        amp = load_apex(options.folder, options.device) if options.side == "apex" else shim_amp
        print(json.dumps([asdict(each) for each in train_all(amp, options.level, options.device, options.steps)]))
        return
    found: list[Comparison] = []
    print(f"{'':42}{'losses':>10}{'weights':>10}  scales  skips      ms of Apex, of the shim")
    for level in LEVELS:
        for each in compare(options.folder, level, options.device, options.steps):
            found.append(each)
            differences = f"{each.loss_difference:10.1e}{each.weight_difference:10.1e}"
            same = f"{'same' if each.same_scales else 'DIFFER':8}{'same' if each.same_skips else 'DIFFER':8}"
            times = f"{each.apex_milliseconds:8.1f}{each.shim_milliseconds:8.1f}"
            print(f"{each.level} {each.case:39}{differences}  {same}{times}", flush=True)
    output = options.output or RESULTS / f"apex-reference-{options.device}.json"
    result = {"machine": machine(options.device), "comparisons": [asdict(each) for each in found]}
    output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
