"""Gradients that are taken to build a penalty stay multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP610",
    name="scaled-penalty",
    summary="gradients taken for a penalty stay multiplied by the loss scale",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
        +     grads = tuple(grad / scaler.get_scale() for grad in grads)
              penalty = sum(grad.square().sum() for grad in grads)
              scaler.scale(loss + penalty).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "What `torch.autograd.grad` gives is no optimizer's, so no `unscale_` reaches it. A penalty built on scaled "
        "gradients is wrong by the scale, or by its square. Divide by `get_scale()` before building it."
    ),
    sources=(f"{EXAMPLES}#gradient-penalty",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every differentiable gradient of a scaled loss of which something is made while the scale is in it."""
    questions = script.flowing.questions
    taken = [each for each in questions.events(Act.OWN_GRADIENT) if each.why] if script.courses else []
    built = {site for each in questions.events(Act.GAUGE) if any(each.sure_in.values()) for site in each.sources}
    for event in taken:
        place = script.flowing.interpreted.place(event.site) if event.site in built else None
        if place is not None:
            file, node = place
            yield Hazard(
                node,
                f"{file.tree.quote(node)} gives gradients that are still multiplied by the loss scale",
                "divide each of them by the scaler's get_scale() before building on them",
                file=file,
            )
