"""What a bfloat16 region computes is float32 for NumPy, without a name and in functions that run in the region, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]
HEAD = "import numpy as np\nimport torch\nfrom torch import nn\n\n"
TRAINING = """
MODEL
EPOCH
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model(x).cpu().numpy()", "model(x).float().cpu().numpy()"),
        ("model(x)[0].cpu().numpy()", "model(x)[0].float().cpu().numpy()"),
        ("model(x).softmax(1).numpy()", "model(x).softmax(1).numpy()"),  # which autocast computes in float32
        ("torch.sigmoid(model(x)).numpy()", "torch.sigmoid(model(x).float()).numpy()"),
        ("model(x).argmax(1).numpy()", "model(x).argmax(1).numpy()"),
        ("model(x).float().numpy()", "model(x).float().numpy()"),
        ("x.numpy()", "x.numpy()"),
    ],
)
def test_output_without_a_name(migrate: Check, before: str, after: str) -> None:
    text = f"{TRAINING}with torch.no_grad():\n    print(model(x).shape)\n    found.append({before})\n"
    assert f"found.append({after})\n" in migrate(text, "bf16", HEAD).after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("scores[i] = model(x).cpu()", "scores[i] = model(x).float().cpu()"),
        ("scores[i : i + 4] = out.cpu()", "scores[i : i + 4] = out.float().cpu()"),
        ("scores[i] += out.cpu()", "scores[i] += out.float().cpu()"),
        ("scores[i] = out.cpu().long()", "scores[i] = out.cpu().long()"),
        ("others[i] = out.cpu()", "others[i] = out.cpu()"),
    ],
)
def test_output_that_is_put_into_an_array(migrate: Check, before: str, after: str) -> None:
    text = f"""{TRAINING}
scores, others = np.zeros([4, 2]), [None] * 4
with torch.no_grad():
    for i, x in enumerate(loader):
        out = model(x)
        {before}
"""
    assert f"{after}\n" in migrate(text, "bf16", HEAD).after


def test_array_that_a_function_makes_of_what_it_computes_in_a_region(rewrites: Check) -> None:
    rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 2)

              def forward(self, x):
                  return self.fc(x)

              def generate(self, x):
                  out = self.fc(x)
                  print(x.numpy())
        -         return out.sigmoid().cpu().numpy()
        +         return out.float().sigmoid().cpu().numpy()

          model = Net()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ EPOCH
          with torch.no_grad():
        ~     image = model.generate(x)
        """,
        dtype="bf16",
    )


def test_float16_stays_as_it_is(migrate: Check) -> None:
    text = f"{TRAINING}with torch.no_grad():\n    found.append(model(x).cpu().numpy())\n"
    assert "found.append(model(x).cpu().numpy())\n" in migrate(text, "fp16", HEAD).after
