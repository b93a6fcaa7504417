"""Hand-made traces, and the scripts of `scripts/` run for real."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.recorded.recording import Backward, Scale, Step, Trace
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import kinds, prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import Launch, RunResult, Start, environment, execute, start
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target

SCRIPTS = Path(__file__).parent / "scripts"
LOSSES = tuple(2.0 / (i + 1) for i in range(20))
FP32_CENSUS = (("conv2d", "float32", 3), ("linear", "float32", 3))
FP16_CENSUS = (("conv2d", "float16", 3), ("linear", "float16", 3))


def trace(
    losses: Sequence[float] = LOSSES,
    *,
    scale: float | None = None,
    skips: Sequence[int] = (),
    norm: float = 1.0,
    **changes: Any,
) -> Trace:
    """A run with one optimizer and one backward pass per step, of constant norms."""
    steps = tuple(
        Step(
            i,
            0,
            skipped=i in skips,
            grads="111",
            grad_norm=None if i in skips else norm,
            update_norm=None if i in skips else norm / 10,
            clip_norm=2.0,
            shapes=((4, 3), (4,), (1,)),
        )
        for i in range(len(losses))
    )
    made = Trace(
        environment={"torch": "2.0", "python": "3.11", "device": "CPU stand-in", "stand_in": True},
        backwards=tuple(Backward(loss, i, scale or 1.0) for i, loss in enumerate(losses)),
        steps=steps,
        scales=tuple(Scale(scale, i + 1) for i in range(len(losses))) if scale else (),
        census=FP16_CENSUS if scale else FP32_CENSUS,
        stopped=True,
    )
    return replace(made, **changes)


def evidence(tmp_path: Path, repeats: Sequence[Trace] = (), **traces: Trace | None) -> Evidence:
    """A right migration, seen through hand-made traces; any of its parts can be replaced."""

    def result(run: Run, made: Trace, returncode: int | None = 1) -> RunResult:
        (tmp_path / "stderr.log").touch()
        return RunResult(run, ("python", "train.py"), tmp_path, returncode, 1.5, made)

    base = trace()
    rounded = tuple(trace([loss * (1 + noise) for loss in base.losses]) for noise in (1e-3, 2e-3))
    parts: dict[str, Trace | None] = {
        "original": base,
        "migrated": trace([loss * 1.0005 for loss in base.losses], scale=1024.0),
        "migrated_off": base,
        "reference": base,
        "floor": base,
        **traces,
    }
    made = {name: part for name, part in parts.items() if part is not None}
    original = result(kinds.ORIGINAL, made["original"])
    migrated = result(kinds.MIGRATED, made["migrated"])
    floors = (result(kinds.full_precision(False), made["floor"]),) * len(kinds.ORACLES)
    oracles = tuple(
        result(kinds.oracle_of(floor.run, number), one)
        for floor, number, one in zip(floors, kinds.ORACLES, rounded, strict=True)
    )
    return Evidence(
        original=original,
        migrated=migrated,
        migrated_off=result(kinds.MIGRATED_OFF, made["migrated_off"]) if "migrated_off" in made else None,
        floors=floors,
        oracles=oracles,
        reference=result(kinds.ORIGINAL, made["reference"]) if "reference" in made else None,
        repeats=tuple(result(Run(Arm.ORIGINAL, again=number), one) for number, one in enumerate(repeats, 1)),
        all=(original, migrated, *oracles),
    )


@pytest.fixture
def make_trace() -> Callable[..., Trace]:
    """See `trace`."""
    return trace


@pytest.fixture
def make_evidence(tmp_path: Path) -> Callable[..., Evidence]:
    """See `evidence`."""

    def made(repeats: Sequence[Trace] = (), **traces: Trace | None) -> Evidence:
        return evidence(tmp_path, repeats, **traces)

    return made


def setup(original: Path, migrated: Path, scratch: Path) -> Setup:
    """Run two scripts on the CPU, two at a time, each in a folder of its own."""
    cwd = scratch / "cwd"
    cwd.mkdir()
    return Setup(
        scripts={Arm.ORIGINAL: Target(original), Arm.MIGRATED: Target(migrated)},
        arguments=(),
        python=sys.executable,
        cwd=cwd,
        copy_cwd=True,
        scratch=scratch,
        shim=prepare.shim_folder(),
        device="cpu",
        steps=20,
        timing_steps=20,
        timeout=120,
        jobs=2,
        forked=True,
    )


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Two processes that have imported torch, so that a run takes a moment."""
    servers = Forks(sys.executable, 2, environment(os.environ, threads=1))
    yield servers
    servers.close()


@pytest.fixture(autouse=True)
def shared_forks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Have commands fork their runs from `forks`, too: each would have processes of its own import torch."""
    monkeypatch.setattr("amp_migrate.verify.runs.pool.Forks", lambda *_: request.getfixturevalue("forks"))


@pytest.fixture(scope="session")
def original_runs(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> dict[Run, RunResult]:
    """Everything that any verification of `fp32.py` asks of the original, run once."""
    script = SCRIPTS / "fp32.py"
    pool = Pool(setup(script, script, tmp_path_factory.mktemp("original")), lambda result: None, forks=forks)
    pool.make([kinds.ORIGINAL, *(run for run in kinds.reference_runs(False) if run.arm is Arm.ORIGINAL)])
    return pool.results


@pytest.fixture
def pool_fp32(original_runs: dict[Run, RunResult], forks: Forks, tmp_path: Path) -> Callable[[str], Pool]:
    """Makes the runs of `fp32.py` and of the text of a migrated script."""

    def made(text: str) -> Pool:
        migrated = tmp_path / "migrated.py"
        migrated.write_text(text, encoding="utf-8")
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        return Pool(setup(SCRIPTS / "fp32.py", migrated, scratch), lambda result: None, dict(original_runs), forks)

    return made


@pytest.fixture
def verify_fp32(pool_fp32: Callable[[str], Pool]) -> Callable[[str], Evidence]:
    """Verify the text of a migrated script against `fp32.py`."""
    return lambda text: climb(pool_fp32(text), timing_pairs=0)


@pytest.fixture
def make_setup() -> Callable[[Path, Path, Path], Setup]:
    """See `setup`."""
    return setup


PRELUDE = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def loss_of(x=None):
    return model(torch.ones(2, 4) if x is None else x).pow(2).mean()
"""


def recorder(folder: Path, begin: Start) -> Callable[..., RunResult]:
    """Runs `PRELUDE` and a text under the recorder, on the CPU stand-in, each in a new folder below `folder`."""

    def recorded(text: str, *, prelude: str = PRELUDE, timeout: float = 120, **orders: Any) -> RunResult:
        own = folder / f"run{len(list(folder.iterdir()))}"
        own.mkdir()
        script = own / "script.py"
        script.write_text(prelude + textwrap.dedent(text), encoding="utf-8")
        shim = str(prepare.shim_folder())
        spec = RecorderSpec(trace=str(own), parent=os.getpid(), shim=shim, device="cpu", **orders)
        launch = Launch((sys.executable, str(script)), own, own, timeout=timeout, threads=1)
        return execute(Run(Arm.ORIGINAL), launch, spec, lambda process: nullcontext(), begin)

    return recorded


@pytest.fixture
def record(tmp_path: Path, forks: Forks) -> Callable[..., RunResult]:
    """See `recorder`; in a forked process, which takes a moment."""
    return recorder(tmp_path, forks.start)


@pytest.fixture
def record_fresh(tmp_path: Path) -> Callable[..., RunResult]:
    """See `recorder`; in a new interpreter, which takes seconds."""
    return recorder(tmp_path, start)
