"""`amp_handle = amp.init()`: the API from before `amp.initialize`, and the handle that O1 keeps.

amp_handle = amp.init()
with amp_handle.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from amp_shim.amp.casts.torch_functions import CastHandle
from amp_shim.amp.functions import disable_casts
from amp_shim.amp.optimizer import attach
from amp_shim.amp.properties import LEVELS
from amp_shim.amp.scale_loss import scale_loss, scaled_by
from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.amp.state import _amp_state
from amp_shim.policy import APEX_O1, Policy

# Apex keeps `disable_casts` and `scale_loss` here as well.
__all__ = ["AmpHandle", "NoOpHandle", "OptimWrapper", "activate_casts", "disable_casts", "init", "scale_loss"]

_WITH_BANNED = APEX_O1.with_float("binary_cross_entropy")


class AmpHandle(CastHandle):
    """The casts of O1 or O4 and, for scripts that call `amp.init`, a loss scale."""

    has_cache = False  # weights are cast at every use, so there is nothing to keep or to forget

    def __init__(
        self,
        dtype: torch.dtype = torch.float16,
        policy: Policy = APEX_O1,
        verbose: bool = False,
        loss_scale: float | str = "dynamic",
    ) -> None:
        super().__init__(dtype, policy, verbose)
        self.loss_scale = loss_scale
        self._scaler = LossScaler(loss_scale)

    def scale_loss(self, loss: Tensor, optimizer: Optimizer) -> AbstractContextManager[Tensor]:
        """`amp.scale_loss` with the handle's own scale. Yields the loss itself while the casts are off."""
        return self._scaled(self._scaler, loss, optimizer, 0)

    def wrap_optimizer(self, optimizer: Optimizer, num_loss: int = 1) -> OptimWrapper:
        """The optimizer with a `scale_loss` of its own, and one loss scale for each of `num_loss` losses."""
        return OptimWrapper(self, optimizer, [LossScaler(self.loss_scale) for _ in range(num_loss)])

    def _clear_cache(self) -> None:
        """Forget what autocast itself keeps for an open region."""
        torch.clear_autocast_cache()

    def _scaled(
        self, scaler: LossScaler, loss: Tensor, optimizer: Optimizer, loss_id: int
    ) -> AbstractContextManager[Tensor]:
        if not self.is_active():
            return nullcontext(loss)
        if not hasattr(optimizer, "_amp_stash"):
            attach(optimizer, LEVELS["O1"][1])
        return scaled_by(scaler, loss, [optimizer], loss_id)


class NoOpHandle:
    """What `amp.init(enabled=False)` returns: nothing is cast or scaled."""

    has_cache = False
    verbose = False

    def is_active(self) -> bool:
        return False

    def scale_loss(self, loss: Tensor, optimizer: Optimizer) -> AbstractContextManager[Tensor]:
        """Yields the loss itself."""
        return nullcontext(loss)

    def wrap_optimizer(self, optimizer: Optimizer, num_loss: int = 1) -> OptimWrapper:
        """The optimizer with a `scale_loss` that yields the loss itself."""
        return OptimWrapper(self, optimizer, [LossScaler(1.0) for _ in range(num_loss)])

    def _scaled(
        self, scaler: LossScaler, loss: Tensor, optimizer: Optimizer, loss_id: int
    ) -> AbstractContextManager[Tensor]:
        return nullcontext(loss)

    def _disable_casts(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _clear_cache(self) -> None:
        """Nothing is cached."""

    def _deactivate(self) -> None:
        """Nothing is in force."""


class OptimWrapper:
    """An optimizer whose losses are scaled one after the other, each by its own scale.

    Between two steps, the first `scale_loss` uses the first scale, the second the second. Everything else is the
    wrapped optimizer's.
    """

    def __init__(self, handle: AmpHandle | NoOpHandle, optimizer: Optimizer, scalers: list[LossScaler]) -> None:
        self._handle = handle
        self._optimizer = optimizer
        self._scalers = scalers
        self._next = 0

    @contextmanager
    def scale_loss(self, loss: Tensor) -> Iterator[Tensor]:
        """Yield the loss scaled; on exit unscale the gradients and move this loss's scale.

        Raises RuntimeError for more losses between two steps than `wrap_optimizer` was told of.
        """
        index = self._next
        if index == len(self._scalers):
            raise RuntimeError(
                f"wrap_optimizer was told of {index} losses and this is one more; pass num_loss={index + 1}"
            )
        self._next += 1
        with self._handle._scaled(self._scalers[index], loss, self._optimizer, index) as scaled_loss:
            yield scaled_loss

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step, or say that the step is skipped. Raises NotImplementedError if given a closure."""
        if closure is not None:
            raise NotImplementedError("a wrapped optimizer takes no closure; call step() without one")
        self._next = 0
        return self._optimizer.step()

    def __getattr__(self, name: str) -> Any:
        if name == "_optimizer":  # a copy that has not got its attributes yet
            raise AttributeError(name)
        return getattr(self._optimizer, name)


def init(
    enabled: bool = True,
    loss_scale: float | str = "dynamic",
    enable_caching: bool = True,
    verbose: bool = False,
    allow_banned: bool = False,
) -> AmpHandle | NoOpHandle:
    """Put the casts of O1 in force and return their handle.

    Args:
        enabled: False casts and scales nothing.
        loss_scale: "dynamic" or the constant scale of the handle's `scale_loss`.
        enable_caching: how Apex saved casts of weights; results do not depend on it.
        verbose: print every cast.
        allow_banned: run `binary_cross_entropy` in float32 instead of refusing half arguments.
    """
    if not enabled:
        return NoOpHandle()
    return _put_in_force(AmpHandle(torch.float16, _WITH_BANNED if allow_banned else APEX_O1, verbose, loss_scale))


def activate_casts(dtype: torch.dtype, verbose: bool = False) -> CastHandle:
    """Put the casts of O1 or O4 in force; the handle in `_amp_state` is kept if it casts alike."""
    handle = _amp_state.handle
    if handle is None or (handle.dtype, handle.verbose) != (dtype, verbose):
        return _put_in_force(AmpHandle(dtype, verbose=verbose))
    handle.activate()
    return handle


def _put_in_force(handle: AmpHandle) -> AmpHandle:
    if _amp_state.handle is not None:
        _amp_state.handle._deactivate()
    _amp_state.handle = handle
    handle.activate()
    return handle
