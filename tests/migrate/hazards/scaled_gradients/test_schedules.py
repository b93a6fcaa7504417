"""AMP613: schedules that count steps which the scaler has skipped, told to those who ask."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

STEP = "scaler.step(optimizer)\nscaler.update()\nscheduler.step()\n"


def script(step: str, head: str = "") -> str:
    return (
        f"import torch\n\ndef train(model, optimizer, scheduler, scaler, loader):\n{head}    for x, y in loader:\n"
        '        with torch.autocast("cuda", dtype=torch.float16):\n            loss = model(x, y)\n'
        f"        scaler.scale(loss).backward()\n{indent(step, ' ' * 8)}"
    )


def planned(text: str, select: tuple[str, ...] = ("AMP613",), *, unsafe: bool = False) -> FilePlan:
    return migrate_text(text, Settings(select=select, unsafe=unsafe))


def told(text: str) -> list[int]:
    plan = planned(text)
    assert plan.after == text
    assert {(each.code, each.kind) for each in plan.findings} <= {("AMP613", Kind.HAZARD)}
    return [each.line for each in plan.findings]


def test_a_scheduler_that_counts_beside_the_scalers_step_is_told() -> None:
    assert told(script(STEP)) == [10]


@pytest.mark.parametrize(
    "step",
    [
        "scaler.step(optimizer)\nscheduler.step()\nscaler.update()\n",
        "scheduler.step()\nscaler.step(optimizer)\nscaler.update()\n",
        "if i % 4 == 0:\n    scaler.step(optimizer)\n    scaler.update()\n    scheduler.step()\n",
        "scaler.step(optimizer)\nscaler.update()\nif True:\n    pass\nlr_scheduler.step()\n",
    ],
)
def test_it_is_told_wherever_it_stands_in_that_block(step: str) -> None:
    assert len(told(script(step))) == 1


@pytest.mark.parametrize(
    "step",
    [
        # it asks
        "scaler.step(optimizer)\nscale = scaler.get_scale()\nscaler.update()\nif scaler.get_scale() >= scale:\n"
        "    scheduler.step()\n",
        "scaler.step(optimizer)\nskipped = scale > scaler.get_scale()\nscaler.update()\nscheduler.step()\n",
        "scaler.step(optimizer)\nfound = scaler._found_inf_per_device(optimizer)\nscaler.update()\nscheduler.step()\n",
        # it does not count
        "scaler.step(optimizer)\nscaler.update()\nscheduler.step(epoch + i / len(loader))\n",
        "scaler.step(optimizer)\nscaler.update()\nscheduler.step(loss)\n",
        "scaler.step(optimizer)\nscaler.update()\nscheduler.step_update(num_updates=i)\n",
        # it is not done for each step
        "scaler.step(optimizer)\nscaler.update()\nif i == last:\n    scheduler.step()\n",
        "scaler.step(optimizer)\nscaler.update()\n" + "for _ in range(2):\n    scheduler.step()\n",
        # it is no schedule of learning rates, or nobody skips
        "scaler.step(optimizer)\nscaler.update()\nprofiler.step()\n",
        "optimizer.step()\nscheduler.step()\n",
    ],
)
def test_a_scheduler_that_does_not_count_or_asks_is_right(step: str) -> None:
    assert told(script(step)) == []


def test_a_scheduler_of_epochs_is_right() -> None:
    step = indent("scaler.step(optimizer)\nscaler.update()\n", "    ")
    assert told(script(f"for x, y in loader:\n{step}scheduler.step()\n")) == []


@pytest.mark.parametrize("select", [(), ("AMP",), ("AMP6",), ("AMP61",)])
def test_only_those_who_ask_are_told(select: tuple[str, ...]) -> None:
    assert planned(script(STEP), select).findings == ()
    assert len(planned(script(STEP), (*select, "AMP613")).findings) == 1


def test_what_is_ignored_or_goes_to_bfloat16_is_not_told() -> None:
    assert migrate_text(script(STEP), Settings(select=("AMP613",), ignore=("AMP613",))).findings == ()
    text = script(STEP.replace("step()", "step()  # amp-migrate: ignore[AMP613]"))
    assert planned(text).findings == ()
    home = "scaler = torch.amp.GradScaler('cuda')\ntrain(model, optimizer, scheduler, scaler, loader)\n"
    settings = Settings(select=("AMP5", "AMP613"), dtype=Dtype.BF16)
    found = migrate_text(f"{script(STEP)}\n{home}", settings).findings
    assert {each.code for each in found} == {"AMP510"}


def test_with_unsafe_the_scheduler_asks() -> None:
    text = script(STEP.replace("scheduler", "# one further\nscheduler"))
    plan = planned(text, unsafe=True)
    assert plan.after == script(
        "scaler.step(optimizer)\nscale = scaler.get_scale()\nscaler.update()\n# one further\n"
        "if scaler.get_scale() >= scale:\n    scheduler.step()\n"
    )
    assert [each.kind for each in plan.findings] == [Kind.MIGRATED]
    assert planned(plan.after, unsafe=True).findings == ()


@pytest.mark.parametrize(
    ("step", "head"),
    [
        ("scaler.step(optimizer)\nscheduler.step()\nscaler.update()\n", ""),
        ("scaler.step(optimizer)\nscaler.update()\nlog(loss)\nscheduler.step()\n", ""),
        ("scaler.step(optimizer)\nscaler.update()\nscheduler.step()  # one further\n", ""),
        (STEP, "    scale = 2\n"),
    ],
)
def test_where_the_edit_is_not_certain_it_is_told_only(step: str, head: str) -> None:
    text = script(step, head)
    plan = planned(text, unsafe=True)
    assert plan.after == text
    assert [each.kind for each in plan.findings] == [Kind.HAZARD]
