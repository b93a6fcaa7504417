"""A run of the original is made once, until something changes that could change it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import folders, kinds
from amp_migrate.verify.runs.cache import Cache, open_cache
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target

MakeSetup = Callable[[Path, Path, Path], Setup]

ORDERS = RecorderSpec(trace="", parent=1, shim="/shim", steps=20)


@pytest.fixture
def result(tmp_path: Path, make_trace: Callable[..., Trace]) -> RunResult:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank-0.jsonl").write_text('{"kind": "stopped"}\n')
    (folder / "stderr.log").write_text("a warning")
    return RunResult(kinds.ORIGINAL, ("python", "train.py"), folder, 1, 2.5, make_trace())


def kept(tmp_path: Path, result: RunResult) -> Cache:
    cache = Cache(tmp_path / "cache", "base")
    cache.keep(result, ORDERS)
    return cache


def test_a_run_is_found_again_with_its_trace_and_logs(tmp_path: Path, result: RunResult) -> None:
    found = kept(tmp_path, result).find(result.run, replace(ORDERS, trace="elsewhere", parent=2))
    assert found is not None
    assert found.cached
    assert found.trace.stopped
    assert found.ended_well
    assert found.log.read_text() == "a warning"


def test_other_orders_and_another_base_find_nothing(tmp_path: Path, result: RunResult) -> None:
    cache = kept(tmp_path, result)
    assert cache.find(result.run, replace(ORDERS, steps=21)) is None
    assert cache.find(Run(Arm.ORIGINAL, seed_index=1), ORDERS) is None
    assert Cache(cache.folder, "other").find(result.run, ORDERS) is None


@pytest.mark.parametrize("run", [kinds.MIGRATED, Run(Arm.ORIGINAL, timing=True)])
def test_the_migrated_script_and_timing_are_never_kept(tmp_path: Path, result: RunResult, run: Run) -> None:
    assert kept(tmp_path, replace(result, run=run)).find(run, ORDERS) is None


def test_a_run_that_failed_is_not_kept(tmp_path: Path, result: RunResult) -> None:
    failed = replace(result, trace=replace(result.trace, stopped=False))
    assert kept(tmp_path, failed).find(result.run, ORDERS) is None


def test_a_spoilt_entry_is_made_again(tmp_path: Path, result: RunResult) -> None:
    cache = kept(tmp_path, result)
    for path in cache.folder.glob("*/result.json"):
        path.write_text("{")
    assert cache.find(result.run, ORDERS) is None


def test_the_base_changes_with_the_script_its_modules_the_folder_and_the_arguments(tmp_path: Path) -> None:
    project, cwd, cache, report = (
        tmp_path / "project",
        tmp_path / "cwd",
        tmp_path / "cwd/cache",
        tmp_path / "cwd/x.json",
    )
    for folder in (project, cwd, cache):
        folder.mkdir()
    script, module, data = project / "train.py", project / "model.py", cwd / "data.txt"
    migrated = project / "new.py"
    for path in (script, module, data, migrated):
        path.write_text("1")

    def base(*arguments: str) -> str:
        setup = Setup(
            scripts={Arm.ORIGINAL: Target(script), Arm.MIGRATED: Target(migrated)},
            arguments=arguments,
            python=sys.executable,
            cwd=cwd,
            copy_cwd=True,
            scratch=tmp_path / "scratch",
            shim=tmp_path,
            device="cpu",
            steps=20,
            timing_steps=0,
            timeout=60,
            jobs=1,
        )
        return open_cache(cache, setup, 1, [report]).base

    seen = [base(), base("--epochs", "2")]
    for path in (report, cache / "entry", migrated):
        path.write_text("a verification's own, or not the original's")
    assert base() == seen[0]
    for path in (script, module, data):
        path.write_text("2")
        seen.append(base())
    assert len(set(seen)) == len(seen)


def test_the_base_changes_with_the_threads_of_a_run(tmp_path: Path, make_setup: MakeSetup) -> None:
    script = tmp_path / "train.py"
    script.touch()
    setup = make_setup(script, script, tmp_path)
    first, same, other = (open_cache(tmp_path / "cache", setup, threads, []).base for threads in (1, 1, 2))
    assert first == same != other


def test_a_change_that_keeps_size_and_time_is_seen_in_a_small_folder(
    tmp_path: Path, make_setup: MakeSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.touch()
    setup = make_setup(script, script, tmp_path)
    data = setup.cwd / "data.txt"

    def base(text: str, time: int) -> str:
        data.write_text(text)
        os.utime(data, (time, time))
        return open_cache(tmp_path / "cache", setup, 1, []).base

    assert base("1", 5) == base("1", 6) != base("2", 6)
    monkeypatch.setattr(folders, "COPY_FILES", 0)
    assert base("1", 5) != base("1", 6) == base("2", 6)
