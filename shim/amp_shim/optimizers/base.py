"""What the fused optimizers share: float32 arithmetic and state, Apex's `zero_grad`, Apex's checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from amp_shim.support.casting import LOW_PRECISION

Params = Iterable[Any]


@dataclass(frozen=True)
class Batch:
    """The parameters of one group on one device that have gradients.

    params: as they stand in the group. weights: float32, the parameters themselves where they are float32 already;
    an optimizer updates these in place. grads: float32; not to be changed, they may be the parameters' own.
    """

    group: dict[str, Any]
    params: list[Parameter]
    weights: list[Tensor]
    grads: list[Tensor]

    def write_back(self) -> None:
        """Round the weights into the parameters that are not float32."""
        pairs = [(p, w) for p, w in zip(self.params, self.weights, strict=True) if p is not w]
        if pairs:
            torch._foreach_copy_([param for param, _ in pairs], [weight for _, weight in pairs])


class FusedOptimizer(Optimizer):
    """An optimizer that computes in float32, whatever the type of the parameters.

    `set_grad_none` is what `zero_grad()` does without an argument. `step()` raises RuntimeError for sparse gradients
    and for parameters that are neither float32 nor half.
    """

    # Attributes beside groups and state that a copy or a pickle of the optimizer needs.
    _options: ClassVar[tuple[str, ...]] = ("set_grad_none", "_mastered")

    def __init__(self, params: Params, defaults: dict[str, Any], set_grad_none: bool) -> None:
        super().__init__(params, defaults)
        self.set_grad_none = set_grad_none
        # Types of parameters whose float32 weights outlive the step, as `state[param]["master"]`.
        self._mastered: tuple[torch.dtype, ...] = ()

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Drop the gradients or zero them; as `set_grad_none` says, unless told otherwise."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters. Returns what the closure returned, or None."""
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        batches = [batch for group in self.param_groups for batch in self._batches(group)]
        self._update(batches)
        for batch in batches:
            batch.write_back()
        return result

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state, in float32 also for half parameters. Takes the checkpoints of Apex's optimizers too."""
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for index, param in zip(saved, params, strict=True):
            for name, value in state_dict["state"].get(index, {}).items():
                if isinstance(value, Tensor) and value.is_floating_point():
                    self.state[param][name] = value.to(param.device, torch.float32, copy=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **{name: getattr(self, name) for name in self._options}}

    @abstractmethod
    def _update(self, batches: Sequence[Batch]) -> None:
        """Update the weights of every batch in place."""

    def _buffers(self, batch: Batch, name: str) -> list[Tensor]:
        """The state of that name for each parameter of a batch: float32, of its shape, zero at first."""
        for param, weight in zip(batch.params, batch.weights, strict=True):
            if name not in self.state[param]:
                self.state[param][name] = torch.zeros_like(weight, requires_grad=False)
        return [self.state[param][name] for param in batch.params]

    def _batches(self, group: dict[str, Any]) -> list[Batch]:
        by_device: dict[torch.device, Batch] = {}
        for param in group["params"]:
            if param.grad is not None:
                self._check(param)
                batch = by_device.setdefault(param.device, Batch(group, [], [], []))
                batch.params.append(param)
                batch.weights.append(self._weight(param))
                batch.grads.append(param.grad.float())
        return list(by_device.values())

    def _corrections(self) -> dict[int, tuple[float, float]]:
        """Count one more step; by `id(group)`, how far its first and second moments are from being averages."""
        found = {}
        for group in self.param_groups:
            group["step"] = int(group.get("step", 0)) + 1
            beta1, beta2 = group["betas"] if group["bias_correction"] else (0.0, 0.0)
            found[id(group)] = (1.0 - beta1 ** group["step"], 1.0 - beta2 ** group["step"])
        return found

    def _weight(self, param: Parameter) -> Tensor:
        if param.dtype is torch.float32:
            return param
        if param.dtype not in self._mastered:
            return param.float()
        state = self.state[param]
        if "master" not in state:
            state["master"] = param.float()
        master: Tensor = state["master"]
        return master

    def _check(self, param: Parameter) -> None:
        name = type(self).__name__
        if param.grad is not None and param.grad.is_sparse:
            raise RuntimeError(f"{name} does not support sparse gradients; use torch.optim.SparseAdam")
        if param.dtype not in (torch.float32, *LOW_PRECISION):
            raise RuntimeError(f"{name}: parameters must be float32 or half, found {param.dtype}")


def refuse_amsgrad(name: str, amsgrad: bool) -> None:
    """Raises RuntimeError if the AMSGrad variant was asked for."""
    if amsgrad:
        raise RuntimeError(f"{name} does not support the AMSGrad variant; use torch.optim.AdamW(..., amsgrad=True)")
