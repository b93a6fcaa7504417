"""A scaler steps and is never updated, or steps one optimizer twice between two updates."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow import events as flow
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import rounds
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Seen, Stage
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import find

RULE = Rule(
    code="AMP603",
    name="missing-update",
    summary="a scaler steps an optimizer twice with no update() in between",
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
              scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "`update()` sets the scale for the next iteration and lets every optimizer step again. Without it the second "
        "`step` raises RuntimeError as soon as the scaler is switched on. It is added where nobody updates the scaler "
        "and all its steps stand in one block."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.UNSAFE,
    options=("--unsafe",),
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every step on an optimizer that the scaler has stepped already."""
    for course in script.courses:
        told: set[str] = set()
        for event, seen in course.reached(flow.Act.SCALER_STEP):
            repeated = seen.always(lambda state: state.stage is Stage.STEPPED) or _repeats(script, course, event, seen)
            never_updated = _is_never_updated(script, course, event)
            if (repeated or never_updated) and event.optimizer not in told:
                told.add(event.optimizer)
                update = f"{course.scaler}.update()"
                step = script.file.tree.quote(event.node)
                yield Hazard(
                    event.node,
                    f"{step} steps again without {update} since the last time, and raises",
                    f"write {update} once in every iteration, after the last step",
                    _repair(script, course, event) if never_updated else (),
                )
                if never_updated:  # one update is missing, for all optimizers
                    break


def _repeats(script: Script, course: Course, event: Event, seen: Seen) -> bool:
    """Whether a loop steps one optimizer in each round, and updates the scaler in none: only behind it, if at all."""
    flowing, loop = script.flowing, course.loop(event)
    optimizers = {atom for each in event.known for atom in each.optimizer}
    scalers = event.scalers
    if loop is None or course.of(flow.Act.HANDED_ON) or len(optimizers) != 1 or len(scalers) != 1:
        return False
    updates = [each for each in flowing.questions.events(flow.Act.UPDATE) if not each.scaler.isdisjoint(scalers)]
    bound = {each.value for each in find(loop.target, cst.Name)} if isinstance(loop, cst.For) else set()
    is_another = any(each.value in bound for each in find(event.node, cst.Name))
    is_updated = any(flowing.runs(course.file, loop, each) for each in updates)
    return not is_another and not is_updated and any(state.stage is Stage.STEPPED for state in seen.again)


def _repair(script: Script, course: Course, event: Event) -> tuple[Edit, ...]:
    """Update after the last step, where all steps of the function stand in one block of the loop."""
    steps = [each.statement for each in course.of(flow.Act.SCALER_STEP)]
    siblings = course.file.tree.siblings(event.statement)
    if not all(isinstance(each, cst.Expr) and each in siblings for each in steps):
        return ()
    return (script.editor(RULE.code).after(steps[-1], f"{course.scaler}.update()"),)


def _is_never_updated(script: Script, course: Course, event: Event) -> bool:
    """Whether a step in a loop, or in what one calls, has a scaler made in sight that nobody gets or updates."""
    events = script.flowing.questions.events
    made = {atom for each in events(flow.Act.SCALER_MADE) for atom in each.scaler}
    others = {atom for each in events(flow.Act.UPDATE, flow.Act.HANDED_ON) for atom in (*each.scaler, *each.subject)}
    is_in_loop = any(each.loop is not None for each in rounds(script.flowing, course.file, event.statement))
    return is_in_loop and event.scalers <= made - others
