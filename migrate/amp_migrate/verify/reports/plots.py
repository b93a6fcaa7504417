"""The plots of the report, as SVG that takes its colours and its width from the page it stands in."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.recorded.recording import Trace

# Stand-ins that matplotlib accepts, replaced by what the page defines, so that one SVG serves light and dark.
_INK, _RULE, _ORIGINAL, _MIGRATED, _FLOOR, _BAD = "#010203", "#010204", "#010205", "#010206", "#010207", "#010208"
_CSS = {
    _INK: "currentColor",
    _RULE: "var(--rule)",
    _ORIGINAL: "var(--original)",
    _MIGRATED: "var(--migrated)",
    _FLOOR: "var(--floor)",
    _BAD: "var(--bad)",
}
_STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 11,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _RULE,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
}
_TINY = 1e-9  # where a difference of exactly nothing is drawn on a logarithmic axis


@dataclass(frozen=True)
class Plot:
    """A plot: what it shows, in words, and an SVG element."""

    title: str
    svg: str


def losses(evidence: Evidence) -> Plot | None:
    """Losses of both scripts, with the band that rounding alone may fill; None if there is nothing to draw."""
    reference = evidence.reference or evidence.original
    ours, theirs = reference.trace.losses, evidence.migrated.trace.losses
    if not ours or not theirs:
        return None
    figure, axes = _figure("loss")
    x, others = _steps(reference.trace), _steps(evidence.migrated.trace)
    widths = [early.FLOOR_FACTOR * unit for unit in evidence.noise]
    if widths:
        low = [loss - abs(loss) * width for loss, width in zip(ours, widths, strict=False)]
        high = [loss + abs(loss) * width for loss, width in zip(ours, widths, strict=False)]
        axes.fill_between(
            x[: len(low)], low, high, color=_FLOOR, alpha=0.3, linewidth=0, label="accepted: three times the noise"
        )
    axes.plot(x, ours, color=_ORIGINAL, label="original")
    axes.plot(others, theirs, color=_MIGRATED, linestyle="--", label="migrated")
    for name, at, values, color in (("original", x, ours, _ORIGINAL), ("migrated", others, theirs, _BAD)):
        first = next((step for step, loss in zip(at, values, strict=True) if not math.isfinite(loss)), None)
        if first is not None:
            axes.axvline(first, color=color, linewidth=1, linestyle=":", label=f"{name}: no finite loss")
    _legend(axes)
    return _plot(figure, "losses", "Losses of the original and of the migrated script")


def differences(evidence: Evidence) -> Plot | None:
    """Relative loss differences on a logarithmic axis: the migrated run's, and those of rounding alone."""
    if not evidence.windows:
        return None
    figure, axes = _figure("relative difference")
    axes.set_yscale("log")
    x = _steps((evidence.reference or evidence.original).trace)
    for index, window in enumerate(evidence.floor_windows):
        label = "rounding alone" if index == 0 else None
        axes.plot(x[: len(window.differences)], _visible(window.differences), color=_FLOOR, linewidth=1, label=label)
    seen = evidence.windows[0].differences
    axes.plot(x[: len(seen)], _visible(seen), color=_MIGRATED, label="migrated")
    if evidence.noise:
        bound = [early.FLOOR_FACTOR * unit for unit in evidence.noise]
        axes.plot(x[: len(bound)], bound, color=_BAD, linestyle=":", label="bound (for the RMS of both)")
    _legend(axes)
    return _plot(figure, "differences", "Relative loss difference to the original; equal losses are drawn at 1e-9")


def norms(evidence: Evidence) -> Plot | None:
    """Gradient and update norms of the first steps, migrated over original."""
    ratios = evidence.norm_ratios
    if not ratios:
        return None
    figure, axes = _figure("migrated / original")
    steps = [ratio.index for ratio in ratios]
    limit = math.exp(evidence.norm_bound or early.NORM_TOLERANCE)
    if max(ratio.farthest for ratio in ratios) > math.log(2):
        axes.set_yscale("log")
    axes.axhspan(1 / limit, limit, color=_FLOOR, alpha=0.3, linewidth=0, label="within bound")
    for label, marker, color, values in (
        ("gradient", "o", _MIGRATED, [ratio.gradient for ratio in ratios]),
        ("update", "s", _ORIGINAL, [ratio.update for ratio in ratios]),
        ("before clipping", "^", _INK, [ratio.clipped for ratio in ratios]),
    ):
        points = [(x, y) for x, y in zip(steps, values, strict=True) if y is not None and 0 < y < math.inf]
        if points:
            style: Any = {"marker": marker, "markersize": 5, "markerfacecolor": "none", "linewidth": 1}
            axes.plot(*zip(*points, strict=True), color=color, label=label, **style)
    _legend(axes)
    return _plot(figure, "norms", "Gradient and update norms of the first steps, relative to the original's")


def scale(evidence: Evidence) -> Plot | None:
    """The loss scale over the run, and the steps it skipped; None without a loss scale."""
    trace = evidence.migrated.trace
    if not trace.scales:
        return None
    figure, axes = _figure("loss scale")
    axes.set_yscale("log", base=2)
    steps, values = zip(*((one.attempt, max(one.value, _TINY)) for one in trace.scales), strict=True)
    axes.step(steps, values, where="post", color=_MIGRATED, label="loss scale")
    for index, step in enumerate(trace.skips):
        axes.axvline(step, color=_BAD, linewidth=1, linestyle=":", label="skipped" if index == 0 else None)
    _legend(axes)
    return _plot(figure, "scale", "Loss scale of the migrated script")


def _steps(trace: Trace) -> list[float]:
    """Where each backward pass stands on an axis of optimizer steps: several of one step stand between two."""
    passes = Counter(backward.attempt for backward in trace.backwards)
    made: Counter[int] = Counter()
    found = []
    for backward in trace.backwards:
        found.append(backward.attempt + made[backward.attempt] / passes[backward.attempt])
        made[backward.attempt] += 1
    return found


def _figure(y: str) -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7, 3.2), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xlabel("optimizer step")
        axes.set_ylabel(y)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, labelcolor=_INK)


def _plot(figure: Figure, name: str, title: str) -> Plot:
    """The figure as an inline SVG element; `name` keeps its ids apart from those of other figures on the page."""
    buffer = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, color in _CSS.items():
        text = text.replace(stand_in, color)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.S)  # it styles the whole page
    text = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", text, count=2)
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    return Plot(title, text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1))


def _visible(values: Sequence[float]) -> list[float]:
    return [max(value, _TINY) if math.isfinite(value) else math.nan for value in values]
