"""A scaler reads gradients that Horovod is still adding up."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.analysis.values.horovod import SYNCHRONIZE, distributed_optimizers, waits
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP616",
    name="read-before-reduced",
    summary="a scaler reads gradients that Horovod is still adding up",
    example="""
          import horovod.torch as hvd
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
        +     optimizer.synchronize()
              scaler.unscale_(optimizer)
              torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -     scaler.step(optimizer)
        +     with optimizer.skip_synchronize():
        +         scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "Horovod's optimizer adds up the gradients of all processes in the background, from `backward()` on, and waits "
        "for that in `step()`. `unscale_`, and `scaler.step` where nothing was unscaled, read and write them before: "
        "what is clipped are the gradients of one process, some of them added up and some not, and each process "
        "decides by its own whether it skips the step, which the others then wait for."
    ),
    sources=("https://horovod.readthedocs.io/en/stable/api.html#module-horovod.torch",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """The first read of a scaler in each function that does not wait for an optimizer of Horovod."""
    reduced = _reduced(script) if script.courses else frozenset()
    for course in script.courses if reduced else ():
        reads = [each for each in course.of(Act.UNSCALE, Act.SCALER_STEP) if _is_of(each, reduced)]
        if reads and not _has_waited(course, reads[0]):
            yield Hazard(
                reads[0].node,
                f"{script.file.tree.quote(reads[0].node)} reads gradients that Horovod is still adding up",
                SYNCHRONIZE,
            )


def _reduced(script: Script) -> frozenset[Atom]:
    """The optimizers whose gradients Horovod adds up."""
    found = (
        atom
        for file in script.roles.project.library.mentioning("DistributedOptimizer")
        for call in distributed_optimizers(file)
        for atom in script.flowing.value_of(file, call)
    )
    return frozenset(each for each in found if isinstance(each, Atom))


def _is_of(event: Event, optimizers: frozenset[Atom]) -> bool:
    """Whether what a scaler does is done to one of some optimizers."""
    return any(not optimizers.isdisjoint(each.optimizer) for each in event.known)


def _has_waited(course: Course, event: Event) -> bool:
    order = course.file.tree.order
    return any(order[call] < order[event.node] for call in waits(course.file, course.body))
