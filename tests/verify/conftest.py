"""Hand-made traces, and the scripts of `scripts/` run for real."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify import plan, prepare
from amp_migrate.verify.evidence import Evidence
from amp_migrate.verify.ladder import climb
from amp_migrate.verify.plan import Arm, Run
from amp_migrate.verify.pool import Pool, Setup
from amp_migrate.verify.run import RunResult
from amp_migrate.verify.trace import Backward, Scale, Step, Trace

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


def evidence(tmp_path: Path, **traces: Trace | None) -> Evidence:
    """A right migration, seen through hand-made traces; any of its parts can be replaced."""

    def result(run: Run, made: Trace, returncode: int | None = 1) -> RunResult:
        (tmp_path / "stderr.log").touch()
        return RunResult(run, ("python", "train.py"), tmp_path, returncode, 1.5, made)

    base = trace()
    rounded = tuple(trace([loss * (1 + noise) for loss in base.losses]) for noise in (1e-3, 2e-3, -1e-3))
    parts: dict[str, Trace | None] = {
        "original": base,
        "migrated": trace([loss * 1.0005 for loss in base.losses], scale=1024.0),
        "migrated_off": base,
        "reference": base,
        "floor": base,
        "repeat": None,
        **traces,
    }
    made = {name: part for name, part in parts.items() if part is not None}
    original = result(plan.ORIGINAL, made["original"])
    migrated = result(plan.MIGRATED, made["migrated"])
    floors = tuple(result(plan.full_precision(False, seed), made["floor"]) for seed in plan.ORACLE_SEEDS)
    oracles = tuple(result(plan.oracle_of(floor.run), one) for floor, one in zip(floors, rounded, strict=True))
    return Evidence(
        original=original,
        migrated=migrated,
        migrated_off=result(plan.MIGRATED_OFF, made["migrated_off"]) if "migrated_off" in made else None,
        floors=floors,
        oracles=oracles,
        reference=result(plan.ORIGINAL, made["reference"]) if "reference" in made else None,
        repeat=result(Run(Arm.ORIGINAL, again=1), made["repeat"]) if "repeat" in made else None,
        all=(original, migrated, *floors[1:], *oracles),
    )


@pytest.fixture
def make_trace() -> Callable[..., Trace]:
    """See `trace`."""
    return trace


@pytest.fixture
def make_evidence(tmp_path: Path) -> Callable[..., Evidence]:
    """See `evidence`."""

    def made(**traces: Trace | None) -> Evidence:
        return evidence(tmp_path, **traces)

    return made


def setup(original: Path, migrated: Path, scratch: Path) -> Setup:
    """Run two scripts on the CPU, two at a time, each in a folder of its own."""
    cwd = scratch / "cwd"
    cwd.mkdir()
    return Setup(
        scripts={Arm.ORIGINAL: original, Arm.MIGRATED: migrated},
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
    )


@pytest.fixture(scope="session")
def original_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Run, RunResult]:
    """Everything that any verification of `fp32.py` asks of the original, run once."""
    script = SCRIPTS / "fp32.py"
    pool = Pool(setup(script, script, tmp_path_factory.mktemp("original")), lambda result: None)
    pool.make([plan.ORIGINAL, *(run for run in plan.reference_runs(False) if run.arm is Arm.ORIGINAL)])
    return pool.results


@pytest.fixture
def verify_fp32(original_runs: dict[Run, RunResult], tmp_path: Path) -> Callable[[str], Evidence]:
    """Verify the text of a migrated script against `fp32.py`."""

    def climbed(text: str) -> Evidence:
        migrated = tmp_path / "migrated.py"
        migrated.write_text(text, encoding="utf-8")
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        pool = Pool(setup(SCRIPTS / "fp32.py", migrated, scratch), lambda result: None, dict(original_runs))
        return climb(pool, timing_pairs=0)

    return climbed
