"""Evaluation with a number whose inverse float16 does not have: what divides by it is float32, read or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

HEAD = "import outside, torch\nfrom torch import nn\n\n"
UNREAD = """
          model = outside.Painter(dim=64).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
"""
GIVEN = "code that could not be read gets a number whose inverse float16 does not have: "


@pytest.mark.parametrize(
    "sampling",
    [
        "model.generate(x, temperature=0.00001)",
        "model.generate(x, 1e-6)",
        "model(x, tau=1e-5)",
        "model.decoder.sample(x, 2 * 1e-6)",
    ],
)
def test_what_nobody_has_read_evaluates_in_float32_with_it(rewrites: Check, sampling: str) -> None:
    plan = rewrites(f"{UNREAD}          with torch.no_grad():\n              out = {sampling}\n", head=HEAD)
    assert GIVEN not in {each.message for each in plan.findings}


@pytest.mark.parametrize(
    ("sampling", "dtype"),
    [
        ("model.generate(x, temperature=0.001)", "fp16"),
        ("model.generate(x, top_k=0, top_p=0.0)", "fp16"),
        ("model.generate(x, temperature=args.temperature)", "fp16"),
        ("model.generate(x, temperature=0.00001)", "bf16"),
    ],
)
def test_it_evaluates_in_a_region_otherwise(rewrites: Check, sampling: str, dtype: str) -> None:
    region = f'with torch.amp.autocast(device_type="cuda", dtype=torch.{"bfloat16" if dtype == "bf16" else "float16"}):'
    out = f"""
          with torch.no_grad():
        -     out = {sampling}
        +     {region}
        +         out = {sampling}
    """
    rewrites(UNREAD + out.removeprefix("\n"), dtype, head=HEAD)


def test_a_model_that_callers_hand_in_is_one_of_these(rewrites: Check) -> None:
    rewrites(
        """
          def train(model, loader):
        ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
              with torch.no_grad():
                  return model.sample(x, temperature=1e-5)
        """,
        head=HEAD,
    )


def test_it_is_told_in_the_region_of_a_step(rewrites: Check) -> None:
    plan = rewrites(
        """
          model = outside.Painter(dim=64).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x, temperature=1e-5), y)
        ~     STEP
        """,
        head=HEAD,
    )
    told = [each.message for each in plan.findings if each.code == "AMP504" and each.message.startswith(GIVEN)]
    assert told == [f"{GIVEN}model(x, temperature=1e-05)"]


READ = """
          class Painter(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.head = nn.Linear(4, 4)

              def forward(self, x):
                  return self.head(x)

              def generate(self, x, temperature=1.0):
                  logits = self.head(x)
        -         return (logits / temperature).argmax(-1)
        +         return (DIVIDED / temperature).argmax(-1)


          model = Painter().cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
          with torch.no_grad():
        -     out = model.generate(x, SMALL)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = model.generate(x, SMALL)
"""


@pytest.mark.parametrize(("number", "divided"), [("1e-5", "logits.float()"), ("0.5", "logits")])
def test_what_is_read_divides_float32_by_it(rewrites: Check, number: str, divided: str) -> None:
    rewrites(READ.replace("SMALL", number).replace("DIVIDED", divided), head=HEAD)
