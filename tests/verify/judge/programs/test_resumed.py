"""Going on from a checkpoint: what the original has again, the migrated script has, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.programs.resumed import resumed
from amp_migrate.verify.recorded.recording import Held, State, Trace
from amp_migrate.verify.runs.kinds import Arm, going_on
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
SAVED = {"optimizer 0, group 0, lr": 0.005, "loss scaler 0, scale": 1024.0, "model 0, training": False}
FRESH = {"optimizer 0, group 0, lr": 0.01, "loss scaler 0, scale": 65536.0, "model 0, training": True}


def state(point: str, weight: str, moment: str, settings: Mapping[str, Any]) -> State:
    models = ((Held("0.weight", "float32", (2,), weight, ()),),)
    optimizers = ((Held("0.exp_avg", "float32", (2,), moment, ()),),)
    return State(point, 3, models, optimizers, tuple(settings.items()), ())


def without_scaler(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if "scaler" not in name}


def judged(tmp_path: Path, before: Trace, after: Trace, *, rc: int | None = 0) -> Check:
    (tmp_path / "stderr.log").touch()
    made = [
        RunResult(
            going_on(arm, ("--resume", "last.pt")), ("python",), tmp_path, code, 1.0, replace(trace, stopped=False)
        )
        for arm, trace, code in ((Arm.ORIGINAL, before, 0), (Arm.MIGRATED, after, rc))
    ]
    return resumed(*made)


@pytest.fixture
def original(make_trace: Make) -> Trace:
    """It restores weights and moments, and its learning rate; not its mode."""
    mode = {**without_scaler(SAVED), "model 0, training": True}
    saves = state("saves", "w1", "m1", without_scaler(SAVED)), state("saves", "w2", "m2", without_scaler(SAVED))
    return make_trace(states=(*saves, state("goes on", "w2", "m2", mode)))


def test_what_the_original_has_again_is_there_and_the_loss_scale(tmp_path: Path, original: Trace) -> None:
    again = {**SAVED, "model 0, training": True}
    after = replace(original, states=(state("saves", "v", "n", SAVED), state("goes on", "v", "n", again)))
    check = judged(tmp_path, original, after)
    assert (check.id, check.status) == ("G18", Status.PASS)
    assert check.detail == "3 tensors and settings are what they were; 1 others the original does not restore"


@pytest.mark.parametrize(
    ("weight", "moment", "changed", "said"),
    [
        (
            "v",
            "n",
            {"loss scaler 0, scale": 65536.0},
            "loss scaler 0, scale: 1024 when it was saved, 65536 when it went on",
        ),
        ("v", "n", {"optimizer 0, group 0, lr": 0.01}, "optimizer 0, group 0, lr: 0.005 when it was saved, 0.01 when"),
        ("v", "fresh", {}, "optimizer 0, tensor 0.exp_avg is another when it goes on"),
        ("fresh", "fresh", FRESH, "3 more differ"),
    ],
)
def test_what_is_not_there_fails(
    tmp_path: Path, original: Trace, weight: str, moment: str, changed: Mapping[str, Any], said: str
) -> None:
    again = {**SAVED, "model 0, training": True, **changed}
    after = replace(original, states=(state("saves", "v", "n", SAVED), state("goes on", weight, moment, again)))
    check = judged(tmp_path, original, after)
    assert check.status is Status.FAIL
    assert said in check.detail


def test_where_nothing_can_be_said_the_next_step_is(tmp_path: Path, original: Trace, make_trace: Make) -> None:
    saves, goes_on = original.states[0], original.states[-1]
    fresh = replace(original, states=(saves, state("goes on", "f", "f", without_scaler(FRESH))))
    for before, said in (
        (make_trace(), "raise --steps"),
        (replace(original, states=(saves,)), "more training"),
        (fresh, "--resume-args is to name its checkpoint"),
    ):
        check = judged(tmp_path, before, original)
        assert check.status is Status.NOT_ASSESSED
        assert said in check.detail
    for after, rc in ((replace(original, states=(saves,)), 0), (replace(original, states=(saves, goes_on)), 1)):
        assert judged(tmp_path, original, after, rc=rc).status is Status.FAIL
