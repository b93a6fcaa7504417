"""`amp-verify tune`: what is tried on a script, how it is ranked, and the largest batch that fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.cli import main
from amp_migrate.verify.commands import tune
from amp_migrate.verify.experiments import faster
from amp_migrate.verify.experiments.faster import Timed, Way
from amp_migrate.verify.judge.statistics.speed import Memory, Speed
from amp_migrate.verify.recorded.recording import Failure, Trace
from amp_migrate.verify.runs.kinds import Run
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.usage import UsageError
from click.testing import CliRunner

Make = Callable[..., Trace]

SCRIPT = Path(__file__).parents[1] / "scripts" / "fp32.py"
GPU = {"torch": "2.9", "python": "3.11", "device": "NVIDIA H100", "stand_in": False}


@dataclass
class FakePool:
    """Answers each run from a function of it."""

    answer: Callable[[Run], Trace]
    results: dict[Run, RunResult] = field(default_factory=dict)
    made: list[Run] = field(default_factory=list)

    def make(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.made.append(run)
            trace = self.answer(run)
            folder = Path("nowhere")
            self.results[run] = RunResult(run, ("python",), folder, 1 if trace.failure else 0, 1.0, trace)


def names(seen: Trace, migrated: bool = True) -> list[str]:
    return [way.name for way in faster.ways(seen, migrated)]


def test_what_is_tried_depends_on_what_the_script_does(make_trace: Make) -> None:
    plain = make_trace(environment=GPU)
    always = ["channels_last", "fused", "compile"]
    assert names(plain) == [*always, "mixed precision", "mixed precision, compile", "bfloat16"]
    assert names(plain, migrated=False) == always
    assert names(make_trace(scale=1024.0, environment=GPU)) == [*always, "mixed precision off", "bfloat16"]
    bfloat16 = make_trace(environment=GPU, census=(("linear", "bfloat16", 3),))
    assert names(bfloat16) == [*always, "mixed precision off"]


def test_without_a_gpu_nothing_is_tried_that_would_say_nothing_of_one(make_trace: Make) -> None:
    assert names(make_trace()) == ["channels_last", "fused"]


def times(milliseconds: float) -> Trace:
    return Trace(milliseconds=(milliseconds,) * 30)


def test_ways_are_timed_in_turns_and_ranked_and_those_that_fail_come_last() -> None:
    def answer(run: Run) -> Trace:
        if run.variants == ("compile",):
            return Trace(failure=Failure("RuntimeError", "no compiler", "train.py:3"))
        return times({(): 12.0, ("channels_last",): 10.0, ("fused",): 8.0}[run.variants])

    pool: Any = FakePool(answer)
    tried = [Way(name, replace(faster.AS_IT_IS, variants=(name,))) for name in ("channels_last", "compile", "fused")]
    ranked = faster.timed(pool, tried, rounds=2)
    assert [one.way.name for one in ranked] == ["fused", "channels_last", "compile"]
    assert ranked[0].speed is not None
    assert ranked[0].speed.ratio == pytest.approx(1.5)
    assert ranked[2].failure == "train.py:3: RuntimeError: no compiler"
    order = [run.variants[:1] for run in pool.made]
    assert order[:4] == order[:3:-1]  # there, and back again
    assert all(run.timing for run in pool.made)


FULL = Failure("OutOfMemoryError", "CUDA out of memory", "")


def sized(limit: int, failure: Failure = FULL) -> Any:
    def answer(run: Run) -> Trace:
        return times(1.0) if int(run.arguments[1]) <= limit else Trace(failure=failure)

    return FakePool(answer)


def test_the_largest_batch_is_found_by_running_the_script() -> None:
    pool = sized(limit=100)
    assert 94 <= faster.largest_batch(pool, "--batch-size {}", start=8) <= 100
    assert pool.made[0].arguments == ("--batch-size", "8")
    assert faster.largest_batch(sized(limit=4), "--batch-size {}", start=8) == 0


def test_a_batch_that_fails_for_another_reason_is_told() -> None:
    pool = sized(8, Failure("ValueError", "must be 8", ""))
    with pytest.raises(UsageError, match="--arg -b 16: ValueError: must be 8"):
        faster.largest_batch(pool, "-b {}", start=8)


FAST = Speed(1.5, 1.4, 1.6, 12.0, 8.0, 0.01)


def timed(name: str, speed: Speed | None = FAST, memory: Memory | None = None, failure: str = "") -> Timed:
    return Timed(Way(name, faster.AS_IT_IS), speed, memory, failure)


def test_the_table_claims_what_was_measured_and_no_more(make_trace: Make) -> None:
    ranked = (
        timed("compile", memory=Memory(2**30, 2**29, "peak_allocated")),
        timed("fused", Speed(1.02, 0.99, 1.05, 12.0, 11.8, 0.01)),
        timed("channels_last", Speed(0.9, 0.8, 1.0, 12.0, 13.3, 0.5)),
        timed("bfloat16", None, failure="train.py:3: RuntimeError: no"),
    )
    lines = list(tune.lines(make_trace(environment=GPU), ranked, 96))
    assert lines == [
        "as it is: 12.00 ms per step",
        "  compile            8.00 ms  1.50 times as fast (1.40 to 1.60), 0.50 times the memory",
        "  fused             11.80 ms  1.02 times as fast (0.99 to 1.05); no gain is claimed",
        "  channels_last     13.30 ms; the machine is too busy to claim a ratio",
        "  bfloat16       failed: train.py:3: RuntimeError: no",
        "largest batch that fits: 96",
    ]
    assert list(tune.lines(make_trace(environment=GPU), ranked[3:], None)) == [
        "  bfloat16  failed: train.py:3: RuntimeError: no"
    ]
    assert list(tune.lines(make_trace(environment=GPU), ranked, 0))[-1].endswith(": none of those tried")
    assert next(tune.lines(make_trace(), ranked, None)).startswith("no GPU: times are this processor's")
    document = json.loads(tune.as_json(make_trace(environment=GPU), ranked, None))
    assert document["ways"][0]["speed"]["ratio"] == 1.5
    assert document["ways"][3] == {
        "name": "bfloat16", "speed": None, "memory": None, "failure": "train.py:3: RuntimeError: no"
    }  # fmt: skip
    assert document["largest_batch"] is None


def run_tune(*options: str) -> Any:
    return CliRunner().invoke(main, ["tune", str(SCRIPT), "--device", "cpu", "--isolate", "never", *options])


def test_a_pattern_without_a_place_for_the_batch_size_is_a_usage_error() -> None:
    result = run_tune("--arg", "--batch-size")
    assert result.exit_code == 2
    assert "put {} where the batch size goes" in result.stderr


@pytest.mark.slow
def test_a_script_is_timed_on_a_cpu_and_its_largest_batch_is_not_looked_for_there() -> None:
    result = run_tune("--timing-runs", "1", "--timing-steps", "15")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("no GPU")
    assert {line.split()[0] for line in lines[2:]} == {"channels_last", "fused"}
    refused = run_tune("--arg", "--steps {}")
    assert refused.exit_code == 2
    assert "there is none here" in refused.stderr
