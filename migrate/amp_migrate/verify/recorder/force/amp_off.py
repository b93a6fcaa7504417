"""Mixed precision forced off, in every dialect: what the script computes when only its other edits count."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any

import torch
import torch.amp.autocast_mode

from ..apex import apex_amp
from ..process.place import UsersCode
from .bfloat16 import switch_scalers_off

_FIRST_EXPONENT = 16


def install() -> None:
    """Autocast never switches on, a GradScaler scales by nothing, and Apex's `initialize` leaves all as it was."""
    set_enabled: Any = torch.set_autocast_enabled

    def keep_off(*args: Any) -> None:
        set_enabled(*args[:-1], False)

    holder: Any = torch
    holder.set_autocast_enabled = keep_off
    switch_scalers_off()
    apex_amp.switch_off()


def install_unseen(users: UsersCode) -> None:
    """Autocast casts nothing, though the script is told that it is on, and a GradScaler scales by a power of two.

    In float32 a loss that is multiplied by a power of two gives gradients that are multiplied by it, and unscaling
    gives back the very bits that there would be without: whatever the script does with its scalers, other than to
    leave the training as it is, shows in the bits. Two scalers have different scales, so that crossing them shows too.
    """
    _tell_what_was_asked(users)
    _scale_by_powers_of_two()
    apex_amp.switch_off()


def _tell_what_was_asked(users: UsersCode) -> None:
    """Keep autocast off, and answer the script, and the context managers that restore it, as if it were on.

    PyTorch's own modules see that it is off: they choose other kernels under autocast.
    """
    holder: Any = torch
    set_enabled, is_enabled = holder.set_autocast_enabled, holder.is_autocast_enabled
    asked: dict[str, bool] = {}
    regions = torch.amp.autocast_mode.__file__

    def keep_off(*args: Any) -> None:
        asked[args[0] if len(args) == 2 else "cuda"] = bool(args[-1])
        set_enabled(*args[:-1], False)

    def answer(device: str = "cuda") -> bool:
        caller = sys._getframe(1).f_code.co_filename
        if caller == regions or users.holds(caller):
            return asked.get(device, False)
        return bool(is_enabled(device))

    holder.set_autocast_enabled, holder.is_autocast_enabled = keep_off, answer
    # `custom_fwd(cast_inputs=...)` asks whether autocast is on, and casts by hand.
    torch.amp.autocast_mode._cast = lambda value, device_type, dtype: value


def _scale_by_powers_of_two() -> None:
    scaler: Any = torch.amp.GradScaler
    init = scaler.__init__
    ordinals = itertools.count()

    @functools.wraps(init)
    def exact(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if self._enabled:
            self._init_scale = 2.0 ** (_FIRST_EXPONENT - next(ordinals) % _FIRST_EXPONENT)
            self._growth_factor, self._backoff_factor, self._growth_interval = 2.0, 0.5, 2**31 - 1

    scaler.__init__ = exact
