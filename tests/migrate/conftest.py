"""A planner with simple rules, so that the engine round the rules is tested without them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.engine.planner import FilePlan
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings

# What the planner makes of a word: a good change, and every kind of bad one that the engine must stop.
CHANGES = {
    "old_amp": "new_amp",
    "make_unbound": "surprise",
    "make_broken": "def (",
    "make_return": "return",
    "make_accented": "'\u0394'",
    "make_again": "make_again + make_again",
}


def _change(source: Source, line: str, number: int) -> tuple[str, Finding | None]:
    for old, new in CHANGES.items():
        if old in line:
            finding = Finding(source.name, number, line.index(old) + 1, "AMP101", Kind.MIGRATED, f"{old} is now {new}")
            return line.replace(old, new), finding
    if "leave" in line:
        hint = "write it by hand"
        return line, Finding(source.name, number, 1, "AMP590", Kind.LEFT, "step left as it was: a closure", hint)
    return line, None


def toy_plan(workspace: Workspace, settings: Settings) -> tuple[FilePlan, ...]:
    """Change `old_amp` and its like, leave `leave`, and fail on `crash`, as a rule with a fault in it would."""
    plans = []
    for source in workspace.candidates():
        module = workspace.parse(source)
        if module is None:
            continue
        if "crash" in source.text:
            raise KeyError("no such node")
        changes = [
            _change(source, line, number) for number, line in enumerate(module.code.splitlines(keepends=True), start=1)
        ]
        findings = tuple(finding for _, finding in changes if finding is not None)
        if findings:
            plans.append(FilePlan(source, "".join(line for line, _ in changes), findings))
    return tuple(plans)


@pytest.fixture
def toy_planner(monkeypatch: pytest.MonkeyPatch) -> Callable[[Workspace, Settings], tuple[FilePlan, ...]]:
    """The engine with `toy_plan` in the place of the real planner."""
    monkeypatch.setattr("amp_migrate.engine.migrate.plan", toy_plan)
    return toy_plan
