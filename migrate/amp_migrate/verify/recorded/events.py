"""The event files that the recorder writes, one per process that trains, read back."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from amp_migrate.verify.recorded.recording import (
    Anatomy,
    Backward,
    Checkpoint,
    Clip,
    Counted,
    Failure,
    Held,
    Mixed,
    Model,
    Product,
    Profile,
    Range,
    Scale,
    State,
    Step,
    Trace,
)
from amp_migrate.verify.recorder.part import Part

_ENVIRONMENT = ("python", "torch", "device", "stand_in", "threads", "tf32", "tf32_convolutions", "capability", "apex")
FIRST_COUNTED = 3  # attempts that the census counts as one
_PART = tuple(each.name for each in fields(Part))


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
        nonfinite=tuple(sorted({name for trace in training for name in trace.nonfinite})),
        failure=next((trace.failure for trace in traces if trace.failure is not None), None),
        stopped=any(trace.stopped for trace in traces),
        uncompiled=any(trace.uncompiled for trace in traces),
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
    counted = tuple(map(_counted, of.get("census", ())))
    return Trace(
        environment={key: value for key, value in {**start, **end}.items() if key in _ENVIRONMENT},
        backwards=tuple(map(_backward, of.get("backward", ()))),
        steps=tuple(_steps(of.get("step", ()))),
        scales=tuple(map(_scale, of.get("scale", ()))),
        checkpoints=tuple(map(_checkpoint, of.get("checkpoint", ()))),
        census=_first(counted),
        counted=counted,
        ranges=_ranges(of.get("range", ())),
        models=tuple(Model(event["variable"], event["path"], event["line"]) for event in of.get("model", ())),
        parts=tuple(Part(**{key: event[key] for key in _PART}) for event in of.get("part", ())),
        profile=_profile(last("profile")),
        anatomy=_anatomy(last("anatomy")),
        phases=tuple(last("phases").get("steps", ())),
        milliseconds=tuple(last("times").get("milliseconds", ())),
        memory={key: value for key, value in end.items() if key.startswith("peak_")},
        clips=tuple(map(_clip, of.get("clip", ()))),
        states=tuple(map(_state, of.get("state", ()))),
        seeds=tuple((name, seed) for name, seed in last("seeds").get("calls", ())),
        code=tuple((name, file, digest) for name, file, digest in last("code").get("files", ())),
        nonfinite=tuple(end.get("nonfinite", ())),
        mixed=tuple(Mixed(event["operation"], event["place"], event["line"]) for event in of.get("mixed", ())),
        drilled=last("drill").get("attempt"),
        failure=Failure(failure["type"], failure["message"], failure["place"]) if failure else None,
        stopped="stopped" in of,
        lost=last("stopped").get("lost", ""),
        synthetic=tuple(sorted({event["name"] for event in of.get("synthetic", ())})),
        uncompiled="uncompiled" in of,
        refused=last("refused").get("reason", ""),
    )


def _scale(event: Mapping[str, Any]) -> Scale:
    return Scale(event["scale"], event["attempt"], event.get("scaler", 0), event.get("grows", True))


def _counted(event: Mapping[str, Any]) -> Counted:
    table = tuple((name, dtype, calls, flops) for name, dtype, calls, flops in event["table"])
    return Counted(event["attempt"], table, event.get("kept", 0))


def _first(counted: Iterable[Counted]) -> tuple[tuple[str, str, int], ...]:
    """The census of the first attempts together."""
    total: Counter[tuple[str, str]] = Counter()
    for each in counted:
        for name, dtype, calls, _ in each.table if each.attempt < FIRST_COUNTED else ():
            total[name, dtype] += calls
    return tuple((name, dtype, calls) for (name, dtype), calls in sorted(total.items()))


def _ranges(events: Iterable[Mapping[str, Any]]) -> tuple[Range, ...]:
    """By place and operation; what was computed on several devices is one."""
    found: dict[tuple[str, int, str], Range] = {}
    for event in events:
        smallest = 0.0 if event["smallest"] == math.inf else event["smallest"]
        given = {key: event[key] for key in ("file", "line", "text", "operation", "owner", "largest")}
        new = Range(**given, smallest=smallest)
        old = found.setdefault((new.file, new.line, new.operation), new)
        largest, smallest = max(old.largest, new.largest), min(old.smallest or new.smallest, new.smallest)
        found[new.file, new.line, new.operation] = replace(old, largest=largest, smallest=smallest or old.smallest)
    return tuple(found[key] for key in sorted(found))


def _checkpoint(event: Mapping[str, Any]) -> Checkpoint:
    entries = tuple((path, value) for path, value in event.get("entries", ()))
    return Checkpoint(event["optimizer"], event["scaler"], event.get("attempt", 0), entries)


def _clip(event: Mapping[str, Any]) -> Clip:
    norm = event["norm"] / event["limit"] if "norm" in event else None
    return Clip(event["call"], event["attempt"], event["limit"], norm)


def _state(event: Mapping[str, Any]) -> State:
    settings: list[tuple[str, Any]] = []
    for number, optimizer in enumerate(event["optimizers"]):
        for index, group in enumerate(optimizer["groups"]):
            settings += [(f"optimizer {number}, group {index}, {key}", value) for key, value in group.items()]
    for number, schedule in enumerate(event["schedules"]):
        settings += [(f"schedule {number}, {key}", value) for key, value in schedule["state"].items()]
    for number, scaler in enumerate(event.get("scalers", ())):
        settings += [(f"loss scaler {number}, {key.strip('_')}", value) for key, value in scaler.items()]
    settings += [(f"model {number}, training", model["training"]) for number, model in enumerate(event["models"])]
    return State(
        point=event["point"],
        attempt=event["attempt"],
        models=tuple(_held(model["tensors"]) for model in event["models"]),
        optimizers=tuple(_held(optimizer["state"]) for optimizer in event["optimizers"]),
        settings=tuple(settings),
        random=tuple(sorted(event["random"].items())),
    )


def _held(tensors: Iterable[Sequence[Any]]) -> tuple[Held, ...]:
    return tuple(Held(name, dtype, tuple(shape), bits, tuple(values)) for name, dtype, shape, bits, values in tensors)


def _profile(event: Mapping[str, Any]) -> Profile:
    if not event:
        return Profile()
    rows = tuple((name, calls, us) for name, calls, us in event["table"])
    return Profile(event["path"], event["total"], rows, event["products"])


def _anatomy(event: Mapping[str, Any]) -> Anatomy | None:
    if not event:
        return None
    products = (Product(name, dtype, tuple(sizes), flops) for name, dtype, sizes, flops in event["products"])
    return Anatomy(
        steps=event["steps"],
        products=tuple(products),
        weight_casts=event["weight_casts"],
        other_casts=event["other_casts"],
        cast_bytes=event["cast_bytes"],
        reads=event["reads"],
    )


def _backward(event: Mapping[str, Any]) -> Backward:
    losses = event["loss"]
    seen = event.get("seen", losses)
    scale = 1.0 if seen == losses else sum(seen) / sum(losses) if sum(losses) else None
    if not math.isfinite(sum(losses)):
        scale = None
    return Backward(sum(losses) / len(losses), event["attempt"], scale, event["autocast"], tuple(event.get("half", ())))


def _steps(events: Iterable[Mapping[str, Any]]) -> Iterator[Step]:
    """The steps. What an optimizer holds is written where it was looked at or has changed, and holds from then on."""
    seen: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for event in events:
        held = seen[event["optimizer"]]
        held |= {key: event[key] for key in ("grads", "dtypes", "settings") if key in event}
        yield _step({**held, **event})


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
        clip_norm=_clipped(event),
        update_norm=event.get("update_norm"),
        autocast=event["autocast"],
        past_scaler=event.get("past_scaler", False),
        zeroed=int(event["zeroed"]) if "zeroed" in event else None,
        settings=tuple(event.get("settings", ())),
        zeros=tuple(map(int, event.get("zeros", ()))),
    )


def _clipped(event: Mapping[str, Any]) -> float | None:
    """The norm that a clipping call saw, in limits; None where there was none."""
    return event["clip_norm"] / event["clip_limit"] if "clip_norm" in event else None
