"""Guards round the imports of AMP go where their other side is never taken, and work on both sides where they stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_stand_in_for_old_pytorch(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from torch.cuda.amp import GradScaler
        - except:
        -     class GradScaler:
        -         def scale(self, loss):
        -             return loss
        + from torch.amp import GradScaler

        - scaler = GradScaler(enabled=use_amp)
        + scaler = GradScaler("cuda", enabled=use_amp)
        """
    )


def test_handlers_that_hold_no_old_name_go_with_those_that_do(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from torch.amp import GradScaler
        - except ImportError:
        -     from torch.cuda.amp import GradScaler
        - except RuntimeError:
        -     GradScaler = None
        + from torch.amp import GradScaler
        """
    )


def test_stand_in_where_the_attribute_may_be_missing(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     autocast = torch.cuda.amp.autocast
        - except:
        -     class autocast:
        -         def __init__(self, enabled):
        -             pass
        + autocast = torch.amp.autocast

        - with autocast(enabled=use_amp):
        + with autocast(device_type="cuda", dtype=torch.float16, enabled=use_amp):
              pass
        """
    )


def test_guard_that_sets_a_flag_stays(rewrites: Check) -> None:
    rewrites(
        """
          try:
        -     from torch.cuda.amp import autocast
        +     from torch.amp import autocast
              has_amp = True
          except ImportError:
              has_amp = False
              autocast = None

        - with autocast():
        + with autocast(device_type="cuda", dtype=torch.float16):
              pass
        """
    )


def test_guard_that_says_something_goes_as_well(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from torch.cuda.amp import autocast
        - except ImportError as error:
        -     raise SystemExit("PyTorch 1.6 is needed") from error
        + from torch.amp import autocast

        - with autocast():
        + with autocast(device_type="cuda", dtype=torch.float16):
              pass
        """
    )


def test_stand_in_where_torch_itself_may_be_missing(leaves: Check) -> None:
    leaves(
        """
        try:
            import torch
            from torch.cuda.amp import autocast
        except ImportError:
            class autocast:
                def __init__(self, enabled=True):
                    pass

        with autocast(enabled=True):
            pass
        """,
        "stands for different things",
        head="",
    )


def test_stand_in_that_may_replace_a_working_import(leaves: Check) -> None:
    leaves(
        """
        from torch.cuda.amp import autocast
        if not use_amp:
            autocast = nothing
        with autocast():
            pass
        """,
        "stands for different things",
    )


def test_the_arm_of_an_expression_that_is_taken_stays(rewrites: Check) -> None:
    rewrites(
        """
        - autocast = torch.amp.autocast if hasattr(torch, "amp") else torch.cuda.amp.autocast
        - old = torch.cuda.amp.GradScaler if not hasattr(torch, "amp") else torch.amp.GradScaler
        + autocast = torch.amp.autocast
        + old = torch.amp.GradScaler
        """
    )


def test_the_arm_that_stays_is_in_the_parentheses_of_its_expression(rewrites: Check) -> None:
    rewrites(
        """
        - one = 2 * (torch.cuda.amp.autocast if not hasattr(torch, "amp") else torch.amp.autocast or wide)
        - two = 2 * (torch.cuda.amp.autocast if not hasattr(torch, "amp") else (torch.amp.autocast or wide))
        + one = 2 * (torch.amp.autocast or wide)
        + two = 2 * (torch.amp.autocast or wide)
        """
    )
