"""`apex.amp` as an argument, or kept where the script does without it as None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_amp_that_is_passed_makes_way_for_the_scaler(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "step.py": """
                  import torch
                  from torch import nn

                - def train(model, loader, optimizer, amp, epoch):
                + def train(model, loader, optimizer, scaler, epoch):
                      for x, y in loader:
                ~         loss = nn.functional.mse_loss(model(x), y)
                -         backward(loss, optimizer, amp)
                +         backward(loss, optimizer, scaler)
                ~         optimizer.step()
                          optimizer.zero_grad()

                - def backward(loss, optimizer, amp):
                -     with amp.scale_loss(loss, optimizer) as scaled_loss:
                -         scaled_loss.backward()
                + def backward(loss, optimizer, scaler):
                +     scaler.scale(loss).backward()
                """,
            "train.py": """
                  import torch
                  from torch import nn
                - from apex import amp
                  from step import train

                  MODEL
                ~ INITIALIZE
                  for epoch in range(3):
                -     train(model, loader, optimizer, amp, epoch=epoch)
                +     train(model, loader, optimizer, scaler, epoch=epoch)
                """,
        }
    )


CHOSEN = """
        - def train(model, loader, optimizer, amp=None):
        + def train(model, loader, optimizer, scaler):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         if amp is not None:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
              state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        -     if amp is not None:
        -         state["amp"] = amp.state_dict()
        -     if not amp:
        +     if scaler.is_enabled():
        +         state["scaler"] = scaler.state_dict()
        +     if not scaler.is_enabled():
                  print("in float32")
              return state

          def main(args, loader):
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         from apex import amp
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     OTHERWISE
        -     return train(model, loader, optimizer, PASSED)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        +     return train(model, loader, optimizer, scaler)
        """


def test_amp_that_is_none_where_the_script_is_told_so(rewrites: Check) -> None:
    otherwise = "else:\n        -         amp = None"
    rewrites(CHOSEN.replace("OTHERWISE", otherwise).replace("PASSED", "amp"))


def test_amp_that_is_passed_or_none(rewrites: Check) -> None:
    rewrites(CHOSEN.replace("        -     OTHERWISE\n", "").replace("PASSED", "amp=amp if args.fp16 else None"))


def test_amp_that_a_trainer_keeps_or_has_not(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
          class Trainer:
              def __init__(self, model, fp16: bool):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  self.fp16 = fp16
        -         self.amp = None
        -         if fp16:
        -             self.amp = amp
        -             self.model, self.optimizer = self.amp.initialize(self.model, self.optimizer, opt_level="O1")
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=fp16)

              def step(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         if self.amp is not None:
        -             with self.amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         self.optimizer.step()
        -         if self.amp:
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        +         if self.scaler.is_enabled():
                      print("half")
        """
    )


SCRIPT = """
from apex import amp

def train(model, loader, optimizer, amp=None):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if amp is not None:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
train(model, loader, optimizer, amp)
"""


@pytest.mark.parametrize(
    "more",
    [
        "train(model, loader, optimizer)",
        "train(model, loader, optimizer, None)",
        "train(model, loader, optimizer, wrapped)",
        "train(model, loader, optimizer, amp if fast else wrapped)",
        "train(*given)",
        "run = train",
        "use(amp)",
    ],
)
def test_what_is_passed_otherwise_too(more: str, migrate: Check) -> None:
    plan = migrate(f"{SCRIPT}{more}\n")
    assert "from amp_shim import amp\n" in plan.after
    assert [each.message for each in plan.findings if each.code == "AMP290"]


def test_a_parameter_that_is_more_than_called(migrate: Check) -> None:
    plan = migrate(SCRIPT.replace("        optimizer.step()", "        optimizer.step()\n        log(amp)"))
    assert "from amp_shim import amp\n" in plan.after


PREPARED = """
def prepare(args, model, optimizer, amp):
    if amp:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    return model, optimizer

def train(args, model, loader):
    if args.fp16:
        from apex import amp
    else:
        amp = None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = prepare(args, model, optimizer, amp)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        model.zero_grad()
"""
IMPORT = "    if args.fp16:\n        from apex import amp\n    else:\n        amp = None\n"


@pytest.mark.parametrize(
    ("was", "now", "left"),
    [
        ("if amp:", "if amp is not None:", ""),
        ("if amp:", "if bool(amp):", ""),
        ("if amp:", "if amp:\n        log()", "    if args.fp16:\n        log()\n"),
        ("if amp:", "if not amp:\n        log()\n    else:", "    if not args.fp16:\n        log()\n"),
        (IMPORT, f"{IMPORT}    use_amp = bool(amp)\n", "    use_amp = args.fp16\n"),
        (IMPORT, "    amp = None\n    if args.fp16:\n        from apex import amp\n", ""),
        (IMPORT, "    if not args.fp16:\n        amp = None\n    else:\n        from apex import amp\n", ""),
        ("prepare(args, model, optimizer, amp)\n    for", "prepare(args, model, optimizer, amp=amp)\n    for", ""),
        ("(args, model, optimizer, amp)", "(args.fp16, model, optimizer, amp)", ""),
        (IMPORT, f"{IMPORT}    if args.slow:\n        amp = None\n", None),
        (IMPORT, f"{IMPORT}    other(amp)\n", None),
    ],
)
def test_an_initialization_that_a_parameter_decides_about(was: str, now: str, left: str | None, migrate: Check) -> None:
    text = PREPARED.replace(was, now)
    text = text.replace("def prepare(args.fp16,", "def prepare(fp16,")
    assert text != PREPARED
    after = migrate(text).after
    assert ("from amp_shim import amp\n" in after) == (left is None)
    if left is not None:
        assert 'scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))\n' in after
        assert left.replace("= args.fp16", "= bool(args.fp16)") in after
        assert " amp" not in after.replace(" amp.autocast", "")


IN_TRAINER = "self.amp = None\n        -         if args.fp16:\n        -             self.amp = amp"
IN_MAIN = "if args.fp16:\n        -         from apex import amp\n        -     else:\n        -         amp = None"


@pytest.mark.parametrize(
    ("kept", "brought"), [("self.amp = amp", IN_MAIN), (IN_TRAINER, "from apex import amp")], ids=["given", "chosen"]
)
def test_a_trainer_that_initializes_by_the_amp_it_is_given(kept: str, brought: str, rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
        -     def __init__(self, args, model, amp):
        +     def __init__(self, args, model):
                  self.args = args
        -         KEPT
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         if self.amp is not None:
        -             self.model, self.optimizer = self.amp.initialize(self.model, self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))

              def step(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         if self.amp is not None:
        -             with self.amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()

          def main(args, model, x, y):
        -     BROUGHT
        -     Trainer(args, model, amp).step(x, y)
        +     Trainer(args, model).step(x, y)
        """.replace("KEPT", kept).replace("BROUGHT", brought)
    )
