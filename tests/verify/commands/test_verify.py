"""`amp-verify run` from its options to its exit status, with runs that are made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from amp_migrate.verify.cli import main
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.statistics.convergence import Tolerance
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs import folders, forks
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.setup import Setup
from click.testing import CliRunner, Result

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]


@dataclass
class Verified:
    """What a command asked for, and what it ended with."""

    result: Result
    pool: Pool
    timing_pairs: int
    whole: list[tuple[int, Tolerance]]


Verify = Callable[..., Verified]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Runs the command on evidence that is there already, in a working folder that holds both scripts."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text("loss.backward()\n", encoding="utf-8")

    def verified(evidence: Evidence, *options: str) -> Verified:
        asked: list[Any] = []
        whole: list[tuple[int, Tolerance]] = []

        def climb(pool: Pool, timing_pairs: int) -> Evidence:
            asked.extend((pool, timing_pairs))
            return evidence

        def train_whole(pool: Pool, evidence: Evidence, seeds: int, tolerance: Tolerance, told: object) -> Evidence:
            whole.append((seeds, tolerance))
            pairs = ((evidence.original, evidence.original),) * seeds
            return replace(evidence, whole=pairs, rounded=evidence.oracles[:1] * seeds)

        monkeypatch.setattr("amp_migrate.verify.commands.verify.climb", climb)
        monkeypatch.setattr("amp_migrate.verify.commands.verify.train_whole", train_whole)
        result = CliRunner().invoke(main, ["run", "old.py", "new.py", *options])
        return Verified(result, asked[0], asked[1], whole)

    return verified


@pytest.fixture
def wrong(make_evidence: MakeEvidence, make_trace: Make) -> Evidence:
    """Training that the edit changed."""
    return make_evidence(migrated_off=make_trace([1.0] * 20))


@pytest.mark.torch
def test_a_pass_leaves_nothing_behind(verify: Verify, make_evidence: MakeEvidence) -> None:
    done = verify(make_evidence())
    assert done.result.exit_code == 0
    assert "\nPASS: with mixed precision off" in done.result.stdout
    assert done.result.stderr == ""
    assert not done.pool.setup.scratch.exists()


@pytest.mark.torch
def test_what_was_shown_of_the_text_of_a_migration_is_said(
    verify: Verify, make_evidence: MakeEvidence, wrong: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "; already shown of its text"
    assert shown not in verify(make_evidence()).result.stdout
    monkeypatch.setattr(Setup, "made_here", True)
    assert shown in verify(make_evidence()).result.stdout
    assert shown not in verify(wrong).result.stdout


@pytest.mark.torch
def test_all_else_keeps_its_logs(verify: Verify, make_evidence: MakeEvidence, wrong: Evidence) -> None:
    for evidence, options, status in ((wrong, (), 1), (make_evidence(), ("--min-speedup", "1.1"), 7)):
        done = verify(evidence, *options)
        folder = done.pool.setup.scratch
        assert (done.result.exit_code, done.result.stderr) == (status, f"logs and traces: {folder}\n")
        assert folder.is_dir()
        folder.rmdir()


@pytest.mark.torch
def test_a_script_that_the_recorder_refuses_is_a_usage_error(
    verify: Verify, make_evidence: MakeEvidence, make_trace: Make
) -> None:
    done = verify(make_evidence(original=make_trace(refused="this PyTorch is too old", stopped=False)))
    assert (done.result.exit_code, done.result.stderr) == (2, "amp-verify: this PyTorch is too old\n")
    assert done.result.stdout == ""


@pytest.mark.torch
def test_whole_trainings_follow_where_they_are_asked_for_and_nothing_has_failed(
    verify: Verify, make_evidence: MakeEvidence, wrong: Evidence
) -> None:
    right = make_evidence()
    assert verify(right).whole == []
    assert verify(right, "--seeds", "3").whole == [(3, Tolerance(5.0, 0.0))]
    strict = ("--seeds", "5", "--strict", "--tolerance", "0.1")
    assert verify(right, *strict, "--min-speedup", "2").whole == [(5, Tolerance(3.0, 0.1))]
    assert verify(wrong, "--seeds", "3").whole == []
    assert verify(right, "--seeds", "3").result.stdout.count("PASS (converged, n = 3)") == 1


@pytest.mark.torch
def test_runs_are_made_as_the_options_say(verify: Verify, make_evidence: MakeEvidence) -> None:
    usual = verify(make_evidence())
    setup = usual.pool.setup
    assert (setup.steps, setup.timing_steps, setup.whole_steps, setup.timeout) == (0, 100, 0, 600)
    assert (setup.seconds, setup.dtype) == (60, "")
    assert (setup.arguments, setup.device, setup.synthetic, usual.timing_pairs) == ((), "auto", False, 3)
    options = "--steps 7 --timing-steps 8 --train-steps 9 --timeout 5 --jobs 3 --device cpu --synthetic-data"
    own = verify(make_evidence(), *options.split(), "--timing-runs", "4", "--metrics", "*.jsonl", "--", "--lr", "1")
    setup = own.pool.setup
    assert (setup.steps, setup.timing_steps, setup.whole_steps, setup.timeout) == (7, 8, 9, 5)
    assert setup.seconds == 0
    assert (setup.jobs, setup.device, setup.synthetic, own.timing_pairs) == (3, "cpu", True, 4)
    assert (setup.arguments, setup.metrics) == (("--lr", "1"), "*.jsonl")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("isolate", "small", "copied"),
    [("auto", True, True), ("auto", False, False), ("always", False, True), ("never", True, False)],
)
def test_the_working_folder_is_copied_where_it_is_small_or_it_is_asked_for(
    verify: Verify,
    make_evidence: MakeEvidence,
    monkeypatch: pytest.MonkeyPatch,
    isolate: str,
    small: bool,
    copied: bool,
) -> None:
    monkeypatch.setattr(folders, "COPY_FILES", 100 if small else 1)
    setup = verify(make_evidence(), "--isolate", isolate, "--device", "cpu").pool.setup
    assert setup.copy_cwd is copied
    assert setup.jobs == 1 or copied


@pytest.mark.torch
def test_runs_are_forked_where_they_can_be_or_must_and_never_by_a_launcher(
    verify: Verify, make_evidence: MakeEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forked(*options: str) -> bool:
        return verify(make_evidence(), *options).pool.setup.forked

    for platform in ("darwin", "linux"):
        monkeypatch.setattr(forks, "possible", lambda platform=platform: platform == "linux")
        assert forked("--device", "cuda") is (platform == "linux")
        assert forked("--fork")
        assert not forked("--no-fork")
    assert not forked("--device", "cpu", "--launch", "env")


@pytest.mark.torch
def test_reports_are_written_whatever_the_verdict(verify: Verify, wrong: Evidence, tmp_path: Path) -> None:
    done = verify(wrong, "--json", "out.json", "--junit", "out.xml", "--work", "work")
    assert done.result.exit_code == 1
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "FAIL"
    suite = ElementTree.fromstring((tmp_path / "out.xml").read_text()).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"
    assert done.pool.setup.scratch == tmp_path / "work"


@pytest.mark.torch
def test_a_job_on_github_is_told(
    verify: Verify, wrong: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    done = verify(wrong)
    assert "::error file=new.py,line=1,title=amp-verify FAIL::" in done.result.stdout
    assert (tmp_path / "summary.md").read_text().startswith("### amp-verify: ")


@pytest.mark.torch
def test_a_search_for_parts_keeps_its_logs_unless_there_was_nothing_to_find(
    make_evidence: MakeEvidence, wrong: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old.py", "new.py"):
        (tmp_path / name).touch()
    for evidence, status in ((make_evidence(), 0), (wrong, 1)):
        climb = "amp_migrate.verify.commands.localize.climb"
        monkeypatch.setattr(climb, lambda pool, timing_pairs, thorough, found=evidence: found)
        result = CliRunner().invoke(main, ["localize", "old.py", "new.py", "--json", "found.json"])
        assert result.exit_code == status
        assert json.loads((tmp_path / "found.json").read_text())["exit_code"] == status
        said = result.stderr.splitlines()
        assert [line.partition(":")[0] for line in said] == ["logs and traces"] * status
        for line in said:
            Path(line.partition(": ")[2]).rmdir()


@pytest.mark.torch
def test_the_verdict_can_be_printed_as_a_pull_requests_text(verify: Verify, wrong: Evidence) -> None:
    done = verify(wrong, "--format", "pull-request", "--", "--lr", "1 e")
    assert done.result.exit_code == 1
    assert done.result.stdout.startswith("# Train `")
    assert "run old.py new.py --format pull-request -- --lr '1 e'\n```\n" in done.result.stdout
