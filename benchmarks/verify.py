"""What recording a step costs it: the same training with the recorder and without, in turns, in one process.

    python benchmarks/verify.py

A round makes a step without the recorder, two with it and another without it, and takes the ratio, so that a busy or
warming machine weighs on both sides. Times are processor time of one thread, and on a GPU those until it has done its
part. The recorder is the one that runs in a script on a GPU machine: no CPU stands in for anything here, and the CPU
computes in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
import torch.nn.utils.clip_grad
from amp_migrate.verify.recorder import attach
from amp_migrate.verify.recorder.measure.timing import StepTimer
from amp_migrate.verify.recorder.progress import Progress
from amp_migrate.verify.recorder.record import norms, scaler
from amp_migrate.verify.recorder.spec import NORM_STEPS, RecorderSpec
from amp_migrate.verify.recorder.writer import Writer
from codemod import RESULTS, machine
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

WARM_UP = 30  # steps
LATER = 1000  # a step long after the first ones
HOLDERS: tuple[Any, ...] = (torch, torch.autograd, torch.amp.GradScaler, torch.nn.utils, torch.nn.utils.clip_grad)
HOOKS: tuple[dict[Any, Any], ...] = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)


@dataclass(frozen=True)
class Ratio:
    """Step time with a recorder over step time without: the median and quartiles over the rounds.

    `mean` is the ratio of all time with it to all time without it: what is written now and then is in it, and so is
    whatever else the machine did.
    """

    recorder: str
    rounds: int
    milliseconds: float
    ratio: float
    quartiles: tuple[float, float]
    mean: float


class Patches:
    """What a recorder puts on torch. It is off at first."""

    def __init__(self, install: Callable[[], None]) -> None:
        self._off = _state()
        install()
        self._on = _state()
        self.off()

    def on(self) -> None:
        """Put it on."""
        _restore(self._on)

    def off(self) -> None:
        """Take it off."""
        _restore(self._off)


def _state() -> list[dict[Any, Any]]:
    return [dict(vars(holder)) for holder in HOLDERS] + [dict(hooks) for hooks in HOOKS]


def _restore(state: list[dict[Any, Any]]) -> None:
    for holder, wanted in zip(HOLDERS, state, strict=False):
        for name, value in wanted.items():
            if vars(holder)[name] is not value:
                setattr(holder, name, value)
    for hooks, wanted in zip(HOOKS, state[len(HOLDERS) :], strict=True):
        hooks.clear()
        hooks.update(wanted)


def judge(progress: Progress) -> None:
    """What a run is judged by."""
    norms.NORM_STEPS = NORM_STEPS
    attach.judge(progress)


def judge_first(progress: Progress) -> None:
    """The same, with what only the first steps of an optimizer have: norms of gradients and of updates."""
    norms.NORM_STEPS = sys.maxsize
    attach.judge(progress)


def stamp(progress: Progress) -> None:
    """What a run is timed by."""
    scaler.install(StepTimer(progress))


class Training:
    """A small transformer that goes through a loss scaler and a clipping call, on a GPU in float16."""

    def __init__(self, width: int, device: str) -> None:
        torch.manual_seed(0)
        self._device = device
        layer = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.0, batch_first=True)
        self._model = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(96, 10)).to(device)
        self._optimizer = torch.optim.AdamW(self._model.parameters())
        self._scaler = torch.amp.GradScaler(device)
        self._x, self._y = torch.randn(width, 16, 96).to(device), torch.randint(0, 10, (width, 16)).to(device)

    def step(self) -> None:
        self._optimizer.zero_grad()
        with torch.autocast(self._device, dtype=torch.float16, enabled=self._device == "cuda"):
            loss = nn.functional.cross_entropy(self._model(self._x).flatten(0, 1), self._y.flatten())
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(self._optimizer)
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._scaler.step(self._optimizer)
        self._scaler.update()

    def seconds(self) -> float:
        """Processor seconds of a step; on a GPU seconds until it has done its part."""
        if self._device == "cuda":
            torch.cuda.synchronize()
            start = time.perf_counter()
            self.step()
            torch.cuda.synchronize()
            return time.perf_counter() - start
        start = time.process_time()
        self.step()
        return time.process_time() - start


def measure(name: str, install: Callable[[Progress], None], rounds: int, width: int, device: str) -> Ratio:
    """The ratio of one recorder for one and the same step of a run, again and again."""
    training = Training(width, device)
    with tempfile.TemporaryDirectory(prefix="amp-benchmark-") as folder:
        spec = RecorderSpec(trace=folder, parent=os.getpid(), shim="", steps=0)
        progress = Progress(spec, Writer(folder), device)
        patches = Patches(lambda: install(progress))
        for turn in (patches.off, patches.on):
            turn()
            for _ in range(WARM_UP):
                training.step()
        recorded, alone, seen = [], [], 0
        for _ in range(rounds):
            turns = []
            for turn in (patches.off, patches.on, patches.on, patches.off):
                progress.attempts = LATER
                turn()
                turns.append(training.seconds())
                seen += progress.attempts - LATER
            recorded.append(turns[1] + turns[2])
            alone.append(turns[0] + turns[3])
        patches.off()
    assert seen == 2 * rounds, "the recorder has not seen its steps, or others"
    ratios = [mine / theirs for mine, theirs in zip(recorded, alone, strict=True)]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return Ratio(name, rounds, median(recorded) / 2 * 1e3, median(ratios), (low, high), sum(recorded) / sum(alone))


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=200, help="at least 2 (default: %(default)s)")
    parser.add_argument("--width", type=int, default=8, help="batch size, for a step of 20 ms (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="default: results/verify-DEVICE.json beside this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios = []
    recorders = (("judged, first steps", judge_first), ("judged, later", judge), ("timed", stamp))
    for name, install in recorders:
        each = measure(name, install, options.rounds, options.width, options.device)
        ratios.append(each)
        spread = f"{each.quartiles[0]:.4f} to {each.quartiles[1]:.4f}"
        took = f"{name}: {each.milliseconds:.2f} ms, {each.ratio:.4f} times the step alone"
        print(f"{took} ({spread}), mean {each.mean:.4f}")
    output = options.output or RESULTS / f"verify-{options.device}.json"
    where = {name: value for name, value in machine().items() if name in ("date", "processors", "load", "python")}
    result = {"machine": {**where, "torch": torch.__version__}, "ratios": [asdict(each) for each in ratios]}
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
