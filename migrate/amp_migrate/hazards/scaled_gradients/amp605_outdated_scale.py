"""The scale is updated between the backward pass and the step."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.chains import tests_of
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import AGAIN, MIXED, READY, SCALED, UNSCALED, Machine
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.pytorch.gradients import stage
from amp_migrate.flow.questions import Questions
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import rounds
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP605",
    name="outdated-scale",
    summary="the scale is updated between a backward pass and the step on its gradients",
    example="""
          import torch

          generator, critic = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
          optimizer_g = torch.optim.SGD(generator.parameters(), lr=0.1)
          optimizer_d = torch.optim.SGD(critic.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (critic(generator(x)) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer_g)
        -     scaler.update()
              scaler.step(optimizer_d)
              scaler.update()
        """,
    why=(
        "`step` divides the gradients by the scale of now. Where `update()` has changed it since `backward()`, they "
        "are divided by another number than they were multiplied by. Where a loop steps several optimizers and updates "
        "in every round, so are those of all but the first. Where gradients of several iterations are added up, and "
        "another optimizer's step updates the scale in between, they are of two scales, and no number divides both."
    ),
    sources=(f"{EXAMPLES}#working-with-multiple-models-losses-and-optimizers",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every division of gradients of an older scale, always or for all optimizers but the first of a loop.

    Of those that are of an older and of a newer one: on any way.
    """
    questions, tree = script.flowing.questions, script.file.tree
    for event in questions.events(Act.SCALER_STEP, Act.UNSCALE) if script.courses else ():
        if len(event.scaler) != 1 or not all(isinstance(e, Atom) and questions.is_single(e) for e in event.scaler):
            continue  # it may be another in every round of a loop
        call = script.flowing.interpreted.node_at(script.file, event.site)
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)):
            continue
        update = f"{tree.code(call.func.value)}.update()"
        if _is_of_two_scales(questions, event):
            yield Hazard(
                call,
                f"{tree.quote(call)} divides gradients by one scale that are of two: it is updated while they add up",
                f"let {update} come once, behind the last step of an iteration, or give each optimizer its own scaler",
            )
        elif _is_always_old(event) or (_is_old(event) and _is_behind_one_loss(script, event, call)):
            yield Hazard(
                call,
                f"{tree.quote(call)} divides by a scale that is newer than the gradients",
                f"move {update} behind the last step of the iteration",
            )


def _is_of_two_scales(questions: Questions, event: Event) -> bool:
    """Whether gradients of an older scale have come to those of a newer one, on some way that no guess leads to.

    It is a way through one function, which goes backward, steps and updates: what tests have come to is known in it.
    So it is where the function is called for one optimizer after the other, and whether it updates depends on what it
    asks alone before it steps. Of one optimizer, AMP608 says so.
    """
    acts = (Act.BACKWARD, Act.UPDATE, Act.SCALER_STEP)
    here = [each for each in questions.events(*acts) if each.code is event.code and each.scaler & event.scaler]
    others = [each for each in here if each.act is Act.SCALER_STEP and each.optimizer - event.optimizer]
    if not (others or len(event.optimizer) > 1) or {each.act for each in here} != set(acts):
        return False
    updating = frozenset(fact for each in here if each.act is Act.UPDATE for fact in tests_of(each))
    ways = ((machine, facts, each, machine.grad(each)) for machine, facts, about, _ in event.reached for each in about)
    return any(
        grad is not None
        and (grad.kind == MIXED and grad.outdated and grad.scaler in event.scaler)
        and (others or questions.are_asked_alike(event.code, facts | updating))
        for machine, facts, each, grad in ways
        if isinstance(each, Atom) and questions.is_no_guess(machine, each)
    )


def _is_always_old(event: Event) -> bool:
    """Whether the gradients of some optimizer always are, at first or in every later round."""
    for optimizer in event.optimizer:
        ways = [machine for machine, _, about, _ in event.reached if optimizer in about and machine.grad(optimizer)]
        for again in (None, True):
            known = [machine for machine in ways if machine.get(AGAIN) == again]
            if known and all(_is_outdated(machine, optimizer, event) for machine in known):
                return True
    return False


def _is_old(event: Event) -> bool:
    return any(_is_outdated(machine, each, event) for machine, _, about, _ in event.reached for each in about)


def _is_outdated(machine: Machine, optimizer: object, event: Event) -> bool:
    """Whether gradients are of an older scale, or are divided by it already, and by the newer one again."""
    grad = machine.grad(optimizer)
    if grad is None or grad.spent or grad.scaler not in event.scaler or not isinstance(optimizer, Atom):
        return False
    is_divided = grad.kind == UNSCALED and stage(machine, grad.scaler, optimizer) == READY
    return is_divided or (grad.kind == SCALED and grad.outdated)


def _is_behind_one_loss(script: Script, step: Event, call: cst.CSTNode | None) -> bool:
    """Whether a loop steps and updates, and what goes backward does so before it: its rounds share one scale."""
    flowing = script.flowing
    updates, backwards = (
        [each for each in flowing.questions.events(act) if not each.scaler.isdisjoint(step.scaler)]
        for act in (Act.UPDATE, Act.BACKWARD)
    )
    for each in () if call is None else rounds(flowing, script.file, script.file.tree.statement(call)):
        file, loop = each.file, each.loop
        is_updated = loop is not None and any(flowing.runs(file, loop, update) for update in updates)
        if loop is not None and is_updated and not any(flowing.runs(file, loop, backward) for backward in backwards):
            return True
    return False
