"""Two runs as two programs: everything that they computed, held, saved and said, compared to the bit.

What differs is of one of two kinds. A setting, a number of calls, a shape or a word differs or does not. A number that
was computed differs by an amount, which rounding may or may not explain.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

from amp_migrate.verify.judge.programs import printed
from amp_migrate.verify.judge.programs.printed import Line
from amp_migrate.verify.recorded.recording import Checkpoint, Clip, Held, State, Step, Trace
from amp_migrate.verify.runs.process import RunResult

# Settings that choose an implementation, not what is computed.
_IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable", "_step_count"})
_OF_TIME = ("time", "date", "elapsed", "duration")
_LAST = 10**9  # the attempt of what is only known when the run has ended
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Difference:
    """One thing that two runs do not have in common.

    Attributes:
        what: its kind: "loss", "steps", "setting", "weights", "optimizer state", "random numbers", "clipping", "seed",
            "zeroing", "checkpoint", "printed", "written"; "most weights" and "most optimizer state" of what is typical
            of their tensors.
        where: its place, for a reader.
        values: what the first run has there and the second.
        size: of numbers that were computed how far they are apart, as a share; None for all else.
        attempt: optimizer steps that had been tried by then.
    """

    what: str
    where: str
    values: tuple[str, str]
    size: float | None
    attempt: int

    def __str__(self) -> str:
        return f"{self.where}: {self.values[0]} and {self.values[1]}"


@dataclass(frozen=True)
class Compared:
    """How much of each kind was compared."""

    losses: int
    looks: int
    tensors: int
    clips: int
    checkpoints: int
    lines: int
    files: int

    def __str__(self) -> str:
        parts = [f"{self.losses} losses"]
        if self.tensors:
            parts.append(f"{self.tensors} tensors of models and optimizers at {self.looks} points")
        for count, name in (
            (self.clips, "clipping call"),
            (self.checkpoints, "checkpoint"),
            (self.files, "file"),
            (self.lines, "printed line"),
        ):
            if count:
                parts.append(f"{count} {name}{'s' if count > 1 else ''}")
        return ", ".join(parts)


def compared(ours: RunResult) -> Compared:
    """What there is to compare with."""
    trace = ours.trace
    return Compared(
        losses=len(trace.losses),
        looks=len(trace.states),
        tensors=max((sum(map(len, (*state.models, *state.optimizers))) for state in trace.states), default=0),
        clips=len(trace.clips),
        checkpoints=sum(1 for checkpoint in trace.checkpoints if checkpoint.entries),
        lines=len(printed.lines(ours)) if trace.ranks == 1 else 0,
        files=len(printed.written(ours)),
    )


def differences(ours: RunResult, theirs: RunResult) -> list[Difference]:
    """All differences, the earliest first; of settings, calls and words only the first of each kind."""
    a, b = ours.trace, theirs.trace
    found = [
        *_losses(a, b),
        *_steps(a, b),
        *_clips(a, b),
        *_seeds(a, b),
        *_states(a, b),
        *_checkpoints(a, b),
    ]
    if a.ranks == b.ranks == 1:
        lines = printed.differences(printed.lines(ours), printed.lines(theirs))
        found += [_line("printed", f"printed line {line.number}", line) for line in lines]
        found += _written(ours, theirs)
    return sorted(found, key=lambda each: each.attempt)


def _both(say: Callable[[Thing], str], x: Thing | None, y: Thing | None, none: str = "none") -> tuple[str, str]:
    return (say(x) if x is not None else none, say(y) if y is not None else none)


def _losses(a: Trace, b: Trace) -> Iterator[Difference]:
    for index, (x, y) in enumerate(zip(a.backwards, b.backwards, strict=False)):
        if not _same(x.loss, y.loss):
            values = f"{x.loss:.9g}", f"{y.loss:.9g}"
            yield Difference("loss", f"backward pass {index}", values, _apart(x.loss, y.loss), x.attempt)
    if len(a.backwards) != len(b.backwards):
        attempt = max(a.backwards, b.backwards, key=len)[min(len(a.backwards), len(b.backwards))].attempt
        yield Difference("steps", "backward passes", (f"{len(a.backwards)}", f"{len(b.backwards)}"), None, attempt)


def _steps(a: Trace, b: Trace) -> Iterator[Difference]:
    begun: set[int] = set()
    for x, y in zip(a.steps, b.steps, strict=False):
        found = _step(x, y, first=x.optimizer not in begun)
        if found is not None:
            yield found
            return
        begun.add(x.optimizer)
    if len(a.steps) != len(b.steps):
        counts = f"{len(a.steps)}", f"{len(b.steps)}"
        yield Difference("steps", "optimizer steps", counts, None, min(len(a.steps), len(b.steps)))


def _step(x: Step, y: Step, *, first: bool) -> Difference | None:
    """What a step was told; of an optimizer's first one not whether gradients were zeroed, which there need not be."""
    place = f"optimizer step {x.index}"
    if (x.optimizer, x.skipped) != (y.optimizer, y.skipped):
        words = _both(lambda step: f"optimizer {step.optimizer}{', skipped' if step.skipped else ''}", x, y)
        return Difference("steps", place, words, None, x.index)
    if x.settings != y.settings:
        theirs = dict(settings(y))
        for where, value in settings(x):
            if not _same(theirs.get(where, value), value):
                return Difference("setting", f"{where} of {place}", _both(say, value, theirs[where]), None, x.index)
    if not first and None not in (x.zeroed, y.zeroed) and bool(x.zeroed) != bool(y.zeroed):
        gradients = _both(lambda step: "zeroed" if step.zeroed else "kept", x, y)
        return Difference("zeroing", f"gradients before {place}", gradients, None, x.index)
    return None


