"""What Apex keeps beside an optimizer: gradients set aside during a backward pass, and float32 master weights.

Gradients that `scale_loss` finds are unscaled already, those of the pass to come will be scaled. So the old ones are
set aside on entry, and added to the new ones, unscaled, on exit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.support.casting import LOW_PRECISION


class GradStash:
    """Gradients of parameters that are stepped as they are, set aside during one backward pass."""

    def __init__(self) -> None:
        self.params: list[Parameter] = []
        self._aside: list[tuple[Parameter, Tensor]] = []

    def set_aside(self) -> None:
        self._aside = [(param, param.grad) for param in self.params if param.grad is not None]
        for param in self.params:
            param.grad = None

    def finish(self, scaler: LossScaler) -> None:
        """Unscale what the pass produced and add what was set aside."""
        scaler.unscale_([param.grad for param in self.params if param.grad is not None])
        both = [(param.grad, old) for param, old in self._aside if param.grad is not None]
        for param, old in self._aside:
            if param.grad is None:
                param.grad = old
        if both:
            torch._foreach_add_([new for new, _ in both], [old for _, old in both])
        self._aside = []

    def abandon(self) -> None:
        """Forget the pass: every gradient is again what it was before."""
        for param in self.params:
            param.grad = None
        for param, old in self._aside:
            param.grad = old
        self._aside = []


class AmpStash(ABC):
    """The state that `amp.initialize` hangs on an optimizer as `_amp_stash`.

    lazy_init_called: parameters are sorted, masters exist. already_patched: the next `step()` will be skipped.
    params_have_scaled_gradients: a `delay_unscale` pass left scaled gradients behind.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.lazy_init_called = False
        self.already_patched = False
        self.params_have_scaled_gradients = False

    def lazy_init(self) -> None:
        """Take in the optimizer's parameters, once. Late, so that weights loaded after `initialize` are seen."""
        if not self.lazy_init_called:
            self.lazy_init_called = True
            for group in self.optimizer.param_groups:
                self.adopt(group)
            self._adopted_all()

    @abstractmethod
    def adopt(self, group: dict[str, Any]) -> None:
        """Take in one parameter group. Raises TypeError for a parameter that is neither float32 nor half."""

    @abstractmethod
    def prepare(self) -> None:
        """Before a backward pass: set the gradients aside."""

    @abstractmethod
    def finish(self, scaler: LossScaler) -> None:
        """After a backward pass: the gradients that the optimizer sees are unscaled and accumulated."""

    @abstractmethod
    def abandon(self) -> None:
        """After a backward pass that raised: the gradients that the optimizer sees are those from before."""

    @abstractmethod
    def skipped(self) -> None:
        """A step was skipped."""

    @abstractmethod
    def _adopted_all(self) -> None:
        """Every group has been adopted for the first time."""


class PlainStash(AmpStash):
    """O0, O1, O3: the optimizer steps the model's own parameters."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer)
        self._stash = GradStash()

    def adopt(self, group: dict[str, Any]) -> None:
        for param in group["params"]:
            _check(param)
            self._stash.params.append(param)

    def prepare(self) -> None:
        self._stash.set_aside()

    def finish(self, scaler: LossScaler) -> None:
        self._stash.finish(scaler)

    def abandon(self) -> None:
        self._stash.abandon()

    def skipped(self) -> None:
        """Gradients stay until the script zeroes them, as in Apex."""

    def _adopted_all(self) -> None:
        """The optimizer's state belongs to the model's own parameters already."""


class MasterStash(AmpStash):
    """O2: half parameters are stepped through float32 masters, which take their place in `param_groups`.

    all_fp16_params: half parameters of the model. all_fp32_from_fp16_params: their masters, in the same order.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer)
        self.all_fp16_params: list[Parameter] = []
        self.all_fp32_from_fp16_params: list[Parameter] = []
        self._floats = GradStash()

    @property
    def all_fp32_from_fp32_params(self) -> list[Parameter]:
        """The float32 parameters of the model, which have no master."""
        return self._floats.params

    def adopt(self, group: dict[str, Any]) -> None:
        for index, param in enumerate(group["params"]):
            _check(param)
            if param.dtype is torch.float32:
                self._floats.params.append(param)
            elif param.requires_grad:
                master = Parameter(param.detach().clone().float())
                group["params"][index] = master
                self.all_fp16_params.append(param)
                self.all_fp32_from_fp16_params.append(master)

    def prepare(self) -> None:
        for param in self.all_fp16_params:
            param.grad = None
        self._floats.set_aside()

    def finish(self, scaler: LossScaler) -> None:
        pairs = [
            (param.grad, master)
            for param, master in zip(self.all_fp16_params, self.all_fp32_from_fp16_params, strict=True)
            if param.grad is not None
        ]
        grads = [torch.empty_like(master) for _, master in pairs]
        if pairs:
            torch._foreach_copy_(grads, [half for half, _ in pairs])
        scaler.unscale_(grads)
        for (_, master), grad in zip(pairs, grads, strict=True):
            master.grad = grad if master.grad is None else grad.add_(master.grad)
        self._floats.finish(scaler)

    def abandon(self) -> None:
        for param in self.all_fp16_params:
            param.grad = None
        self._floats.abandon()

    def skipped(self) -> None:
        self.clear_master_grads()

    def clear_master_grads(self) -> None:
        for master in self.all_fp32_from_fp16_params:
            master.grad = None

    @torch.no_grad()
    def masters_to_model(self) -> None:
        """Round the masters into the half parameters."""
        if self.all_fp16_params:
            torch._foreach_copy_(list[Tensor](self.all_fp16_params), list[Tensor](self.all_fp32_from_fp16_params))

    def zero_grad(self, set_to_none: bool) -> None:
        for param in (*self.all_fp16_params, *self._floats.params):
            if param.grad is not None:
                param.grad = None if set_to_none else param.grad.detach().zero_()
        self.clear_master_grads()

    def _adopted_all(self) -> None:
        state = self.optimizer.state
        for param, master in zip(self.all_fp16_params, self.all_fp32_from_fp16_params, strict=True):
            if param in state:
                state[master] = state.pop(param)
        if state:
            # Loading casts floating state to the dtype of its parameter, which is now float32.
            self.optimizer.load_state_dict(self.optimizer.state_dict())


def _check(param: Tensor) -> None:
    if param.requires_grad and param.dtype not in (torch.float32, *LOW_PRECISION):
        raise TypeError(f"amp: an optimizer's parameters must be float32 or half, found {param.dtype}")
