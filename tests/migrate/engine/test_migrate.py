"""From paths to an outcome: what passes, what is stopped, and who falls with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_file, migrate_text
from amp_migrate.engine.outcome import FilePlan, Outcome, changes_of, together, without_refused
from amp_migrate.engine.parsed_files import Parsed
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import Programs
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings

pytestmark = pytest.mark.usefixtures("toy_planner")


def run(root: Path, **texts: str) -> Outcome:
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    return migrate([root], Settings())


def said(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [(Path(finding.path).stem, finding.code, finding.message) for finding in outcome.findings]


def changed(outcome: Outcome) -> list[str]:
    return [each.source.path.stem for each in outcome.changed]


def test_changed_files_and_everything_to_be_said_come_in_order(tmp_path: Path) -> None:
    outcome = run(tmp_path, b="amp = 0\nleave = 1\nold_amp = 1\n", a="amp, old_amp = 1, 2\n", c="x = 1\n")
    assert changed(outcome) == ["a", "b"]
    assert outcome.files == 3
    assert [(Path(f.path).stem, f.line, f.kind) for f in outcome.findings] == [
        ("a", 1, Kind.MIGRATED),
        ("b", 2, Kind.LEFT),
        ("b", 3, Kind.MIGRATED),
    ]


def test_nothing_is_written(tmp_path: Path) -> None:
    run(tmp_path, a="amp, old_amp = 1, 2\n")
    assert (tmp_path / "a.py").read_text() == "amp, old_amp = 1, 2\n"


def test_a_file_that_cannot_be_parsed_does_not_stop_the_others(tmp_path: Path) -> None:
    outcome = run(tmp_path, a="amp = (\n", b="amp, old_amp = 1, 2\n")
    assert changed(outcome) == ["b"]
    assert said(outcome)[0][:2] == ("a", "AMP001")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("amp = 0\nx = make_unbound\n", "internal: the result uses surprise, which nothing binds"),
        ("amp = 0\nmake_broken\n", "internal: the result does not parse: invalid syntax (line 2 of the result)"),
        ("amp = 0\nmake_return\n", "internal: the result does not compile"),
        ("# coding: ascii\namp = make_accented\n", "internal: '\u0394' cannot be written in ascii"),
    ],
)
def test_a_result_that_fails_its_checks_is_thrown_away(tmp_path: Path, text: str, reason: str) -> None:
    outcome = run(tmp_path, bad=text, good="amp, old_amp = 1, 2\n")
    assert changed(outcome) == ["good"]
    assert [each for each in said(outcome) if each[0] == "bad"] == [("bad", "AMP002", reason)]


def test_what_was_left_in_a_refused_file_is_still_told(tmp_path: Path) -> None:
    outcome = run(tmp_path, bad="amp = 0\nleave = 1\nmake_broken\n")
    assert [code for _, code, _ in said(outcome)] == ["AMP002", "AMP590"]


def test_a_file_that_belongs_to_a_refused_one_is_left_too(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        main="import engine\namp, old_amp = 1, 2\n",
        engine="amp = 0\nmake_broken\n",
        other="amp, old_amp = 1, 2\n",
    )
    assert changed(outcome) == ["other"]
    message = {name: text for name, _, text in said(outcome)}["main"]
    assert (
        message == f"file left as it was, because {(tmp_path / 'engine.py').as_posix()} is and the two belong together"
    )


def test_what_one_move_changes_is_left_together_whatever_imports_what(tmp_path: Path) -> None:
    texts = {"a": "amp = 1\n", "b": "amp = 2\n", "c": "amp = 3\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    workspace = Workspace.open([tmp_path])
    a, b, c = workspace.candidates()
    both = (a.path, b.path)
    plans = tuple(FilePlan(each, "amp = 0\n", (), beside=both if each is not c else ()) for each in (a, b, c))
    assert [[each.source.path.stem for each in group] for group in together(workspace, plans)] == [["a", "b"], ["c"]]
    outcome = Outcome(plans, (), 3)
    assert [len(group) for group in changes_of(workspace, outcome)] == [2, 1]
    wrong = {b.path: Finding(b.name, 1, 1, "AMP002", Kind.ERROR, "broken")}
    assert changed(without_refused(workspace, outcome, wrong)) == ["c"]


def test_a_file_that_makes_a_rule_fail_is_an_internal_error_and_the_others_go_on(tmp_path: Path) -> None:
    outcome = run(tmp_path, bad="amp = crash = 1\n", good="amp, old_amp = 1, 2\n")
    assert changed(outcome) == ["good"]
    name, code, message = said(outcome)[0]
    assert (name, code) == ("bad", "AMP002")
    assert message.startswith("internal error: KeyError: 'no such node' (conftest.py:")


def test_a_plan_that_fails_only_for_all_files_together_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> tuple[FilePlan, ...]:
        if len(list(workspace.candidates())) > 1:
            raise RecursionError
        return ()

    monkeypatch.setattr("amp_migrate.engine.migrate.plan", plan)
    outcome = run(tmp_path, a="amp = 1\n", b="amp = 2\n")
    assert said(outcome) == [(name, "AMP002", "nested too deeply to be migrated") for name in "ab"]


def test_form_feeds_survive_the_tree(tmp_path: Path) -> None:
    outcome = run(tmp_path, a="amp = 1\n\x0cold_amp = 2\n\x0cdef f():\n    pass\n")
    assert outcome.changed[0].after == "amp = 1\nnew_amp = 2\n\x0cdef f():\n    pass\n"


def test_a_text_is_migrated_on_its_own() -> None:
    plan = migrate_text("amp, old_amp = 1, 2\n", Settings())
    assert (plan.after, plan.changed, plan.source.name) == ("amp, new_amp = 1, 2\n", True, "<stdin>")


def test_a_text_with_nothing_to_say_is_a_plan_that_changes_nothing() -> None:
    plan = migrate_text("x = 1\n", Settings(), "train.py")
    assert (plan.after, plan.changed, plan.findings) == ("x = 1\n", False, ())


def test_a_text_that_does_not_parse_is_a_plan_with_an_error() -> None:
    plan = migrate_text("amp = (\n", Settings(), "train.py")
    assert plan.after == "amp = (\n"
    assert [(finding.path, finding.line, finding.kind) for finding in plan.findings] == [("train.py", 1, Kind.ERROR)]


def test_a_script_is_migrated_with_the_modules_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name in ("__init__", "train", "engine", "unrelated"):
        (tmp_path / f"pkg/{name}.py").write_text("amp, old_amp = 1, 2\n")
    (tmp_path / "pkg/train.py").write_text("from .engine import step\namp, old_amp = 1, 2\n")
    (tmp_path / "elsewhere.py").write_text("amp, old_amp = 1, 2\n")
    outcome = migrate_file(tmp_path / "pkg/train.py", Settings())
    assert changed(outcome) == ["engine", "train"]
    plan = outcome.plan_of(tmp_path / "pkg/train.py")
    assert plan is not None
    assert plan.after.endswith("amp, new_amp = 1, 2\n")


def test_a_script_is_migrated_with_the_modules_of_its_repository(tmp_path: Path) -> None:
    for folder in (".git", "lib", "tools"):
        (tmp_path / folder).mkdir()
    for name in ("lib/engine.py", "lib/unrelated.py"):
        (tmp_path / name).write_text("amp, old_amp = 1, 2\n")
    (tmp_path / "tools/train.py").write_text("import sys\nsys.path.append('.')\nimport lib.engine\n")
    assert changed(migrate_file(tmp_path / "tools/train.py", Settings())) == ["engine"]


def test_a_script_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    outcome = migrate_file(tmp_path / "none.py", Settings())
    assert said(outcome) == [("none", "AMP001", "no such file or folder")]
