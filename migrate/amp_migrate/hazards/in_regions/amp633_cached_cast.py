"""A weight is used without gradients and then with them in one region, which keeps the first cast."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.events import Act
from amp_migrate.flow.questions import CACHE_MENDED
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP633",
    name="cached-cast",
    summary="a weight gets no gradient: its region keeps the cast that was made under no_grad()",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
        -     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, cache_enabled=False):
                  with torch.no_grad():
                      before = model(x)
                  loss = (model(x) - y).square().mean() + (before - y).abs().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "Autocast keeps the cast of a weight until the outermost region ends. Before PyTorch 2.11, a cast that was "
        "made under `no_grad` is kept like any other: what is computed with it afterwards has no gradient for the "
        "weight, silently, and the optimizer leaves that weight as it is. With `cache_enabled=False` each use casts "
        "anew, and so it is where the two uses are in two regions. It is told of scripts that have a scaler."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every region of the script in which a weight is cast first without gradients, then with them."""
    if script.settings.target_torch >= CACHE_MENDED or not script.courses:
        return
    told = set()
    questions = script.flowing.questions
    for event in questions.events(Act.WEIGHT_CAST):
        if event.context is None or event.context.cuda.on != ON or not questions.are_asked_for_gradients(event.leaves):
            continue
        for site in sorted(event.context.cuda.outermost):
            node = script.flowing.interpreted.node_at(script.file, site)
            if node is not None and node not in told:
                told.add(node)
                yield Hazard(
                    node,
                    f"{script.file.tree.quote(node)} keeps casts of weights that are made under no_grad(), and these "
                    "weights get no gradient where they are used again",
                    "add cache_enabled=False, or let a region of its own hold what is computed without gradients",
                )
