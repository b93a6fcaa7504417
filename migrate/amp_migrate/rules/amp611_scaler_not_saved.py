"""A checkpoint holds the optimizer and not the scaler."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.analysis.scopes import dotted
from amp_migrate.hazards.course import Course
from amp_migrate.hazards.events import Act
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.report.rule import Rule, Safety
from amp_migrate.steps.checkpoints import saved_entries

RULE = Rule(
    code="AMP611",
    name="scaler-not-saved",
    summary="a checkpoint holds the optimizer and not its scaler",
    before='state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}\ntorch.save(state, path)',
    after=(
        'state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}\n'
        "torch.save(state, path)"
    ),
    why=(
        "A resumed run starts again with a scale of 65536 and counts again to 2000 before it grows: it skips steps "
        "that the first run did not skip, and the two part ways. Save the scaler beside the optimizer, and load it "
        'with `scaler.load_state_dict(checkpoint["scaler"])` where the checkpoint has it.'
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every checkpoint of a scaler's optimizer in a file that saves no scaler."""
    file = script.file
    stepped = {
        event.optimizer.rpartition(".")[2]: course for course in script.courses for event in course.of(Act.SCALER_STEP)
    }
    if not stepped or _saves_scaler(script):
        return
    told: set[object] = set()
    for entry in saved_entries(file, script.roles):
        course = stepped.get((dotted(entry.optimizer) or "").rpartition(".")[2])
        if course is not None and entry.place not in told:
            told.add(entry.place)
            name = course.scaler.rpartition(".")[2]
            yield Hazard(
                entry.optimizer,
                f"the checkpoint holds {file.tree.code(entry.optimizer)} and not {course.scaler}",
                f'add "{name}": {course.scaler}.state_dict(), and load it where the optimizer is loaded',
            )


def _saves_scaler(script: Script) -> bool:
    """Whether the file saves a scaler, or hands one to somebody who may."""
    return any(
        "scaler" in path.lower() and not called.isdisjoint({"state_dict", "load_state_dict"})
        for path, called in script.file.methods_called.items()
    ) or any(_is_handed_on(course) for course in script.courses)


def _is_handed_on(course: Course) -> bool:
    return any(event.scaler for event in course.of(Act.HANDED_ON))
