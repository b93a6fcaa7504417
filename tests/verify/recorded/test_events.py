from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.recorded.events import combined, read
from amp_migrate.verify.recorded.recording import Failure, Scale, Trace

STEP = {
    "kind": "step", "index": 0, "optimizer": 0, "grads": "11", "dtypes": ["float32"], "autocast": False,
    "shapes": [[2, 2], [2]], "clip_norm": 3.0, "clip_limit": 2.0, "grad_norm": 0.5, "stepped": True, "found_inf": 0.0,
}  # fmt: skip


def write(folder: Path, *events: object) -> Path:
    path = folder / "rank-0.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return path


def test_a_scaled_loss_is_read_as_the_loss_and_its_scale(tmp_path: Path) -> None:
    event = {"kind": "backward", "loss": [2.0], "seen": [2048.0], "autocast": False, "attempt": 0}
    trace = read(write(tmp_path, event))
    assert trace.losses == (2.0,)
    assert trace.backwards[0].scale == 1024.0
    assert trace.uses_amp


def test_a_loss_of_zero_tells_no_scale(tmp_path: Path) -> None:
    event = {"kind": "backward", "loss": [0.0], "seen": [-0.0], "autocast": False, "attempt": 0}
    assert read(write(tmp_path, {**event, "seen": [0.0]})).backwards[0].scale == 1.0
    assert read(write(tmp_path, {**event, "loss": [0.0, 0.0], "seen": [1.0, -1.0]})).backwards[0].scale is None


@pytest.mark.parametrize(
    ("stepped", "found_inf", "skipped"), [(True, 0.0, False), (True, 1.0, True), (False, 1.0, True)]
)
def test_a_step_is_skipped_when_infs_were_found_even_if_a_fused_optimizer_was_called(
    tmp_path: Path, stepped: bool, found_inf: float, skipped: bool
) -> None:
    trace = read(write(tmp_path, {**STEP, "stepped": stepped, "found_inf": found_inf}))
    assert trace.skips == ((0,) if skipped else ())


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path: Path) -> None:
    path = write(tmp_path, STEP)
    path.write_text(path.read_text() + '{"kind": "step", "ind', encoding="utf-8")
    steps = read(path).steps
    assert [step.clip_norm for step in steps] == [1.5]


def test_a_run_that_left_no_file_has_an_empty_trace(tmp_path: Path) -> None:
    trace = read(tmp_path / "rank-0.jsonl")
    assert trace.losses == ()
    assert not trace.stopped
    assert not trace.uses_amp


def test_an_uncaught_exception_is_kept_with_its_place(tmp_path: Path) -> None:
    event = {"kind": "exception", "type": "RuntimeError", "message": "no", "place": "train.py:3"}
    failure = read(write(tmp_path, event)).failure
    assert failure is not None
    assert (failure.type, failure.place) == ("RuntimeError", "train.py:3")


def test_a_loss_scale_is_seen_in_updates_and_in_losses_but_not_where_nothing_can_be_told(
    make_trace: Callable[..., Trace],
) -> None:
    def scaled_by(scale: float | None) -> Trace:
        plain = make_trace()
        return replace(plain, backwards=tuple(replace(backward, scale=scale) for backward in plain.backwards))

    assert [scaled_by(scale).scaled for scale in (1.0, None, 2.0)] == [False, False, True]
    assert replace(make_trace(), scales=(Scale(1.0, 1),)).scaled


def test_mixed_precision_is_seen_in_operations_weights_and_scales(make_trace: Callable[..., Trace]) -> None:
    plain = make_trace()
    assert not plain.uses_amp
    assert replace(plain, census=(*plain.census, ("relu", "bfloat16", 1))).uses_amp
    half = replace(plain.steps[3], dtypes=("float32", "float16"))
    assert replace(plain, steps=(*plain.steps, half)).uses_amp
    assert replace(plain, scales=(Scale(1.0, 1),)).uses_amp


def test_what_went_wrong_in_one_process_went_wrong_in_the_run(make_trace: Callable[..., Trace]) -> None:
    plain = replace(make_trace(), stopped=False)
    failure = Failure("ValueError", "no", "train.py:3")
    for wrong in ({"failure": failure}, {"refused": "too old"}, {"stopped": True}, {"uncompiled": True}):
        together = combined([plain, replace(plain, **wrong)])
        assert {name: getattr(together, name) for name in wrong} == wrong
    silent = replace(plain, backwards=(), failure=failure)
    assert (combined([plain, silent]).ranks, combined([plain, silent]).failure) == (1, failure)
    assert combined([plain, plain, plain]).ranks == 3


def test_processes_that_train_together_have_the_mean_of_their_losses(make_trace: Callable[..., Trace]) -> None:
    one, two = make_trace([1.0, 2.0], memory={"peak_resident": 5}), make_trace([3.0, 6.0], memory={"peak_resident": 7})
    assert combined([one, two]).losses == (2.0, 4.0)
    assert combined([one, two]).memory == {"peak_resident": 7}
    assert combined([one, make_trace([3.0])]).losses == (1.0, 2.0)
    both = combined([replace(one, synthetic=("MNIST",)), replace(two, synthetic=("CIFAR10", "MNIST"))])
    assert both.synthetic == ("CIFAR10", "MNIST")


def test_the_environment_is_that_of_the_run_and_a_step_may_lack_its_shapes(tmp_path: Path) -> None:
    start = {"kind": "start", "stand_in": True, "device": "CPU stand-in", "argv": ["train.py"]}
    step = {key: value for key, value in STEP.items() if key != "shapes"}
    trace = read(write(tmp_path, start, {"kind": "end", "threads": 2, "peak_resident": 5}, STEP, step))
    assert trace.environment == {"stand_in": True, "device": "CPU stand-in", "threads": 2}
    assert trace.stand_in
    assert trace.memory == {"peak_resident": 5}
    assert [each.shapes for each in trace.steps] == [((2, 2), (2,)), None]
