"""The optimizer's methods under amp: steps through masters, skipped steps, late parameter groups."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from amp_shim.amp.functions import disable_casts
from amp_shim.amp.properties import Properties
from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.amp.scaling.stash import AmpStash, MasterStash, PlainStash
from amp_shim.amp.state import maybe_print
from amp_shim.support.patching import Patches


def attach(optimizer: Optimizer, properties: Properties) -> None:
    """Give an optimizer what amp needs, as `optimizer._amp_stash` and methods of the instance.

    Raises RuntimeError for an optimizer that went through `amp.initialize` before.
    """
    if hasattr(optimizer, "_amp_stash"):
        raise RuntimeError("An optimizer can be passed to amp.initialize only once; make a new one.")
    masters = MasterStash(optimizer) if properties.master_weights else None
    stash = masters or PlainStash(optimizer)
    target: Any = optimizer
    target._amp_stash = stash
    target._amp_lazy_init = stash.lazy_init
    target._prepare_amp_backward = stash.prepare
    target._post_amp_backward = stash.finish
    _replace(optimizer, "add_param_group", _adopting)
    if masters:
        target._master_params_to_model_params = masters.masters_to_model
        _replace(optimizer, "step", _stepping_masters)
        _replace(optimizer, "zero_grad", _zeroing_masters)
    if properties.patch_torch_functions:
        _replace(optimizer, "step", _without_casts)


def stash_of(optimizer: Optimizer) -> AmpStash:
    """What `attach` hung on an optimizer. Raises RuntimeError for one that `amp.initialize` never saw."""
    stash = getattr(optimizer, "_amp_stash", None)
    if not isinstance(stash, AmpStash):
        raise RuntimeError("amp.scale_loss: this optimizer was not passed to amp.initialize")
    return stash


def skip_next_step(optimizer: Optimizer, scaler: LossScaler, loss_id: int) -> None:
    """Let the next `optimizer.step()` only say that it was skipped."""
    stash = stash_of(optimizer)
    if stash.already_patched:
        return
    patches = Patches()

    def skip_step(self: Optimizer, closure: Callable[[], Any] | None = None) -> None:
        if closure is not None:
            raise RuntimeError("amp does not support closures with a dynamic loss scale; call step() without one.")
        # Every rank says so, as in Apex: the flag is each rank's own.
        maybe_print(
            f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}"
        )
        stash.skipped()
        patches.undo()
        stash.already_patched = False

    patches.set(optimizer, "step", MethodType(functools.wraps(optimizer.step)(skip_step), optimizer))
    stash.already_patched = True


def _replace(optimizer: Optimizer, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(optimizer, name)
    # A bound method with the original's attributes, because learning-rate schedulers look for both.
    setattr(optimizer, name, MethodType(functools.wraps(original)(wrap(original)), optimizer))


def _adopting(original: Callable[..., None]) -> Callable[..., None]:
    def add_param_group(self: Optimizer, param_group: dict[str, Any]) -> None:
        stash = stash_of(self)
        stash.lazy_init()
        params = param_group["params"]
        param_group["params"] = [params] if isinstance(params, Tensor) else list(params)
        stash.adopt(param_group)
        original(param_group)

    return add_param_group


def _stepping_masters(original: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        if closure is not None:
            raise RuntimeError("amp does not support closures with master weights; call step() without one.")
        stash = _masters_of(self)
        result = original()
        stash.masters_to_model()
        stash.clear_master_grads()
        return result

    return step


def _zeroing_masters(original: Callable[..., None]) -> Callable[..., None]:
    def zero_grad(self: Optimizer, set_to_none: bool = False) -> None:
        stash = _masters_of(self)
        stash.lazy_init()
        stash.zero_grad(set_to_none)

    return zero_grad


def _without_casts(original: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with disable_casts():
            return original(*args, **kwargs)

    return step


def _masters_of(optimizer: Optimizer) -> MasterStash:
    stash = stash_of(optimizer)
    assert isinstance(stash, MasterStash)
    return stash
