"""Metrics that scripts write to files: JSON lines, and TensorBoard's event files."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.recorded import metrics, tensorboard
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.usage import UsageError


def field(number: int, value: bytes | float | int) -> bytes:
    """One field of a protocol buffer; a float takes four bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def record(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + b"sum1" + data + b"sum2"


def event(step: int, *values: bytes) -> bytes:
    time = varint(1 << 3 | 1) + struct.pack("<d", 1.7e9)
    return record(time + field(2, step) + field(5, b"".join(field(1, value) for value in values)))


def scalar(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + field(2, value)


VERSION = record(varint(1 << 3 | 1) + struct.pack("<d", 1.7e9) + field(3, b"brain.Event:2"))


def test_scalars_are_read_in_the_order_written(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    texts = field(1, b"note") + field(8, field(1, 7) + field(8, b"hello"))
    tensor = field(1, b"val/acc") + field(8, field(1, 1) + field(4, struct.pack("<f", 0.75)))
    packed = field(1, b"val/f1") + field(8, field(1, 1) + field(5, struct.pack("<f", 0.25)))
    path.write_bytes(VERSION + event(1, scalar("val/loss", 0.5), texts) + event(300, tensor, packed))
    assert list(tensorboard.scalars(path)) == [("val/loss", 0.5), ("val/acc", 0.75), ("val/f1", 0.25)]


def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "events"
    whole = event(1, scalar("loss", 0.5)) + event(2, scalar("loss", 0.25))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert len(list(tensorboard.scalars(path))) == (length >= len(whole) // 2)


def test_other_bytes_hold_no_scalars(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(record(bytes(range(256))) + record(b"\xff" * 40))
    assert list(tensorboard.scalars(path)) == []


@pytest.fixture
def run(tmp_path: Path) -> RunResult:
    """A run that collected nothing yet."""
    return RunResult(Run(Arm.ORIGINAL), ("python",), tmp_path, 0, 1.0, Trace())


def test_the_last_evaluation_metric_in_json_lines_is_what_counts(run: RunResult) -> None:
    entries: list[object] = [
        {"val_loss": 0.5, "train_acc": 0.1, "note": "x", "done": True},
        {"val_loss": 0.25, "val/top1": 71, "step": 3},
        [1],
    ]
    lines = [*map(json.dumps, entries), "not json", ""]
    (run.folder / "metrics-000-log.jsonl").write_text("\n".join(lines))
    assert metrics.written(run) == {"val_loss": 0.25, "val/top1": 71.0}
    (found,) = metrics.primary(run)
    assert (found.name, found.higher_is_better) == ("val/top1", True)
    assert metrics.value(run, found) == 71.0


def test_files_count_before_prints(run: RunResult) -> None:
    (run.folder / "stdout.log").write_text("test accuracy: 12\n")
    assert [metric.name for metric in metrics.primary(run)] == ["test accuracy"]
    (run.folder / "metrics-000-events.tfevents.1").write_bytes(event(1, scalar("eval/loss", 0.5)))
    (found,) = metrics.primary(run)
    assert (found.name, found.higher_is_better) == ("eval/loss", False)


def test_only_files_that_the_run_wrote_are_collected(tmp_path: Path) -> None:
    cwd, folder = tmp_path / "cwd", tmp_path / "run"
    (cwd / "logs").mkdir(parents=True)
    folder.mkdir()
    for name, time in (("logs/old.jsonl", 10), ("logs/b.jsonl", 30), ("logs/a.jsonl", 40), ("logs/c.txt", 40)):
        (cwd / name).write_text(name)
        os.utime(cwd / name, (time, time))
    metrics.collect(cwd, "logs/*.jsonl", 20.0, folder)
    collected = {path.name: path.read_text() for path in folder.iterdir()}
    assert collected == {"metrics-000-b.jsonl": "logs/b.jsonl", "metrics-001-a.jsonl": "logs/a.jsonl"}


@pytest.mark.parametrize("files", ["", "/tmp/*.jsonl", "../*.jsonl"])
def test_a_pattern_outside_the_working_folder_is_a_usage_error(files: str) -> None:
    with pytest.raises(UsageError, match="--metrics"):
        prepare.pattern(files)


@pytest.mark.slow
def test_a_run_keeps_what_its_script_wrote(
    tmp_path: Path, forks: Forks, make_setup: Callable[[Path, Path, Path], Setup]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import json\nopen('log.jsonl', 'w').write(json.dumps({'val_loss': 0.5}))\n")
    setup = replace(make_setup(script, script, tmp_path), metrics="*.jsonl", python=sys.executable)
    pool = Pool(setup, lambda result: None, forks=forks)
    pool.make([Run(Arm.ORIGINAL)])
    assert metrics.written(pool.results[Run(Arm.ORIGINAL)]) == {"val_loss": 0.5}


def test_a_loss_on_the_way_is_the_mean_of_its_fifth(run: RunResult, make_trace: Callable[..., Trace]) -> None:
    trained = replace(run, trace=make_trace([float(each) for each in range(12)]))  # 2, 3, 2, 3 and 2 of them
    assert [metrics.value(trained, metric) for metric in metrics.ON_THE_WAY] == [0.5, 3.0, 5.5, 8.0]
    assert [metric.name for metric in metrics.ON_THE_WAY][1] == "loss of the second fifth"


@pytest.mark.parametrize(
    ("losses", "tail"), [((9.0,) * 8 + (1.0, 2.0), 1.5), ((9.0, 8.0, 3.0), 3.0), ((5.0,), 5.0), ((), None)]
)
def test_the_tail_loss_is_the_mean_of_the_last_fifth(
    run: RunResult, make_trace: Callable[..., Trace], losses: tuple[float, ...], tail: float | None
) -> None:
    trained = replace(run, trace=make_trace(losses))
    assert metrics.value(trained, metrics.TAIL) == tail
    assert [metric.name for metric in metrics.primary(trained)] == ["tail loss"] * (tail is not None)


def test_the_metric_that_was_printed_last_is_what_counts(run: RunResult) -> None:
    said = ["val loss: 0.5, val acc: 12", "val loss: 0.25"]
    (run.folder / "stdout.log").write_text("\n".join(said[:1]))
    assert [metric.name for metric in metrics.primary(run)] == ["val acc"]
    (run.folder / "stdout.log").write_text("\n".join(said))
    assert [metric.name for metric in metrics.primary(run)] == ["val loss"]
    assert metrics.printed(run) == {"val acc": 12.0, "val loss": 0.25}


def test_a_file_of_the_very_moment_of_the_start_is_the_runs(tmp_path: Path) -> None:
    log, folder = tmp_path / "log.jsonl", tmp_path / "run"
    folder.mkdir()
    log.write_text("{}")
    os.utime(log, (20, 20))
    metrics.collect(tmp_path, "*.jsonl", 20.0, folder)
    assert [path.name for path in folder.iterdir()] == ["metrics-000-log.jsonl"]


def test_what_a_summary_holds_beside_its_values_is_no_scalar(tmp_path: Path) -> None:
    path = tmp_path / "events"
    value = field(1, b"val/loss") + field(2, 0.5)
    path.write_bytes(record(field(5, field(2, value) + field(1, value))) + record(field(6, field(1, value))))
    assert list(tensorboard.scalars(path)) == [("val/loss", 0.5)]


@pytest.mark.parametrize("kind", [1, 5])
def test_a_number_that_was_cut_short_ends_its_record(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "events"
    path.write_bytes(record(field(5, field(1, scalar("val/loss", 0.5))) + varint(9 << 3 | kind) + b"abc"))
    assert list(tensorboard.scalars(path)) == [("val/loss", 0.5)]
