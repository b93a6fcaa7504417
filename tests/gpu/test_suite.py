"""The suite for a GPU, rehearsed on a CPU: every part runs, keeps what it has, and measures nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_suite import __main__ as suite
from gpu_suite.arms import ARMS, BY_HAND, MIGRATED, MIGRATED_BF16, PLAIN, VARIANTS, sources
from gpu_suite.bounds import told_apart
from gpu_suite.gpu_tests import counted
from gpu_suite.operators import disagreements
from gpu_suite.part import main as part_main
from gpu_suite.record import CUT_SHORT, DONE, NO_TIME, Record
from gpu_suite.sizes import REHEARSAL

ROOT = Path(__file__).parents[2]


def gpu_sh(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = [str(ROOT / "benchmarks/gpu.sh"), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def result(part: str, folder: Path) -> Any:
    """What a part has written, once it has run in a rehearsal."""
    told = json.loads((folder / f"{part}.json").read_text(encoding="utf-8"))
    assert told["status"] == DONE, f"benchmarks/gpu.sh --rehearse --parts {part} --output DIR says why"
    assert (told["part"], told["rehearsal"], told["machine"]["gpu"]) == (part, True, None)
    return told["result"]


def rehearsed_by_command(part: str, folder: Path) -> Any:
    """The result of a part in a process of its own, which takes seconds to import torch."""
    done = gpu_sh("--rehearse", "--parts", part, "--output", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return result(part, folder)


@pytest.fixture
def rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """The result of a part in a process that is forked from one that has imported torch."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / name) for name in ("migrate", "shim", "benchmarks")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["torch._dynamo", "torchvision", "sklearn.datasets"])

    def run_part(command: Sequence[str], seconds: float) -> str:
        process = forks.Process(target=part_main, args=command[3:])
        process.start()
        process.join()
        return DONE if process.exitcode == 0 else "failed"

    def run(part: str) -> Any:
        monkeypatch.setattr(suite, "run_part", run_part)
        suite.Suite(tmp_path, time.monotonic() + 600, "cpu").run([part])
        return result(part, tmp_path)

    return run


@pytest.mark.slow
def test_operators_are_rehearsed(rehearsed: Callable[[str], Any]) -> None:
    found = rehearsed("operators")
    assert len(found["cases"]) >= 4 * found["operators"] > 0
    assert disagreements(found["cases"]) == []


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="they run here")
def test_tests_are_rehearsed(tmp_path: Path) -> None:
    found = rehearsed_by_command("tests", tmp_path)
    assert (found["passed"], found["failed"]) == (0, [])
    assert found["skipped"] >= 8


@pytest.mark.slow
def test_trainings_are_rehearsed_and_with_amp_off_all_arms_compute_the_same(rehearsed: Callable[[str], Any]) -> None:
    rows = rehearsed("training")
    assert {row["arm"] for row in rows} == {arm.name for arm in (*ARMS, *VARIANTS)}
    assert [row for row in rows if "error" in row] == []
    # A CPU has no autocast for "cuda": what is left of every arm is the plain training.
    for workload in {row["workload"] for row in rows}:
        alike = {row["loss"] for row in rows if row["workload"] == workload and "," not in row["arm"]}
        assert len(alike) == 1


@pytest.mark.slow
def test_the_shim_s_cost_is_rehearsed(rehearsed: Callable[[str], Any]) -> None:
    assert {"native", "O1, scaling alone"} < {row["arm"] for row in rehearsed("shim")}


@pytest.mark.slow
def test_the_table_of_the_flow_analysis_is_rehearsed(rehearsed: Callable[[str], Any]) -> None:
    found = rehearsed("table")
    assert (found["calls"], found["wrong"]) == (8 * found["samples"], [])


@pytest.mark.slow
def test_programs_are_rehearsed_and_what_is_wrong_by_hand_does_not_pass(rehearsed: Callable[[str], Any]) -> None:
    found = rehearsed("programs")
    verdicts = {name: told["verdict"] for name, told in found.items()}
    assert verdicts == {"cuda_amp_linear": "PASS", "bce": "PASS", "bce, by hand and wrong": "MIGRATED_FAILED"}
    assert str(ROOT) not in json.dumps(found)


@pytest.mark.slow
def test_examples_are_left_out_without_a_checkout(tmp_path: Path) -> None:
    assert rehearsed_by_command("examples", tmp_path) == {"commit": None, "verified": []}


@pytest.mark.slow
def test_whole_trainings_are_rehearsed(rehearsed: Callable[[str], Any]) -> None:
    rows = rehearsed("accuracy")
    assert [row["arm"] for row in rows] == [PLAIN, MIGRATED, MIGRATED_BF16]
    assert len({row["accuracy"] for row in rows}) == 1


@pytest.mark.slow
def test_the_doctor_is_rehearsed_and_takes_no_script_for_another(rehearsed: Callable[[str], Any]) -> None:
    found = rehearsed("doctor")
    assert tuple(found) == REHEARSAL.bounds
    assert told_apart(found) == {"compute": True}
    assert told_apart({"input": {"limits": {"host": ""}}, "launch": {"limits": {"host": ""}}}) == {
        "input": False,
        "launch": True,
    }


