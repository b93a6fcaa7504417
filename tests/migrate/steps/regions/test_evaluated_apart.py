"""Evaluation of what is trained in float32, beside steps that move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TWO_MODELS = """
          other = nn.Linear(2, 2).cuda()
          its_optimizer = torch.optim.Adam(other.parameters())

          def train_other():
              for x, y in loader:
                  its_optimizer.zero_grad()
                  its_loss = nn.functional.mse_loss(other(x), y)
                  its_loss.backward()  # amp-migrate: ignore
                  its_optimizer.step()

          train_other()
          MODEL
          EPOCH
"""


def two_models(evaluation: str) -> str:
    """Two models, of which the step of one moves and that of the other stays; and what is done with them."""
    return (
        TWO_MODELS.replace("          MODEL", "        ~ MODEL").replace("          EPOCH", "        ~ EPOCH")
        + evaluation
    )


@pytest.mark.parametrize(("model", "dtype"), [("other", "fp16"), ("other", "bf16"), ("nn.DataParallel(other)", "fp16")])
def test_what_is_trained_in_float32_is_evaluated_in_float32(rewrites: Check, model: str, dtype: str) -> None:
    rewrites(
        two_models(
            f"""
          def evaluate(net):
              net.eval()
              with torch.no_grad():
                  return sum(nn.functional.mse_loss(net(x), y).item() for x, y in loader)

          print(evaluate({model}))
        """
        ),
        dtype=dtype,
    )


@pytest.mark.parametrize(
    "evaluated", ["model", "copy.deepcopy(model)", "AveragedModel(model)", "load(path)", "other if x else model"]
)
def test_what_a_region_trains_is_evaluated_in_one(rewrites: Check, evaluated: str) -> None:
    rewrites(
        two_models(
            f"""
          def evaluate(net):
              net.eval()
              with torch.no_grad():
                  for x in samples:
        -             out = net(x)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 out = net(x)
                      show(out)

          evaluate({evaluated})
        """
        )
    )


def test_of_two_evaluations_one_stays(rewrites: Check) -> None:
    rewrites(
        two_models(
            """
          with torch.no_grad():
              for x in samples:
        -         out = model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
                  show(out)
                  # the other
                  out = other(x)
                  show(out)
        """
        )
    )


LEFT = """
          class Pair:
              def __init__(self, student):
                  self.student, self.teacher = student, copy.deepcopy(student)
                  self.teacher.eval()

              @torch.no_grad()
              def targets(self, x):
                  z = self.teacher(x)
                  return z

              @torch.no_grad()
              def score(self, x):
        ~         z = model(x)
                  return z

          def distil(pair, optimizer):
              for x, y in loader:
                  PREPARE
                  loss = (pair.run(x) - t).pow(2).mean()
                  optimizer.zero_grad()
                  loss.backward()
                  optimizer.step()

        ~ MODEL
        ~ EPOCH
          pair = unseen(Pair)
          distil(pair, torch.optim.SGD(pair.student.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    "prepare",
    [
        "t = pair.targets(x)",
        "with torch.no_grad():\n                      t = pair.targets(x)",
        "t = means(pair, x)\n                  print(pair.score(x))",
    ],
)
def test_what_a_step_computes_from_that_is_left_stays_in_float32(rewrites: Check, prepare: str) -> None:
    head = "" if "means" not in prepare else "          def means(pair, x):\n              return pair.targets(x) / 2\n"
    rewrites(head + LEFT.replace("PREPARE", prepare))
