"""AMP602 and AMP603 with --unsafe: the second unscale_ goes and the missing update comes, where that is certain."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

SECOND = "scaler.unscale_(optimizer)\n"
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
END = "scaler.step(optimizer)\nscaler.update()\n"


def script(body: str) -> str:
    return (
        "import torch\n\ndef train(model, optimizer, other, loader):\n"
        '    scaler = torch.amp.GradScaler("cuda")\n    for x in loader:\n'
        '        with torch.autocast("cuda", dtype=torch.float16):\n            loss = model(x).mean()\n'
        f"        scaler.scale(loss).backward()\n{indent(body, ' ' * 8)}"
    )


def check(before: str, after: str, code: str, kind: Kind) -> None:
    settings = Settings(select=("AMP6",), unsafe=True)
    plan = migrate_text(script(before), settings)
    assert plan.after == script(after)
    assert {(each.code, each.kind) for each in plan.findings} == {(code, kind)}
    if kind is Kind.MIGRATED:
        assert migrate_text(plan.after, settings).findings == ()
    told = migrate_text(script(before), Settings(select=("AMP6",)))
    assert (told.after, {each.kind for each in told.findings}) == (script(before), {Kind.HAZARD})


@pytest.mark.parametrize("between", ["", CLIP, "# once more\n", "log(x)\n"])
def test_a_second_unscale_in_one_block_goes(between: str) -> None:
    check(SECOND + between + SECOND + CLIP + END, SECOND + between + CLIP + END, "AMP602", Kind.MIGRATED)


def test_a_second_unscale_goes_behind_that_of_another_optimizer() -> None:
    both = "scaler.unscale_(other)\n" + SECOND
    end = "scaler.step(other)\n" + END
    check(both + SECOND + CLIP + end, both + CLIP + end, "AMP602", Kind.MIGRATED)


@pytest.mark.parametrize(
    "body",
    [
        f"if x:\n    {SECOND}else:\n    {SECOND}{SECOND}{END}",  # the first stands in other blocks
        f"{SECOND}{SECOND.strip()}  # needed\n{END}",  # a comment would go with it
        f"scaler.step(optimizer)\n{SECOND}scaler.update()\n",  # it comes after the step
        f"{SECOND}found = {SECOND}{END}",  # its value is used
    ],
)
def test_a_second_unscale_that_may_be_wanted_elsewhere_is_told_only(body: str) -> None:
    check(body, body, "AMP602", Kind.HAZARD)


@pytest.mark.parametrize(
    "steps",
    [
        "scaler.step(optimizer)\n",
        "scaler.step(optimizer)\nscaler.step(other)\n",
        "if x:\n    scaler.step(optimizer)\n    scaler.step(other)\n",
    ],
)
def test_a_loop_that_never_updates_does_so_after_its_last_step(steps: str) -> None:
    space = "    " if steps.startswith("if") else ""
    check(steps, f"{steps}{space}scaler.update()\n", "AMP603", Kind.MIGRATED)


@pytest.mark.parametrize(
    "body",
    [
        "if x:\n    scaler.step(optimizer)\nelse:\n    scaler.step(other)\n",
        "done = scaler.step(optimizer)\n",
        "scaler.step(optimizer)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n",
    ],
)
def test_an_update_with_more_than_one_place_to_be_is_told_only(body: str) -> None:
    check(body, body, "AMP603", Kind.HAZARD)
