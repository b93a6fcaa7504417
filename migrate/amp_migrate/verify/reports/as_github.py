"""The verdict on GitHub: Markdown for the summary of a job, and an annotation beside the migrated line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from amp_migrate.report.forms.github import command
from amp_migrate.report.forms.markdown import words
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.reports import as_text
from amp_migrate.verify.reports.outcome import Outcome
from amp_migrate.verify.runs.kinds import Arm

_MARKS = {
    Status.PASS: ":white_check_mark:",
    Status.WARN: ":warning:",
    Status.FAIL: ":x:",
    Status.INCONCLUSIVE: ":grey_question:",
    Status.VACUOUS: ":warning:",
    Status.NOT_ASSESSED: ":heavy_minus_sign:",
}


def tell(outcome: Outcome, environment: Mapping[str, str]) -> str:
    """Append the summary to the job's file, where a job runs; returns the annotation for its log, or nothing."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return ""
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(markdown(outcome))
        except OSError as error:  # the verdict stands without it
            return command("warning", {}, f"GITHUB_STEP_SUMMARY cannot be written: {error.strerror}")
    return annotation(outcome)


def markdown(outcome: Outcome) -> str:
    """The verdict, what it points at, and a table of the checks."""
    return "".join(f"{line}\n" for line in _markdown(outcome))


def _markdown(outcome: Outcome) -> Iterator[str]:
    assessment = outcome.assessment
    yield f"### amp-verify: {_cell(outcome.name)}: {assessment.word}"
    yield ""
    yield _cell(assessment.sentence)
    for reason in as_text.reasons(assessment):
        yield f"\n**{_cell(reason)}**"
    yield ""
    yield from table(outcome)
    for line in as_text.performance(assessment):
        yield f"- {line}"
    for line in assessment.power:
        yield f"- would have been seen: {words(line)}"
    for item in assessment.not_checked:
        yield f"- not checked: {words(item)}"
    yield ""


def table(outcome: Outcome) -> Iterator[str]:
    """The checks, and an empty line behind them."""
    yield "| | check | found |"
    yield "|---|---|---|"
    for check in outcome.assessment.checks:
        yield f"| {_MARKS[check.status]} {check.id} | {check.title} | {_cell(check.detail)} |"
    yield ""


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, in one cell of a table."""
    return words(" ".join(text.split()))


def annotation(outcome: Outcome) -> str:
    """A workflow command at the line that failed, or at the migrated script; nothing where the verdict is PASS."""
    assessment = outcome.assessment
    if assessment.verdict is Verdict.PASS:
        return ""
    scripts = outcome.setup.scripts
    arm = Arm.ORIGINAL if outcome.setup.made_here or assessment.verdict is Verdict.ORIGINAL_FAILED else Arm.MIGRATED
    result = outcome.evidence.original if arm is Arm.ORIGINAL else outcome.evidence.migrated
    failure = result.trace.failure
    line = _line(failure.place if failure is not None else "", scripts[arm].file)
    properties: dict[str, object] = {"file": os.path.relpath(scripts[arm].file, outcome.setup.cwd)}
    if line:
        properties["line"] = line
    properties["title"] = f"amp-verify {assessment.word}"
    severity = "warning" if assessment.verdict in (Verdict.INCONCLUSIVE, Verdict.VACUOUS) else "error"
    return command(severity, properties, "\n".join([assessment.sentence, *as_text.reasons(assessment)]))


def _line(place: str, script: Path) -> int:
    """The line of the script that an exception came from, else that of its first backward pass; 0 if there is none."""
    name, _, number = place.rpartition(":")
    if name == script.name:
        return int(number)
    lines = script.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((at for at, line in enumerate(lines, start=1) if ".backward(" in line), 0)
