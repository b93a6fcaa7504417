"""`amp.initialize` in a helper of the script, and results of it that are not taken apart at once."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]


def test_condition_of_a_helper_is_said_in_the_words_of_its_caller(rewrites: Check) -> None:
    rewrites(
        """
          def prepare(model, optimizer, fp16, level="O1"):
        -     if fp16:
        -         from apex import amp
        -         model, optimizer = amp.initialize(model, optimizer, opt_level=level)
              return model, optimizer

          def main(args):
              MODEL
        +     amp_enabled = bool(args.fp16) and args.level != "O0"
        +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
              model, optimizer = prepare(model, optimizer, args.fp16, level=args.level)
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             from apex import amp
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
        """
    )


def test_a_helper_that_prepares_an_optimizer_where_it_is_given_one(rewrites: Check) -> None:
    rewrites(
        """
          def prepare(model, optimizer, fp16=False, level="O1"):
              model.cuda()
        -     if fp16:
        -         from apex import amp
        -         if optimizer is None:
        -             model = amp.initialize(model, opt_level=level)
        -         else:
        -             model, optimizer = amp.initialize(model, optimizer, opt_level=level)
              return model, optimizer

          def main(args):
              MODEL
        +     scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
              model, optimizer = prepare(model, optimizer, args.fp16, "O2")
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             from apex import amp
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.fp16):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
        """
    )


@pytest.mark.parametrize(
    ("given", "scaler"),
    [
        ("128.0", '"cuda", init_scale=128.0, growth_interval=2**31 - 1'),
        ('"dynamic"', '"cuda"'),
        ("None", '"cuda"'),
    ],
)
def test_a_helper_that_returns_what_initialize_returns(given: str, scaler: str, rewrites: Check) -> None:
    rewrites(
        f"""
        ~ APEX
          def prepare(model, lr, scale):
              optimizer = torch.optim.SGD(model.parameters(), lr)
        -     return amp.initialize(model, optimizer, opt_level="O1", loss_scale=scale)
        +     return model, optimizer

          def main(args):
              model, optimizer = prepare(nn.Linear(2, 2), 0.1, {given})
        +     scaler = torch.amp.GradScaler({scaler})
        ~     APEX_EPOCH
        """
    )


def test_a_pair_that_gets_a_name_first(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - both = amp.initialize(model, optimizer)
        + both = model, optimizer
        + scaler = torch.amp.GradScaler("cuda")
          model, optimizer = both
        ~ APEX_EPOCH
        """
    )


def test_a_result_is_a_pair_only_where_there_is_an_optimizer(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp

        def main(training):
            model, optimizer = nn.Linear(2, 2), None
            if training:
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            result = amp.initialize(model, optimizer)
            if training:
                model, optimizer = result
                APEX_EPOCH
        """
    )
    assert "    result = (model, optimizer) if optimizer is not None else model\n" in plan.after


@pytest.mark.parametrize(
    ("condition", "call"),
    [
        ("fp16 and ready", "prepare(model, optimizer, args.fp16)"),  # made in the helper
        ("fp16", "prepare(model, optimizer, *flags)"),
        ("fp16", "prepare(model, optimizer, ask())"),
    ],
)
def test_a_condition_that_the_caller_cannot_say(condition: str, call: str, migrate: Check) -> None:
    plan = migrate(
        f"""
        from apex import amp

        def prepare(model, optimizer, fp16):
            ready = check(model)
            if {condition}:
                model, optimizer = amp.initialize(model, optimizer)
            return model, optimizer

        def main(args):
            MODEL
            later = ask()
            model, optimizer = {call}
            APEX_EPOCH
        """
    )
    assert "from amp_shim import amp\n" in plan.after
    assert "what amp.initialize asks for cannot be said where the scaler would be made" in {
        finding.message.partition(": ")[2] for finding in plan.findings
    }


def test_a_condition_that_can_be_said_behind_the_optimizer_makes_the_scaler_there(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def prepare(model, optimizer, fp16):
        -     if fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
              return model, optimizer

          def main(args):
              MODEL
              later = ask()
              model, optimizer = prepare(model, optimizer, later)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(later))
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(later)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_a_helper_that_is_called_under_a_condition(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def prepare(model, optimizer, level):
        -     model, optimizer = amp.initialize(model, optimizer, opt_level=level)
              return model, optimizer

          def main(args):
              MODEL
        +     amp_enabled = bool(args.fp16) and args.level != "O0"
        +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
              if args.fp16:
                  model, optimizer = prepare(model, optimizer, args.level)
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
        """
    )


