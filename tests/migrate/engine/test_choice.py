"""What is not wanted is neither said nor done."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.library import Parsed
from amp_migrate.engine.migrate import Outcome, migrate
from amp_migrate.engine.planner import FilePlan
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings

pytestmark = pytest.mark.usefixtures("toy_planner")
OLD = "amp, old_amp = 1, 2\n"


def run(root: Path, settings: Settings | None = None, **texts: str) -> Outcome:
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    return migrate([root], settings or Settings())


def said(outcome: Outcome) -> list[tuple[str, str, int, Kind]]:
    return [(Path(each.path).stem, each.code, each.line, each.kind) for each in outcome.findings]


def changed(outcome: Outcome) -> list[str]:
    return [each.source.path.stem for each in outcome.changed]


def test_findings_of_rules_that_are_not_wanted_are_not_told(tmp_path: Path) -> None:
    outcome = run(tmp_path, Settings(ignore=("AMP590",)), a=OLD + "leave = 1\n")
    assert changed(outcome) == ["a"]
    assert said(outcome) == [("a", "AMP101", 1, Kind.MIGRATED)]


def test_a_line_can_silence_what_is_said_about_it(tmp_path: Path) -> None:
    outcome = run(tmp_path, a="amp = 0\nleave = 1  # amp-migrate: ignore[AMP590]\nleave = 2\n")
    assert said(outcome) == [("a", "AMP590", 3, Kind.LEFT)]


def test_errors_are_told_whatever_is_selected(tmp_path: Path) -> None:
    outcome = run(tmp_path, Settings(select=("AMP5",)), a="amp = (\n")
    assert said(outcome) == [("a", "AMP001", 1, Kind.ERROR)]


@pytest.mark.parametrize(
    ("settings", "text", "reason"),
    [
        (Settings(ignore=("AMP1",)), OLD, "AMP101 is not selected"),
        (Settings(select=("AMP5",)), OLD, "AMP101 is not selected"),
        (Settings(), "amp, old_amp = 1, 2  # amp-migrate: ignore[AMP101]\n", "AMP101 is ignored here"),
    ],
)
def test_a_change_that_is_not_wanted_is_not_made(tmp_path: Path, settings: Settings, text: str, reason: str) -> None:
    outcome = run(tmp_path, settings, a=text, b=f"import a\n{OLD}  # a change that belongs with the one in a\n")
    assert changed(outcome) == []
    first = outcome.findings[0]
    assert (first.code, first.line, first.kind) == ("AMP003", 1, Kind.LEFT)
    assert first.message == f"file left as it was: {reason}, and the rest belongs together with it"


def test_a_file_that_asks_to_be_skipped_is_not_planned(tmp_path: Path) -> None:
    outcome = run(tmp_path, a="# amp-migrate: skip-file\n" + OLD + "crash\n", b=OLD)
    assert changed(outcome) == ["b"]
    assert said(outcome) == [("b", "AMP101", 1, Kind.MIGRATED)]


def test_a_skipped_file_is_not_changed_for_the_sake_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(workspace: Workspace, settings: Settings, parsed: Parsed) -> tuple[FilePlan, ...]:
        sources = workspace.mentioning("train")
        return tuple(
            FilePlan(each, each.text + "x = 1\n", (Finding(each.name, 2, 1, "AMP501", Kind.MIGRATED, "done"),))
            for each in sources
            if "x = 1" not in each.text
        )

    monkeypatch.setattr("amp_migrate.engine.migrate.plan", plan)
    outcome = run(tmp_path, main="# amp-migrate: skip-file\nfrom engine import train\n", engine="train = 1\n")
    assert changed(outcome) == []
    assert said(outcome) == [("engine", "AMP003", 0, Kind.LEFT), ("main", "AMP003", 2, Kind.LEFT)]
