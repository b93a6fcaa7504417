"""Apex scripts none of whose losses is scaled: Apex casts in all of the process, as regions without a scaler do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

UNDERFLOW = "nothing scales this loss, as nothing did with Apex: small gradients become zero in float16"


def test_the_step_moves_without_a_scaler_and_that_is_said(rewrites: Check) -> None:
    plan = rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1", loss_scale=128.0)
          for x, y in loader:
              optimizer.zero_grad()
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
              loss.backward()
              nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              optimizer.step()
        """
    )
    assert [each.message for each in plan.findings if each.code == "AMP210"] == [UNDERFLOW]


def test_its_switch_is_that_of_the_regions_and_it_has_no_state(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - if args.fp16:
        -     from apex import amp
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          for x, y in loader:
              optimizer.zero_grad()
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
              loss.backward()
              optimizer.step()
          with torch.no_grad():
        -     print(model(x))
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         print(model(x))
        """
    )


def test_a_function_that_goes_backward_for_its_own_tensor_has_its_region(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def attack(model, x, y):
              delta = torch.zeros_like(x, requires_grad=True)
        -     loss = nn.functional.mse_loss(model(x + delta), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x + delta), y)
              loss.backward()
              return 0.1 * delta.grad
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          for x, y in loader:
              delta = attack(model, x, y)
              optimizer.zero_grad()
        -     loss = nn.functional.mse_loss(model(x + delta), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x + delta), y)
              loss.backward()
              optimizer.step()
        """
    )


@pytest.mark.parametrize("level", ['"O2"', "args.level", '"O3"'])
def test_weights_that_apex_makes_float16_are_trained_by_the_scaled_loss_alone(migrate: Check, level: str) -> None:
    plan = migrate(
        f"""
        from apex import amp

        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level={level})
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        """
    )
    told = [each.message for each in plan.findings if each.code == "AMP290"]
    assert ["no step that scales its loss" in each for each in told] == [True]


def test_a_step_in_a_file_that_knows_no_apex_keeps_the_script_on_the_shim(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "steps.py": """
              import torch

              def step(model, optimizer, x, y):
                  optimizer.zero_grad()
                  torch.nn.functional.mse_loss(model(x), y).backward()
                  optimizer.step()
            """,
            "main.py": """
              import torch
            ~ from apex import amp
              from steps import step

              model = torch.nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
              for x, y in loader:
                  step(model, optimizer, x, y)
            """.replace("~ from apex import amp", "- from apex import amp\n            + from amp_shim import amp"),
        }
    )
    assert "no step that scales its loss" in next(each.message for each in findings if each.code == "AMP290")


def test_a_loss_of_its_own_where_apex_is_not_asked_for_keeps_the_script_on_the_shim(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp

        def attack(model, x, y):
            delta = torch.zeros_like(x, requires_grad=True)
            nn.functional.mse_loss(model(x + delta), y).backward()
            return 0.1 * delta.grad

        def mixed(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()

        def main(args, loader):
            model = nn.Linear(2, 2).cuda()
            if args.fp16:
                mixed(model, loader)
            else:
                print(attack(model, *next(loader)))
        """
    )
    assert "autocast" not in plan.after


TRAINER = """
class Trainer:
    def __init__(self, settings):
        KEEP
        self.model = nn.Linear(2, 2).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if settings["use_amp"]:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")

    def fit(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            loss = self.model(x.cuda()).mean()
            loss.backward()
            self.optimizer.step()

Trainer({"use_amp": True}).fit(loader)
"""


@pytest.mark.parametrize(
    ("keep", "is_native"),
    [
        ("self.settings = settings", True),
        ("self.settings = dict(settings)", False),
        ("settings = settings or {}; self.settings = settings", False),
    ],
)
def test_a_method_asks_what_init_was_given_by_the_attribute_that_keeps_it(
    keep: str, is_native: bool, migrate: Check
) -> None:
    head = "import torch\nfrom torch import nn\nfrom apex import amp\n"
    after = migrate(TRAINER.replace("KEEP", keep), head=head).after
    assert ('enabled=bool(self.settings["use_amp"])' in after) is is_native
    assert ("amp_shim" in after) is not is_native


SEVERAL = """
class Trainer:
    def __init__(self, settings, loader):
        self.settings, self.loader = settings, loader
        self.model = settings["model"](8, 4).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")

    def train(self):
        self.model.train()
        for x in self.loader:
            self.optimizer.zero_grad()
            loss = self.model(x.cuda()).mean()
            loss.backward()
            self.optimizer.step()

class Other:
    def train(self):
        pass

Trainer({"model": nn.Linear}, loader).train()
"""


@pytest.mark.parametrize(
    ("has", "is_native"), [("", True), ("\n    def parameters(self):\n        return []\n", False)]
)
def test_what_is_asked_for_parameters_is_no_object_of_a_class_without(
    has: str, is_native: bool, migrate: Check
) -> None:
    head = "import torch\nfrom torch import nn\nfrom apex import amp\n"
    text = SEVERAL.replace("\nclass Other:", f"{has}\nclass Other:")
    after = migrate(text, head=head).after
    assert ("torch.amp.autocast(" in after) is is_native
    assert ("amp_shim" in after) is not is_native