def settings(step: Step) -> Iterator[tuple[str, Any]]:
    """What the optimizer of a step holds beside parameters, in words, but what only chooses an implementation."""
    for index, group in enumerate(step.settings):
        for key, value in group.items():
            if key not in _IMPLEMENTATION:
                name = "learning rate" if key == "lr" else key
                yield f"{name}, group {index}," if len(step.settings) > 1 else name, value


def say(value: Any) -> str:
    """A setting, with as many digits as tell it from the next."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _clips(a: Trace, b: Trace) -> Iterator[Difference]:
    for x, y in zip_longest(a.clips, b.clips):
        attempt = min(each.attempt for each in (x, y) if each is not None)
        before = f"before step {attempt}"
        if x is None or y is None or (x.call, x.attempt) != (y.call, y.attempt):
            calls = _both(lambda clip: f"{clip.call}()", x, y, "no such call")
            yield Difference("clipping", f"clipping {before}", calls, None, attempt)
            return
        # A limit that is multiplied by the loss scale clips scaled gradients as it should.
        if not _power_of_two(y.limit / x.limit):
            limits = _both(lambda clip: f"{clip.limit:.9g}", x, y)
            yield Difference("clipping", f"limit of {x.call}() {before}", limits, None, attempt)
            return
        if x.norm is not None and y.norm is not None and not _same(x.norm, y.norm):
            norms = _both(_norm, x, y)
            yield Difference("clipping", f"norm that {x.call}() saw {before}", norms, _apart(x.norm, y.norm), attempt)


def _norm(clip: Clip) -> str:
    return f"{clip.norm:.9g} limits"


def _seeds(a: Trace, b: Trace) -> Iterator[Difference]:
    if a.states and b.states and a.seeds != b.seeds:
        x, y = next(pair for pair in zip_longest(a.seeds, b.seeds) if pair[0] != pair[1])
        calls = _both(lambda seed: f"{seed[0]}({seed[1]})", x, y, "no such call")
        yield Difference("seed", "seeding", calls, None, -1)


def _states(a: Trace, b: Trace) -> Iterator[Difference]:
    theirs = {state.point: state for state in b.states}
    told: set[str] = set()
    for x in a.states:
        for found in _state(x, theirs[x.point]) if x.point in theirs else ():
            if found.size is not None or found.what not in told:
                told.add(found.what)
                yield found


def _state(x: State, y: State) -> Iterator[Difference]:
    at = "at the end" if x.point == "end" else f"after step {x.point}"
    ours, theirs = dict(x.settings), dict(y.settings)
    objects = _both(_objects, ours, theirs)
    if objects[0] != objects[1]:
        yield Difference("setting", f"objects {at}", objects, None, x.attempt)
    for key in (key for key in ours if key in theirs and key.rpartition(", ")[2] not in _IMPLEMENTATION):
        if ours[key] != theirs[key] and not (ours[key] != ours[key] and theirs[key] != theirs[key]):
            yield Difference("setting", f"{key} {at}", (f"{ours[key]}", f"{theirs[key]}"), None, x.attempt)
            break
    others = dict(y.random)
    for name, value in x.random:
        if others.get(name, value) != value:
            yield Difference("random numbers", f"{name}'s random state {at}", (value, others[name]), None, x.attempt)
    yield from _tensors("weights", at, x.attempt, x.models, y.models)
    yield from _tensors("optimizer state", at, x.attempt, x.optimizers, y.optimizers)


def _objects(settings: Mapping[str, Any]) -> str:
    kinds = Counter(name.partition(" ")[0] for name in {key.partition(",")[0] for key in settings})
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(kinds.items()))


def _tensors(
    what: str, at: str, attempt: int, ours: Sequence[Sequence[Held]], theirs: Sequence[Sequence[Held]]
) -> Iterator[Difference]:
    a, b = ([held for each in side for held in each] for side in (ours, theirs))
    if [(held.dtype, held.shape) for held in a] != [(held.dtype, held.shape) for held in b]:
        yield from _unmatched(what, at, attempt, a, b)
        return
    differing = [(x, y) for x, y in zip(a, b, strict=True) if x.bits != y.bits]
    if differing:
        x, y = differing[0]
        others = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        size = _distance(a, b) if all(held.values for held, _ in differing) else None
        yield Difference(what, f"{what} {at}, {x.name}{others}", _both(_value, x, y), size, attempt)
        typical = statistics.median(_distance([x], [y]) for x, y in zip(a, b, strict=True))
        if size is not None and typical:
            apart = "those of the original", f"{typical:.1e} apart from them"
            yield Difference(f"most {what}", f"most tensors among {what} {at}", apart, typical, attempt)


def _unmatched(what: str, at: str, attempt: int, a: Sequence[Held], b: Sequence[Held]) -> Iterator[Difference]:
    """What only one of two runs holds, where they hold tensors of other shapes, or in another order."""
    left = Counter((held.dtype, held.shape, held.bits) for held in a)
    left.subtract((held.dtype, held.shape, held.bits) for held in b)
    alone, other = (
        next((held for held in side if sign * left[held.dtype, held.shape, held.bits] > 0), None)
        for side, sign in ((a, 1), (b, -1))
    )
    if alone is not None or other is not None:
        words = _both(lambda held: f"{held.name} of {held.dtype}{list(held.shape)}", alone, other, "none such")
        yield Difference(what, f"{what} {at}", words, None, attempt)


def _value(held: Held) -> str:
    return ", ".join(f"{value:.9g}" for value in held.values[:2]) or held.bits


def _distance(a: Sequence[Held], b: Sequence[Held]) -> float:
    """Of the values that were kept of all tensors: the 2-norm of the difference over that of the first run's."""
    square = error = 0.0
    for x, y in zip(a, b, strict=True):
        for v, w in zip(x.values, y.values, strict=False):
            if math.isfinite(v) and math.isfinite(w):
                square, error = square + v * v, error + (v - w) ** 2
            elif not _same(v, w):
                return math.inf
    return math.sqrt(error / square) if square else (math.inf if error else 0.0)


