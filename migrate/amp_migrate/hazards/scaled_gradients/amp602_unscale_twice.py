"""`unscale_` runs twice for an optimizer, or after its step, before `update()`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP, EXAMPLES
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Stage
from amp_migrate.plan.edit import Edit

RULE = Rule(
    code="AMP602",
    name="unscale-twice",
    summary="unscale_() runs a second time, or after step(), before update()",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.unscale_(optimizer)
              log(sum(p.grad.norm() for p in model.parameters()))
        -     scaler.unscale_(optimizer)
              torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "A scaler unscales an optimizer's gradients once between two updates; a second `unscale_`, or one after "
        "`step`, raises RuntimeError as soon as the scaler is switched on, which on a machine without a GPU it is not. "
        "It is removed where the first one stands before it in one block."
    ),
    sources=(f"{AMP}#gradient-scaling", f"{EXAMPLES}#gradient-clipping"),
    safety=Safety.UNSAFE,
    options=("--unsafe",),
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every `unscale_` that always comes too late."""
    for course in script.courses:
        for event, seen in course.reached(Act.UNSCALE):
            for stage, before in ((Stage.UNSCALED, "a second time"), (Stage.STEPPED, "after step()")):
                if seen.always(lambda state, s=stage: state.stage is s):  # type: ignore[misc]
                    update = f"{course.scaler}.update()"
                    yield Hazard(
                        event.node,
                        f"{script.file.tree.quote(event.node)} runs {before} without {update} in between, and raises",
                        "unscale once, before the first line that needs true gradients, and update after the last step",
                        _repair(script, course, event),
                    )
                    break


def _repair(script: Script, course: Course, event: Event) -> tuple[Edit, ...]:
    """Remove it, where the first one stands before it in one block, and nothing between them makes it the first."""
    tree, statement = course.file.tree, event.statement
    siblings = tree.siblings(statement)
    before = [e for e in course.events if e.statement in siblings[: siblings.index(statement)]]
    first = next((e for e in before if e.act is Act.UNSCALE and e.optimizer == event.optimizer), None)
    if first is None or not isinstance(statement, cst.Expr) or tree.trailing_comment(statement):
        return ()
    order = tree.order
    between = [e for e in course.events if order[first.statement] < order[e.statement] < order[statement]]
    if any(e.act is not Act.CLIP for e in between):
        return ()
    return (script.editor(RULE.code).remove(statement),)
