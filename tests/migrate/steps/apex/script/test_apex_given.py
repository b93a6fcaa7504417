"""Objects that are given their optimizer, and cannot say what `amp.initialize` asked for: they are given the scaler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TRAINER = """
~ APEX
  class Trainer:
-     def __init__(self, model, optimizer, fp16):
+     def __init__(self, model, optimizer, scaler, fp16):
          self.model = model
          self.optimizer = optimizer
+         self.scaler = scaler
          self.fp16 = fp16

{more}
      def train(self, loader):
          for x, y in loader:
-             loss = nn.functional.mse_loss(self.model(x), y)
-             if self.fp16:
-                 with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                     scaled_loss.backward()
-             else:
-                 loss.backward()
-             self.optimizer.step()
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+                 loss = nn.functional.mse_loss(self.model(x), y)
+             self.scaler.scale(loss).backward()
+             self.scaler.step(self.optimizer)
+             self.scaler.update()
              self.optimizer.zero_grad()

  def main(args, loader):
      MODEL
-     if args.level is not None:
-         model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
+     amp_enabled = args.level is not None and args.level != "O0"
+     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
"""
MAKE = """\
-     Trainer(model, optimizer, args.level is not None).train(loader)
+     Trainer(model, optimizer, scaler, args.level is not None).train(loader)
"""
OF = """\
      @classmethod
-     def of(cls, args, model, optimizer):
-         return cls(model, optimizer, args.level is not None)
+     def of(cls, args, model, optimizer, scaler):
+         return cls(model, optimizer, scaler, args.level is not None)

"""
MAKE_BY_CLASS_METHOD = """\
-     Trainer.of(args, model, optimizer).train(loader)
+     Trainer.of(args, model, optimizer, scaler).train(loader)
"""
AGAIN = """\
      def again(self):
-         return Trainer(self.model, self.optimizer, self.fp16)
+         return Trainer(self.model, self.optimizer, self.scaler, self.fp16)

"""

PLAIN = (
    MAKE
    + """\

  def plain(loader):
      MODEL
-     Trainer(model, optimizer, False).train(loader)
+     scaler = torch.amp.GradScaler("cuda", enabled=False)
+     Trainer(model, optimizer, scaler, False).train(loader)
"""
)
DERIVED = (
    MAKE
    + """\

  class Named(Trainer):
-     def __init__(self, model, optimizer, name):
-         super().__init__(model, optimizer, False)
+     def __init__(self, model, optimizer, scaler, name):
+         super().__init__(model, optimizer, scaler, False)
          self.name = name

  class Again(Named):
-     def __init__(self, model, optimizer):
-         Named.__init__(self, model, optimizer, "again")
+     def __init__(self, model, optimizer, scaler):
+         Named.__init__(self, model, optimizer, scaler, "again")

  class Plain(Trainer):
      pass

  def is_plain(trainer: Trainer) -> bool:
      return isinstance(trainer, Trainer) and not isinstance(trainer, Named)
"""
)
MADE_OF_DERIVED = """\
-     Plain(model, optimizer, args.level is not None).train(loader)
+     Plain(model, optimizer, scaler, args.level is not None).train(loader)

  class Plain(Trainer):
      pass
"""


@pytest.mark.parametrize(
    ("more", "make"),
    [("", MAKE), (OF, MAKE_BY_CLASS_METHOD), (AGAIN, MAKE), ("", PLAIN), ("", DERIVED), ("", MADE_OF_DERIVED)],
)
def test_who_initializes_makes_the_scaler_and_gives_it(rewrites: Check, more: str, make: str) -> None:
    rewrites(TRAINER.replace("{more}\n", more) + make)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("  class Other(Trainer, Log):\n      pass\n", id="derived from, beside another class"),
        pytest.param(
            "  class Other(Trainer):\n      def __new__(cls, *args):\n          return make(cls)\n", id="made anew"
        ),
        pytest.param("  def change(trainer, optimizer):\n      trainers = {'a': Trainer}\n", id="kept as a value"),
    ],
)
def test_an_object_that_not_everybody_can_give_it_keeps_the_script_on_the_shim(migrate: Check, more: str) -> None:
    lines = (TRAINER.replace("{more}\n", "") + MAKE + more).replace("~ APEX", "  from apex import amp\n").splitlines()
    plan = migrate("\n".join(line[2:] for line in lines if not line.startswith("+")) + "\n")
    assert "from amp_shim import amp\n" in plan.after
    assert any("cannot be said where the scaler would be made" in each.message for each in plan.findings)


def test_optimizer_in_a_dictionary_that_functions_get(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def epoch(config, loader):
        + def epoch(config, scaler, loader):
              model, optimizer = config["model"], config["optimizer"]
        ~     APEX_EPOCH
          def main(args, loader):
              config = {"args": args}
              MODEL
        ~     INITIALIZE
              config["model"], config["optimizer"] = model, optimizer
        -     epoch(config, loader)
        +     epoch(config, scaler, loader)
        """
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def main(args, loader):", "def main(args, loader, config):"),
        ("    model, optimizer = amp", "    prepare(config)\ndef prepare(config, model, optimizer):\n    _, _ = amp"),
    ],
)
def test_dictionary_that_comes_from_elsewhere(old: str, new: str, migrate: Check) -> None:
    text = """
from apex import amp
def epoch(config, loader):
    for x in loader:
        loss = config["model"](x).mean()
        with amp.scale_loss(loss, config["optimizer"]) as scaled_loss:
            scaled_loss.backward()
        config["optimizer"].step()
        config["optimizer"].zero_grad()
def main(args, loader):
    config = {"args": args}
    MODEL
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    config["model"], config["optimizer"] = model, optimizer
    epoch(config, loader)
"""
    assert "amp_shim" not in migrate(text).after
    assert old in text
    assert "from amp_shim import amp\n" in migrate(text.replace(old, new)).after


