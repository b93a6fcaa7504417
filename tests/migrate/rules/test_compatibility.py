"""Code that serves old and new PyTorch at once keeps working on both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_new_import_with_the_old_as_a_fallback(leaves: Check) -> None:
    leaves(
        """
        try:
            from torch.amp import GradScaler
        except ImportError:
            from torch.cuda.amp import GradScaler

        scaler = GradScaler()
        """,
        "left as it was",
        head="",
    )


def test_version_test(leaves: Check) -> None:
    leaves(
        """
        if VERSION >= (2, 3):
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_probe_of_the_new_name(leaves: Check) -> None:
    leaves(
        """
        if hasattr(torch.amp, "GradScaler"):
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_conditional_expression(leaves: Check) -> None:
    leaves(
        """
        scaler = torch.amp.GradScaler("cuda") if NEW else torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_probe_of_the_old_name(ignores: Check) -> None:
    ignores(
        """
        available = hasattr(torch.cuda.amp, "autocast")
        """
    )
