"""A scaler is made anew for an optimizer that goes on."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.made_anew import made_anew
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP614",
    name="scaler-made-anew",
    summary="a scaler is made anew for an optimizer that goes on",
    example="""
          import torch


        - def train_one_epoch(model, optimizer, loader):
        -     scaler = torch.amp.GradScaler("cuda")
        + def train_one_epoch(model, optimizer, scaler, loader):
              for x, y in loader:
                  optimizer.zero_grad()
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                      loss = (model(x) - y).square().mean()
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()


          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for epoch in range(3):
        -     train_one_epoch(model, optimizer, loader)
        +     train_one_epoch(model, optimizer, scaler, loader)
        """,
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
    for _, node in made_anew(script):
        yield Hazard(
            node,
            f"{script.file.tree.quote(node)} makes a new scaler for an optimizer that has stepped with another",
            "make it once, where the optimizer is made, and hand it on",
        )
