"""A CPU in the place of Apex's GPU, for the Apex of a checkout and for its tests.

Devices are mapped as `amp-verify` maps them. Apex and its tests ask besides for the names of types and for `is_cuda`:
every tensor passes for one of the GPU, but those that were put on the CPU by name, and what is computed from them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import amp_shim
import torch
from amp_migrate.verify.recorder.standin import cuda_table, devices
from torch import Tensor
from torch.utils._pytree import tree_leaves

_SHIM = Path(amp_shim.__file__).parent


class OnCpu(Tensor):
    """A tensor that was put on the CPU by name; what is computed from floating ones is one too."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            leaves = [each for each in tree_leaves((args, kwargs)) if isinstance(each, OnCpu)]
            if not any(map(torch.is_floating_point, leaves)):
                # Lengths and indices, which functions of the GPU take from the CPU.
                return func(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)


def stand_in() -> None:
    """Map the GPU to the CPU for this process, before it imports `amp_shim.amp` or Apex."""
    assert "amp_shim.amp" not in sys.modules
    devices.install(str(_SHIM))
    torch.set_flush_denormal(True)  # as Apex's kernels do
    for name in cuda_table.FACTORIES:
        setattr(torch, name, _marked(getattr(torch, name)))
    tensor: Any = Tensor
    tensor.cuda = _on_gpu(Tensor.cuda)
    tensor.cpu = _cpu
    tensor.to = _moved(Tensor.to)
    tensor.type = _type(Tensor.type)
    tensor.is_cuda = property(lambda self: not isinstance(self, OnCpu))


def apex_of(folder: Path) -> Any:
    """`apex` of a checkout, without its extensions and without the packages that need them."""
    package: Any = ModuleType("apex")
    package.__path__ = [str(folder / "apex")]
    package.deprecated_warning = lambda message: None
    sys.modules["apex"] = package
    return package


def _is_cpu(device: Any) -> bool:
    return (isinstance(device, torch.device) and device.type == "cpu") or device == "cpu"


def _marked(factory: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(factory)
    def made(*args: Any, **kwargs: Any) -> Tensor:
        result = factory(*args, **kwargs)
        return result.as_subclass(OnCpu) if _is_cpu(kwargs.get("device")) else result

    return made


def _cpu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return self.clone().as_subclass(OnCpu)


def _on_gpu(native: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def cuda(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return native(self, *args, **kwargs).as_subclass(_class(self))

    return cuda


def _moved(native: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        device = next((each for each in (*args, *kwargs.values()) if isinstance(each, (str, torch.device))), None)
        result = native(self, *args, **kwargs)
        if device is None:
            return result
        return result.as_subclass(OnCpu if _is_cpu(device) else _class(self))

    return to


def _class(tensor: Tensor) -> type[Tensor]:
    return Tensor if isinstance(tensor, OnCpu) else type(tensor)


def _type(native: Callable[..., Any]) -> Callable[..., Any]:
    def type_(self: Tensor, dtype: Any = None, **options: Any) -> Any:
        if dtype is not None:
            return native(self, dtype, **options)
        name = native(self)
        return name if isinstance(self, OnCpu) else name.replace("torch.", "torch.cuda.")

    return type_
