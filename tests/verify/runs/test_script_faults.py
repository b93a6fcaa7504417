"""What scripts do to the harness: each of it ends in one line that says what happened, or in no harm at all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import process
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import Launch, RunResult, execute

pytestmark = pytest.mark.slow
Record = Callable[..., RunResult]


@pytest.fixture(params=["record", "record_fresh"])
def record(request: pytest.FixtureRequest) -> Record:
    """In a forked process and in a new interpreter: a script must not be able to tell."""
    made: Record = request.getfixturevalue(request.param)
    return made


TRAIN = """
for _ in range(3):
    optimizer.zero_grad()
    loss_of().backward()
    optimizer.step()
"""


def test_a_flood_of_output_is_ended(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_BYTES", 2**20)
    result = record("while True:\n    print('x' * 1000)\n", prelude="")
    assert not result.ended_well
    assert result.complaint == "more than 1 MiB of output: ended"


@pytest.mark.parametrize(
    "text",
    [
        "raise MemoryError\n",
        "import torch\nraise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB')\n",
        "import torch\ntorch.empty(2**60)\n",
    ],
)
def test_memory_that_runs_out_is_told_with_the_next_step(record: Record, text: str) -> None:
    result = record(text, prelude="")
    assert not result.ended_well
    assert result.complaint.endswith("; make the batch smaller, or run with --jobs 1")


def test_a_script_that_leaves_without_exit_handlers_keeps_its_trace(record: Record) -> None:
    result = record(f"{TRAIN}import os\nos._exit(0)\n")
    assert result.ended_well
    assert len(result.trace.steps) == 3


def test_a_script_may_change_its_folder_replace_its_output_and_close_it(record: Record) -> None:
    result = record(
        f"import io, os, sys, tempfile\nos.chdir(tempfile.mkdtemp())\nsys.stdout = sys.stderr = io.StringIO()\n"
        f"{TRAIN}sys.stdout.close()\n"
    )
    assert result.ended_well
    assert len(result.trace.steps) == 3


def test_a_script_that_will_not_be_asked_to_end_is_ended(record: Record) -> None:
    text = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n"
    result = record(text, prelude="", timeout=2)
    assert result.complaint.startswith("still running after")
    assert result.seconds < 30


def test_processes_that_a_script_leaves_behind_are_ended(record: Record) -> None:
    result = record(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid)\n",
        prelude="",
    )
    child = int((result.folder / "stdout.log").read_text())
    with pytest.raises(ProcessLookupError):
        _wait_for_end(child)


def _wait_for_end(pid: int) -> None:
    for _ in range(100):
        os.kill(pid, 0)
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            raise ProcessLookupError
        signal.sigtimedwait([], 0.1)


def test_what_is_left_open_is_written(record: Record) -> None:
    result = record(f"{TRAIN}file = open('left.txt', 'w')\nfile.write('all of it')\n")
    assert (result.folder / "left.txt").read_text() == "all of it"


def test_a_script_sees_its_arguments_itself_as_main_and_the_collector_at_work(record: Record) -> None:
    result = record(
        "import gc, sys, __main__\n"
        "print(__name__, __main__.marker, sys.argv[0] == __file__, sys.argv[1:], gc.isenabled())\n",
        prelude="marker = 5\n",
    )
    assert (result.folder / "stdout.log").read_text() == "__main__ 5 True [] True\n"


@pytest.mark.parametrize(("text", "status"), [("None", 0), ("7", 7), ("'no data'", 1)])
def test_the_exit_status_is_the_script_s_own(record: Record, text: str, status: int) -> None:
    result = record(f"import sys\nsys.exit({text})\n", prelude="")
    assert result.returncode == status
    assert result.ended_well == (status == 0)


def test_the_interpreter_is_the_one_that_was_asked_for(record: Record) -> None:
    result = record("import sys\nprint(sys.executable)\n", prelude="")
    assert (result.folder / "stdout.log").read_text().strip() == sys.executable


def test_a_process_that_takes_its_time_to_open_its_logs_is_waited_for(tmp_path: Path) -> None:
    class Late:
        """A forked process on a busy machine: it has not opened its logs when it is first looked at."""

        pid = 2**22 + 1  # above the largest on Linux

        def __init__(self) -> None:
            self.looks = 0

        def wait(self, timeout: float | None = None) -> int:
            self.looks += 1
            if self.looks == 1:
                raise subprocess.TimeoutExpired("late", timeout or 0.0)
            return 0

    spec = RecorderSpec(trace=str(tmp_path), parent=os.getpid(), shim="")
    launch = Launch((sys.executable,), tmp_path, tmp_path, timeout=60, threads=1)
    result = execute(Run(Arm.ORIGINAL), launch, spec, lambda process: nullcontext(), lambda *_: Late())
    assert (result.returncode, result.log.read_text()) == (0, "")


ENDLESS = """
from threading import Thread
def train(model, optimizer):
    for step in range(100):
        with torch.autocast("cuda"):
            loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_bare_except_that_swallows_the_end_of_a_run_is_ended(record: Record) -> None:
    loop = "for step in range(100):\n    try:\n        train_one()\n    except:\n        pass\nprint('on and on')\n"
    one = ENDLESS.replace("for step in range(100)", "if True").replace("def train(model, optimizer)", "def train_one()")
    result = record(one + loop, steps=7)
    assert result.ended_well, result.complaint
    assert len(result.trace.steps) == 7
    assert result.trace.stopped
    assert result.trace.environment["device"]  # exit handlers were called
    assert "on and on" not in (result.folder / "stdout.log").read_text()


def test_a_script_that_trains_in_a_thread_is_counted_there(record: Record) -> None:
    text = ENDLESS + "thread = Thread(target=train, args=(model, optimizer))\nthread.start()\nthread.join()\n"
    result = record(text, steps=7, census=True)
    assert result.ended_well, result.complaint
    assert len(result.trace.steps) == 7
    assert ("linear", "float16", 3) in result.trace.census
    assert [each.attempt for each in result.trace.counted] == [0, 1, 2, 5]
    assert result.log.read_text() == ""


def test_two_runs_of_a_script_that_names_its_port_do_not_meet(record: Record) -> None:
    text = """
    import os, torch.distributed as dist
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl")
    print(os.environ["MASTER_PORT"])
    dist.destroy_process_group()
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=0, world_size=1)
    """
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # taken already
            taken.bind(("127.0.0.1", 29500))
            taken.listen()
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        result = record(text, port=port)
    assert result.ended_well, result.complaint
    assert (result.folder / "stdout.log").read_text().split() == [str(port)]
