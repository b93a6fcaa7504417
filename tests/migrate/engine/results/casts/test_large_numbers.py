"""Results in half precision that get a size at which it is too coarse: another unit, or a sum of many rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


@pytest.mark.parametrize(
    ("given", "in_float32"),
    [
        ("out[:, :1] * 3.2e4 + 2.9e4", "out[:, :1].float() * 3.2e4 + 2.9e4"),
        ("SCALE * out[:, :1].mul(2)", "SCALE * out[:, :1].float().mul(2)"),
        ("out[:, :1] / 2.5e-4", "out[:, :1].float() / 2.5e-4"),
        ("torch.add(out[0], 4000)", "torch.add(out[0].float(), 4000)"),
    ],
)
def test_what_becomes_large_is_float32_before(rewrites: Check, given: str, in_float32: str) -> None:
    rewrites(
        f"""
          SCALE = 5e3

          def height(out):
        -     return {given}
        +     return {in_float32}

        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(height(model(x)), y)
        ~     STEP
        """
    )


def test_two_statements_that_make_it_large_need_one_cast(rewrites: Check) -> None:
    rewrites(
        """
          class Units:
              def __init__(self, mean, std):
                  self.mean, self.std = mean, std

              def restore(self, out):
        -         out = out[..., 0] * self.std
        +         out = out[..., 0].float() * self.std
                  out = out + self.mean
                  return out

          units = Units(2.9e4, 3.2e4)
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(units.restore(model(x)), y)
        ~     STEP
        """
    )


@pytest.mark.parametrize(
    "size", ["out * 1000 + 20", "torch.sigmoid(out) * 10000", "x * 3.2e4 + 2.9e4", "out / 1e-2", "out * -1e4"]
)
def test_what_half_precision_holds_stays_low(rewrites: Check, size: str) -> None:
    rewrites(
        f"""
          def height(out, x):
              return {size}

        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(height(model(x), x), y)
        ~     STEP
        """
    )


def test_bfloat16_has_the_range_and_rounds_the_sum(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x) * 3e4 + 2e4, y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         loss = nn.functional.mse_loss((model(x) * 3e4).float() + 2e4, y)
              loss.backward()
              optimizer.step()
              optimizer.zero_grad()
        """,
        dtype="bf16",
    )


_SUMMING = """
        ~ MODEL
          EPOCH
          {}
          with torch.no_grad():
              for x in samples:
        -         out = model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
"""


@pytest.mark.parametrize(
    ("start", "given", "in_float32"),
    [
        ("total = 0", "total += out[0]", "total += out[0].float()"),
        ("total = 0", "total += 2 * out[0]", "total += (2 * out[0]).float()"),
        ("total = 0.0", "total = total + out[0]", "total = total + out[0].float()"),
        ("total = 0", "total = out.mean() + total", "total = out.float().mean() + total"),
        (
            "total = None",
            "total = out if total is None else total + out",
            "total = out if total is None else total + out.float()",
        ),
        (
            "total = None",
            "total = out[0] + total if total is not None else out[0]",
            "total = out[0].float() + total if total is not None else out[0]",
        ),
    ],
)
def test_sum_of_many_rounds_is_float32(rewrites: Check, start: str, given: str, in_float32: str) -> None:
    rewrites(
        f"""
        ~ MODEL
        ~ EPOCH
          {start}
          with torch.no_grad():
              for x in samples:
        -         out = model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
        -         {given}
        +         {in_float32}
        """
    )


def test_sum_that_an_object_keeps_is_float32(rewrites: Check) -> None:
    rewrites(
        """
          class Node:
              def __init__(self):
                  self.value, self.visits = 0, 0

          def back(path, value):
              for node in reversed(path):
                  node.value += value
                  node.visits += 1

        ~ MODEL
        ~ EPOCH
          root = Node()
          with torch.no_grad():
              for x in samples:
        -         value = model(x)
        -         back([root], value)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             value = model(x)
        +         back([root], value.float())
        """
    )


