"""A schedule of learning rates counts steps that the scaler has skipped."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.values.optimizers import is_scheduler
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import Statement, find
from amp_migrate.write.editor import guarded

RULE = Rule(
    code="AMP613",
    name="schedule-past-skipped-step",
    summary="a schedule that counts the optimizer's steps also counts those that the scaler skips",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
        +     scale = scaler.get_scale()
              scaler.update()
        -     scheduler.step()
        +     if scaler.get_scale() >= scale:
        +         scheduler.step()
        """,
    why=(
        "A scaler skips the step of an iteration with infinite gradients, often the very first, and its `update()` "
        "then lowers the scale. A scheduler that goes on all the same is one step ahead for each of them, and PyTorch "
        'warns of "lr_scheduler.step() before optimizer.step()" where it was the first. Nearly every training script '
        "does so, and a few steps seldom matter, while asking for the scale makes each iteration wait for the GPU: so "
        "this is told to those who ask. Schedulers that are stepped once in an epoch, or told a metric or an epoch, "
        "are right."
    ),
    sources=("https://discuss.pytorch.org/t/optimizer-step-before-lr-scheduler-step-error-using-gradscaler/92930",),
    safety=Safety.UNSAFE,
    on_request=True,
    options=(
        "--unsafe",
        "--select",
        "AMP613",
    ),
)
FLOAT16_ONLY = True
_LOOKS = frozenset({"get_scale", "optimizer_step_was_skipped"})


def detect(script: Script) -> Iterator[Hazard]:
    """Every scheduler that counts, in one block of a loop with the scaler's step, and asks nothing."""
    told: set[Statement] = set()
    for course in script.courses:
        if any(name.value in _LOOKS or "found_inf" in name.value for name in find(course.body, cst.Name)):
            continue
        for event in course.of(Act.SCALER_STEP):
            for statement, scheduler in _schedulers(script, course, event):
                if statement not in told:
                    told.add(statement)
                    quote = script.file.tree.quote
                    yield Hazard(
                        statement,
                        f"{quote(scheduler)} also counts steps that {quote(event.node)} skips",
                        f"remember {course.scaler}.get_scale() before {course.scaler}.update(), and step the scheduler "
                        "behind it where the scale has not become less",
                        _repair(script, course, statement),
                    )


def _schedulers(script: Script, course: Course, event: Event) -> Iterator[tuple[cst.Expr, cst.Call]]:
    """The statements beside a scaler's step that let a scheduler count one further."""
    if course.loop(event) is None:
        return
    for statement in script.file.tree.siblings(event.statement):
        call = statement.value if isinstance(statement, cst.Expr) else None
        if (
            isinstance(statement, cst.Expr)
            and isinstance(call, cst.Call)
            and isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and not call.args
            and is_scheduler(script.file, call.func.value)
        ):
            yield statement, call


def _repair(script: Script, course: Course, statement: cst.Expr) -> tuple[Edit, ...]:
    """Ask for the scale round the only update, where it stands before the scheduler in one block with it."""
    tree = course.file.tree
    updates = course.of(Act.UPDATE)
    siblings = tree.siblings(statement)
    if len(updates) != 1 or updates[0].statement not in siblings or not isinstance(updates[0].statement, cst.Expr):
        return ()
    update = updates[0].statement
    behind = siblings[siblings.index(update) + 1 :]
    is_taken = bool(course.file.scopes.of(statement).lookup("scale"))
    if statement not in behind[:1] or is_taken or tree.trailing_comment(statement):
        return ()
    editor = script.editor(RULE.code)
    guard = guarded(f"if {course.scaler}.get_scale() >= scale:", statement)
    return editor.before(update, f"scale = {course.scaler}.get_scale()"), editor.substitute(statement, guard)
