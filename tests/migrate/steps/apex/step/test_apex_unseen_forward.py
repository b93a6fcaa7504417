"""Apex steps whose forward is in code that cannot be seen: Apex had it in mixed precision wherever it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_function_that_a_loop_is_given_computes_the_loss(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def main(loader, compute):
              MODEL
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
              for batch in loader:
                  optimizer.zero_grad()
        ~         loss = compute(batch)
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         optimizer.step()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


def test_object_of_a_class_out_of_sight_runs_the_forward_before_it_gives_the_loss(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          from elsewhere import Learner
          def main(x, y):
              MODEL
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
              learner = Learner(model)
              optimizer.zero_grad()
        -     learner(x, accumulate=True)
        -     learner(y, accumulate=True)
        -     loss = learner.calculate_loss()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         learner(x, accumulate=True)
        +         learner(y, accumulate=True)
        +         loss = learner.calculate_loss()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_object_that_is_given_computes_a_loss_for_another_function_that_goes_backward(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
              def __init__(self, task, model):
                  self.task = task
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         model, self.optimizer = amp.initialize(model, self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda")
              def backward(self, loss):
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        +         self.scaler.scale(loss).backward()
              def train(self, loader):
                  for batch in loader:
                      self.optimizer.zero_grad()
        ~             result = self.task.compute(*batch)
                      self.backward(result["loss"])
        -             self.optimizer.step()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
        """
    )


def test_model_out_of_a_dictionary_that_is_given(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Base:
              def __init__(self, models, optimizer):
                  self.models, self.optimizer = models, optimizer
        -         self.models["all"], self.optimizer = amp.initialize(self.models["all"], self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda")
              def learn(self, loss):
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
                  self.optimizer.zero_grad()
          class Mine(Base):
              def run(self, loader):
                  for x, y in loader:
        ~             out = self.models["all"](x)
                      self.learn((out - y).square().mean())
        """
    )


TRAINER = """
from apex import amp
class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
    def forward(self, x, y):
        self.losses = {"all": nn.functional.mse_loss(self.model(x), y)}
    def backward(self, loss):
        with amp.scale_loss(loss, self.optimizer) as scaled_loss:
            scaled_loss.backward()
    def optimize(self):
        self.optimizer.zero_grad()
        self.backward(self.losses["all"])
        self.optimizer.step()
def main(loader):
    trainer = Trainer()
    for x, y in loader:
        BEFORE
        trainer.optimize()
"""


def test_object_that_keeps_the_loss_runs_the_forward_before_it_goes_backward(migrate: Check) -> None:
    plan = migrate(TRAINER.replace("BEFORE", "trainer.forward(x, y)"))
    region = 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):'
    assert f"        {region}\n            trainer.forward(x, y)\n        trainer.optimize()\n" in plan.after
    assert "        self.scaler.step(self.optimizer)\n        self.scaler.update()\n" in plan.after
    assert "amp_shim" not in plan.after


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("other.forward(x, y)", "trainer.optimize()"),
        ("with torch.no_grad(): trainer.forward(x, y)", "trainer.optimize()"),
        ("trainer.forward(x, y)", "trainer.optimize(x)"),  # a loss that is given is no other
    ],
)
def test_forward_that_brings_no_loss_is_none_of_the_step(before: str, call: str, migrate: Check) -> None:
    text = TRAINER.replace("BEFORE", before).replace("trainer.optimize()", call)
    if call != "trainer.optimize()":
        text = text.replace("optimize(self)", "optimize(self, loss)").replace('self.losses["all"])', "loss)")
    plan = migrate(text.replace("trainer = Trainer()", "trainer = Trainer()\n    other = Trainer()"))
    assert "from amp_shim import amp\n" in plan.after
    assert any("the forward pass behind" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "computed",
    [
        "for loss in given:\n            loss = reduced(loss)",
        "for x in loader:\n            loss = given[0].mean()",
        "for x in loader:\n            loss = given[len(x)].mean() / math.isqrt(len(x))",
        "for x in loader:\n            with torch.no_grad():\n                t = seen(x)\n            loss = t",
        "if True:\n            loss = compute(given)",
    ],
)
def test_loss_that_may_have_its_gradient_from_elsewhere_stays_on_the_shim(computed: str, migrate: Check) -> None:
    plan = migrate(
        f"""
    import math
    from apex import amp
    from elsewhere import compute, reduced, seen
    def main(loader, given):
        MODEL
        model, optimizer = amp.initialize(model, optimizer)
        {computed}
            optimizer.zero_grad()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
    """
    )
    assert "from amp_shim import amp\n" in plan.after
    assert any("the forward pass behind `loss` " in each.message for each in plan.findings)


@pytest.mark.parametrize(
    ("head", "loss", "unseen"),
    [
        (
            "class Hook:\n    def after(self, runner):",
            'runner.outputs["loss"]',
            "no call that runs this after() is among the files that were given: ",
        ),
        (
            "class Scaler:\n    def __call__(self, loss, optimizer):",
            "loss",
            "not every call of __call__() can be seen: ",
        ),
        ("if True:\n    def go_back(loss):", "loss", "not every call of go_back() can be seen: "),
        ("if True:\n    def train(loader):", "compute().mean()", ""),
    ],
)
def test_what_is_left_says_whose_callers_cannot_be_seen(head: str, loss: str, unseen: str, migrate: Check) -> None:
    plan = migrate(
        f"""
from apex import amp
from elsewhere import compute, register
MODEL
model, optimizer = amp.initialize(model, optimizer)
{head}
        with amp.scale_loss({loss}, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
register(go_back)
"""
    )
    (told,) = (each for each in plan.findings if "the forward pass behind" in each.message)
    assert told.hint.startswith(f"{unseen}put forward and loss into")


def test_losses_of_several_models_one_after_the_other(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          a, b = nn.Linear(2, 2), nn.Linear(2, 2)
          optimizers = [torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)]
        - (a, b), optimizers = amp.initialize([a, b], optimizers, num_losses=2)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     losses = [model(x).mean() for model in (a, b)]
              for i, (loss, optimizer) in enumerate(zip(losses, optimizers)):
                  optimizer.zero_grad()
        -         with amp.scale_loss(loss, optimizer, loss_id=i) as scaled_loss:
        -             scaled_loss.backward()
        -     for optimizer in optimizers:
        -         optimizer.step()
        +         scaler.scale(loss).backward()
        +     for optimizer in optimizers:
        +         scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_a_forward_in_the_context_itself_is_looked_for_nowhere_else(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(3, 1).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer)
        + scaler = torch.amp.GradScaler("cuda")
          if start:
              state = torch.load(start)
              model.load_state_dict(state)
          for x, y in loader:
              optimizer.zero_grad()
        -     with amp.scale_loss((model(x) - y).square().mean(), optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = (model(x) - y).square().mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )
