"""The options of `amp-verify`, in groups that its commands share, and what the user asked for with them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from amp_migrate.settings import Dtype

Command = Callable[..., Any]
PULL_REQUEST = "pull-request"


@dataclass(frozen=True)
class Running:
    """How scripts are to be run, as it was said."""

    original: str
    module: bool
    arguments: tuple[str, ...]
    device: str
    python: str
    launch: str | None
    synthetic_data: bool
    timeout: float
    isolate: str
    jobs: int | None
    fork: bool | None
    work: str | None


@dataclass(frozen=True)
class Comparing(Running):
    """Which script is to be compared with which."""

    migrated: str | None
    dtype: str | None
    steps: int | None
    seconds: float
    json: str | None
    cache: str | None


@dataclass(frozen=True)
class Request(Comparing):
    """What is to be verified, and how."""

    seeds: int | None
    strict: bool
    tolerance: float
    metrics: str | None
    train_steps: int
    timing_runs: int
    timing_steps: int
    min_speedup: float | None
    max_memory_ratio: float | None
    report: str | None
    junit: str | None
    form: str
    resume_args: str | None
    typed: str


@dataclass(frozen=True)
class LocalizeRequest(Comparing):
    """Where it is to be told which parts must stay in float32."""

    timing_runs: int
    timing_steps: int
    sarif: str | None


@dataclass(frozen=True)
class FixRequest(Comparing):
    """Which script is to be migrated until it passes."""

    timing_runs: int
    timing_steps: int
    diff: bool


@dataclass(frozen=True)
class DoctorRequest(Running):
    """Which script is to be looked at, and for how long."""

    steps: int
    json: str | None


@dataclass(frozen=True)
class ProfileRequest(Running):
    """Which script's ranges are to be measured, over how many steps, and where they go."""

    steps: int
    output: str


@dataclass(frozen=True)
class TuneRequest(Running):
    """Which script is to be made faster, and how its batch size is passed."""

    dtype: str | None
    arg: str | None
    start: int
    timing_runs: int
    timing_steps: int
    json: str | None


@dataclass(frozen=True)
class TraceRequest(Running):
    """What is to be traced, and where the trace goes."""

    steps: int
    output: str


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator for several options, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


RUNNING = together(
    click.option("-m", "--module", is_flag=True, help="Scripts are named as modules, and run as `python -m` does."),
    click.option(
        "--device",
        type=click.Choice(["auto", "cuda", "cpu"]),
        default="auto",
        show_default=True,
        help="cpu: a CPU stands in for the GPU, with CUDA's casts; auto: where there is no GPU.",
    ),
    click.option("--python", default=sys.executable, show_default="this one", help="Runs the scripts."),
    click.option(
        "--launch",
        metavar="WORDS",
        help="What starts the scripts: 'torchrun --nproc-per-node 2', 'accelerate launch'.",
    ),
    click.option(
        "--synthetic-data",
        is_flag=True,
        help="Make up torchvision data sets that are not on disk; nothing is downloaded.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=600,
        show_default=True,
        metavar="SECONDS",
        help="Time limit per run; 0 for none.",
    ),
    click.option(
        "--isolate",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Give each run a copy of the working folder; auto: where it is small.",
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1), show_default="2; 1 in a shared folder or on a GPU", help="Runs at a time."
    ),
    click.option(
        "--fork/--no-fork",
        default=None,
        help="Fork runs from one process that has imported torch, or start each afresh; "
        "by default they are forked on Linux.",
    ),
    click.option("--work", metavar="DIR", help="Keep every run's logs and traces in this new folder."),
)
DTYPE = click.option(
    "--dtype",
    type=click.Choice([dtype.value for dtype in Dtype]),
    show_default="as the project sets it, else fp16",
    help="What to migrate to where there is no migrated script; where there is one, what it is to run in.",
)
COMPARING = together(
    DTYPE,
    click.option(
        "--steps",
        type=click.IntRange(min=0),
        default=None,
        show_default="as --seconds says",
        help="Optimizer steps per run, 20 at least to be compared with the noise; 0 runs the scripts to their end.",
    ),
    click.option(
        "--seconds",
        type=click.FloatRange(min=0),
        default=60,
        show_default=True,
        help="Without --steps: how long the original may train; all runs make as many steps. 0 for no limit.",
    ),
)
WHOLE = together(
    click.option(
        "--seeds",
        type=click.IntRange(min=3),
        help="Train both, and the original rounded, to the end over so many paired seeds, 5 at first; more in doubt.",
    ),
    click.option(
        "--strict", is_flag=True, help="With --seeds: three times what rounding does is the margin, not five times."
    ),
    click.option(
        "--tolerance",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="SHARE",
        help="With --seeds: a difference up to this share of the value is none.",
    ),
    click.option(
        "--metrics",
        metavar="PATTERN",
        help="With --seeds: files below the working folder with metrics: JSON lines, TensorBoard's event files.",
    ),
    click.option(
        "--train-steps",
        type=click.IntRange(min=0),
        default=0,
        help="With --seeds: optimizer steps per training.",
        show_default="all",
    ),
)
RESUME = click.option(
    "--resume-args",
    metavar="WORDS",
    help="Let both go on from what they saved, with these words behind ARGS: '--resume last.pt --epochs 2'.",
)
TIMING = together(
    click.option(
        "--timing-runs",
        type=click.IntRange(min=0),
        default=3,
        show_default=True,
        help="How often each is timed, in turns.",
    ),
    click.option(
        "--timing-steps",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="Optimizer steps per timed run.",
    ),
)
GATES = together(
    click.option("--min-speedup", type=float, metavar="RATIO", help="Exit 7 where steps are not this much faster."),
    click.option("--max-memory-ratio", type=float, metavar="RATIO", help="Exit 7 where peak memory is more than this."),
)
JSON = click.option("--json", metavar="FILE", help="Write what was found and its numbers as JSON.")
CACHE = click.option(
    "--cache", metavar="DIR", help="Keep the original's runs here, and make only those that are missing."
)
REPORTS = together(
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", PULL_REQUEST]),
        default="text",
        show_default=True,
        help="How the verdict is printed; pull-request: as Markdown for one, with what moves, what stays and why.",
    ),
    JSON,
    click.option("--report", metavar="FILE", help="Write a self-contained HTML report."),
    click.option("--junit", metavar="FILE", help="Write the checks as JUnit XML."),
    CACHE,
)
