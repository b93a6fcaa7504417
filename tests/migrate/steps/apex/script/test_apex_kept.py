"""`apex.amp` kept for where the step is: in an attribute (`args.amp = amp`), or in a global name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.report.finding import Finding

Check = Callable[..., Any]


def test_calls_through_the_attribute_are_those_of_amp(rewrites: Check) -> None:
    rewrites(
        """
        - def train(args, model, optimizer, loader):
        + def train(args, model, optimizer, scaler, loader):
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             with args.amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()

          def main(args, loader):
              MODEL
        -     if args.fp16:
        -         from apex import amp
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -         args.amp = amp
        -     train(args, model, optimizer, loader)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        +     train(args, model, optimizer, scaler, loader)
        """
    )


@pytest.mark.parametrize("lines", [("global amp", "from apex import amp"), ("from apex import amp", "global amp")])
def test_amp_as_a_global_name(lines: tuple[str, str], rewrites: Check) -> None:
    rewrites(
        f"""
          class Trainer:
              def __init__(self, args, model):
                  self.args, self.model = args, model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         if args.fp16:
        -             {lines[0]}
        -             {lines[1]}
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))

              def step(self, x):
        -         loss = self.model(x).mean()
        -         if self.args.fp16:
        -             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = self.model(x).mean()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


SCRIPT = """
from apex import amp

MODEL
INITIALIZE
args.amp = amp
for x in loader:
    loss = model(x).mean()
    with args.amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("more", ["print(args.amp)", "use(amp)", "args.amp.init().clear()"])
def test_another_use_of_what_is_kept(more: str, migrate: Check) -> None:
    plan = migrate(f"{SCRIPT}{more}\n")
    assert "from amp_shim import amp\n" in plan.after
    assert "AMP290" in {finding.code for finding in plan.findings}


def test_a_file_that_is_handed_what_is_kept(rewrites_files: Check) -> None:
    findings: tuple[Finding, ...] = rewrites_files(
        {
            "step.py": """
                def step(args, loss, optimizer):
                    with args.amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                """,
            "train.py": """
                  import torch
                  from torch import nn
                - from apex import amp
                + from amp_shim import amp

                  MODEL
                  INITIALIZE
                  args.amp = amp
                """,
        }
    )
    assert [each.path.rpartition("/")[2] for each in findings if "used as a value" in each.message] == ["step.py"]


def test_amp_that_only_another_function_imports(rewrites: Check) -> None:
    rewrites(
        """
          def main(args, model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     from apex import amp
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     train(model, optimizer, loader)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, optimizer, scaler, loader)

        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
        ~     APEX_EPOCH
        """
    )
