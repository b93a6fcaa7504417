"""One self-contained HTML file: the verdict, the numbers behind it, and how to repeat it. Needs no network."""

from __future__ import annotations

from pathlib import Path

import jinja2

from amp_migrate import __version__
from amp_migrate.report.report import told
from amp_migrate.verify.judge.meanings import MEANINGS
from amp_migrate.verify.reports import as_text, changes, plots
from amp_migrate.verify.reports.outcome import Outcome, command_line

_TEMPLATES = Path(__file__).parent / "templates"


def render(outcome: Outcome) -> str:
    """The HTML text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    evidence, assessment = outcome.evidence, outcome.assessment
    return environment.get_template("report.html.j2").render(
        version=__version__,
        command=outcome.command,
        date=outcome.date,
        meanings=MEANINGS,
        diff=changes.diff(outcome.setup),
        setup=outcome.setup,
        assessment=assessment,
        tone=_tone(outcome),
        reasons=list(as_text.reasons(assessment)),
        performance=list(as_text.performance(assessment)),
        plots=[plot for draw in _PLOTS if (plot := draw(evidence)) is not None],
        census=outcome.census,
        environment=outcome.environment,
        findings=list(map(told, outcome.findings)),
        runs=[(result, command_line(result)) for result in evidence.all],
    )


_PLOTS = (plots.losses, plots.differences, plots.norms, plots.scale)


def _tone(outcome: Outcome) -> str:
    code = outcome.assessment.verdict.value
    return "pass" if code == 0 else "warn" if code in (3, 4, 7) else "fail"
