"""O1: casts around operators for the whole process, as Apex's patched `torch` namespace gave them.

Autocast is switched on for the thread that calls `amp.initialize` and stays on: training, validation and helper code
are cast alike. It is off while the autograd engine runs, whose formulas Apex never saw, and on again inside backward
functions written in Python, which it did. Its weight cache is off, so a weight that was changed is never stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from amp_shim.amp.casts.device import device_type
from amp_shim.amp.casts.registrations import apply_registrations
from amp_shim.policy import APEX_O1, Policy
from amp_shim.policy.dispatch import Enforcement, enforce
from amp_shim.support.casting import LOW_PRECISION
from amp_shim.support.patching import Patches


class CastHandle:
    """The casts of O1 (float16) or O4 (bfloat16) while they are in force.

    With `verbose`, every cast is printed, as in `Float->Half (linear)`.
    """

    def __init__(self, dtype: torch.dtype = torch.float16, policy: Policy = APEX_O1, verbose: bool = False) -> None:
        self.device_type = device_type()
        self.dtype = dtype
        self.policy = policy
        self.verbose = verbose
        self._enforcement: Enforcement | None = None
        self._patches = Patches()
        self._before = (False, dtype, True)

    def activate(self) -> None:
        """Put the casts in force, with every function that was registered since the last call."""
        if self._enforcement is None:
            device = self.device_type
            self._before = (
                torch.is_autocast_enabled(device),
                torch.get_autocast_dtype(device),
                torch.is_autocast_cache_enabled(),
            )
            self._enforcement = enforce(self.policy, device, print if self.verbose else None)
            self._patches.set(Tensor, "cpu", _float_on_cpu(Tensor.cpu))
            autograd: Any = torch.autograd
            self._patches.set(autograd, "_engine_run_backward", self._engine(autograd._engine_run_backward))
            self._patches.set(BackwardCFunction, "apply", self._python_backward(BackwardCFunction.apply))
        self._set(True, self.dtype, False)
        apply_registrations(self._patches)

    def is_active(self) -> bool:
        """Whether casts are in force on this thread, right here."""
        return self._enforcement is not None and torch.is_autocast_enabled(self.device_type)

    def _deactivate(self) -> None:
        """Take every cast and patch away; the process is as it was before `activate()`."""
        if self._enforcement is not None:
            self._enforcement.close()
            self._enforcement = None
            self._patches.undo()
            self._set(*self._before)

    @contextmanager
    def _disable_casts(self) -> Iterator[None]:
        with self._switched(False):
            yield

    @contextmanager
    def _switched(self, enabled: bool) -> Iterator[None]:
        before = torch.is_autocast_enabled(self.device_type)
        torch.set_autocast_enabled(self.device_type, enabled)
        try:
            yield
        finally:
            torch.set_autocast_enabled(self.device_type, before)

    def _set(self, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
        torch.set_autocast_enabled(self.device_type, enabled)
        torch.set_autocast_dtype(self.device_type, dtype)
        torch.set_autocast_cache_enabled(cache)
        torch.clear_autocast_cache()

    def _engine(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def run_without_casts(*args: Any, **kwargs: Any) -> Any:
            with self._switched(False):
                return run(*args, **kwargs)

        return run_without_casts

    def _python_backward(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def apply_with_casts(node: Any, *grads: Any) -> Any:
            with self._switched(True):
                return apply(node, *grads)

        return apply_with_casts


def _float_on_cpu(native: Callable[..., Tensor]) -> Callable[..., Tensor]:
    # Scripts written for O1 hand the result to NumPy and expect float32 there, whatever ran before.
    def cpu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        low = self.dtype in LOW_PRECISION and torch.is_autocast_enabled(device_type())
        return native(self.float() if low else self, *args, **kwargs)

    return cpu
