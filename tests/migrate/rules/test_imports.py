"""Imports of deprecated packages move with every use of what they bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_unused_package_import_beside_full_paths(rewrites: Check) -> None:
    rewrites(
        """
          import torch
        - from torch.cuda import amp
        + from torch import amp


        - @torch.cuda.amp.custom_fwd
        + @torch.amp.custom_fwd(device_type="cuda")
          def forward(ctx, x):
              return x
        """,
        head="",
    )
