"""`python -m amp_shim.parallel.multiproc`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from amp_shim.parallel import multiproc

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


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(SCRIPT))
    return "train.py"


@pytest.mark.parametrize("arguments", [(), ("--rank", "0")])
def test_every_process_has_its_rank(script: str, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert multiproc.launch([script, "--world-size", "3", *arguments]) == 0
    assert capfd.readouterr().out == "process 0 of 3\n"
    assert [Path(f"GPU_{rank}.log").read_text() for rank in (1, 2)] == ["process 1 of 3\n", "process 2 of 3\n"]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_where_one_fails_the_others_are_ended(script: str, rank: str) -> None:
    assert multiproc.launch([script, "--world-size", "2", "--fail", rank]) == 7


def test_one_that_does_not_want_to_end_is_ended(script: str) -> None:
    command = [sys.executable, "-m", "amp_shim.parallel.multiproc", script, *"--world-size 2 --fail 0 --deaf".split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (7, "process 0 of 2\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "multiproc: no script was given"),
        (("train.py", "--world-size", "many"), "multiproc: --world-size needs a number of processes, found 'many'"),
        (("train.py", "--world-size"), "multiproc: --world-size needs a number of processes, found ''"),
    ],
)
def test_bad_arguments_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit, match=rf"^{message}[^\n]*\Z"):
        multiproc.launch(arguments)
