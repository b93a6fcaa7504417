"""`unscale_` runs twice for an optimizer, or after its step, before `update()`."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.hazards.events import Act
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.hazards.states import Stage
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP602",
    name="unscale-twice",
    summary="unscale_() runs a second time, or after step(), before update()",
    before=(
        "scaler.unscale_(optimizer)\n"
        "log(grad_norm(model))\n"
        "scaler.unscale_(optimizer)\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    ),
    after=(
        "scaler.unscale_(optimizer)\nlog(grad_norm(model))\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    ),
    why=(
        "A scaler unscales an optimizer's gradients once between two updates; a second `unscale_`, or one after "
        "`step`, raises RuntimeError as soon as the scaler is switched on, which on a machine without a GPU it is not."
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every `unscale_` that always comes too late."""
    for course in script.courses:
        for event, seen in course.reached(Act.UNSCALE):
            for stage, before in ((Stage.UNSCALED, "a second time"), (Stage.STEPPED, "after step()")):
                if seen.always(lambda state, e=event, s=stage: state.stage(e.optimizer) is s):  # type: ignore[misc]
                    update = f"{course.scaler}.update()"
                    yield Hazard(
                        event.node,
                        f"{script.file.tree.quote(event.node)} runs {before} without {update} in between, and raises",
                        "unscale once, before the first line that needs true gradients, and update after the last step",
                    )
                    break
