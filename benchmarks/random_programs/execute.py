"""A program run in a process of its own, and what it did: what it printed, each step's gradients, the last weights.

Mixed precision is as the run asks for: as the program is, switched off, or real on the CPU, which stands in for a GPU
then: regions of CUDA are regions of the CPU, with CPU kernels in half precision, and scalers are live.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import pickle
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimizer imports it when it is made: seconds, spent once here and not in each child
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

# A power of two: dividing by it is exact. Small enough that no gradient of these programs overflows, so that no step is
# skipped; large enough that a scaled gradient is not taken for a true one.
SCALE = 1024.0
SECONDS = 20


class Precision(Enum):
    """What becomes of regions and scalers."""

    AS_IT_IS = "as it is"
    OFF = "off"
    ON = "on"


@dataclass(frozen=True)
class Step:
    """A call of an optimizer's `step()`: which optimizer, and its parameters' gradients as float64, None where none."""

    optimizer: int
    gradients: tuple[torch.Tensor | None, ...]


@dataclass(frozen=True)
class Ran:
    """What a run did.

    Attributes:
        error: the type and text of the exception that ended it; empty where it came to its end.
        printed: what it wrote to standard output.
        steps: in order.
        weights: the parameters of all optimizers at the end.
    """

    error: str
    printed: str
    steps: tuple[Step, ...]
    weights: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Noise:
    """What weights are changed by when an optimizer gets them, and gradients at each step.

    Attributes:
        size: of a weight, and for gradients of the largest one.
        pattern: which of them become larger, and which smaller: a kink, as a ReLU has, shows on one side alone. All of
            them with 0: where a gradient is nothing but rounding, Adam makes a whole step of each, and these add up.
    """

    size: float
    pattern: int


def execute(files: Mapping[str, str], precision: Precision, noise: Noise | None = None) -> Ran:
    """Run `train.py` of a program in a process of its own.

    Args:
        noise: to find out what rounding does to a program.
    """
    server = _server(os.getpid())
    assert server.stdin is not None
    assert server.stdout is not None
    pickle.dump((dict(files), precision, noise), server.stdin)
    server.stdin.flush()
    ran: Ran = pickle.load(server.stdout)
    return ran


@functools.cache
def _server(of: int) -> subprocess.Popen[bytes]:
    """What the runs of this process are forked from: autograd's threads do not survive a fork, and this one has none.

    Args:
        of: this process. One that is forked from it starts a server of its own.
    """
    command = (sys.executable, "-c", "from random_programs.execute import serve; serve()")
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def serve() -> None:
    """Run what comes in through standard input, until it ends; what each run did goes to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program's libraries print must not come between the answers
    gc.freeze()  # a child that looks through what was imported copies every page of it
    while True:
        try:
            files, precision, noise = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)  # nothing is left to do, and torch's libraries take their time to say farewell
        pickle.dump(_forked(files, precision, noise), answers)
        answers.flush()


def _forked(files: Mapping[str, str], precision: Precision, noise: Noise | None) -> Ran:
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not data:
            return Ran(f"the process ended with {status}", "", (), ())
        ran: Ran = pickle.loads(data)
        return ran
    try:
        os.close(reading)
        signal.alarm(SECONDS)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(_run(files, precision, noise), pipe)
    finally:
        os._exit(0)


def _run(files: Mapping[str, str], precision: Precision, noise: Noise | None) -> Ran:
    optimizers: list[Optimizer] = []
    steps: list[Step] = []
    error = ""
    output = io.StringIO()
    gc.disable()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        sys.path.insert(0, folder)
        sys.argv = ["train.py"]
        os.chdir(folder)
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_precision(precision))
        stack.enter_context(_recorded(optimizers, steps, noise))
        try:
            runpy.run_path("train.py", run_name="__main__")
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        os.chdir("/")
    weights = [parameter for each in optimizers for group in each.param_groups for parameter in group["params"]]
    return Ran(error, output.getvalue(), tuple(steps), tuple(each.detach().clone() for each in weights))


@contextlib.contextmanager
def _recorded(optimizers: list[Optimizer], steps: list[Step], noise: Noise | None) -> Iterator[None]:
    make = Optimizer.__init__

    def made(self: Optimizer, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        optimizers.append(self)
        if noise:
            with torch.no_grad():
                for group in self.param_groups:
                    for each in group["params"]:
                        each.mul_(1 + noise.size * _signs(each, noise.pattern))

    def stepping(optimizer: Optimizer, args: Any, options: Any) -> None:
        gradients = (
            None if each.grad is None else each.grad.detach().double().clone()
            for group in optimizer.param_groups
            for each in group["params"]
        )
        steps.append(Step(optimizers.index(optimizer), tuple(gradients)))
        if noise:  # what should cancel to nothing, as the gradient of a bias before a batch norm, is rounding alone
            there = [each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
            largest = max((float(each.norm()) for each in there), default=0.0)
            for each in there:
                each.add_(_signs(each, noise.pattern), alpha=noise.size * largest / each.numel() ** 0.5)

    Optimizer.__init__ = made  # type: ignore[method-assign]
    handle = register_optimizer_step_pre_hook(stepping)
    try:
        yield
    finally:
        handle.remove()
        Optimizer.__init__ = make  # type: ignore[method-assign]


def _signs(like: torch.Tensor, pattern: int) -> torch.Tensor:
    """Plus and minus one, not as often, in the shape of a tensor; plus one alone for the pattern 0."""
    if pattern == 0:
        return torch.ones_like(like)
    return torch.arange(1, like.numel() + 1).mul(pattern).sin().sign().view_as(like)


@contextlib.contextmanager
def _precision(precision: Precision) -> Iterator[None]:
    """Regions and scalers of this process as asked for."""
    region, scaler = torch.amp.autocast.__init__, torch.amp.GradScaler.__init__

    def make_region(self: torch.amp.autocast, device_type: str, *args: Any, **options: Any) -> None:
        if precision is Precision.OFF:
            options["enabled"] = False
        region(self, "cpu" if device_type == "cuda" else device_type, *args, **options)

    def make_scaler(self: torch.amp.GradScaler, device: str = "cuda", *args: Any, **options: Any) -> None:
        enabled = options.get("enabled", True) and precision is Precision.ON
        scaler(self, "cpu", init_scale=SCALE, growth_interval=10**6, enabled=enabled)

    if precision is not Precision.AS_IT_IS:
        torch.amp.autocast.__init__ = make_region  # type: ignore[method-assign]
        torch.amp.GradScaler.__init__ = make_scaler  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.amp.autocast.__init__ = region  # type: ignore[method-assign]
        torch.amp.GradScaler.__init__ = scaler  # type: ignore[method-assign]
