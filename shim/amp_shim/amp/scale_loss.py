"""`with amp.scale_loss(loss, optimizer) as scaled_loss: scaled_loss.backward()`"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from amp_shim.amp.optimizer import skip_next_step, stash_of
from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.amp.scaling.stash import AmpStash
from amp_shim.amp.state import _amp_state


@contextmanager
def scale_loss(
    loss: Tensor,
    optimizers: Optimizer | Sequence[Optimizer],
    loss_id: int = 0,
    model: object = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Tensor]:
    """Yield the loss, in float32 and scaled; on exit unscale the gradients and move the scale.

    After the block the gradients of the optimizers' parameters are unscaled and may be clipped or read. If the pass
    overflowed, the next `step()` of every optimizer given here is skipped.

    Args:
        loss: the loss to run backward from.
        optimizers: the optimizer or optimizers whose parameters get gradients.
        loss_id: which of the `num_losses` scalers of `amp.initialize` to use.
        model: accepted and unused, as in Apex.
        delay_unscale: leave the gradients scaled, for a pass that a later one completes.
        delay_overflow_check: unscale, but neither move the scale nor skip for this pass.

    Raises RuntimeError before `amp.initialize`, and IndexError for a `loss_id` without a scaler. If the block raises,
    the gradients that the optimizers see are again those from before.
    """
    properties = _amp_state.opt_properties
    if properties is None:
        raise RuntimeError("amp.scale_loss was called before amp.initialize; call amp.initialize first")
    if not properties.enabled:
        yield loss
        return
    scaler = _amp_state.loss_scalers[loss_id]
    if not properties.master_weights and not scaler.dynamic and scaler.loss_scale() == 1.0:
        yield loss.float()
        return
    listed: list[Optimizer] = list(optimizers) if isinstance(optimizers, Sequence) else [optimizers]
    with scaled_by(scaler, loss, listed, loss_id, delay_unscale, delay_overflow_check) as scaled_loss:
        yield scaled_loss


@contextmanager
def scaled_by(
    scaler: LossScaler,
    loss: Tensor,
    listed: Sequence[Optimizer],
    loss_id: int = 0,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Tensor]:
    """`scale_loss` by one scaler, whatever `amp.initialize` settled on."""
    stashes = [stash_of(optimizer) for optimizer in listed]
    prepared = _prepare(stashes, delay_unscale)
    try:
        yield loss.float() * scaler.loss_scale()
    except BaseException:
        for stash in prepared:
            stash.abandon()
        raise
    if delay_unscale:
        for stash in stashes:
            stash.params_have_scaled_gradients = True
        return
    if _unscale(stashes, scaler, delay_overflow_check):
        for optimizer in listed:
            skip_next_step(optimizer, scaler, loss_id)


def _prepare(stashes: Sequence[AmpStash], delay_unscale: bool) -> list[AmpStash]:
    """Set gradients aside, except where scaled ones of an earlier pass wait to be completed."""
    prepared = [stash for stash in stashes if not delay_unscale and not stash.params_have_scaled_gradients]
    for stash in stashes:
        stash.lazy_init()
    for stash in prepared:
        stash.prepare()
    return prepared


@torch.no_grad()
def _unscale(stashes: Sequence[AmpStash], scaler: LossScaler, delay_overflow_check: bool) -> bool:
    """Make every gradient final; whether the step must be skipped."""
    scaler.clear_overflow_state()
    for stash in stashes:
        stash.finish(scaler)
        stash.params_have_scaled_gradients = False
    return False if delay_overflow_check else scaler.update_scale()
