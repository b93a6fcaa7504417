"""Everything off by a unit in the last place, at random: how far from one another right float32 programs may be.

Fused optimizers, other layouts, fused attention and `loss * (1 / n)` for `loss / n` compute the same and round
otherwise. How that grows, the script itself tells.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_map

_ULP = 2.0**-23


class Off:
    """Puts float32 tensors off by a share of each element, or by nothing: random numbers of its own decide."""

    def __init__(self, seed: int, share: float) -> None:
        self._seed = seed
        self._share = share
        self._generators: dict[torch.device, torch.Generator] = {}

    def __call__(self, value: Any) -> Any:
        if not (isinstance(value, Tensor) and value.dtype is torch.float32 and value.numel()):
            return value
        generator = self._generators.get(value.device)
        if generator is None:
            generator = self._generators[value.device] = torch.Generator(value.device)
            generator.manual_seed(self._seed)
        signs = torch.randint(-1, 2, value.shape, generator=generator, device=value.device)
        return value * (1 + signs * self._share)


def install(seed: int) -> None:
    """Put every floating-point result of a module, and every gradient before its step, off by an ulp or none."""
    off = Off(seed, _ULP)

    def after_forward(module: Any, inputs: Any, result: Any) -> Any:
        if torch.is_grad_enabled() and not any(True for _ in module.children()):
            return tree_map(off, result)
        return None

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.layout is torch.strided:
                    parameter.grad.copy_(off(parameter.grad))

    register_module_forward_hook(after_forward)
    register_optimizer_step_pre_hook(before_step)
