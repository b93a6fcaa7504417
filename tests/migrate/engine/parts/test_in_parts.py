"""A project planned in parts and by several processes comes out as if it were planned at once."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from weakref import ref

import pytest
from amp_migrate.engine import parsed_files
from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.outcome import FilePlan, Part
from amp_migrate.engine.parsed_files import Parsed, ParsedLibrary, forget_oldest
from amp_migrate.engine.parts import in_parts
from amp_migrate.engine.parts.in_parts import migrate_in_parts, split
from amp_migrate.engine.parts.processes import _Planner
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import Programs
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype, Settings
from amp_migrate.tables.signatures import OLDEST

pytestmark = pytest.mark.usefixtures("toy_planner")
Planner: TypeAlias = "Callable[[Workspace, Settings, Parsed, Programs], tuple[FilePlan, ...]]"
OLD = "amp, old_amp = 1, 2\n"
STEP = f"{OLD}# loss.backward()\n"


def make(root: Path, **texts: str) -> Workspace:
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    return Workspace.open([root])


def names(found: list[Part]) -> list[list[str]]:
    return [[path.stem for path in part] for part in found]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "PART_BYTES", 60)


def test_a_small_project_is_one_part(tmp_path: Path) -> None:
    assert names(split(make(tmp_path, a=OLD, b=OLD, c="x = 1\n"), Settings())) == [["a", "b"]]


def test_a_project_without_candidates_has_no_parts(tmp_path: Path) -> None:
    workspace = make(tmp_path, a="x = 1\n")
    assert split(workspace, Settings()) == []
    assert migrate_in_parts(workspace, Settings()).files == 1


@pytest.mark.usefixtures("small_parts")
def test_files_that_import_one_another_stay_together(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("from .steps import step\n")  # no candidate, but a bridge to one
    (tmp_path / "pkg/steps.py").write_text(STEP)
    workspace = make(tmp_path, a=f"import d\n{OLD}", b=OLD, c=OLD, d=STEP, e=f"{OLD}from pkg import step\n")
    assert names(split(workspace, Settings())) == [["a", "d"], ["b", "c"], ["e", "steps"]]


@pytest.mark.usefixtures("small_parts")
def test_a_file_without_a_step_stays_with_its_project_only_for_another_dtype(tmp_path: Path) -> None:
    workspace = make(tmp_path, a=f"import d\n{OLD}", b=OLD, c=OLD, d=OLD)
    assert names(split(workspace, Settings())) == [["a", "b"], ["c", "d"]]
    assert names(split(workspace, Settings(Dtype.BF16))) == [["a", "b", "c", "d"]]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_processes_makes_no_difference(tmp_path: Path, workers: int) -> None:
    texts = {f"f{number}": OLD + "leave = 1\n" * (number % 3) for number in range(12)}
    (tmp_path / "undecodable.py").write_bytes(b"amp = '\xff'\n")
    workspace = make(tmp_path, bad="amp = (\n", crash="amp = crash\n", imports=f"import f3\n{OLD}", **texts)
    at_once = migrate_workspace(workspace, Settings())
    in_parts = migrate_in_parts(Workspace.open([tmp_path]), Settings(), workers)
    assert in_parts.plans == at_once.plans
    assert in_parts.findings == at_once.findings
    assert (len(in_parts.plans), len(in_parts.problems)) == (13, 3)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("workers", [1, 2])
def test_parts_that_change_the_same_file_become_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    def plan(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> tuple[FilePlan, ...]:
        """Every candidate adds its name to `shared`, which none of them imports."""
        shared = workspace.file(tmp_path / "shared.py")
        assert shared is not None
        added = [each.path.stem for each in workspace.candidates() if each.path.stem not in shared.text]
        if not added:
            return ()
        finding = Finding(shared.name, 1, 1, "AMP501", Kind.MIGRATED, " ".join(added))
        return (FilePlan(shared, shared.text + "".join(f"# {name}\n" for name in added), (finding,)),)

    monkeypatch.setattr("amp_migrate.engine.migrate.plan", plan)
    workspace = make(tmp_path, one=OLD * 3, two=OLD * 3, three=OLD * 3, shared="x = 1\n")
    assert len(split(workspace, Settings())) == 3
    outcome = migrate_in_parts(workspace, Settings(), workers)
    assert [each.after for each in outcome.changed] == ["x = 1\n# one\n# three\n# two\n"]
    assert [each.message for each in outcome.findings] == ["one three two"]


@pytest.mark.usefixtures("small_parts")
def test_progress_is_told_part_by_part(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    workspace = make(tmp_path, a=OLD * 3, b=OLD * 3, c=OLD * 3)
    migrate_in_parts(workspace, Settings(), progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.usefixtures("small_parts")
def test_the_largest_part_is_planned_last_and_nothing_is_looked_for_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy_planner: Planner
) -> None:
    done: list[object] = []

    def plan(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> tuple[FilePlan, ...]:
        done.append(len(list(workspace.candidates())))
        return toy_planner(workspace, settings, parsed, programs)

    monkeypatch.setattr("amp_migrate.engine.migrate.plan", plan)
    monkeypatch.setattr(in_parts, "collect", lambda: done.append("collect"))
    migrate_in_parts(make(tmp_path, a=f"import b, c\n{OLD}", b=STEP, c=STEP, d=OLD * 3, e=OLD * 3), Settings())
    assert done == [1, "collect", 1, "collect", 3]


def test_files_that_were_parsed_last_are_kept_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: Parsed = {}
    first, _ = ParsedLibrary(make(tmp_path, a=OLD, b=OLD), parsed, OLDEST).mentioning("old_amp")
    dropped = ref(first)
    monkeypatch.setattr(parsed_files, "_KEPT_BYTES", len(OLD))
    forget_oldest(parsed)
    del first
    gc.collect()
    assert dropped() is None
    assert [each.path.stem for each in parsed] == ["b"]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("workers", [2, 3])
def test_a_process_that_dies_is_an_error_for_the_files_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy_planner: Planner, workers: int
) -> None:
    def plan(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> tuple[FilePlan, ...]:
        if min(each.path.stem for each in workspace.candidates()) < "c":
            os.kill(os.getpid(), signal.SIGKILL)
        return toy_planner(workspace, settings, parsed, programs)

    monkeypatch.setattr("amp_migrate.engine.migrate.plan", plan)
    outcome = migrate_in_parts(make(tmp_path, **dict.fromkeys("abcde", OLD * 3)), Settings(), workers)
    assert [(Path(each.path).stem, each.code) for each in outcome.problems] == [("a", "AMP002"), ("b", "AMP002")]
    assert "died" in outcome.problems[0].message
    assert [each.source.path.stem for each in outcome.changed] == ["c", "d", "e"]


@pytest.mark.usefixtures("small_parts")
def test_a_process_that_dies_before_it_is_asked_is_an_error_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = _Planner.ask

    def late(planner: _Planner, part: Part) -> None:
        planner._process.kill()
        planner._process.join()
        ask(planner, part)

    monkeypatch.setattr(_Planner, "ask", late)
    outcome = migrate_in_parts(make(tmp_path, a=OLD * 3, b=OLD * 3), Settings(), workers=2)
    assert [(Path(each.path).stem, each.code) for each in outcome.findings] == [("a", "AMP002"), ("b", "AMP002")]
