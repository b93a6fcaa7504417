"""`amp.initialize` in a loop: the scaler is made before it where something behind the loop needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

STEPS = """\
          optimizer.zero_grad()
-         loss = nn.functional.mse_loss(model(x), y)
-         with amp.scale_loss(loss, optimizer) as scaled_loss:
-             scaled_loss.backward()
-         optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16SWITCH):
+             loss = nn.functional.mse_loss(model(x), y)
+         scaler.scale(loss).backward()
+         scaler.step(optimizer)
+         scaler.update()
"""


@pytest.mark.parametrize(
    ("level", "made", "switch"),
    [
        ("", '    scaler = torch.amp.GradScaler("cuda")', ""),
        (
            ", opt_level=level",
            '    amp_enabled = level != "O0"\n+     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)',
            ", enabled=amp_enabled",
        ),
    ],
)
def test_scaler_of_all_that_a_loop_prepares_is_made_before_it(
    level: str, made: str, switch: str, rewrites: Check
) -> None:
    rewrites(
        f"""\
~ APEX
  def main(names, loader, level):
      models, optimizers = [], []
+ {made}
      for name in names:
          model = nn.Linear(8, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-         model, optimizer = amp.initialize(model, optimizer{level})
          models.append(model)
          optimizers.append(optimizer)
      for (x, y), model, optimizer in zip(loader, models, optimizers):
{STEPS.replace("SWITCH", switch)}"""
    )


def test_switch_in_a_loop_that_leaves_is_asked_before_it(rewrites: Check) -> None:
    rewrites(
        """\
~ APEX
  def main(model, loader, fp16: bool):
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
+     scaler = torch.amp.GradScaler("cuda", enabled=fp16)
      for attempt in range(3):
-         if fp16:
-             model, optimizer = amp.initialize(model, optimizer)
          break
      for x, y in loader:
"""
        + STEPS.replace("SWITCH", ", enabled=fp16")
    )


def test_scaler_of_each_fold_is_made_in_its_loop(rewrites: Check) -> None:
    inside = "\n".join(f"{each[:2]}    {each[2:]}" for each in STEPS.replace("SWITCH", "").splitlines())
    rewrites(
        f"""\
~ APEX
  def main(loader, folds):
      for fold in folds:
          model = nn.Linear(8, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-         model, optimizer = amp.initialize(model, optimizer)
+         scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
{inside}
"""
    )


def test_loop_that_decides_about_its_last_round_keeps_the_shim(migrate: Check) -> None:
    before = """
    from apex import amp
    def main(model, loader, levels):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for level in levels:
            model, optimizer = amp.initialize(model, optimizer, opt_level=level)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
    """
    plan = migrate(before)
    assert "from amp_shim import amp\n" in plan.after
    told = [each.message for each in plan.findings if each.code == "AMP290"]
    assert told[0].endswith("a step may come without the loop that initializes Apex")


def test_each_round_has_the_scaler_of_its_checkpoint(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import FP16_Optimizer
        -
        - def epoch(args, model, optimizer, loader):
        + def epoch(args, model, optimizer, scaler, loader):
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        -         if args.fp16:
        -             optimizer.backward(loss)
        -         else:
        -             loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main(args, loader):
              for fold in range(5):
                  model = nn.Linear(2, 2).cuda()
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
                  if args.resume:
                      state = torch.load(args.resume)
                      optimizer.load_state_dict(state["optimizer"])
        +             if state.get("scaler"):
        +                 scaler.load_state_dict(state["scaler"])
        -         if args.fp16:
        -             optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        -             model = model.half()
        -         epoch(args, model, optimizer, loader)
        +         epoch(args, model, optimizer, scaler, loader)
        """
    )
