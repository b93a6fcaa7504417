"""Apex steps whose forward, `scale_loss` and `step()` stand in different functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_method_that_is_given_the_loss_goes_backward_and_steps(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class T:
              def __init__(self, model, args):
                  self.args = args
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         if args.fp16:
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              def optimize(self, loss):
                  self.optimizer.zero_grad()
        -         if self.args.fp16:
        -             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
              def step(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
                  self.optimize(loss)
          class Other(T):
              def step_twice(self, x):
        -         loss = self.model(self.model(x)).mean()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = self.model(self.model(x)).mean()
                  self.optimize(loss)
        """
    )


def test_function_that_goes_backward_and_clips_before_its_caller_steps(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def backward_step(optimizer, model, loss, args):
        + def backward_step(optimizer, model, loss, args, scaler):
              optimizer.zero_grad()
        -     if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.clip)
        -     else:
        -         loss.backward()
        -         nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
        +     nn.utils.clip_grad_norm_(model.parameters(), args.clip)

          def main(args):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         backward_step(optimizer, model, loss, args)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         backward_step(optimizer, model, loss, args, scaler)
        ~         optimizer.step()
        """
    )


@pytest.mark.parametrize(
    ("step", "clip"),
    [
        ("self.step()", "nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"),
        (
            "if i % 4 == 3: self.step()",
            "nn.utils.clip_grad_norm_(self.model.parameters(), 1.0 * self.scaler.get_scale())",
        ),
    ],
)
def test_method_that_goes_backward_and_clips_beside_one_that_steps(step: str, clip: str, migrate: Check) -> None:
    plan = migrate(
        f"""
        from apex import amp

        class Trainer:
            def __init__(self, model):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.model, self.optimizer = amp.initialize(model, optimizer, opt_level="O1")
            def backward(self, loss):
                with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                    scaled_loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            def step(self):
                self.optimizer.step()
                self.optimizer.zero_grad()
            def fit(self, loader):
                for i, (x, y) in enumerate(loader):
                    loss = nn.functional.mse_loss(self.model(x), y)
                    self.backward(loss)
                    {step}
        """
    )
    assert clip in plan.after, plan.findings
    assert ("self.scaler.unscale_(self.optimizer)" in plan.after) == (step == "self.step()")


def test_function_that_is_given_the_loss_only_goes_backward(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def backward(loss, optimizer, fp16):
        -     if fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        + def backward(loss, optimizer, fp16, scaler):
        +     scaler.scale(loss).backward()

          def main(args):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        -         backward(loss, optimizer, args.fp16)
        -         nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         backward(loss, optimizer, args.fp16, scaler)
        +         scaler.unscale_(optimizer)
        +         nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ~         optimizer.step()
        """
    )


def test_function_that_hands_the_rest_of_its_arguments_on(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def backward(loss, optimizer, **kwargs):
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward(**kwargs)
        + def backward(loss, optimizer, scaler, **kwargs):
        +     scaler.scale(loss).backward(**kwargs)

          def main():
              MODEL
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        -         backward(loss, optimizer, retain_graph=True)
        +         backward(loss, optimizer, retain_graph=True, scaler=scaler)
        ~         optimizer.step()
        """
    )


def test_gan_whose_methods_go_backward_for_the_one_that_steps(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Gan:
              def __init__(self, opt):
                  self.opt = opt
                  self.g = nn.Linear(2, 2)
                  self.d = nn.Linear(2, 1)
                  self.criterion = nn.BCEWithLogitsLoss()
                  self.optimizer_g = torch.optim.Adam(self.g.parameters())
                  self.optimizer_d = torch.optim.Adam(self.d.parameters())
        -         if opt.amp:
        -             [self.g, self.d], [self.optimizer_g, self.optimizer_d] = amp.initialize(
        -                 [self.g, self.d], [self.optimizer_g, self.optimizer_d], num_losses=2
        -             )
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(opt.amp))
              def forward(self, z):
                  self.fake = self.g(z)
              def backward_d(self, real):
        -         loss = self.criterion(self.d(real), real) + self.criterion(self.d(self.fake.detach()), real)
        -         if self.opt.amp:
        -             with amp.scale_loss(loss, self.optimizer_d, loss_id=0) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = self.criterion(self.d(real), real) + self.criterion(self.d(self.fake.detach()), real)
        +         self.scaler.scale(loss).backward()
              def backward_g(self, real):
        -         self.loss_g = self.criterion(self.d(self.fake), real)
        -         if self.opt.amp:
        -             with amp.scale_loss(self.loss_g, self.optimizer_g, loss_id=1) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             self.loss_g.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             self.loss_g = self.criterion(self.d(self.fake), real)
        +         self.scaler.scale(self.loss_g).backward()
              def optimize(self, z, real):
        -         self.forward(z)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             self.forward(z)
                  self.optimizer_d.zero_grad()
                  self.backward_d(real)
        -         self.optimizer_d.step()
        +         self.scaler.step(self.optimizer_d)
                  self.optimizer_g.zero_grad()
                  self.backward_g(real)
        -         self.optimizer_g.step()
        +         self.scaler.step(self.optimizer_g)
        +         self.scaler.update()
        """
    )


