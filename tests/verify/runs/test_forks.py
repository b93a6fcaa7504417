"""Servers that fork the runs: one process imports torch for all of them, and nothing of them is left in a script."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.forks import Forks, possible
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import Launch, environment, execute

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not possible(), reason="forks are of Linux")]
SCRIPT = """
import os, time
server = os.getppid()
with open(f"/proc/{server}/stat") as file:
    above = int(file.read().rpartition(")")[2].split()[1])
while len(os.listdir("../started")) < 3:  # all servers have a run at the same time
    open(f"../started/{os.getpid()}", "w").close()
    time.sleep(0.01)
print(server, above, *sorted(os.readlink(f"/proc/self/fd/{each}") for each in range(3, 64) if os.path.exists(
    f"/proc/self/fd/{each}")))
"""


def run(script: Path, own: Path, forks: Forks) -> list[str]:
    """What a script prints, word by word."""
    own.mkdir()
    spec = RecorderSpec(trace=str(own), parent=os.getpid(), shim=str(prepare.shim_folder()), device="cpu")
    launch = Launch((sys.executable, str(script)), own, own, timeout=120, threads=1)
    result = execute(Run(Arm.ORIGINAL), launch, spec, lambda process: nullcontext(), forks.start)
    assert result.returncode == 0, launch.stderr.read_text()
    return launch.stdout.read_text().split()


def test_one_process_imports_torch_for_all_servers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "started").mkdir()
    forks = Forks(sys.executable, 3, environment(os.environ, threads=1))

    def made(number: int) -> list[str]:
        return run(script, tmp_path / f"{number}", forks)

    with ThreadPoolExecutor(3) as executor:
        found = list(executor.map(made, range(3)))
    forks.close()
    servers = {(int(server), int(above)) for server, above in found}  # and no open file besides
    first = next(server for server, above in servers if above == os.getpid())
    assert len(servers) == 3
    assert {above for server, above in servers if server != first} == {first}
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_where_the_server_has_ended_nobody_waits_for_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)\n")
    forks = Forks(sys.executable, 1, environment(os.environ, threads=1))
    for number in range(3):
        with pytest.raises(ChildProcessError, match="use --no-fork"):
            run(script, tmp_path / f"{number}", forks)
    forks.close()


@pytest.mark.parametrize(
    ("turned", "forked"),
    [
        ("", True),
        ("import torch\ntorch.cuda._is_in_bad_fork = lambda: True\n", False),
        (
            "import torch\ngetattr(torch._C, '_cuda_getDeviceCount', lambda: None)()\n",
            not hasattr(torch._C, "_cuda_getDeviceCount"),  # counted where PyTorch has CUDA, though no GPU may be there
        ),
        ("import os\nos.readlink = lambda path: '/dev/nvidiactl'\n", False),
    ],
    ids=["nothing", "a fork is told", "devices were counted", "the driver's file is open"],
)
def test_where_the_server_has_turned_to_a_gpu_runs_are_started_afresh(
    tmp_path: Path, turned: str, *, forked: bool
) -> None:
    """A stand-in for what an import may do where a GPU is."""
    script, first = tmp_path / "script.py", tmp_path / "first"
    script.write_text("import os\nprint(os.getppid())\n")
    first.mkdir()
    (first / "sitecustomize.py").write_text(turned)
    forks = Forks(sys.executable, 1, {**environment(os.environ, threads=1), "PYTHONPATH": str(first)})
    for number in range(2):
        (above,) = run(script, tmp_path / f"{number}", forks)
        assert (int(above) != os.getpid()) is forked
    forks.close()
