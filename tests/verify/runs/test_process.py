"""What became of a run, in one line; and the environment that makes two runs alike."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.recorded.recording import Failure, Trace
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.process import RunResult, environment

Result = Callable[..., RunResult]


@pytest.fixture
def result(tmp_path: Path) -> Result:
    def made(returncode: int | None, *, said: str = "", ended: str = "", **trace: Any) -> RunResult:
        (tmp_path / "stderr.log").write_text(said)
        return RunResult(kinds.ORIGINAL, ("python",), tmp_path, returncode, 1.0, Trace(**trace), ended)

    return made


def test_a_run_ends_well_by_itself_or_after_the_steps_that_were_asked_for(result: Result) -> None:
    assert result(0).ended_well
    assert result(1, stopped=True).ended_well
    assert result(None, stopped=True).ended_well
    assert not result(1).ended_well
    assert not result(None, ended="still running").ended_well


@pytest.mark.parametrize(
    ("ended", "refused", "failure", "returncode", "said", "complaint"),
    [
        ("", "", None, 3, "", "exit status 3"),
        ("", "", None, 3, "a warning\n no data \n\n", "exit status 3: no data"),
        ("", "", None, -signal.SIGSEGV, "x", "ended by SIGSEGV"),
        ("", "", None, -signal.SIGKILL, "", "ended by SIGKILL, as the system does when memory runs out"),
        ("", "", None, -int(signal.SIGRTMIN) - 1, "", f"ended by signal {int(signal.SIGRTMIN) + 1}"),
        ("", "", Failure("ValueError", "two\n lines", "train.py:3"), 1, "x", "train.py:3: ValueError: two lines"),
        ("", "", Failure("KeyboardInterrupt", "", ""), 1, "x", "KeyboardInterrupt"),
        ("", "too old", Failure("ValueError", "", ""), 1, "x", "too old"),
        ("still running", "too old", Failure("ValueError", "", ""), None, "x", "still running"),
    ],
)
def test_why_it_did_not_is_said_by_the_first_that_knows(
    result: Result,
    ended: str,
    refused: str,
    failure: Failure | None,
    returncode: int,
    said: str,
    complaint: str,
) -> None:
    assert result(returncode, said=said, ended=ended, refused=refused, failure=failure).complaint == complaint


def test_memory_that_ran_out_comes_with_the_next_step(result: Result) -> None:
    full = Failure("OutOfMemoryError", "CUDA out of memory", "train.py:3")
    crashed = result(1, failure=full)
    assert crashed.out_of_memory
    assert crashed.complaint.endswith("CUDA out of memory; make the batch smaller, or run with --jobs 1")
    assert not result(0, failure=full).out_of_memory
    assert not result(1, failure=Failure("ValueError", "no", "")).out_of_memory


def test_the_users_environment_is_kept_but_for_what_makes_two_runs_alike() -> None:
    found = environment({"HOME": "/home/me", "PYTHONHASHSEED": "random", "OMP_NUM_THREADS": "64"}, threads=3)
    assert found == {
        "HOME": "/home/me",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "3",
    }
    assert environment({"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, 1)["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
