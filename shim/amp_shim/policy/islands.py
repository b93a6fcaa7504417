"""Parts of a model that stay in float32, whatever surrounds them.

    islands = keep_fp32(model, "head.*", nn.LayerNorm)

Works under any autocast region and at every opt level.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from amp_shim.support.casting import cast_floating


class FloatForward:
    """A module's `forward` on float32 inputs, with autocast off.

    An object that names its module instead of closing over a bound method, so that a deep copy of the model runs the
    copy's weights and a pickled model can be loaded.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._inner: Callable[..., Any] | None = vars(module).get("forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = cast_floating(args, torch.float32), cast_floating(kwargs, torch.float32)
        # Two plain blocks, because torch.compile cannot see through a stack of them.
        with torch.autocast("cpu", enabled=False):
            if not torch.is_autocast_enabled("cuda"):
                return self._run(args, kwargs)
            with torch.autocast("cuda", enabled=False):
                return self._run(args, kwargs)

    def remove(self) -> None:
        """Give the module the `forward` back that it had."""
        if self._inner is None:
            del self._module.forward
        else:
            self._module.forward = self._inner

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._inner is not None:
            return self._inner(*args, **kwargs)
        return type(self._module).forward(self._module, *args, **kwargs)


class Islands:
    """Modules that run in float32, by name, until `close()`."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        self.names = tuple(modules)
        self._forwards = [FloatForward(module.float()) for module in modules.values()]
        for forward in self._forwards:
            forward._module.forward = forward

    def close(self) -> None:
        """Let the modules follow their surroundings again. Weights stay float32. Closing twice is harmless."""
        while self._forwards:
            self._forwards.pop().remove()


def keep_fp32(model: nn.Module, *parts: str | type[nn.Module]) -> Islands:
    """Make parts of a model run in float32: weights, floating inputs, every operator inside, and outputs.

    Args:
        model: changed in place. At O2 and O3 call this after `amp.initialize`, which casts weights.
        parts: names of modules as in `model.named_modules()`, with `*` and `?` as in file names, or their classes.
            A module stands for everything below it.

    Only calls of the modules themselves are covered, not of other methods. Raises ValueError for a part that the model
    does not have.
    """
    chosen: dict[str, nn.Module] = {}
    for part in parts:
        found = {name: module for name, module in model.named_modules() if name and _is_part(name, module, part)}
        if not found:
            what = repr(part) if isinstance(part, str) else f"of class {part.__name__}"
            raise ValueError(f"keep_fp32: the model has no module {what}; see model.named_modules()")
        chosen |= found
    below_another = {name for name in chosen for other in chosen if name.startswith(other + ".")}
    return Islands({name: module for name, module in chosen.items() if name not in below_another})


def _is_part(name: str, module: nn.Module, part: str | type[nn.Module]) -> bool:
    return fnmatchcase(name, part) if isinstance(part, str) else isinstance(module, part)
