"""Scripts with `FP16_Optimizer`: followed like those of `apex.amp`, and run in float32 when mixed precision is off."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..process.imports import once_after_import

if TYPE_CHECKING:
    from ..progress import Progress
    from ..record.steps import StepRecorder

_MODULES = ("apex.fp16_utils", "amp_shim.fp16_utils")
_MAKE_HALF = ("BN_convert_float", "FP16Model", "network_to_half")


def switch_off() -> None:
    """Networks keep their float32 weights, and no loss is scaled."""

    def on_module(module: Any) -> None:
        make = module.FP16_Optimizer.__init__

        @functools.wraps(make)
        def unscaled(self: Any, init_optimizer: Any, *args: Any, **kwargs: Any) -> None:
            make(self, init_optimizer, verbose=False)  # what it says of itself is no part of the program

        module.FP16_Optimizer.__init__ = unscaled
        for name in _MAKE_HALF:
            setattr(module, name, lambda network: network)

    once_after_import(_MODULES, "FP16_Optimizer", on_module)


def follow(progress: Progress, steps: StepRecorder) -> None:
    """Record what the wrapper scales, its scale, and the steps that it leaves out."""
    from ..record.losses import mark_scaled

    def on_module(module: Any) -> None:
        wrapper = module.FP16_Optimizer
        step = wrapper.step

        def backward(self: Any, loss: Any, update_master_grads: bool = True, retain_graph: bool = False) -> None:
            scaled = loss.float() * self.loss_scale
            mark_scaled(scaled, loss)
            scaled.backward(retain_graph=retain_graph)
            if update_master_grads:
                self.update_master_grads()
            progress.writer.put("scale", attempt=progress.attempts, scale=float(self.loss_scale))

        @functools.wraps(step)
        def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.overflow:
                return step(self, *args, **kwargs)
            steps.begin(self.optimizer, scaled=True)
            result = step(self, *args, **kwargs)
            steps.end(infs=1.0)
            return result

        steps.count_zeroing(wrapper)  # it zeroes by itself, and is no optimizer of PyTorch's
        wrapper.backward, wrapper.step = functools.wraps(wrapper.backward)(backward), recorded

    once_after_import(_MODULES, "FP16_Optimizer", on_module)
