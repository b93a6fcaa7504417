"""What a whole training came to: its tail loss, and the last evaluation metric that the script printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from amp_migrate.verify.run import RunResult

TAIL_SHARE = 0.2
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
_BETTER_HIGHER = re.compile(rf"(?:{_HIGHER})$", re.IGNORECASE)


@dataclass(frozen=True)
class Metric:
    """A number that tells how well a training went, by the name the script gives it."""

    name: str
    higher_is_better: bool = False


def tail_loss(result: RunResult) -> float | None:
    """The mean loss of the last fifth of a run's backward passes; None where there were none."""
    losses = result.trace.losses
    count = max(1, round(TAIL_SHARE * len(losses)))
    return fmean(losses[-count:]) if losses else None


def printed(result: RunResult) -> dict[str, float]:
    """The last value of each evaluation metric in the script's output, in order of appearance, by lower-case name."""
    found: dict[str, float] = {}
    for match in _PRINTED.finditer(_end_of(result.folder / "stdout.log")):
        name = " ".join(match[1].lower().split())
        found.pop(name, None)
        found[name] = float(match[2])
    return found


def primary(result: RunResult) -> tuple[Metric, ...]:
    """What a run is judged by: the tail loss, and the metric that was printed last."""
    metrics = [Metric(TAIL_LOSS)] if result.trace.losses else []
    names = list(printed(result))
    if names:
        metrics.append(Metric(names[-1], _BETTER_HIGHER.search(names[-1]) is not None))
    return tuple(metrics)


def value(result: RunResult, metric: Metric) -> float | None:
    """A run's value of a metric; None where it has none."""
    return tail_loss(result) if metric.name == TAIL_LOSS else printed(result).get(metric.name)


def _end_of(log: Path) -> str:
    if not log.exists():
        return ""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _LARGEST_OUTPUT))
        return file.read().decode("utf-8", errors="replace")
