"""What a run recorded, read back into plain values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

_ENVIRONMENT = ("python", "torch", "device", "stand_in", "threads", "tf32")
LOW_DTYPES = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True)
class Backward:
    """One backward pass.

    Attributes:
        loss: the mean of its losses, unscaled.
        scale: what they were multiplied by; 1 without a loss scale, None where the loss is 0 and nothing can be told.
        attempt: how many optimizer steps had been tried before it.
        autocast: autocast was on.
        half: PyTorch's loss functions that computed it in half precision.
    """

    loss: float
    attempt: int
    scale: float | None = 1.0
    autocast: bool = False
    half: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One attempt at an optimizer step.

    Norms are 2-norms over all of the optimizer's parameters; None where none was recorded (a skipped step, an
    optimizer without gradients, a late step for `update_norm`, a script that does not clip for `clip_norm`).

    Attributes:
        index: position among all attempts of the run.
        optimizer: which optimizer, in order of first use.
        skipped: a loss scaler met infs and left the parameters as they were.
        grads: a character per parameter, "1" where it has a gradient.
        dtypes: dtypes of the parameters.
        grad_norm: gradients as the optimizer takes them: unscaled and clipped.
        clip_norm: gradients as the clipping call before this step saw them, over the limit that it clipped to.
        update_norm: change of the parameters.
        autocast: autocast was on when the step was made.
        past_scaler: its loss was scaled, and it did not go through the scaler.
        time: seconds, on a clock of the run's own.
    """

    index: int
    optimizer: int
    skipped: bool
    grads: str
    dtypes: tuple[str, ...] = ("float32",)
    shapes: tuple[tuple[int, ...], ...] | None = None
    grad_norm: float | None = None
    clip_norm: float | None = None
    update_norm: float | None = None
    autocast: bool = False
    past_scaler: bool = False
    time: float = 0.0


@dataclass(frozen=True)
class Scale:
    """The loss scale after an update, how many optimizer steps had been tried by then, and which scaler's it is."""

    value: float
    attempt: int
    scaler: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """What one call of `torch.save` held of the states that belong together."""

    optimizer: bool
    scaler: bool


@dataclass(frozen=True)
class Profile:
    """Where the time went.

    Attributes:
        path: the trace, in Chrome's format; empty if none was made.
        total: microseconds of all operations.
        rows: (operation, calls, microseconds of its own), the longest first.
    """

    path: str = ""
    total: float = 0.0
    rows: tuple[tuple[str, int, float], ...] = ()


@dataclass(frozen=True)
class Failure:
    """An exception that ended the script: its class, its message, and `file:line` in the user's code."""

    type: str
    message: str
    place: str