def test_branches_that_differ_both_stay(rewrites: Check) -> None:
    rewrites(
        """
        - import apex
        -
          class T:
              def __init__(self, model, optimizers, args):
                  self.args = args
                  self.model = model
                  self.optimizers = dict(optimizers)
        +         amp_enabled = args.amp >= 0
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
                  if args.amp >= 0:
                      self.prepare()
              def prepare(self):
                  names = self.optimizers.keys()
        -         self.model, optimizers = apex.amp.initialize(self.model, [self.optimizers[k] for k in names])
        +         optimizers = [self.optimizers[k] for k in names]
                  self.optimizers = dict(zip(names, optimizers))
              def optimize(self, loss):
                  optimizers = [self.optimizers[k] for k in self.optimizers]
                  if self.args.amp == -1:
                      for optimizer in optimizers:
                          optimizer.zero_grad()
        -             loss.backward()
        -             for optimizer in optimizers:
        -                 optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             for optimizer in optimizers:
        +                 self.scaler.step(optimizer)
        +             self.scaler.update()
                  elif self.n % self.args.accumulate == 0:
        -             with apex.amp.scale_loss(loss, optimizers) as scaled_loss:
        -                 scaled_loss.backward()
        -             for optimizer in optimizers:
        -                 optimizer.step()
        -                 optimizer.zero_grad()
        +             self.scaler.scale(loss).backward()
        +             for optimizer in optimizers:
        +                 self.scaler.step(optimizer)
        +                 optimizer.zero_grad()
        +             self.scaler.update()
                  else:
        -             with apex.amp.scale_loss(loss, optimizers, delay_unscale=True) as scaled_loss:
        -                 scaled_loss.backward()
        +             self.scaler.scale(loss).backward()
              def step(self, x):
        -         loss = self.model(x).mean()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = self.model(x).mean()
                  self.optimize(loss)
        """
    )


def test_method_runs_all_but_the_step(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
              def __init__(self, model, args):
                  self.model = model
                  self.args = args
              def train(self, loader):
                  model = self.model
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         if self.args.fp16:
        -             model, optimizer = amp.initialize(model, optimizer)
        +         scaler = torch.amp.GradScaler("cuda", enabled=bool(self.args.fp16))
                  if self.args.many:
                      model = nn.DataParallel(model)
                  total = 0.0
                  for step, x in enumerate(loader):
        -             total += self.backward(model, x, optimizer)
        +             total += self.backward(model, x, optimizer, scaler)
                      if step % 2:
        -                 if self.args.fp16:
        -                     nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        -                 else:
        -                     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        +                 scaler.unscale_(optimizer)
        +                 nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ~                 optimizer.step()
                          model.zero_grad()
        -     def backward(self, model, x, optimizer):
        -         loss = model(x).mean()
        -         if self.args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +     def backward(self, model, x, optimizer, scaler):
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(self.args.fp16)):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
                  return loss.item()
        """
    )


def test_function_that_scales_one_loss_and_hands_on_another(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def backward(loss, optimizer):
        ~     SCALE_LOSS

          MODEL
        - model, optimizer = amp.initialize(model, optimizer)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = model(x).mean()
        ~     SCALE_LOSS
        ~     other = model(y).mean()
              backward(other, optimizer)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_parts_in_several_files(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
              import torch
            - from apex import amp

            - def go_backward(loss, optimizer):
            -     with amp.scale_loss(loss, optimizer) as scaled_loss:
            -         scaled_loss.backward()
            + def go_backward(loss, optimizer, scaler):
            +     scaler.scale(loss).backward()
            ~     optimizer.step()
            """,
            "loop.py": """
              import torch
              from engine import go_backward

            - def train(model, optimizer, loader):
            + def train(model, optimizer, scaler, loader):
                  for x in loader:
                      optimizer.zero_grad()
            ~         loss = model(x).mean()
            -         go_backward(loss, optimizer)
            +         go_backward(loss, optimizer, scaler)
            """,
            "main.py": """
              import torch
              from torch import nn
            - from apex import amp
              from loop import train

              MODEL
            - model, optimizer = amp.initialize(model, optimizer)
            - train(model, optimizer, loader)
            + scaler = torch.amp.GradScaler("cuda")
            + train(model, optimizer, scaler, loader)
            """,
        }
    )


