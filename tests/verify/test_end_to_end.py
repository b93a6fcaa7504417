"""`amp-verify run` as a person types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "scripts"
NO_FORK = "--no-fork"  # of scripts without PyTorch: to import it for their forks takes longer than all else


def command(*arguments: str) -> list[str]:
    code = "from amp_migrate.verify.cli import main; main(prog_name='amp-verify')"
    return [sys.executable, "-c", code, "run", *arguments]


def verify(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command(*arguments), cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_a_right_migration_passes_and_is_reported_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    scripts = [str(SCRIPTS / name) for name in ("cuda_amp.py", "fp16.py")]
    done = verify(tmp_path, *scripts, "--json", "out.json", "--report", "out.html", "--", "--steps", "22")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS: with mixed precision off it is the same program to the bit" in done.stdout
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["verdict"] == "PASS"
    assert document["early"]["S"] == 0  # the same training under an old and a new name
    assert document["runs"][0]["command"][-2:] == ["--steps", "22"]
    assert any("AMP off" in run["name"] and run["arm"] == "original" for run in document["runs"])
    assert "<svg" in (tmp_path / "out.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "out.html", "out.json"]


def test_a_loss_that_autocast_refuses_is_named(tmp_path: Path) -> None:
    text = (SCRIPTS / "bce.py").read_text()
    region = "    with torch.amp.autocast('cuda', dtype=torch.float16):\n        loss = criterion(model(x), y)\n"
    assert "    loss = criterion(model(x), y)\n" in text
    migrated = tmp_path / "bce_new.py"
    migrated.write_text(text.replace("    loss = criterion(model(x), y)\n", region))
    done = verify(tmp_path, str(SCRIPTS / "bce.py"), str(migrated), "--work", str(tmp_path / "work"))
    assert done.returncode == 6, done.stdout + done.stderr
    assert "MIGRATED FAILED: bce_new.py:" in done.stdout
    assert "suspicion: a binary cross entropy" in done.stdout
    assert "unsafe to autocast" in (tmp_path / "work" / "runs" / "migrated" / "stderr.log").read_text()


def test_a_reader_that_leaves_does_not_change_the_verdict(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    reading, writing = os.pipe()
    os.close(reading)
    harness = subprocess.run(
        command(str(script), str(script), NO_FORK),
        cwd=tmp_path,
        env=environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert harness.returncode == 4, harness.stderr


def test_an_original_that_crashes_is_not_charged_to_the_migration(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\nsys.exit('no data set here')\n")
    done = verify(tmp_path, str(script), str(script), NO_FORK)
    assert done.returncode == 5
    assert "no data set here" in done.stdout


def test_a_script_that_hangs_runs_into_the_time_limit(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\ntime.sleep(600)\n")
    done = verify(tmp_path, str(script), str(script), "--timeout", "1", NO_FORK)
    assert done.returncode == 5
    assert "still running after 1 s" in done.stdout


def test_a_script_that_trains_nothing_is_vacuous(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')\n")
    done = verify(tmp_path, str(script), str(script), NO_FORK)
    assert done.returncode == 4
    assert "no backward pass was seen" in done.stdout


def test_a_gpu_that_is_not_there_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script = str(SCRIPTS / "fp16.py")
    done = verify(tmp_path, script, script, "--device", "cuda")
    assert done.returncode == 2
    assert "sees no CUDA device" in done.stderr


@pytest.mark.parametrize("fork", ["--fork", "--no-fork"])
@pytest.mark.parametrize("request_to_end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_scripts_end_with_the_harness(tmp_path: Path, request_to_end: signal.Signals, fork: str) -> None:
    if request_to_end is signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent was killed")
    script = tmp_path / "train.py"
    script.write_text(
        "import os, pathlib, time\n"
        f"(pathlib.Path({str(tmp_path)!r}) / f'pid-{{os.getpid()}}').touch()\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # Where the tests run in the background, SIGINT is ignored, and the harness would inherit that.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    harness = subprocess.Popen(
        command(str(script), str(script), "--steps", "20", "--isolate", "never", "--jobs", "2", fork),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    signal.signal(signal.SIGINT, handler)
    assert wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    harness.send_signal(request_to_end)
    harness.wait(timeout=30)
    children = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    assert wait_until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and alive(pid) for pid in children))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"


def wait_until(holds: object, seconds: float = 90) -> bool:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.1)
    return False
