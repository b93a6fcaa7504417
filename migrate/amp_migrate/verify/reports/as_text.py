"""The verdict for a person: a line per check, the verdict, and what it leaves open."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from amp_migrate.report.plain import plain
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.statistics.speed import CLAIMED, Memory, Speed
from amp_migrate.verify.judge.verdict import Assessment, Verdict
from amp_migrate.verify.reports.outcome import Outcome
from amp_migrate.verify.runs.kinds import MIGRATED, ORIGINAL
from amp_migrate.verify.runs.process import RunResult

_STYLES = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.INCONCLUSIVE: "yellow",
    Status.VACUOUS: "bold yellow",
    Status.NOT_ASSESSED: "dim",
}
_LINES = "\n\t"
_WIDTH = max(len(status.value) for status in Status)


def show(outcome: Outcome) -> None:
    """Print the verdict to stdout, in colour on a terminal."""
    console = _Lasting(highlight=False, soft_wrap=True, markup=False, emoji=False)
    for line in _lines(outcome):
        console.print(line)


class _Lasting(Console):
    """A console whose reader may leave (`| head`): the verdict's exit status and its files do not depend on one."""

    def on_broken_pipe(self) -> None:
        """Let what is still to come go nowhere."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def render(outcome: Outcome) -> str:
    """The same as plain text."""
    return "".join(f"{line.plain}\n" for line in _lines(outcome))


def _lines(outcome: Outcome) -> Iterator[Text]:
    assessment, environment = outcome.assessment, outcome.environment
    if environment:
        where = "CPU stand-in, CUDA's casts" if environment["stand_in"] else environment.get("device", "a GPU")
        yield Text(f"torch {environment['torch']}, Python {environment['python']}, {where}")
        yield Text()
    failed = assessment.verdict in (Verdict.ORIGINAL_FAILED, Verdict.MIGRATED_FAILED)
    for check in () if failed else assessment.checks:  # the only one, which the verdict repeats
        status = Text(f"{check.status.value:{_WIDTH}}", style=_STYLES[check.status])
        yield Text.assemble(status, f"  {check.id:3}  {check.title}: {plain(check.detail, keep=_LINES)}")
    for line in performance(assessment):
        yield Text(f"{'':{_WIDTH}}       {line}")
    if not failed:
        yield Text()
    style = "bold green" if assessment.verdict is Verdict.PASS else "bold red"
    yield Text.assemble((assessment.word, style), f": {plain(assessment.sentence, keep=_LINES)}")
    for line in () if failed else assessment.power:
        yield Text(f"would have been seen: {plain(line)}", style="dim")
    for item in () if failed else assessment.not_checked:
        yield Text(f"not checked: {plain(item)}", style="dim")
    yield from (Text(plain(reason, keep=_LINES)) for reason in reasons(assessment))


def reasons(assessment: Assessment) -> Iterator[str]:
    """What the numbers point at, where they point at something."""
    if assessment.suspicion:
        yield f"suspicion: {assessment.suspicion}"
    if assessment.cause == "edit":
        yield "precision or edit? the edit: with autocast and loss scaling off the scripts still differ"
    elif assessment.cause == "casts":
        yield "precision or edit? casts by hand: with autocast off something is still in half precision"
    elif assessment.cause == "scaling":
        yield "precision or edit? the loss scaler: without it, and with autocast off, the scripts compute the same"
    elif assessment.cause == "precision":
        yield "precision or edit? mixed precision: with autocast and loss scaling off the scripts compute the same"
    if assessment.advice:
        yield f"next: {assessment.advice}"


def performance(assessment: Assessment) -> Iterator[str]:
    """Step time and memory, a line each, where they were measured."""
    if assessment.speed is not None:
        yield _speed_line(assessment.speed)
    for state, beside in zip(("on", "off"), assessment.tf32, strict=False):
        if beside is not None and not beside.noisy:
            interval = _interval(beside)
            yield f"beside the original with TF32 {state}: {beside.ratio:.2f} times as fast{interval}"
    if assessment.memory is not None:
        yield _memory_line(assessment.memory)


def _speed_line(speed: Speed) -> str:
    interval = _interval(speed)
    times = f"{speed.original_ms:.2f} ms and {speed.migrated_ms:.2f} ms"
    if speed.noisy:
        return f"step time: {times}; the machine is too busy to claim a ratio"
    claim = "" if speed.low is None or speed.low > CLAIMED else "; no gain is claimed"
    return f"step time: {times}, {speed.ratio:.2f} times as fast{interval}{claim}"


def _interval(speed: Speed) -> str:
    return f" (95 % interval {speed.low:.2f} to {speed.high:.2f})" if speed.low and speed.high else ""


def _memory_line(memory: Memory) -> str:
    before, after = memory.original / 2**20, memory.migrated / 2**20
    return f"peak memory: {before:.0f} MiB and {after:.0f} MiB, {memory.ratio:.2f} times as much"


def progress(result: RunResult) -> str:
    """One line about a run that has ended. Why the scripts themselves failed, as they are, the verdict will say."""
    steps = len(result.trace.steps) or len(result.trace.milliseconds) + 1
    failed = "failed" if result.run in (ORIGINAL, MIGRATED) else result.complaint
    state = f"{steps} step{'' if steps == 1 else 's'}" if result.ended_well else failed
    if result.cached:
        return f"{'cached':>8}  {result.run.name}: {state}"
    return f"{result.seconds:6.1f} s  {result.run.name}: {state}"
