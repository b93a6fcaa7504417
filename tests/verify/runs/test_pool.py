"""What each run is started with, how many run at a time, and what is left of them; no script is started here."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.cache import Cache
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import Launch, RunResult
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target


@dataclass
class Machine:
    """Stands for the processes: keeps what they were started with, and ends each at once."""

    launches: list[tuple[Run, Launch, RecorderSpec]] = field(default_factory=list)
    seconds: float = 0.0
    most: int = 0
    during: Callable[[Launch], None] = lambda launch: None
    _live: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def execute(self, run: Run, launch: Launch, spec: RecorderSpec, *others: Any) -> RunResult:
        with self._lock:
            self._live += 1
            self.most = max(self.most, self._live)
            self.launches.append((run, launch, spec))
        self.during(launch)
        time.sleep(self.seconds)
        with self._lock:
            self._live -= 1
        return RunResult(run, launch.command, launch.folder, 0, 1.0, Trace())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr("amp_migrate.verify.runs.pool.execute", made.execute)
    return made


@pytest.fixture
def setup(tmp_path: Path, make_setup: Callable[[Path, Path, Path], Setup]) -> Setup:
    """Two scripts in one working folder, which runs share."""
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text(name)
    made = make_setup(tmp_path / "old.py", tmp_path / "new.py", tmp_path)
    (made.cwd / "data.txt").write_text("data")
    return replace(made, forked=False, copy_cwd=False, arguments=("--lr", "1"), python="python3")


def pool_of(setup: Setup) -> tuple[Pool, list[Run]]:
    told: list[Run] = []
    return Pool(setup, lambda result: told.append(result.run)), told


def test_a_run_is_made_once(setup: Setup, machine: Machine) -> None:
    pool, told = pool_of(setup)
    pool.make([kinds.ORIGINAL, kinds.MIGRATED, kinds.ORIGINAL])
    pool.make([kinds.MIGRATED, kinds.MIGRATED_OFF])
    assert sorted(told, key=lambda run: run.name) == [kinds.MIGRATED, kinds.MIGRATED_OFF, kinds.ORIGINAL]
    assert list(pool.results) == [kinds.ORIGINAL, kinds.MIGRATED, kinds.MIGRATED_OFF]
    assert pool.forks is None


def test_a_run_that_is_about_to_start_when_another_fails_is_ended_with_the_others(setup: Setup) -> None:
    starting, started = threading.Event(), []

    class Late:
        def start(self, launch: Launch, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
            if "old.py" in launch.command[1]:
                assert starting.wait(20)
                raise ChildProcessError("the server has ended")
            starting.set()
            time.sleep(0.5)  # as the first start does, which waits for torch to be imported
            started.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
            return started[0]

    forks: Any = Late()
    pool = Pool(setup, lambda result: None, forks=forks)
    began = time.monotonic()
    with pytest.raises(ChildProcessError):
        pool.make([kinds.ORIGINAL, kinds.MIGRATED])
    assert started[0].poll() is not None
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(("timing", "most"), [(False, 2), (True, 1)])
def test_timed_runs_are_made_one_by_one(setup: Setup, machine: Machine, timing: bool, most: int) -> None:
    machine.seconds = 0.02
    pool, _ = pool_of(setup)
    pool.make([Run(Arm.ORIGINAL, again=number, timing=timing and number == 3) for number in range(6)])
    assert machine.most == most


def test_the_cores_are_shared_among_the_runs_at_a_time(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [Pool(replace(setup, jobs=jobs), lambda result: None).threads for jobs in (1, 2, 3, 16)] == [8, 4, 2, 1]


def test_a_script_is_started_with_the_arguments_of_all_runs_and_its_own(setup: Setup, machine: Machine) -> None:
    script = setup.scripts[Arm.ORIGINAL].file
    pool, _ = pool_of(setup)
    pool.make([Run(Arm.ORIGINAL, arguments=("--batch-size", "8"))])
    launcher, _ = pool_of(replace(setup, launch=("torchrun", "--standalone")))
    launcher.make([Run(Arm.MIGRATED)])
    commands = [launch.command for _, launch, _ in machine.launches]
    assert commands == [
        ("python3", str(script), "--lr", "1", "--batch-size", "8"),
        ("torchrun", "--standalone", str(script.with_name("new.py")), "--lr", "1"),
    ]
    assert {launch.timeout for _, launch, _ in machine.launches} == {setup.timeout}


def test_the_recorder_is_told_what_the_run_is_for(setup: Setup, machine: Machine) -> None:
    setup = replace(setup, steps=5, whole_steps=6, timing_steps=7, synthetic=True)
    changed = {setup.scratch / "a.py": setup.scratch / "b.py"}
    module = Target(setup.scripts[Arm.MIGRATED].file, "pkg.train", Path("/root"), changed)
    setup = replace(setup, scripts={**setup.scripts, Arm.MIGRATED: module})
    pool, _ = pool_of(setup)
    every = Run(
        Arm.MIGRATED,
        seed_index=2,
        amp_off=True,
        oracle=True,
        census=True,
        phases=True,
        anatomy=True,
        whole=True,
        profile=True,
        bfloat16=True,
        parts=True,
        islands=((0, "fc"),),
        variants=("fused",),
        tf32=True,
        skips=(1, 2),
    )
    pool.make([every, Run(Arm.ORIGINAL), Run(Arm.ORIGINAL, timing=True)])
    specs = {run: spec for run, _, spec in machine.launches}
    assert [specs[run].steps for run in (every, Run(Arm.ORIGINAL), Run(Arm.ORIGINAL, timing=True))] == [6, 5, 7]
    told, plain = specs[every], specs[Run(Arm.ORIGINAL)]
    for name in ("amp_off", "oracle", "census", "phases", "anatomy", "profile", "bfloat16", "parts"):
        assert (getattr(told, name), getattr(plain, name)) == (True, False), name
    assert (told.seed_index, told.tf32, told.skips) == (2, True, (1, 2))
    assert (told.islands, told.variants, told.root) == (((0, "fc"),), ("fused",), "/root")
    assert told.instead == {str(path): str(other) for path, other in changed.items()}
    assert (plain.seed_index, plain.tf32, plain.skips, plain.root, plain.instead) == (0, None, (), "", {})
    assert told.synthetic
    folders = {spec.trace for spec in specs.values()}
    assert len(folders) == 3
    assert folders == {str(launch.folder) for _, launch, _ in machine.launches}


def test_a_run_has_a_copy_of_the_working_folder_which_goes_with_it(setup: Setup, machine: Machine) -> None:
    def write(launch: Launch) -> None:
        assert (launch.cwd / "data.txt").read_text() == "data"
        (launch.cwd / "out.jsonl").write_text('{"val_loss": 1}')

    machine.during = write
    pool, _ = pool_of(replace(setup, copy_cwd=True, metrics="*.jsonl"))
    pool.make([Run(Arm.ORIGINAL)])
    ((_, launch, _),) = machine.launches
    assert launch.cwd != setup.cwd
    assert not (launch.folder / "cwd").exists()
    assert [path.name for path in launch.folder.iterdir()] == ["metrics-000-out.jsonl"]
    assert [path.name for path in setup.cwd.iterdir()] == ["data.txt"]
    shared, _ = pool_of(setup)
    shared.make([Run(Arm.ORIGINAL)])
    assert machine.launches[1][1].cwd == setup.cwd


def test_a_run_that_was_kept_is_not_made(setup: Setup, machine: Machine, tmp_path: Path) -> None:
    first, _ = pool_of(setup)
    first.cache = Cache(tmp_path / "cache", "base")
    first.make([kinds.ORIGINAL, kinds.MIGRATED])
    again, told = pool_of(setup)
    again.cache = first.cache
    again.make([kinds.ORIGINAL, kinds.MIGRATED])
    assert [run for run, _, _ in machine.launches].count(kinds.ORIGINAL) == 1
    assert [run for run, _, _ in machine.launches].count(kinds.MIGRATED) == 2
    assert [again.results[run].cached for run in (kinds.ORIGINAL, kinds.MIGRATED)] == [True, False]
    assert set(told) == {kinds.ORIGINAL, kinds.MIGRATED}


def test_a_fault_is_not_swallowed_and_nothing_further_is_started(setup: Setup, machine: Machine) -> None:
    def fail(launch: Launch) -> None:
        raise OSError("no space")

    machine.during = fail
    pool, told = pool_of(replace(setup, jobs=1))
    with pytest.raises(OSError, match="no space"):
        pool.make([Run(Arm.ORIGINAL, again=number) for number in range(50)])
    assert told == []
    assert len(machine.launches) == 1