@pytest.mark.slow
def test_ways_to_be_faster_are_rehearsed(rehearsed: Callable[[str], Any]) -> None:
    found = rehearsed("tune")
    # The fastest stands first, and on a busy machine that may be either.
    assert {way["name"] for way in found["compute"]["ways"]} == {"channels_last", "fused"}


@pytest.mark.slow
def test_the_cost_of_recording_is_rehearsed(rehearsed: Callable[[str], Any]) -> None:
    assert [each["recorder"] for each in rehearsed("recording")] == [
        "judged, first steps",
        "judged, later",
        "timed",
    ]


def test_what_is_migrated_is_what_amp_migrate_writes(tmp_path: Path) -> None:
    found = sources(tmp_path)
    for script in ("resnet.py", "gpt.py", "lstm.py", "dcgan.py", "bound.py"):
        texts = {name: (found[name] / script).read_text() for name in ("plain", "fp16", "bf16")}
        assert "autocast" not in texts["plain"]
        assert "dtype=torch.float16" in texts["fp16"]
        assert "scaler.step(optimizer" in texts["fp16"]
        assert "dtype=torch.bfloat16" in texts["bf16"]
        assert "scaler" not in texts["bf16"]
    assert BY_HAND in {arm.name for arm in ARMS}


def test_a_rehearsal_is_no_result() -> None:
    for options in ([], ["--output", str(suite.RESULTS)]):
        done = gpu_sh("--rehearse", *options)
        assert done.returncode == 2
        assert "a rehearsal is no result" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    done = gpu_sh("--output", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no CUDA device here; --rehearse" in done.stderr
    assert not (tmp_path / "out").exists()


SLOW = "import sys, time; from gpu_suite.record import Record; from pathlib import Path\n"
SLOW += "Record(Path(sys.argv[1])).write(result=[1]); time.sleep(60)"


def test_a_part_that_is_cut_off_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "benchmarks"))
    record = Record(tmp_path / "part.json")
    began = time.monotonic()
    assert suite.run_part([sys.executable, "-c", SLOW, str(record.path)], seconds=5) == CUT_SHORT
    assert time.monotonic() - began < 30
    assert record.read() == {"result": [1]}


def test_a_part_that_goes_on_and_is_cut_off_at_once_keeps_what_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "run_part", lambda command, seconds: CUT_SHORT)
    for name in ("programs", "training"):
        Record(tmp_path / f"{name}.json").write(part=name, status=DONE, result={"bce": {"verdict": "PASS"}})
    assert suite.Suite(tmp_path, time.monotonic() + 600, go_on=True).run(["programs", "training"])
    told = Record(tmp_path / "programs.json").read()
    assert (told["status"], told["result"]) == (CUT_SHORT, {"bce": {"verdict": "PASS"}})
    # What is measured as a whole is measured anew.
    assert "result" not in Record(tmp_path / "training.json").read()


@pytest.mark.parametrize(
    ("names", "with_all_the_time"),
    [
        (["programs", "examples"], {"programs", "examples"}),
        (["programs", "training", "tune"], {"tune"}),
        (list(suite.LIMITS), {"tune"}),
    ],
)
def test_a_part_that_none_waits_for_may_take_all_the_time(
    names: list[str], with_all_the_time: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: dict[str, float] = {}

    def run(command: list[str], seconds: float) -> str:
        times[command[3]] = seconds
        return DONE

    monkeypatch.setattr(suite, "run_part", run)
    assert suite.Suite(tmp_path, time.monotonic() + 600).run(names)
    assert {name for name, seconds in times.items() if seconds > suite.LIMITS[name]} == with_all_the_time


def test_a_part_that_fails_says_why() -> None:
    assert suite.run_part([sys.executable, "-c", "raise OSError('gone')"], seconds=60) == "failed: OSError: gone"


def test_a_part_that_fails_is_told_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "run_part", lambda command, seconds: "failed: x" if "shim" in command else DONE)
    assert not suite.Suite(tmp_path, time.monotonic() + 600).run(["shim", "tests", "recording"])
    assert Record(tmp_path / "shim.json").read()["status"] == "failed: x"
    assert [Record(tmp_path / f"{name}.json").read()["status"] for name in ("tests", "recording")] == [DONE, DONE]


def test_what_shares_the_gpu_runs_before_what_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def run(command: list[str], seconds: float) -> str:
        order.append(command[3])
        return DONE

    monkeypatch.setattr(suite, "run_part", run)
    assert suite.Suite(tmp_path, time.monotonic() + 600).run(["training", "operators", "shim", "tests"])
    assert (set(order[:2]), order[2:]) == ({"operators", "tests"}, ["training", "shim"])


def test_a_part_without_time_is_written_so_and_takes_the_place_of_no_measurement(tmp_path: Path) -> None:
    measured = Record(tmp_path / "shim.json")
    measured.write(part="shim", status=DONE, result=[1])
    assert suite.Suite(tmp_path, time.monotonic() + 1).run(["shim", "tests"])
    assert measured.read() == {"part": "shim", "status": DONE, "result": [1]}
    assert Record(tmp_path / "tests.json").read() == {"part": "tests", "status": NO_TIME}


def test_a_report_of_tests_is_counted() -> None:
    report = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><skipped/></testcase>
    <testcase name="c"><failure message="no"/></testcase></testsuite></testsuites>"""
    assert counted(report) == {"passed": 1, "skipped": 1, "failed": [{"test": "c", "message": "no"}]}
