"""`FP16_Optimizer`: an optimizer that steps float32 masters of half parameters and scales the loss itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.amp.state import maybe_print
from amp_shim.fp16_utils.fp16util import master_params_to_model_params
from amp_shim.support.casting import LOW_PRECISION

_SCALER_FIELDS = ("_loss_scale", "_unskipped", "dynamic")


class FP16_Optimizer:
    """Wraps an optimizer: `optimizer.backward(loss)` in place of `loss.backward()`, then `optimizer.step()`.

    The half parameters in `init_optimizer.param_groups` are replaced by float32 masters at once. `fp16_groups`,
    `fp32_from_fp16_groups` and `fp32_from_fp32_groups` list, per group, the half parameters, their masters, and the
    parameters that are float32 themselves. Not an `Optimizer`, as in Apex.

    Args:
        init_optimizer: the optimizer to wrap, kept as `optimizer`.
        static_loss_scale: the constant scale; gradients are then never checked.
        dynamic_loss_scale: scale dynamically instead, from 2^16.
        dynamic_loss_args: arguments of `amp_shim.amp.scaling.scaler.LossScaler` for a dynamic scale.
        verbose: print which parameters got masters.

    Raises TypeError for a trainable parameter that is neither float32 nor half.
    """

    def __init__(
        self,
        init_optimizer: Optimizer,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.optimizer = init_optimizer
        self.verbose = verbose
        self.dynamic_loss_scale = dynamic_loss_scale
        arguments = dynamic_loss_args or {}
        self.loss_scaler = LossScaler("dynamic", **arguments) if dynamic_loss_scale else LossScaler(static_loss_scale)
        self.overflow = False
        self.first_closure_call_this_step = True
        self.fp16_groups: list[list[Parameter]] = []
        self.fp32_from_fp16_groups: list[list[Parameter]] = []
        self.fp32_from_fp32_groups: list[list[Parameter]] = []
        for index, group in enumerate(init_optimizer.param_groups):
            self._adopt(group)
            if verbose:
                halves, floats = len(self.fp16_groups[-1]), len(self.fp32_from_fp32_groups[-1])
                maybe_print(f"FP16_Optimizer: group {index} has {halves} half and {floats} float32 parameters", True)
        # Loading casts floating state to the type of its parameter, which may just have changed.
        init_optimizer.load_state_dict(init_optimizer.state_dict())

    @property
    def all_fp16_params(self) -> list[Parameter]:
        return list(chain.from_iterable(self.fp16_groups))

    @property
    def all_fp32_from_fp16_params(self) -> list[Parameter]:
        return list(chain.from_iterable(self.fp32_from_fp16_groups))

    @property
    def all_fp32_from_fp32_params(self) -> list[Parameter]:
        return list(chain.from_iterable(self.fp32_from_fp32_groups))

    @property
    def loss_scale(self) -> float:
        """The current loss scale; may be assigned."""
        return self.loss_scaler.loss_scale()

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self.loss_scaler._loss_scale = value

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @state.setter
    def state(self, value: Any) -> None:
        self.optimizer.state = value

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = value

    def zero_grad(self, set_grads_to_None: bool = False) -> None:
        """Zero the gradients of masters and model, or drop them."""
        masters = [param for group in self.param_groups for param in group["params"]]
        for param in (*masters, *self.all_fp16_params):
            if param.grad is not None:
                param.grad = None if set_grads_to_None else param.grad.detach().zero_()

    def backward(self, loss: Tensor, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """Run backward from the loss, in float32 and scaled, and make the masters' gradients from the result.

        For several losses pass `update_master_grads=False`, and call `update_master_grads()` after the last.
        """
        (loss.float() * self.loss_scale).backward(retain_graph=retain_graph)
        if update_master_grads:
            self.update_master_grads()

    @torch.no_grad()
    def update_master_grads(self) -> None:
        """Copy the model's gradients to the masters, unscale them, and move the loss scale."""
        self.loss_scaler.clear_overflow_state()
        masters, halves = self.all_fp32_from_fp16_params, self.all_fp16_params
        pairs = [(master, half) for master, half in zip(masters, halves, strict=True) if half.grad is not None]
        for master, _ in pairs:
            if master.grad is None:
                master.grad = torch.empty_like(master)
        grads = [master.grad for master, _ in pairs if master.grad is not None]
        if grads:
            torch._foreach_copy_(grads, [half.grad for _, half in pairs if half.grad is not None])
        grads += [param.grad for param in self.all_fp32_from_fp32_params if param.grad is not None]
        self.loss_scaler.unscale_(grads)
        self.overflow = self.loss_scaler.update_scale()

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Tensor | float:
        """Clip the masters' gradients together; their norm before, or -1 after an overflow."""
        if self.overflow:
            return -1
        masters = [param for group in self.param_groups for param in group["params"]]
        return clip_grad_norm_(masters, max_norm, norm_type)

    def inspect_master_grad_data(self) -> list[list[Tensor | None]] | None:
        """The masters' gradients by group; None, with a printed line, after an overflow."""
        if self.overflow:
            print("FP16_Optimizer: the gradients overflowed and cannot be inspected; returning None")
            return None
        return [[None if p.grad is None else p.grad.data for p in group["params"]] for group in self.param_groups]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step the masters and round them into the model; after an overflow only say that the step is skipped.

        A closure calls `zero_grad()` and `backward(loss)` of this object, and returns the loss.
        """
        if self.overflow:
            maybe_print(f"Gradient overflow.  Skipping step, reducing loss scale to {self.loss_scale}")
            return None
        result = self.optimizer.step() if closure is None else self.optimizer.step(self._fresh(closure))
        self.first_closure_call_this_step = True
        self._masters_to_model()
        return result

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values, the masters among them: `torch.load(..., weights_only=True)` reads it."""
        return {
            "loss_scaler": {name: getattr(self.loss_scaler, name) for name in _SCALER_FIELDS},
            "dynamic_loss_scale": self.dynamic_loss_scale,
            "overflow": self.overflow,
            "first_closure_call_this_step": self.first_closure_call_this_step,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "fp32_from_fp16": [[master.detach() for master in group] for group in self.fp32_from_fp16_groups],
        }

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore everything but the model, which the caller loads, before or after.

        Takes Apex's own checkpoints too, whose loss scaler is an object.
        """
        saved = state_dict["loss_scaler"]
        fields = saved if isinstance(saved, Mapping) else vars(saved)
        for name in _SCALER_FIELDS:
            setattr(self.loss_scaler, name, fields[name])
        self.dynamic_loss_scale = state_dict["dynamic_loss_scale"]
        self.overflow = state_dict["overflow"]
        self.first_closure_call_this_step = state_dict["first_closure_call_this_step"]
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
        for masters, loaded in zip(self.fp32_from_fp16_groups, state_dict["fp32_from_fp16"], strict=True):
            for master, value in zip(masters, loaded, strict=True):
                master.copy_(value)

    def __getstate__(self) -> NoReturn:
        raise RuntimeError("FP16_Optimizer cannot be pickled; save its state_dict()")

    def _adopt(self, group: dict[str, Any]) -> None:
        halves: list[Parameter] = []
        masters: list[Parameter] = []
        floats: list[Parameter] = []
        for index, param in enumerate(group["params"]):
            if not param.requires_grad:
                continue
            if param.dtype in LOW_PRECISION:
                master = Parameter(param.detach().float())
                group["params"][index] = master
                halves.append(param)
                masters.append(master)
                if param in self.optimizer.state:
                    self.optimizer.state[master] = self.optimizer.state.pop(param)
            elif param.dtype is torch.float32:
                floats.append(param)
            else:
                raise TypeError(f"FP16_Optimizer: parameters must be float32 or half, found {param.dtype}")
        self.fp16_groups.append(halves)
        self.fp32_from_fp16_groups.append(masters)
        self.fp32_from_fp32_groups.append(floats)

    def _masters_to_model(self) -> None:
        master_params_to_model_params(self.all_fp16_params, self.all_fp32_from_fp16_params)

    def _fresh(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure that runs on the masters of the moment, again and again until nothing overflows."""

        def evaluate() -> Any:
            if not self.first_closure_call_this_step:
                self._masters_to_model()
            self.first_closure_call_this_step = False
            loss = closure()
            while self.overflow:
                maybe_print(f"Gradient overflow in the closure, reducing loss scale to {self.loss_scale}")
                loss = closure()
            return loss

        return evaluate
