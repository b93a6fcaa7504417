"""A scaler steps an optimizer whose weights are float16 themselves."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.atoms import Atom, Obj
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import branches
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP612",
    name="half-weights",
    summary="a scaler steps an optimizer whose weights are float16",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        model.half()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    after=example(
        """
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
            scaler.update()
        """
    ),
    why=(
        'A scaler refuses float16 gradients ("Attempting to unscale FP16 gradients"). Autocast casts what needs to be '
        "cast by itself: the weights stay in float32."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every cast of a model to float16 where it is made, or before its optimizer is, that nobody takes back.

    Elsewhere it may be for an export, behind the training.
    """
    flowing, questions = script.flowing, script.flowing.questions
    steps = questions.events(Act.SCALER_STEP) if script.courses else []
    made = questions.events(Act.OPTIMIZER_MADE) if steps else []
    told: set[cst.CSTNode] = set()
    for event in questions.events(Act.HALVED) if steps else ():
        place = flowing.interpreted.place(event.site)
        halved = {each for each in event.subject if isinstance(each, Atom) and questions.are_float16(each)}
        step = next((each for each in steps if halved & questions.owners_of(each.optimizer)), None)
        is_first = any(event.code.has(each.site) for each in halved if isinstance(each, Obj)) or any(
            step is not None and each.code is event.code and each.site > event.site and each.optimizer & step.optimizer
            for each in made
        )
        call = None if step is None else flowing.interpreted.node_at(script.file, step.site)
        if place is None or call is None or not is_first:
            continue
        file, node = place
        statement = file.tree.statement(node)
        if statement in told:
            continue
        told.add(statement)
        node = statement if isinstance(node, cst.Attribute) else node  # `p.data`, of `p.data = p.data.half()`
        if not branches(file, statement):
            scaler = script.file.tree.code(cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value)
            yield Hazard(
                node,
                f"{file.tree.quote(node)} makes weights float16, which {scaler} refuses to unscale",
                "remove it: autocast casts what needs to be cast",
                file=file,
            )
