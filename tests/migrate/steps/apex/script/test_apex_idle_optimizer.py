"""Scripts that prepare an optimizer for Apex and only evaluate: they are inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_optimizer_that_is_only_prepared_is_gone_with_apex(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def main(loader, args):
              MODEL
              scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1" if args.fp16 else "O0")
              optimizer.load_state_dict(torch.load("optimizer.pt"))
              model.eval()
              with torch.no_grad():
                  for x in loader:
        -             print(model(x))
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +                 print(model(x))
        """
    )


@pytest.mark.parametrize(
    ("head", "use"),
    [
        ("def main(loader, model, optimizer):", ""),
        ("def main(loader, model, trainer, optimizer=None):", "optimizer = trainer.optimizer"),
        ("def main(loader, model):", "trainer = Trainer(model, optimizer)"),
        ("def main(loader, model):", "optimizer.step()"),
        ("def main(loader, model):", "return model, optimizer"),
    ],
    ids=["a caller's", "another object's", "handed on", "stepped", "returned"],
)
def test_optimizer_that_others_may_step_is_on_the_shim(migrate: Check, head: str, use: str) -> None:
    made = "" if "optimizer" in head else "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    before, after = ("", use) if use.startswith("return") else (use, "")
    plan = migrate(
        f"""
        from apex import amp

        {head}
            {made or "pass"}
            {before or "pass"}
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            model.eval()
            with torch.no_grad():
                for x in loader:
                    print(model(x))
            {after or "pass"}
        """
    )
    assert any("no step that scales its loss" in each.message for each in plan.findings), plan.findings
    assert "from amp_shim import amp" in plan.after


def test_forward_elsewhere_is_a_region_there(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "evaluate.py": """
                  import torch

                  def evaluate(model, loader):
                      model.eval()
                      with torch.no_grad():
                          for x in loader:
                ~             print(model(x))
            """,
            "features.py": """
                  import torch
                  from torch import nn
                  from evaluate import evaluate
                - from apex import amp

                  def main(loader):
                      model = nn.Linear(2, 2)
                      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                      evaluate(model, loader)
            """,
        }
    )
