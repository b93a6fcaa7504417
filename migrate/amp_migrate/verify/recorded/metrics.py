"""What a whole training came to: its tail loss, and the last evaluation metric that the script wrote or printed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from amp_migrate.verify.recorded import tensorboard
from amp_migrate.verify.runs.process import RunResult

PARTS = 5  # of a training, whose losses are compared one by one
TAIL_LOSS = "tail loss"
_LARGEST_OUTPUT = 2**24  # bytes from the end in which the last metric is looked for

_EVALUATION = r"(?:val(?:id(?:ation)?)?|test|eval(?:uation)?)"
_HIGHER = r"acc(?:uracy)?|top-?[15]|f1|bleu|map|auc"
_LOWER = r"loss|ppl|perplexity|error|mse|mae"
_PRINTED = re.compile(
    rf"\b((?:{_EVALUATION}[\w ]{{0,12}}?[_ /-]?)(?:{_LOWER}|{_HIGHER})|{_HIGHER})"
    r"[\s:=|]{1,4}(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\b",
    re.IGNORECASE,
)
_EVALUATES = re.compile(rf"(?:\b|_)(?:{_EVALUATION}|{_HIGHER})(?:\b|_)", re.IGNORECASE)
_HIGHER_ANYWHERE = re.compile(rf"(?:\b|_)(?:{_HIGHER})(?:\b|_)", re.IGNORECASE)
_COLLECTED = "metrics-"
_BETTER_HIGHER = re.compile(rf"(?:{_HIGHER})$", re.IGNORECASE)


@dataclass(frozen=True)
class Metric:
    """A number that tells how well a training went, by the name the script gives it.

    `part`: of a mean loss, of which fifth of the training it is, from 0 on.
    """

    name: str
    higher_is_better: bool = False
    part: int | None = None


TAIL = Metric(TAIL_LOSS, part=PARTS - 1)
_FIFTHS = ("first", "second", "third", "fourth")
ON_THE_WAY = tuple(Metric(f"loss of the {word} fifth", part=part) for part, word in enumerate(_FIFTHS))


def _mean_loss(result: RunResult, part: int) -> float | None:
    """The mean loss of a fifth of a run's backward passes; None where there were none."""
    losses = result.trace.losses
    begin, end = (round(each * len(losses) / PARTS) for each in (part, part + 1))
    own = losses[begin:end] or losses[-1:]  # of fewer passes than parts
    return fmean(own) if own else None


def printed(result: RunResult) -> dict[str, float]:
    """The last value of each evaluation metric in the script's output, in order of appearance, by lower-case name."""
    found: dict[str, float] = {}
    for match in _PRINTED.finditer(_end_of(result.folder / "stdout.log")):
        name = " ".join(match[1].lower().split())
        found.pop(name, None)
        found[name] = float(match[2])
    return found


def collect(cwd: Path, pattern: str, since: float, folder: Path) -> None:
    """Copy the files of a working folder that match, and were written since a time, to the folder of a run."""
    found = [path for path in cwd.glob(pattern) if path.is_file() and path.stat().st_mtime >= since]
    for number, path in enumerate(sorted(found, key=lambda path: (path.stat().st_mtime, path))):
        shutil.copyfile(path, folder / f"{_COLLECTED}{number:03}-{path.name}")


def written(result: RunResult) -> dict[str, float]:
    """The last value of each evaluation metric in the files that were collected, in order of last appearance.

    A file is TensorBoard's if its name says so, and JSON lines otherwise.
    """
    found: dict[str, float] = {}
    for path in sorted(result.folder.glob(f"{_COLLECTED}*")):
        for name, number in tensorboard.scalars(path) if "tfevents" in path.name else _json_lines(path):
            if _EVALUATES.search(name) and "train" not in name.lower():
                found.pop(name, None)
                found[name] = number
    return found


def _json_lines(path: Path) -> Iterator[tuple[str, float]]:
    """The numbers of each line that is a JSON object, by their keys."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield from ((name, float(value)) for name, value in entry.items() if type(value) in (int, float))


def primary(result: RunResult) -> tuple[Metric, ...]:
    """What a run is judged by: the tail loss, and the metric that was written last, or else printed last."""
    metrics = [TAIL] if result.trace.losses else []
    names = list(printed(result))
    if files := list(written(result)):
        metrics.append(Metric(files[-1], _HIGHER_ANYWHERE.search(files[-1]) is not None))
    elif names:
        metrics.append(Metric(names[-1], _BETTER_HIGHER.search(names[-1]) is not None))
    return tuple(metrics)


def value(result: RunResult, metric: Metric) -> float | None:
    """A run's value of a metric; None where it has none."""
    if metric.part is not None:
        return _mean_loss(result, metric.part)
    return {**printed(result), **written(result)}.get(metric.name)


def _end_of(log: Path) -> str:
    if not log.exists():
        return ""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _LARGEST_OUTPUT))
        return file.read().decode("utf-8", errors="replace")
