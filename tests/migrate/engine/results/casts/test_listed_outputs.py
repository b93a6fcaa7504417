"""Outputs of regions that are gathered in lists before they go where low precision cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

Check = Callable[..., Any]

TRAINING = """
          MODEL
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         loss = nn.functional.mse_loss(model(x), y)
              STEP
"""


def test_outputs_gathered_for_numpy_are_float32_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        TRAINING
        + """
          @torch.no_grad()
          def evaluate(model, loader):
              model.eval()
              outs, rows, labels = [], [], []
              for x, y in loader:
        ~         out = model(x)
                  outs.append(out.detach().cpu())
                  rows.extend(out)
                  labels.append(y)
              draw(torch.cat(labels).numpy(), torch.cat(labels)[0].numpy())
        -     draw(torch.cat(outs, dim=0).numpy(), outs[0].numpy())
        +     draw(torch.cat(outs, dim=0).float().numpy(), outs[0].float().numpy())
              for each in outs:
        -         draw(each.numpy())
        +         draw(each.float().numpy())
        -     rows = torch.stack(rows)
        -     return nn.functional.normalize(rows).numpy()
        +     rows = torch.stack(rows)
        +     return nn.functional.normalize(rows.float()).numpy()
        """,
        dtype="bf16",
    )


def test_outputs_without_a_name_are_float32_for_numpy_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        TRAINING
        + """
          @torch.no_grad()
          def evaluate(model, loader):
              model.eval()
              outs, arrays = [], []
              for x, y in loader:
        -         arrays.append(model(x).squeeze().cpu().numpy())
        -         arrays.append(model(x)[0].numpy())
        -         arrays.append(model(x).argmax(1).cpu().numpy())
        -         outs.append(model(x))
        -     return torch.cat(outs).numpy(), arrays
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +             arrays.append(model(x).float().squeeze().cpu().numpy())
        +             arrays.append(model(x)[0].float().numpy())
        +             arrays.append(model(x).argmax(1).cpu().numpy())
        +             outs.append(model(x))
        +     return torch.cat(outs).float().numpy(), arrays
        """,
        dtype="bf16",
    )


def test_what_is_computed_of_outputs_is_float32_for_numpy_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        TRAINING
        + """
          @torch.no_grad()
          def show(model, x):
        ~     out = model(x)
        -     draw((out * 255).cpu().numpy(), out.mul(255).add(1).numpy(), (out > 0).numpy(), (x * 255).numpy())
        -     image = 0.5 + out / 2
        -     draw(image.numpy(), (out.argmax(1) + 1).numpy())
        +     draw((out * 255).float().cpu().numpy(), out.float().mul(255).add(1).numpy(), (out > 0).numpy(), (x * 255).numpy())
        +     image = 0.5 + out / 2
        +     draw(image.float().numpy(), (out.argmax(1) + 1).numpy())
        """,  # noqa: E501
        dtype="bf16",
    )


def test_what_a_division_gives_is_floating(migrate: Check) -> None:
    text = """
model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
EPOCH
with torch.no_grad():
    a, b = model.encode(x)
draw((a / 2).numpy(), (0.5 * b).numpy(), (a + 2).numpy())
"""
    after = migrate(text, "bf16").after
    assert "draw((a / 2).float().numpy(), (0.5 * b).float().numpy(), " in after
    assert "((a + 2).float() if (a + 2).is_floating_point() else (a + 2)).numpy())" in after


def test_arrays_are_made_of_float32_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        TRAINING
        + """
          import numpy as np
          @torch.no_grad()
          def predict(model, x):
        ~     out = model(x)
        -     losses = [each.item() for each in out]
        -     return np.array(out.cpu()), np.asarray(out.detach()), np.array(losses), np.array(x.cpu())
        +     losses = [each.item() for each in out]
        +     return np.array(out.float().cpu()), np.asarray(out.float().detach()), np.array(losses), np.array(x.cpu())
        """,
        dtype="bf16",
    )


@pytest.mark.filterwarnings("ignore:__array__ implementation")
def test_numpy_has_no_bfloat16() -> None:
    out = torch.zeros(2, dtype=torch.bfloat16)
    for make in (np.array, torch.Tensor.numpy):
        with pytest.raises(TypeError):
            make(out)


@pytest.mark.parametrize(
    "gathered",
    [
        "outs.append(model(x).argmax(1))",
        "outs.append(model(x).float())",
        "outs.append(model(x).tolist())",
        "outs.extend(model(x).argmax(1))",
    ],
)
def test_what_is_gathered_in_another_dtype_is_given_as_it_is(migrate: Check, gathered: str) -> None:
    text = f"""
MODEL
EPOCH
outs = []
with torch.no_grad():
    for x in loader:
        {gathered}
draw(torch.cat(outs).numpy())
"""
    assert "draw(torch.cat(outs).numpy())" in migrate(text, "bf16").after


def test_a_list_put_into_a_buffer_is_no_tensor_to_cast(migrate: Check) -> None:
    text = """
MODEL
for x, y in loader:
    outs = []
    out = model(x)
    outs.append(out)
    loss = nn.functional.mse_loss(out, y)
    STEP
scores = torch.zeros(4)
scores[best] = outs
"""
    assert "scores[best] = outs\n" in migrate(text).after
