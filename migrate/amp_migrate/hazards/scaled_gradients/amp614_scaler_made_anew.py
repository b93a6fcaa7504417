"""A scaler is made anew for an optimizer that goes on."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import EMPTY, Machine
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.pytorch.gradients import AGAIN
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.trees.nodes import find

RULE = Rule(
    code="AMP614",
    name="scaler-made-anew",
    summary="a scaler is made anew for an optimizer that goes on",
    before=example(
        """
        import torch


        def train_one_epoch(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                    loss = (model(x) - y).square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()


        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            train_one_epoch(model, optimizer, loader)
        """
    ),
    after=example(
        """
        import torch


        def train_one_epoch(model, optimizer, scaler, loader):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                    loss = (model(x) - y).square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()


        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for epoch in range(3):
            train_one_epoch(model, optimizer, scaler, loader)
        """
    ),
    why=(
        "A new scaler begins with a scale of 65536 and counts from nothing to the 2000 steps after which it grows. "
        "Made anew in every epoch, it overflows and skips steps again and again until it has found the scale that the "
        "one before had found already."
    ),
    sources=(f"{EXAMPLES}#typical-mixed-precision-training",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every scaler that is made again although the optimizer has stepped with the one before."""
    if not script.scalers.works:
        return
    questions = script.flowing.questions
    made = questions.events(Act.OPTIMIZER_MADE)
    for event in questions.events(Act.SCALER_MADE):
        node = script.flowing.node_at(script.file, event.site)
        again = [machine for machine, _ in event.states if machine.get(AGAIN)]
        stepped = {optimizer for machine in again for optimizer in _stepped(machine, event)}
        is_anew = stepped and all(_stepped(each, event) or _is_first(each, stepped) for each in again)
        if node is None or not is_anew or _asks_for_itself(script, node):
            continue
        around = script.file.tree.loop(node) or script.file.tree.function(node) or script.file.tree.module
        if not any(each.optimizer & stepped and script.flowing.runs(script.file, around, each) for each in made):
            yield Hazard(
                node,
                f"{script.file.tree.quote(node)} makes a new scaler for an optimizer that has stepped with another",
                "make it once, where the optimizer is made, and hand it on",
            )


def _asks_for_itself(script: Script, node: cst.CSTNode) -> bool:
    """Whether tests on the way ask for what the scaler is kept in: `if self.scaler is None: self.scaler = ...`."""
    statement = script.file.tree.statement(node)
    kept_in = {script.file.tree.code(each.target) for each in find(statement, cst.AssignTarget)}
    asked = (text for text, _, _ in script.flowing.tests(script.file, statement))
    return any(path in text for path in kept_in for text in asked)


def _stepped(machine: Machine, event: Event) -> list[Atom]:
    """The optimizers that have stepped with the scaler that was made here before."""
    return [key[2] for key in machine.keys if key[0] == "stepped" and key[1] in event.scaler]


def _is_first(machine: Machine, optimizers: set[Atom]) -> bool:
    """Whether a way comes round some other loop, and none of the optimizers has stepped on it."""
    known = (machine.grad(each) for each in optimizers)
    return all(grad is None or (grad.kind == EMPTY and not grad.spent) for grad in known)
