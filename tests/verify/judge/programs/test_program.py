"""Two runs as two programs: what differs is told, by kind, and how far apart numbers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.judge.programs import printed, program
from amp_migrate.verify.judge.programs.program import Difference
from amp_migrate.verify.recorded.recording import Checkpoint, Clip, Held, State, Step, Trace
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
Result = Callable[..., RunResult]
WEIGHT = Held("weight", "float32", (2,), "aa", (1.0, 2.0))
STATE = State(
    "1",
    1,
    models=((WEIGHT,),),
    optimizers=((Held("0.exp_avg", "float32", (2,), "bb", (0.1, 0.2)),),),
    settings=(("optimizer 0, group 0, lr", 0.1), ("optimizer 0, group 0, fused", None), ("model 0, training", True)),
    random=(("torch", "cc"),),
)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    def made(trace: Trace, said: str = "", written: dict[str, str] | None = None) -> RunResult:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        (folder / "written").mkdir(parents=True)
        (folder / "stdout.log").write_text(said)
        for name, text in (written or {}).items():
            (folder / "written" / name).write_text(text)
        return RunResult(Run(Arm.ORIGINAL), ("python", "train.py"), folder, 0, 1.0, trace)

    return made


def only(ours: RunResult, theirs: RunResult) -> Difference:
    (found,) = (each for each in program.differences(ours, theirs) if not each.what.startswith("most "))
    return found


def changed(steps: Sequence[Step], index: int, **changes: object) -> tuple[Step, ...]:
    return tuple(replace(step, **changes) if step.index == index else step for step in steps)  # type: ignore[arg-type]


def test_equal_runs_have_no_differences_and_what_was_compared_is_counted(result: Result, make_trace: Make) -> None:
    full = make_trace(
        states=(STATE,),
        clips=(Clip("clip_grad_norm_", 0, 1.0, 3.0),),
        checkpoints=(Checkpoint(True, False, 20, (("epoch", "1"),)),),
    )
    one, other = (result(full, "loss 1.0\n", {"log.csv": "1,2\n"}) for _ in range(2))
    assert program.differences(one, other) == []
    assert str(program.compared(one)) == (
        "20 losses, 2 tensors of models and optimizers at 1 points, 1 clipping call, 1 checkpoint, 1 file, "
        "1 printed line"
    )


def test_what_is_typical_of_tensors_does_not_depend_on_the_largest(result: Result, make_trace: Make) -> None:
    def state(scale: float) -> State:
        moments = tuple(Held(f"{i}.exp_avg", "float32", (1,), f"{scale}", (scale * 1e-8,)) for i in range(2))
        return replace(STATE, optimizers=((*moments, Held("0.step", "float32", (), "dd", (1.0,))),))

    ours, theirs = (result(make_trace(states=(state(scale),))) for scale in (1.0, 1.5))
    sizes = {each.what: each.size for each in program.differences(ours, theirs)}
    assert sizes == {"optimizer state": pytest.approx(7e-9, rel=0.1), "most optimizer state": pytest.approx(0.5)}


@pytest.mark.parametrize(
    ("change", "what", "where", "values"),
    [
        ({"settings": ({"lr": 0.05},)}, "setting", "learning rate of optimizer step 3", ("0.1", "0.05")),
        ({"zeroed": 0}, "zeroing", "gradients before optimizer step 3", ("zeroed", "kept")),
        ({"skipped": True}, "steps", "optimizer step 3", ("optimizer 0", "optimizer 0, skipped")),
    ],
)
def test_what_a_step_was_told_differs_or_does_not(
    result: Result, make_trace: Make, change: dict[str, object], what: str, where: str, values: tuple[str, str]
) -> None:
    told = tuple(replace(step, settings=({"lr": 0.1},), zeroed=1) for step in make_trace().steps)
    ours, theirs = make_trace(steps=told), make_trace(steps=changed(told, 3, **change))
    assert only(result(ours), result(theirs)) == Difference(what, where, values, None, 3)


def test_gradients_may_be_zeroed_behind_the_step_instead(result: Result, make_trace: Make) -> None:
    trace = make_trace(steps=tuple(replace(step, zeroed=1) for step in make_trace().steps))
    behind = replace(trace, steps=changed(trace.steps, 0, zeroed=0))
    assert program.differences(result(trace), result(behind)) == []
    assert only(result(trace), result(replace(trace, steps=changed(trace.steps, 1, zeroed=0)))).what == "zeroing"


@pytest.mark.parametrize(
    ("state", "what", "sized"),
    [
        (replace(STATE, models=((replace(WEIGHT, bits="ab", values=(1.0, 2.5)),),)), "weights", True),
        (replace(STATE, models=((replace(WEIGHT, dtype="float16"),),)), "weights", False),
        (replace(STATE, models=()), "weights", False),
        (replace(STATE, optimizers=((replace(STATE.optimizers[0][0], bits="x"),),)), "optimizer state", True),
        (replace(STATE, settings=(("optimizer 0, group 0, lr", 0.2), *STATE.settings[1:])), "setting", False),
        (replace(STATE, random=(("torch", "dd"),)), "random numbers", False),
    ],
)
def test_what_objects_hold_is_compared_at_every_point(
    result: Result, make_trace: Make, state: State, what: str, sized: bool
) -> None:
    found = only(result(make_trace(states=(STATE,))), result(make_trace(states=(state,))))
    assert (found.what, found.size is not None, found.attempt) == (what, sized, 1)


def test_how_an_optimizer_is_implemented_is_no_difference(result: Result, make_trace: Make) -> None:
    fused = tuple((key, True if key.endswith("fused") else value) for key, value in STATE.settings)
    runs = (result(make_trace(states=(state,))) for state in (STATE, replace(STATE, settings=fused)))
    assert program.differences(*runs) == []


def test_models_in_another_order_hold_the_same(result: Result, make_trace: Make) -> None:
    other = Held("code", "float32", (3,), "ee", (0.0,))
    one, two = (replace(STATE, models=models) for models in (((WEIGHT,), (other,)), ((other,), (WEIGHT,))))
    assert program.differences(result(make_trace(states=(one,))), result(make_trace(states=(two,)))) == []


@pytest.mark.parametrize(
    ("clip", "where"),
    [
        (None, "clipping before step 4"),
        (Clip("clip_grad_value_", 4, 1.0), "clipping before step 4"),
        (Clip("clip_grad_norm_", 4, 1.5, 2.0), "limit of clip_grad_norm_() before step 4"),
        (Clip("clip_grad_norm_", 4, 1.0, 131072.0), "norm that clip_grad_norm_() saw before step 4"),
    ],
)
def test_a_clipping_call_is_compared_whether_it_bites_or_not(
    result: Result, make_trace: Make, clip: Clip | None, where: str
) -> None:
    ours = make_trace(clips=(Clip("clip_grad_norm_", 4, 1.0, 2.0),))
    assert only(result(ours), result(make_trace(clips=(clip,) if clip else ()))).where == where


def test_a_limit_that_is_scaled_with_the_gradients_is_the_same_limit(result: Result, make_trace: Make) -> None:
    ours, theirs = (make_trace(clips=(Clip("clip_grad_norm_", 4, limit, 2.0),)) for limit in (0.7, 0.7 * 65536))
    assert program.differences(result(ours), result(theirs)) == []


def test_a_seed_that_is_added_is_told(result: Result, make_trace: Make) -> None:
    ours, theirs = (make_trace(states=(STATE,), seeds=seeds) for seeds in ((), (("torch.manual_seed", "0"),)))
    assert str(only(result(ours), result(theirs))) == "seeding: no such call and torch.manual_seed(0)"


@pytest.mark.parametrize(
    ("entries", "where"),
    [
        ((("epoch", "2"), ("ema.weight", ["float32", [2], "aa", [1.0, 2.0]])), "checkpoint 0, epoch"),
        ((("epoch", "1"),), "checkpoint 0, ema.weight"),
        ((("epoch", "1"), ("ema.weight", ["float32", [2], "ab", [1.0, 2.1]])), "checkpoint 0, ema.weight"),
        ((("epoch", "1"), ("ema.weight", ["float16", [2], "aa", [1.0, 2.0]])), "checkpoint 0, ema.weight"),
    ],
)
def test_what_a_checkpoint_holds_is_compared(
    result: Result, make_trace: Make, entries: tuple[tuple[str, object], ...], where: str
) -> None:
    whole = (("epoch", "1"), ("ema.weight", ["float32", [2], "aa", [1.0, 2.0]]), ("time", "3"))
    ours = make_trace(checkpoints=(Checkpoint(True, False, 20, whole),))
    theirs = make_trace(checkpoints=(Checkpoint(True, True, 20, (*entries, ("time", "9"), ("amp", "True"))),))
    assert only(result(ours), result(theirs)).where == where


@pytest.mark.parametrize(
    ("ours", "theirs", "size"),
    [
        ("epoch 1 acc 0.50", "epoch 1 acc 0.40", 0.2),
        ("epoch 1 acc 0.50", "epoch 1 accuracy 0.50", None),
        ("epoch 1", "epoch 1\nepoch 2", None),
        ("seen 8 loss 1.25", "seen 8.0 loss 1.5", None),
        ("norms [1. 2.5]", "norms [1.0 2.6]", 0.1 / 2.6),
    ],
)
def test_printed_lines_are_compared_number_by_number(
    result: Result, make_trace: Make, ours: str, theirs: str, size: float | None
) -> None:
    found = only(result(make_trace(), ours), result(make_trace(), theirs))
    assert found.what == "printed"
    assert found.size == (pytest.approx(size) if size is not None else None)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("loss 0.5 (12.3 s, 4.5 it/s)", "loss 0.5 (9.9 s, 5.6 it/s)"),
        ("time: 0.31 loss 0.5", "time: 0.29 loss 0.5"),
        ("2024-01-02 10:11:12 loss 0.5", "2025-11-22 23:59:59 loss 0.5"),
        ("[00:13<01:20] loss 0.5", "[00:14<01:22] loss 0.5"),
        ("<object at 0x7f0011223344>", "<object at 0x7f0011229999>"),
        ("done in 3 min, 120 images/sec", "done in 4 min, 90 images/sec"),
        ("Step: 812ms | Tot: 59s | Loss: 2.3", "Step: 1s2ms | Tot: 1m1s | Loss: 2.3"),
        ("1h2m3s left", "59m59s left"),
        ("Step: 9ms  \b\b\b 3/8", "Step: 1s1ms \b\b 3/8"),
    ],
)
def test_when_a_run_was_made_and_how_fast_is_no_difference(
    result: Result, make_trace: Make, ours: str, theirs: str
) -> None:
    assert program.differences(result(make_trace(), ours), result(make_trace(), theirs)) == []


@pytest.mark.parametrize("text", ["1s2ms loss 0.5", "3m loss 0.5", "d5h loss 0.5", "0.5s2ms"])
def test_what_stands_beside_a_time_counts(result: Result, make_trace: Make, text: str) -> None:
    other = text.replace("0.5", "0.6") if "loss" in text else f"{text} 1"
    assert only(result(make_trace(), text), result(make_trace(), other)).what == "printed"


def test_files_are_compared_by_names_without_dates_and_process_ids(result: Result, make_trace: Make) -> None:
    ours = {"log-20240102.csv": "1,0.5\n", "Nov22_10-11-12_host.txt": "a\n"}
    same = {"log-20251122.csv": "1,0.5\n", "Nov23_23-59-59_host.txt": "a\n"}
    one = result(make_trace(), "", ours)
    assert program.differences(one, result(make_trace(), "", same)) == []
    assert len(printed.written(one)) == 2
    found = only(one, result(make_trace(), "", {**same, "log-20251122.csv": "1,0.6\n"}))
    assert found.what == "written"
    assert found.size == pytest.approx(1 / 6)
    assert only(one, result(make_trace(), "", {"log-20251122.csv": "1,0.5\n"})).values == ("written", "not written")


def test_the_earliest_difference_comes_first(result: Result, make_trace: Make) -> None:
    losses = [loss * (1.1 if index > 4 else 1.0) for index, loss in enumerate(make_trace().losses)]
    told = tuple(replace(step, settings=({"lr": 0.1},)) for step in make_trace().steps)
    ours = make_trace(steps=told)
    theirs = make_trace(losses, steps=changed(told, 4, settings=({"lr": 0.2},)))
    assert program.differences(result(ours), result(theirs))[0].what == "setting"
