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


def test_star_import_becomes_what_is_used_of_it(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import *
        + from torch.amp import autocast, GradScaler

        - scaler = GradScaler()
        - with autocast():
        + scaler = GradScaler("cuda")
        + with autocast(device_type="cuda", dtype=torch.float16):
              pass
        """
    )


def test_star_import_beside_another_that_may_bring_the_same(leaves: Check) -> None:
    leaves(
        """
        from torch.cuda.amp import *
        from helpers import *
        with autocast():
            pass
        """,
        "stands for different things",
    )


def test_star_import_that_nothing_is_used_of(leaves: Check) -> None:
    leaves("from torch.cuda.amp import *\n", "what it brings cannot be told")


def test_import_that_nothing_uses_any_more_goes(rewrites: Check) -> None:
    rewrites(
        """
        - from torch import get_autocast_gpu_dtype, randn
        - dtype = get_autocast_gpu_dtype()
        + from torch import randn
        + dtype = torch.get_autocast_dtype("cuda")
        """
    )


def test_private_cast(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp.autocast_mode import _cast
        - y = _cast(x, torch.float16)
        + from torch.amp.autocast_mode import _cast
        + y = _cast(x, "cuda", torch.float16)
        """
    )
