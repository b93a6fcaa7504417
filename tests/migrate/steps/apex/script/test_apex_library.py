"""What a library's own trainer gives to the classes that derive from it, be it for Apex or for native AMP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TRAINER = """
from apex import amp
from elsewhere import Trainer

class Own(Trainer):
    {made}
    def training_step(self, model, inputs):
        loss = self.loss_of(model, inputs)
        {native}
            with amp.scale_loss(loss, self.optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        {rest}
"""
BESIDE = "if self.natively:\n            self.scaler.scale(loss).backward()\n        elif self.with_apex:"


@pytest.mark.parametrize("native", [BESIDE, "if self.with_apex:"])
def test_a_step_for_an_optimizer_that_a_library_prepares_for_apex_is_left(leaves: Check, native: str) -> None:
    found = leaves(TRAINER.format(made="pass", native=native, rest="return loss"), "is a library's")
    assert found.code == "AMP290"
    assert "self.optimizer" in found.message


STEP = (
    "if self.natively:\n            self.scaler.step(self.optimizer); self.scaler.update()\n"
    "        else:\n            self.optimizer.step()"
)
MADE = (
    "def __init__(self, model):\n        self.model = model\n"
    "        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "        if self.with_apex:\n"
    "            self.model, self.optimizer = amp.initialize(self.model, self.optimizer)"
)


def test_no_step_goes_by_a_scaler_that_a_library_may_make_where_apex_is_not_chosen(migrate: Check) -> None:
    plan = migrate(TRAINER.format(made=MADE, native=BESIDE, rest=STEP), head="import torch\n")
    assert "or self.with_apex" not in plan.after
    assert any("a scaler that no code in sight makes" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "given",
    [
        "\n\nclass More(Own):\n    def __init__(self):\n        self.optimizer = torch.optim.SGD(self.parts)",
        "\n\ntrainer = Own()\ntrainer.optimizer = torch.optim.SGD(trainer.model.parameters())",
    ],
)
def test_an_optimizer_that_the_project_gives_is_not_a_librarys(migrate: Check, given: str) -> None:
    text = TRAINER.format(made="pass", native="if self.with_apex:", rest="self.optimizer.step()")
    assert "is a library's" not in str(migrate(text + given).findings)
