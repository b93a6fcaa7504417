"""Outputs of a region that a function outside it multiplies with float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TRAINING = """
          MODEL
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         loss = nn.functional.mse_loss(model(x), y)
              STEP
          with torch.no_grad():
        -     out = model(x)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         out = model(x)
"""


@pytest.mark.parametrize(
    "product",
    ["nn.functional.conv2d(one, window) - nn.functional.conv2d(other, window)", "one @ other", "torch.mm(one, other)"],
)
def test_function_that_multiplies_an_output_gets_it_in_float32(rewrites: Check, product: str) -> None:
    rewrites(
        f"""
          def products(one, other, window):
              return {product}

          def similarity(one, other):
              return products(one, other, make_window()).mean()
        {TRAINING}
        -     print(similarity(out.clamp(0, 1), y))
        +     print(similarity(out.float().clamp(0, 1), y))
        """,
        dtype="bf16",
    )


def test_function_that_only_compares_gets_an_output_as_it_is(rewrites: Check) -> None:
    rewrites(
        f"""
          def accuracy(out, target):
              return (out.argmax(1) == target).float().mean()
        {TRAINING}
              print(accuracy(out, y))
        """,
        dtype="bf16",
    )