def test_a_helper_that_is_called_for_every_run_of_the_script(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        ~ MODEL
          def main():
        -     amp.initialize(model, optimizer)
        ~     APEX_EPOCH
          if __name__ == "__main__":
              main()
        """
    )


def test_a_method_that_initializes_what_its_object_has(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class T:
              def __init__(self, model, args):
                  self.args = args
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         amp_enabled = args.amp >= 0 and ("O%i" % self.args.amp) != "O0"
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
                  if args.amp >= 0:
                      self.prepare()
              def prepare(self):
                  args = self.args
        -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level=("O%i" % args.amp))
              def step(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         if self.args.amp >= 0:
        -             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_a_method_that_makes_the_optimizer_itself_has_the_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class T:
              def __init__(self, model, training):
                  self.model = model
                  if training:
                      self.prepare()
              def prepare(self):
                  optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        -         self.model, self.optimizer = amp.initialize(self.model, optimizer)
        +         self.optimizer = optimizer
        +         self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


@pytest.mark.parametrize(
    "calls",
    [
        "if fp16:\n    t.prepare()",
        "self_fp16 = True\nif self_fp16:\n    t.prepare()\nelse:\n    t.prepare()",
    ],
)
def test_a_method_that_somebody_calls_under_a_condition(calls: str, rewrites: Check) -> None:
    rewrites(
        f"""
        - from apex import amp
          class T:
              def __init__(self, model):
                  "Trains."
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=False)
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              def prepare(self):
        -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x):
        -         loss = self.model(x).mean()
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = self.model(x).mean()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
{indent(calls, " " * 10)}
        """
    )


LATE = """
from apex import amp
class T:
    def build(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def prepare(self):
        self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
    def step(self, x):
        loss = self.model(x).mean()
        with amp.scale_loss(loss, self.optimizer) as scaled_loss:
            scaled_loss.backward()
        self.optimizer.step()
if fp16:
    t.prepare()
"""


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.AUTO])
def test_a_method_that_somebody_calls_where_no_scaler_can_be_off_from_the_first(dtype: Dtype, migrate: Check) -> None:
    script = LATE if dtype is Dtype.FP16 else LATE.replace("build", "__init__")
    plan = migrate(script, dtype=dtype)
    reason = "when prepare() initializes Apex cannot be said where its object is made"
    reason = reason if dtype is Dtype.FP16 else "whether mixed precision is on cannot be asked here"
    assert reason in " ".join(finding.message for finding in plan.findings)
    assert "with amp.scale_loss(loss, self.optimizer)" in plan.after


def test_an_object_that_prepares_goes_backward_and_clips(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "manager.py": """
                  import torch
                - from apex import amp

                  class Manager:
                      def __init__(self, args):
                          self.args = args

                      def prepare(self, model, optimizer):
                          model = model.cuda()
                -         if self.args.fp16:
                -             model, optimizer = amp.initialize(model, optimizer, opt_level=self.args.level)
                          return model, optimizer

                -     def backward_loss(self, loss, optimizer):
                -         if self.args.fp16:
                -             with amp.scale_loss(loss, optimizer) as scaled_loss:
                -                 scaled_loss.backward()
                -         else:
                -             loss.backward()
                +     def backward_loss(self, loss, optimizer, scaler):
                +         scaler.scale(loss).backward()

                      def clip(self, model, optimizer):
                -         if self.args.fp16:
                -             torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
                -         else:
                -             torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                +         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                """,
            "train.py": """
                  import torch
                  from manager import Manager

                  def main(args, loader):
                      manager = Manager(args)
                      model = torch.nn.Linear(2, 2)
                      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                +     amp_enabled = bool(manager.args.fp16) and manager.args.level != "O0"
                +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
                      model, optimizer = manager.prepare(model, optimizer)
                      for x, y in loader:
                          optimizer.zero_grad()
                -         loss = torch.nn.functional.mse_loss(model(x), y)
                -         manager.backward_loss(loss, optimizer)
                -         manager.clip(model, optimizer)
                -         optimizer.step()
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
                +             loss = torch.nn.functional.mse_loss(model(x), y)
                +         manager.backward_loss(loss, optimizer, scaler)
                +         scaler.unscale_(optimizer)
                +         manager.clip(model, optimizer)
                +         scaler.step(optimizer)
                +         scaler.update()
                """,
        }
    )


BEHIND = """
import torch
from apex import amp

class Manager:
    def __init__(self, args):
        self.args = args

    def prepare(self, model, optimizer):
        if self.args.fp16:
            return amp.initialize(model, optimizer)
        return model, optimizer

def main(args, loader):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    manager = Manager(args)
    model, optimizer = manager.prepare(model, optimizer)
    for x in loader:
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
"""


def test_an_object_that_is_made_behind_the_optimizer(migrate: Check) -> None:
    made = 'scaler = torch.amp.GradScaler("cuda", enabled=bool(manager.args.fp16))'
    assert f"manager.prepare(model, optimizer)\n    {made}\n" in migrate(BEHIND).after


RUNNER = """
  def prepare(model, fp16):
      optimizer = torch.optim.SGD(model.parameters(), 0.1)
-     if fp16:
-         from apex import amp
-         model, optimizer = amp.initialize(model, optimizer)
      return optimizer

  class Runner:
-     def __init__(self, model, optimizer, fp16):
+     def __init__(self, model, optimizer, scaler, fp16):
          self.model = model
          self.optimizer = optimizer
+         self.scaler = scaler
          self.fp16 = fp16

      def train(self, loader):
          for x in loader:
-             loss = self.model(x).mean()
-             if self.fp16:
-                 from apex import amp
-                 with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                     scaled_loss.backward()
-             else:
-                 loss.backward()
-             self.optimizer.step()
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+                 loss = self.model(x).mean()
+             self.scaler.scale(loss).backward()
+             self.scaler.step(self.optimizer)
+             self.scaler.update()

  def main(args, model, loader):
+     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
      if args.do_train:
          optimizer = prepare(model, args.fp16)
      else:
          optimizer = None
-     runner = Runner(model, optimizer, args.fp16)
+     runner = Runner(model, optimizer, scaler, args.fp16)
      if args.do_train:
          runner.train(loader)
"""


def test_a_helper_that_makes_the_optimizer_where_there_is_training(rewrites: Check) -> None:
    rewrites(RUNNER)


@pytest.mark.parametrize(
    ("parameters", "arguments", "enabled", "outcome"),
    [
        ("args, model, loader", "args, model, loader", "args.fp16", "on where the others are"),
        ("fast, model, loader", "args.fp16, model, loader", "False", "off"),
    ],
)
def test_step_that_an_optimizer_goes_through_which_apex_never_prepares(
    rewrites: Check, parameters: str, arguments: str, enabled: str, outcome: str
) -> None:
    flag = parameters.partition(",")[0]
    region = "scaler.is_enabled()" if enabled == "False" else "args.fp16"
    plan = rewrites(
        f"""
        ~ APEX
        - def backward(loss, optimizer, fp16):
        + def backward(loss, optimizer, scaler, fp16):
              optimizer.zero_grad()
        -     if fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        -     optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()

          def finetune({parameters}):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +     scaler = torch.amp.GradScaler("cuda", enabled={enabled})
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         backward(loss, optimizer, {flag})
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled={region}):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         backward(loss, optimizer, scaler, {flag})

          def train(args, model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         backward(loss, optimizer, args.fp16)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         backward(loss, optimizer, scaler, args.fp16)

          def main(args):
              train(args, model, loader)
              finetune({arguments})
        """.replace("enabled=args.fp16", "enabled=bool(args.fp16)")
    )
    assert any(each.message.endswith(f"its scaler is {outcome}") for each in plan.findings)


def test_helper_that_steps_by_itself_and_hands_its_optimizer_back(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def prepare(args, model, x, y):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -     optimizer.step()
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
              return model, optimizer

          def train(args, model, x, y):
              model, optimizer = prepare(args, model, x, y)
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -     optimizer.step()
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


DERIVED = """\
import sys

import torch
from apex import amp


class Plain:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def backward(self, loss):
        loss.backward()

    def step(self, x, y):
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.optimizer.zero_grad()
        self.backward(loss)
        self.optimizer.step()


class Mixed(Plain):
    def __init__(self, net):
        super().__init__(net)
        self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")

    def backward(self, loss):
        with amp.scale_loss(loss, self.optimizer) as scaled:
            scaled.backward()

{more}
trainer = {made}
for x, y in torch.load("batches.pt"):
    trainer.step(x.cuda(), y.cuda())
"""


@pytest.mark.parametrize(
    ("made", "more", "is_native"),
    [
        ("Mixed(torch.nn.Linear(4, 2).cuda())", "", True),
        ("(Mixed if sys.argv[1:] else Plain)(torch.nn.Linear(4, 2).cuda())", "", False),
        ("Mixed(torch.nn.Linear(4, 2).cuda())", "other = Plain(torch.nn.Linear(4, 2).cuda())", False),
        (
            "Mixed(torch.nn.Linear(4, 2).cuda())",
            "\nclass Other(Plain):\n    def __init__(self, net):\n        super().__init__(net)\n",
            False,
        ),
    ],
)
def test_a_base_class_may_train_in_float32_beside_what_a_derived_one_initializes(
    made: str, more: str, is_native: bool
) -> None:
    """The scaler of the one would be made in the constructor of both."""
    after = migrate_text(DERIVED.format(made=made, more=more), Settings()).after
    assert ("self.scaler = torch.amp.GradScaler" in after) is is_native
    assert ("from amp_shim import amp" in after) is not is_native
