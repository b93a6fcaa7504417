"""`custom_fwd` and `custom_bwd` are told the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_bare_decorators_by_name(rewrites: Check) -> None:
    rewrites(
        """
          import torch
        - from torch.cuda.amp import custom_bwd, custom_fwd
        + from torch.amp import custom_bwd, custom_fwd

          class F(torch.autograd.Function):
              @staticmethod
        -     @custom_fwd
        +     @custom_fwd(device_type="cuda")
              def forward(ctx, x): ...

              @staticmethod
        -     @custom_bwd
        +     @custom_bwd(device_type="cuda")
              def backward(ctx, g): ...
        """,
        head="",
    )


def test_empty_call(rewrites: Check) -> None:
    rewrites(
        """
        - @torch.cuda.amp.custom_bwd()
        + @torch.amp.custom_bwd(device_type="cuda")
          def b(ctx, g): return g
        """
    )


def test_call_on_a_function(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import custom_fwd
        + from torch.amp import custom_fwd

        - nms = custom_fwd(_C.nms)
        + nms = custom_fwd(_C.nms, device_type="cuda")
        """
    )


def test_decorator_on_the_wrong_method_keeps_its_place(rewrites: Check) -> None:
    rewrites(
        """
          class F(torch.autograd.Function):
              @staticmethod
        -     @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
        +     @torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")
              def backward(ctx, g): ...
        """
    )
