"""The forms that a report can be shown in, each loaded only when it is asked for."""

from __future__ import annotations

from enum import Enum
from importlib import import_module

from amp_migrate.report.report import Report


class Format(str, Enum):
    """A form of the report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    MARKDOWN = "markdown"


_MODULES = {Format.JSON: "json_report"}


def render(report: Report, form: Format) -> str:
    """The report in one form, ending in a newline."""
    module = import_module(f"amp_migrate.report.forms.{_MODULES.get(form, form.value)}")
    text: str = module.render(report)
    return text