@dataclass(frozen=True)
class Trace:
    """Everything that a run recorded.

    Attributes:
        environment: interpreter, torch, device; empty if the script never imported torch.
        checkpoints: those that hold an optimizer or a scaler.
        census: (operation, dtype, count), over the first steps of the runs that count.
        profile: of the runs that profile.
        milliseconds: step times, of timing runs.
        memory: peak bytes by kind: `peak_resident`, and on a GPU `peak_allocated` and `peak_reserved`.
        nonfinite_statistics: normalisation layers whose running statistics are not finite at the end.
        stopped: ended by the harness after the steps that were asked for.
        ranks: processes that trained together.
        synthetic: data sets that made-up pictures stood in for.
        refused: why the recorder would not run the script at all; empty otherwise.
    """

    environment: Mapping[str, Any] = field(default_factory=dict)
    backwards: tuple[Backward, ...] = ()
    steps: tuple[Step, ...] = ()
    scales: tuple[Scale, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    census: tuple[tuple[str, str, int], ...] = ()
    profile: Profile = Profile()
    milliseconds: tuple[float, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    nonfinite_statistics: int = 0
    failure: Failure | None = None
    stopped: bool = False
    ranks: int = 1
    synthetic: tuple[str, ...] = ()
    refused: str = ""

    @property
    def losses(self) -> tuple[float, ...]:
        """The unscaled loss of each backward pass."""
        return tuple(backward.loss for backward in self.backwards)

    @property
    def skips(self) -> tuple[int, ...]:
        """Indices of the optimizer steps that a loss scaler left out."""
        return tuple(step.index for step in self.steps if step.skipped)

    @property
    def stand_in(self) -> bool:
        """Whether a CPU stood in for the GPU."""
        return bool(self.environment.get("stand_in", False))

    @property
    def uses_amp(self) -> bool:
        """Whether autocast, a loss scale or half weights were seen."""
        half_weights = any(dtype != "float32" for step in self.steps for dtype in step.dtypes)
        low = any(dtype in LOW_DTYPES for _, dtype, _ in self.census)
        return low or half_weights or any(backward.scale != 1 for backward in self.backwards)


def read_ranks(folder: Path) -> Trace:
    """Read what all processes of a run recorded; see `combined`."""
    files = folder.glob("rank-*.jsonl")
    return combined([read(path) for path in sorted(files, key=lambda path: int(path.stem.partition("-")[2]))])


def combined(traces: Sequence[Trace]) -> Trace:
    """One trace of processes that train together: the first one's, with the losses that are the mean over all.

    What went wrong in any of them went wrong in the run.
    """
    training = [trace for trace in traces if trace.backwards] or list(traces)
    if not training:
        return Trace()
    first = training[0]
    backwards = first.backwards
    if len({len(trace.backwards) for trace in training}) == 1:
        together = zip(*(trace.backwards for trace in training), strict=True)
        backwards = tuple(replace(each[0], loss=fmean(b.loss for b in each)) for each in together)
    return replace(
        first,
        backwards=backwards,
        ranks=len(training),
        memory={kind: max(trace.memory.get(kind, 0) for trace in training) for kind in first.memory},
        nonfinite_statistics=max(trace.nonfinite_statistics for trace in training),
        failure=next((trace.failure for trace in traces if trace.failure is not None), None),
        stopped=any(trace.stopped for trace in traces),
        refused=next((trace.refused for trace in traces if trace.refused), ""),
        synthetic=tuple(sorted({name for trace in traces for name in trace.synthetic})),
    )


def read(path: Path) -> Trace:
    """Read an event file. A last line that a killed process left unfinished is dropped."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return from_events(event for event in map(_parse, lines) if event is not None)


def _parse(line: str) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return event


def from_events(events: Iterable[Mapping[str, Any]]) -> Trace:
    """A trace from its events, in order."""
    of: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        of.setdefault(event["kind"], []).append(event)

    def last(kind: str) -> Mapping[str, Any]:
        return of.get(kind, [{}])[-1]

    start, end, failure = last("start"), last("end"), last("exception")
    return Trace(
        environment={key: value for key, value in {**start, **end}.items() if key in _ENVIRONMENT},
        backwards=tuple(map(_backward, of.get("backward", ()))),
        steps=tuple(map(_step, of.get("step", ()))),
        scales=tuple(Scale(event["scale"], event["attempt"], event.get("scaler", 0)) for event in of.get("scale", ())),
        checkpoints=tuple(Checkpoint(event["optimizer"], event["scaler"]) for event in of.get("checkpoint", ())),
        census=tuple((name, dtype, count) for name, dtype, count in last("census").get("table", ())),
        profile=_profile(last("profile")),
        milliseconds=tuple(last("times").get("milliseconds", ())),
        memory={key: value for key, value in end.items() if key.startswith("peak_")},
        nonfinite_statistics=end.get("nonfinite_statistics", 0),
        failure=Failure(failure["type"], failure["message"], failure["place"]) if failure else None,
        stopped="stopped" in of,
        synthetic=tuple(sorted({event["name"] for event in of.get("synthetic", ())})),
        refused=last("refused").get("reason", ""),
    )


def _profile(event: Mapping[str, Any]) -> Profile:
    if not event:
        return Profile()
    return Profile(event["path"], event["total"], tuple((name, calls, us) for name, calls, us in event["table"]))


def _backward(event: Mapping[str, Any]) -> Backward:
    losses, seen = event["loss"], event["seen"]
    scale = 1.0 if seen == losses else sum(seen) / sum(losses) if sum(losses) else None
    return Backward(sum(losses) / len(losses), event["attempt"], scale, event["autocast"], tuple(event.get("half", ())))


def _step(event: Mapping[str, Any]) -> Step:
    shapes = event.get("shapes")
    return Step(
        index=event["index"],
        optimizer=event["optimizer"],
        skipped=not event["stepped"] or event["found_inf"] != 0,
        grads=event["grads"],
        dtypes=tuple(event["dtypes"]),
        shapes=tuple(map(tuple, shapes)) if shapes is not None else None,
        grad_norm=event.get("grad_norm"),
        clip_norm=event["clip_norm"],
        update_norm=event.get("update_norm"),
        autocast=event["autocast"],
        past_scaler=event.get("past_scaler", False),
        time=event["time"],
    )
