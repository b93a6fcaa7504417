"""A call above `amp.initialize` restores the optimizer: the scaler is made before it, or nobody restores that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

STEPS = """\
          for x, y in loader:
              self.optimizer.zero_grad()
-             loss = nn.functional.mse_loss(self.net(x), y)
-             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                 scaled_loss.backward()
-             self.optimizer.step()
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16SWITCH):
+                 loss = nn.functional.mse_loss(self.net(x), y)
+             self.scaler.scale(loss).backward()
+             self.scaler.step(self.optimizer)
+             self.scaler.update()
"""
SAVED = """\
-         torch.save({"optimizer": self.optimizer.state_dict()}, "last.pt")
+         torch.save({"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}, "last.pt")
"""
RESTORED = """\
          state = torch.load("last.pt")
          self.optimizer.load_state_dict(state["optimizer"])
+         if state.get("scaler"):
+             self.scaler.load_state_dict(state["scaler"])
"""


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_scaler_of_an_object_is_made_before_its_method_restores_it(hops: int, rewrites: Check) -> None:
    others = "".join(f"      def load_{each}(self):\n          self.load_{each + 1}()\n\n" for each in range(hops))
    rewrites(
        f"""\
- from apex import amp
-
  class Runner:
      def __init__(self, net, resume):
          self.net = net.cuda()
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")
          if resume:
              self.load_0()
-         self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")

{others}      def load_{hops}(self):
{RESTORED}
      def fit(self, loader):
{STEPS.replace("SWITCH", "")}{SAVED}"""
    )


def test_scaler_is_made_before_a_method_that_saves_it(rewrites: Check) -> None:
    rewrites(
        f"""\
- from apex import amp
-
  class Runner:
      def __init__(self, net):
          self.net = net.cuda()
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")
          self.save()
-         self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")

      def save(self):
{SAVED}
      def fit(self, loader):
{STEPS.replace("SWITCH", "")}"""
    )


def test_scaler_of_a_derived_class_is_made_before_the_base_class_restores_it(migrate: Check) -> None:
    before = """
    import torch
    from torch import nn
    from apex import amp

    class Base:
        def resume(self):
            raise NotImplementedError

        def begin(self):
            self.resume()

    class Runner(Base):
        def __init__(self, net):
            self.net = net.cuda()
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            self.begin()
            self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")

        def resume(self):
            state = torch.load("last.pt")
            self.optimizer.load_state_dict(state["optimizer"])

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.net(x), y)
                with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                    scaled_loss.backward()
                self.optimizer.step()
            torch.save({"optimizer": self.optimizer.state_dict()}, "last.pt")
    """
    after = migrate(before).after
    assert 0 < after.index("self.scaler = torch.amp.GradScaler") < after.index("        self.begin()")
    assert "self.scaler.load_state_dict" in after


def test_scaler_is_made_before_a_function_that_is_given_it_to_restore(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        -
        - def load(optimizer):
        + def load(optimizer, scaler):
              state = torch.load("last.pt")
              optimizer.load_state_dict(state["optimizer"])
        +     if state.get("scaler"):
        +         scaler.load_state_dict(state["scaler"])

          def main(args, net, loader):
              optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              if args.resume:
        -         load(optimizer)
        -     if args.fp16:
        -         net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
        +         load(optimizer, scaler)
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(net(x), y)
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(net(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        -     torch.save({"optimizer": optimizer.state_dict()}, "last.pt")
        +     torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
        """
    )


_DELETED = """\
- from apex import amp
-
  def main(args, net, loader):
      optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
+     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
      if args.weights.endswith(".pt"):
          state = torch.load(args.weights)
          net.load_state_dict(state["model"])
          if state["optimizer"] is not None:
              optimizer.load_state_dict(state["optimizer"])
+             if state.get("scaler"):
+                 scaler.load_state_dict(state["scaler"])
          del state
-     if args.fp16:
-         net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
      for x, y in loader:
          optimizer.zero_grad()
-         loss = nn.functional.mse_loss(net(x), y)
-         if args.fp16:
-             with amp.scale_loss(loss, optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
+             loss = nn.functional.mse_loss(net(x), y)
+         scaler.scale(loss).backward()
+         scaler.step(optimizer)
+         scaler.update()
      torch.save(
          {
              "model": net.state_dict(),
              "optimizer": None if args.is_last else optimizer.state_dict(),
+             "scaler": None if args.is_last else scaler.state_dict(),
          },
          "last.pt",
      )
"""


def test_scaler_is_made_before_a_checkpoint_is_read_that_is_deleted(rewrites: Check) -> None:
    rewrites(_DELETED)


def test_what_a_checkpoint_says_is_not_asked_before_it_is_read(migrate: Check) -> None:
    before = "".join(line[2:] for line in _DELETED.splitlines(keepends=True) if line[0] != "+")
    before = before.replace("        del state\n", '        args.fp16 = state["fp16"]\n        del state\n')
    plan = migrate(f"import torch\nfrom torch import nn\n{before}")
    assert plan.after.index("del state") < plan.after.index("GradScaler(")
    assert "scaler.load_state_dict" not in plan.after
    assert "AMP611" in {each.code for each in plan.findings}


def test_a_scaler_that_one_place_cannot_restore_is_made_before_a_call_that_can(migrate: Check) -> None:
    before = "".join(line[2:] for line in _DELETED.splitlines(keepends=True) if line[0] != "+")
    before = before.replace(
        "        del state\n", '        args.fp16 = state["fp16"]\n        del state\n    load(optimizer)\n'
    )
    loads = (
        'def load(optimizer):\n    state = torch.load("last.pt")\n    optimizer.load_state_dict(state["optimizer"])\n'
    )
    after = migrate(f"import torch\nfrom torch import nn\n{loads}{before}").after
    assert after.index("del state") < after.index("GradScaler(") < after.index("    load(optimizer, scaler)")
    assert after.count("scaler.load_state_dict(") == 1


@pytest.mark.parametrize(
    "changed",
    [
        'self.level = state["level"]',
        'self.__dict__.update(state["options"])',
        'setattr(self, *state["option"])',
    ],
)
def test_what_is_restored_may_say_whether_there_is_a_scale_so_that_none_is_restored(
    changed: str, migrate: Check
) -> None:
    before = f"""
    import torch
    from torch import nn
    from apex import amp

    class Runner:
        def __init__(self, net, level):
            self.level = level
            self.net = net.cuda()
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            self.load()
            self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level=self.level)

        def load(self):
            state = torch.load("last.pt")
            {changed}
            self.optimizer.load_state_dict(state["optimizer"])

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.net(x), y)
                with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                    scaled_loss.backward()
                self.optimizer.step()
            torch.save({{"optimizer": self.optimizer.state_dict()}}, "last.pt")
    """
    plan = migrate(before)
    assert plan.after.index("self.load()") < plan.after.index("GradScaler(") < plan.after.index("def load")
    assert 'load_state_dict(state["scaler' not in plan.after
    assert "AMP611" in {each.code for each in plan.findings}