def test_parts_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def backward(loss, optimizer):
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     loss.backward()

          MODEL
        - model, optimizer = amp.initialize(model, optimizer)
          for x in loader:
        ~     loss = model(x).mean()
              backward(loss, optimizer)
              optimizer.step()
              optimizer.zero_grad()
        """,
        dtype="bf16",
    )


def test_caller_that_goes_backward_by_itself_too(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def backward(loss, optimizer):
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        + def backward(loss, optimizer, scaler):
        +     scaler.scale(loss).backward()

          def main(loader, model):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
              for x in loader:
        -         loss = model(x).mean()
        -         backward(loss, optimizer)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = model(x).mean()
        +         backward(loss, optimizer, scaler)
                  penalty = sum(p.pow(2).sum() for p in model.parameters())
        -         penalty.backward()
        -         optimizer.step()
        +         scaler.scale(penalty).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
                  model.zero_grad()
        """
    )


_HELPER = """
from apex import amp
def backward(loss, optimizer):
    SCALE_LOSS
def main(loader):
    MODEL
    model, optimizer = amp.initialize(model, optimizer)
    for x in loader:
        loss = model(x).mean()
"""


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (
            "done = [backward(loss, optimizer)]\noptimizer.step()",
            "backward(loss, optimizer), which goes backward, is part of a longer expression",
        ),
        (
            "scaler.scale(loss)\nbackward(loss, optimizer)\noptimizer.step()",
            "Apex and native AMP stand side by side in one step",
        ),
        ("backward(loss, optimizer)\nstep(optimizer.step)", "the forward pass behind `loss` is not in this function"),
    ],
)
def test_parts_that_do_not_fit_together_stay_on_the_shim(rest: str, reason: str, migrate: Check) -> None:
    plan = migrate(_HELPER + "".join(f"        {line}\n" for line in rest.splitlines()))
    assert "from amp_shim import amp\n" in plan.after
    assert reason in {finding.message.partition(": ")[2] for finding in plan.findings}


@pytest.mark.parametrize("given", ["**options", "scaler=1.0"])
def test_function_whose_other_arguments_may_be_a_scaler_stays_on_the_shim(given: str, migrate: Check) -> None:
    head = _HELPER.replace("optimizer):", "optimizer, **options):", 1).replace("(loader)", "(loader, options)")
    plan = migrate(f"{head}        backward(loss, optimizer, {given})\n        optimizer.step()\n")
    assert "from amp_shim import amp\n" in plan.after
    assert any("backward() cannot take one more argument" in finding.message for finding in plan.findings)


def test_function_that_clips_under_the_scale_for_a_caller_that_steps(rewrites: Check) -> None:
    plan = rewrites(
        """
        ~ APEX
        - def train_step(model, optimizer, x, y):
        + def train_step(model, optimizer, x, y, scaler):
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -         nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              return loss.item()

          def main(model):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
              for x, y in loader:
                  optimizer.zero_grad()
        -         train_step(model, optimizer, x, y)
        -         optimizer.step()
        +         train_step(model, optimizer, x, y, scaler)
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )
    assert [each.line for each in plan.findings if each.code == "AMP504"] == [10]


def test_method_that_is_to_be_filled_in_goes_nowhere(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Engine:
              def __init__(self, model):
                  self.models, self.optimizers = {}, {}
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         self.models["all"], self.optimizers["all"] = amp.initialize(model, optimizer, opt_level="O1")
        +         self.models["all"] = model
        +         self.optimizers["all"] = optimizer
        +         self.scaler = torch.amp.GradScaler("cuda")
              def forward(self, x):
                  raise NotImplementedError
              def backward(self, losses):
                  \"\"\"What a subclass does with its losses.\"\"\"
                  raise NotImplementedError
        -     def update(self, loss, optimizer):
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         optimizer.step()
        +     def update(self, loss, optimizer, scaler):
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()
              def run(self, x, y):
        -         out = self.forward(x)
        -         loss = nn.functional.mse_loss(out, y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = self.forward(x)
        +             loss = nn.functional.mse_loss(out, y)
                  self.backward({"all": loss})
          class Mine(Engine):
              def forward(self, x):
                  return self.models["all"](x)
              def backward(self, losses):
        -         self.update(losses["all"], self.optimizers["all"])
        +         self.update(losses["all"], self.optimizers["all"], self.scaler)
          def main(loader):
              engine = Mine(nn.Linear(2, 2))
              for x, y in loader:
                  engine.run(x, y)
        """
    )