def _checkpoints(a: Trace, b: Trace) -> Iterator[Difference]:
    for index, (x, y) in enumerate(zip(a.checkpoints, b.checkpoints, strict=False)):
        found = list(_checkpoint(f"checkpoint {index}", x, y))
        yield from sorted(found, key=lambda each: (each.size is not None, -(each.size or 0)))[:1]
    if len(a.checkpoints) != len(b.checkpoints):
        counts = f"{len(a.checkpoints)} saved", f"{len(b.checkpoints)} saved"
        yield Difference("checkpoint", "checkpoints", counts, None, _LAST)


def _checkpoint(place: str, x: Checkpoint, y: Checkpoint) -> Iterator[Difference]:
    """What the first holds and the second has not, or has otherwise; what only the second holds is its own affair."""
    theirs = dict(y.entries)
    for path, value in x.entries:
        name = path.rpartition(".")[2].lower()
        if any(word in name for word in _OF_TIME) or name in _IMPLEMENTATION:
            continue
        there = f"{place}, {path}"
        other = theirs.get(path)
        if path not in theirs:
            yield Difference("checkpoint", there, (_short(value), "not there"), None, x.attempt)
        elif isinstance(value, list) and isinstance(other, list) and value[:2] == other[:2]:
            if value[2] != other[2]:
                ours, others = ([Held("", "", (), "", tuple(each[3]))] for each in (value, other))
                size = _distance(ours, others) if value[3] else None
                yield Difference("checkpoint", there, _both(_short, value, other), size, x.attempt)
        elif value != other:
            size = printed.apart(str(value), str(other))
            yield Difference("checkpoint", there, (_short(value), _short(other)), size, x.attempt)


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) == 4:
        dtype, shape, bits, values = value
        return f"{dtype}{shape} {values[:2] or bits}"
    return str(value)[:80]


def _written(ours: RunResult, theirs: RunResult) -> Iterator[Difference]:
    a, b = printed.written(ours), printed.written(theirs)
    for name in sorted(a.keys() - b.keys()):
        yield Difference("written", f"file {name}", ("written", "not written"), None, _LAST)
    for name in sorted(a.keys() & b.keys()):
        for line in printed.file_differences(a[name], b[name]):
            yield _line("written", f"file {name}, line {line.number}", line)


def _line(what: str, where: str, line: Line) -> Difference:
    return Difference(what, where, line.texts, line.size, _LAST)


def _same(x: Any, y: Any) -> bool:
    return bool(x == y or (x != x and y != y))


def _apart(x: float, y: float) -> float:
    scale = max(abs(x), abs(y))
    difference = abs(x - y) / scale if scale else 0.0
    return difference if math.isfinite(difference) else math.inf


def _power_of_two(ratio: float) -> bool:
    return ratio > 0 and math.isfinite(ratio) and math.frexp(ratio)[0] == 0.5
