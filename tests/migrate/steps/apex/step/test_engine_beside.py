"""An engine that goes backward by itself, DeepSpeed's, beside Apex in one helper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_branch_of_the_engine_is_left_alone(rewrites_files: Check) -> None:
    found = rewrites_files(
        {
            "helper.py": """
                  import torch
                - from apex import amp
                - def step(loss, model, args, optimizer):
                + def step(loss, model, args, optimizer, scaler):
                      if args.engine:
                          model.backward(loss)
                          model.step()
                      else:
                -         if args.fp16:
                -             with amp.scale_loss(loss, optimizer) as scaled_loss:
                -                 scaled_loss.backward()
                -         else:
                -             loss.backward()
                -         optimizer.step()
                +         scaler.scale(loss).backward()
                +         scaler.step(optimizer)
                +         scaler.update()
                          optimizer.zero_grad()
            """,
            "train.py": """
                  import torch
                  from helper import step
                - from apex import amp
                  def main(args, loader):
                      model = torch.nn.Linear(2, 2)
                      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                -     if args.fp16:
                -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
                      for x in loader:
                -         loss = model(x).mean()
                -         step(loss, model, args, optimizer)
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
                +             loss = model(x).mean()
                +         step(loss, model, args, optimizer, scaler)
            """,
        }
    )
    assert not any(each.code == "AMP290" for each in found)