CENTER = """
    - from apex import amp
    -
      def train(args, model, loss_of, optimizer, other_optimizer, loader):
    -     if args.fp16:
    -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x, y in loader:
    -         loss = loss_of(model(x), y)
    -         if args.fp16:
    -             with amp.scale_loss(loss, optimizer) as scaled_loss:
    -                 scaled_loss.backward()
    -         else:
    -             loss.backward()
    -         optimizer.step()
    -         other_optimizer.step()
    +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
    +             loss = loss_of(model(x), y)
    +         scaler.scale(loss).backward()
    +         scaler.step(optimizer)
    +         scaler.step(other_optimizer)
    +         scaler.update()
              optimizer.zero_grad()
              other_optimizer.zero_grad()

      model, centers = nn.Linear(4, 2), nn.Linear(2, 2)
      first = torch.optim.SGD(model.parameters(), lr=0.1)
      second = torch.optim.SGD(centers.parameters(), lr=0.5)
      train(args, model, lambda out, y: nn.functional.mse_loss(centers(out), y), first, second, loader)
"""


def test_an_optimizer_that_is_given_beside_the_one_that_apex_prepares(rewrites: Check) -> None:
    plan = rewrites(CENTER)
    told = [(each.code, each.line) for each in plan.findings if "Apex never got this optimizer" in each.message]
    assert told == [("AMP210", 17)]


def test_optimizers_that_apex_is_given_together_are_told_of_nothing(migrate: Check) -> None:
    plan = migrate("""
        from apex import amp

        def train(model, optimizer, other_optimizer, loader):
            model, (optimizer, other_optimizer) = amp.initialize(model, (optimizer, other_optimizer))
            for x, y in loader:
                model.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                with amp.scale_loss(loss, (optimizer, other_optimizer)) as scaled_loss:
                    scaled_loss.backward()
                optimizer.step()
                other_optimizer.step()

        train(nn.Linear(2, 2), torch.optim.SGD(a, lr=0.1), torch.optim.SGD(b, lr=0.1), loader)
        """)
    assert "scaler.step(other_optimizer)" in plan.after
    assert not any("Apex never got" in each.message for each in plan.findings)


FITTER = """
  import torch
- from apex import amp

  class Fitter:
      def __init__(self, model, lr):
          self.model = model
          self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
+         self.scaler = torch.amp.GradScaler("cuda", enabled=False)

      def fit(self, loader):
          for x in loader:
              self.optimizer.zero_grad()
-             loss = self.model(x.cuda()).mean()
-             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                 scaled_loss.backward()
-             self.optimizer.step()
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+                 loss = self.model(x.cuda()).mean()
+             self.scaler.scale(loss).backward()
+             self.scaler.step(self.optimizer)
+             self.scaler.update()
"""


STARTING = """
  import torch
- from apex import amp
  from fitter import Fitter

  def main(args, loader):
      fitter = Fitter(torch.nn.Linear(8, 8).cuda(), args.lr)
-     if args.fp16:
-         fitter.model, PREPARED = amp.initialize(fitter.model, PREPARED, opt_level="O1")
+     fitter.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
      fitter.fit(loader)
"""


@pytest.mark.parametrize("prepared", ["fitter.optimizer", "[fitter.optimizer]"])
def test_who_initializes_what_an_object_has_gives_it_another_scaler(prepared: str, rewrites_files: Check) -> None:
    rewrites_files({"fitter.py": FITTER, "main.py": STARTING.replace("PREPARED", prepared)})


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("fitter = Fitter(", "fitter = make("),
        ("fitter.optimizer", "optimizer"),
    ],
)
def test_who_initializes_something_else_gives_an_object_no_scaler(was: str, now: str, tmp_path: Path) -> None:
    starting = STARTING.replace("PREPARED", "fitter.optimizer").replace(was, now)
    for name, diff in (("fitter", FITTER), ("main", starting)):
        lines = (line[2:] for line in diff.splitlines() if not line.startswith("+"))
        (tmp_path / f"{name}.py").write_text("\n".join(lines))
    outcome = migrate([tmp_path], Settings())
    assert [each for each in outcome.findings if each.code == "AMP290"]