def test_function_that_goes_backward_as_it_is_told(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def run(model, optimizer, x, training=True):
        + def run(model, optimizer, x, training=True, scaler=None):
              with torch.set_grad_enabled(training):
        ~         loss = model(x).mean()
              if not training:
                  return loss
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss).backward()
              return loss
          def main(loader):
              MODEL
        ~     INITIALIZE
              for x in loader:
        -         loss = run(model, optimizer, x)
        +         loss = run(model, optimizer, x, scaler=scaler)
        ~         optimizer.step()
                  optimizer.zero_grad()
              with torch.no_grad():
                  run(model, optimizer, x, training=False)
        """
    )


@pytest.mark.parametrize("name", ["update", "optimize"])
def test_a_method_that_steps_is_known_by_what_it_does_and_not_by_its_name(name: str, rewrites: Check) -> None:
    rewrites(f"""
    - from apex import amp
    -
      class Agent:
          def __init__(self, args):
              self.args = args
              self.net = nn.Linear(2, 2)
              self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    -         self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")
    +         self.scaler = torch.amp.GradScaler("cuda")

          def accumulate(self, x):
    -         loss = self.net(x).mean()
    -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
    -             scaled_loss.backward()
    +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
    +             loss = self.net(x).mean()
    +         self.scaler.scale(loss).backward()

          def {name}(self):
    -         nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
    -         self.optimizer.step()
    +         self.scaler.unscale_(self.optimizer)
    +         nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
    +         self.scaler.step(self.optimizer)
              self.optimizer.zero_grad()

          def fit(self, loader):
              for i, x in enumerate(loader):
                  self.accumulate(x)
                  if (i + 1) % 4 == 0:
                      self.{name}()
    +                 self.scaler.update()

      Agent(args).fit(loader)
    """)


CLIPS_BESIDE = """
~ APEX
  def main(args):
      model = nn.Linear(8, 2).cuda()
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
+     scaler = torch.amp.GradScaler("cuda")
      def train(step, x, y):
~         loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
-         with amp.scale_loss(loss, optimizer) as scaled_loss:
-             scaled_loss.backward()
+         scaler.scale(loss).backward()
          clip(1.0)
          if step % 4 == 0:
-             optimizer.step()
+             scaler.step(optimizer)
+             scaler.update()
              optimizer.zero_grad()
      def clip(limit):
-         nn.utils.clip_grad_norm_(amp.master_params(optimizer), limit)
+         nn.utils.clip_grad_norm_(model.parameters(), limit * scaler.get_scale())
      for step in range(100):
          train(step, torch.randn(4, 8), torch.randn(4, 2))
"""


def test_function_beside_the_step_clips_what_stays_scaled_to_a_scaled_limit(rewrites: Check) -> None:
    rewrites(CLIPS_BESIDE)


@pytest.mark.parametrize(
    "changes",
    [
        {"for step in range(100):\n": "for step in range(100):\n        clip(2.0)\n"},
        {"clip(1.0)": "clip(1.0, optimizer)", "clip(limit)": "clip(limit, optimizer)"},
    ],
    ids=["called elsewhere", "given its optimizer"],
)
def test_function_beside_the_step_that_may_clip_something_else(changes: dict[str, str], migrate: Check) -> None:
    before = "\n".join(each[2:] for each in CLIPS_BESIDE.splitlines() if not each.startswith("+"))
    for old, new in changes.items():
        assert old in before
        before = before.replace(old, new)
    plan = migrate(before)
    assert "from amp_shim import amp\n" in plan.after
    assert any("gradients are read where the optimizer does not always step" in each.message for each in plan.findings)
