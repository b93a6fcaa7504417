"""`python -m amp_shim.parallel.multiproc`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from amp_shim.parallel.multiproc import launch

SCRIPT = """
    import argparse, signal, sys, time
    from pathlib import Path

    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--fail", type=int)
    parser.add_argument("--deaf", action="store_true")
    args = parser.parse_args()
    print(f"process {args.rank} of {args.world_size}", flush=True)
    if args.rank == args.fail:
        while args.deaf and not Path("deaf").exists():
            time.sleep(0.01)
        sys.exit(7)
    if args.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("deaf").touch()
    if args.fail is not None:
        time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(dedent(SCRIPT))
    return tmp_path


def launched(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The launcher as a command, which takes seconds to import torch."""
    command = [sys.executable, "-m", "amp_shim.parallel.multiproc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("arguments", [(), ("--rank", "0")])
def test_every_process_has_its_rank(folder: Path, arguments: tuple[str, ...]) -> None:
    done = launched("train.py", "--world-size", "3", *arguments)
    assert (done.returncode, done.stdout) == (0, "process 0 of 3\n")
    assert [(folder / f"GPU_{rank}.log").read_text() for rank in (1, 2)] == ["process 1 of 3\n", "process 2 of 3\n"]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_where_one_fails_the_others_are_ended(rank: str) -> None:
    assert launch(["train.py", "--world-size", "2", "--fail", rank]) == 7


def test_one_that_does_not_want_to_end_is_ended() -> None:
    assert launched("train.py", "--world-size", "2", "--fail", "0", "--deaf").returncode == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "multiproc: no script was given"),
        (("train.py", "--world-size", "many"), "multiproc: --world-size needs a number of processes, found 'many'"),
        (("train.py", "--world-size"), "multiproc: --world-size needs a number of processes, found ''"),
    ],
)
def test_bad_arguments_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit, match=f"^{message}[^\\n]*$"):
        launch(arguments)