@pytest.mark.parametrize(
    "summing",
    [
        "total = total + out.argmax(1)",
        "total = out + 1",
        "total += out[0, 0].item()",
        "sums += out[0]",
        "total = out if total is None else out + 1",
        "total = out.float() if total is None else total + out.float()",
        "sums = out if x is None else out + sums",
        "out += 0.1 * torch.randn_like(out)",
        "out -= 0.1 * out",
    ],
)
def test_what_does_not_grow_in_half_precision_stays_as_it_is(rewrites: Check, summing: str) -> None:
    rewrites(
        f"""
        ~ MODEL
        ~ EPOCH
          total = 0
          sums = torch.zeros(2, device="cuda")
          with torch.no_grad():
              for x in samples:
        -         out = model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
                  {summing}
        """
    )


@pytest.mark.parametrize("use", ["size = out * 3e4", "size += out[0]"])
def test_what_may_be_low_is_told_of(migrate: Check, use: str) -> None:
    plan = migrate(
        f"""
        from nets import other
        MODEL
        EPOCH
        size = 0
        with torch.no_grad():
            for x in samples:
                out = model(x)
                if x.any():
                    out = other(x)
                {use}
        """
    )
    told = [each for each in plan.findings if each.code == "AMP504"]
    assert [each.message.partition(":")[0] for each in told] == ["may overflow, or round, in half precision"]
    assert ".float()" not in plan.after


def test_a_sum_of_differences_from_what_nobody_knows_is_not_told_of(migrate: Check) -> None:
    plan = migrate(
        """
        from nets import other
        MODEL
        EPOCH
        size = 0
        with torch.no_grad():
            for x in samples:
                out = model(x)
                size += (out - other(x)).square().mean()
        """
    )
    assert "scaler.scale(loss)" in plan.after
    assert [each for each in plan.findings if each.code == "AMP504"] == []


@pytest.mark.parametrize(
    ("mean", "std", "restored"),
    [
        ("torch.tensor(2.9e4)", "torch.tensor(3.2e4)", "out * self.std + self.mean"),
        ("torch.tensor([2.9e4, 3e4])", "torch.tensor([3.2e4, 3e4]).view(1, -1)", "out * self.std.type_as(out)"),
        ("torch.full((1, 2), 2.9e4)", "torch.tensor(1.0)", "out + self.mean.to(out.dtype)"),
        ("torch.tensor([2.9e4])", "torch.tensor([3.2e4])", "out.mul(2).mul_(self.std).add_(self.mean)"),
    ],
)
def test_what_buffers_with_large_numbers_scale_is_float32_before(
    rewrites: Check, mean: str, std: str, restored: str
) -> None:
    rewrites(
        f"""
          class Units(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.register_buffer("mean", {mean})
                  self.register_buffer("std", {std})

              def forward(self, out):
                  return {restored}

          units = Units().cuda()
        ~ MODEL
          for x, y in loader:
        -     loss = nn.functional.mse_loss(units(model(x)), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(units(model(x).float()), y)
        ~     STEP
        """
    )


@pytest.mark.parametrize(
    ("std", "restored"),
    [
        ("torch.tensor([3.2e4, 3e4])", "out * self.std"),  # of a shape, and float32: so is the product
        ("torch.tensor([58.4, 57.0])", "out * self.std.type_as(out)"),
        ("torch.tensor([some])", "out * self.std.type_as(out)"),
        ("made(3e4) if some else made(some)", "out * self.std.type_as(out)"),
    ],
)
def test_what_buffers_scale_that_are_small_unknown_or_make_it_float32_stays_low(
    rewrites: Check, std: str, restored: str
) -> None:
    rewrites(
        f"""
          def made(number):
              return torch.tensor(number)

          class Units(nn.Module):
              def __init__(self, some):
                  super().__init__()
                  self.register_buffer("std", {std})

              def forward(self, out):
                  return {restored}

          units = Units(some_number()).cuda()
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(units(model(x)), y)
        ~     STEP
        """
    )
