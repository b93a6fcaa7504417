"""The CPU stands in for a GPU: whatever the script says about "cuda" is done on the CPU, with CUDA's autocast.

Names are replaced on `torch` itself, at the end of its import. `torch.device("cuda")` stays what it is and is mapped
where it is used, so that a script's own comparisons hold. `torch.autocast("cuda")` and `GradScaler("cuda")` stay
PyTorch's own: they look at `torch.cuda.is_available()` and at the two autocast setters, which are answered here.
Not mapped: `tensor.is_cuda` and `tensor.device`, which tell the truth.
"""

from __future__ import annotations

import functools
import os
import sys
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.parallel
import torch.utils._device
import torch.utils.data

from ..apex import apex_amp
from ..process.place import UsersCode
from ..shim import load_shim
from . import cuda_table as table
from . import distributed

# Told of each tensor that the script puts on the GPU; they return what the script gets.
watchers: list[Callable[[Any], Any]] = []
_used: list[bool] = []  # whether the script has put anything on the GPU
_CPU = torch.device("cpu")
_CUDA = torch.device("cuda")


def install(shim: str, users: UsersCode) -> None:
    """Put the stand-in into force for this process. `shim` is the folder of the `amp_shim` package."""
    _answer_for_cuda()
    _map_factories()
    _map_tensor_methods()
    _map_legacy_types()
    _map_autocast()
    _ignore_regions_for_the_cpu(users)
    _map_the_rest()
    distributed.install()
    apex_amp.keep_on_cpu()
    load_shim(shim)
    from amp_shim.policy import NATIVE_CUDA
    from amp_shim.policy.dispatch import enforce

    enforce(NATIVE_CUDA, "cpu")


def is_cuda(device: Any) -> bool:
    """Whether a device argument (a name, a `torch.device`) means the GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and (device == "cuda" or device.startswith("cuda:"))


def on_cpu(device: Any) -> Any:
    """A device argument with the GPU replaced by the CPU; anything else as it is."""
    if not is_cuda(device):
        return device
    _used.append(True) if not _used else None
    return _CPU


def _answer_for_cuda() -> None:
    cuda: Any = torch.cuda
    for name, value in table.CONSTANTS.items():
        _replace(cuda, name, _constant(value))
    for name in table.NO_OPS:
        _replace(cuda, name, _constant(None))
    for name, value in table.OBJECTS.items():
        _replace(cuda, name, value)
    streams: Any = getattr(torch, "_streambase", None)
    for base, made in (("_EventBase", table.Event), ("_StreamBase", table.Stream)):
        if isinstance(kind := getattr(streams, base, None), ABCMeta):  # PyTorch 2.4: its compiler asks for them
            kind.register(made)
    _replace(cuda, "get_rng_state", lambda device="cuda": torch.get_rng_state())
    _replace(cuda, "get_rng_state_all", lambda: [torch.get_rng_state()])
    _replace(cuda, "initial_seed", torch.initial_seed)
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        for name, value in table.ACCELERATOR_CONSTANTS.items():
            _replace(accelerator, name, _constant(value))
        for name in table.ACCELERATOR_NO_OPS:
            _replace(accelerator, name, _constant(None))
        _replace(accelerator, "current_accelerator", lambda check_available=False: _CUDA)
        _replace(accelerator, "current_stream", table.Stream)


def _map_factories() -> None:
    for name in table.FACTORIES:
        original = getattr(torch, name)
        setattr(torch, name, _with_device_mapped(original))


def _map_tensor_methods() -> None:
    tensor: Any = torch.Tensor
    for name in table.TENSOR_METHODS:
        setattr(tensor, name, _with_device_mapped(getattr(tensor, name)))
    tensor.pin_memory = lambda self, *args, **kwargs: self
    tensor.record_stream = lambda self, stream: None
    tensor.cuda = _tensor_cuda
    to, parse_to = tensor.to, cast(Any, torch._C._nn)._parse_to
    tensor.to = lambda self, *args, **kwargs: to(self, *_of_gpu(args), **kwargs)
    # Of modules: 2.6 looks for an accelerator as soon as it reads an index.
    _replace(torch._C._nn, "_parse_to", lambda *args, **kwargs: parse_to(*_of_gpu(args), **_named(kwargs)))


def _of_gpu(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `to()` gets, with a device for the index of a GPU."""
    return (_CUDA, *args[1:]) if args and type(args[0]) is int else args


def _named(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Named arguments, with a device for the index of a GPU."""
    return {**kwargs, "device": _CUDA} if type(kwargs.get("device")) is int else kwargs


def _tensor_cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> torch.Tensor:
    return self.to(_CUDA, non_blocking=non_blocking, memory_format=memory_format)


def _map_legacy_types() -> None:
    for name in table.LEGACY_TYPES:
        setattr(torch.cuda, name, getattr(torch, name))
    original = torch.Tensor.type

    def type_(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return original(self, dtype, *args, **kwargs) if dtype is not None else original(self)

    tensor: Any = torch.Tensor
    tensor.type = type_


def _map_autocast() -> None:
    """Whatever is set for "cuda" holds for "cpu" too, which is where the tensors are."""
    set_enabled, set_dtype = torch.set_autocast_enabled, torch.set_autocast_dtype
    cast_value = torch.amp.autocast_mode._cast

    def set_autocast_enabled(*args: Any) -> None:
        device, enabled = args if len(args) == 2 else ("cuda", args[0])
        set_enabled(device, enabled)
        if device == "cuda":
            set_enabled("cpu", enabled)

    def set_autocast_dtype(device: str, dtype: torch.dtype) -> None:
        set_dtype(device, dtype)
        if device == "cuda":
            set_dtype("cpu", dtype)

    def cast_inputs(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        return cast_value(value, "cpu" if device_type == "cuda" else device_type, dtype)

    _replace(torch, "set_autocast_enabled", set_autocast_enabled)
    _replace(torch, "set_autocast_dtype", set_autocast_dtype)
    _replace(torch, "set_autocast_gpu_dtype", functools.partial(set_autocast_dtype, "cuda"))
    _replace(torch.amp.autocast_mode, "_cast", cast_inputs)


def _ignore_regions_for_the_cpu(users: UsersCode) -> None:
    """The script's own `autocast("cpu")` does nothing to what it has put on the GPU."""
    kind: Any = torch.amp.autocast_mode.autocast
    init, enter, leave = kind.__init__, kind.__enter__, kind.__exit__
    torch_folder = os.path.dirname(torch.__file__)

    @functools.wraps(init)
    def made(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        init(self, device_type, *args, **kwargs)
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(torch_folder):
            frame = frame.f_back
        self._amp_verify_elsewhere = device_type == "cpu" and users.holds(frame.f_code.co_filename)

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        self._amp_verify_elsewhere = self._amp_verify_elsewhere and bool(_used)
        return self if self._amp_verify_elsewhere else enter(self)

    @functools.wraps(leave)
    def left(self: Any, *args: Any) -> Any:
        return None if self._amp_verify_elsewhere else leave(self, *args)

    kind.__init__, kind.__enter__, kind.__exit__ = made, entered, left


def _map_the_rest() -> None:
    """Places that read a device on a way of their own."""
    load = torch.load

    @functools.wraps(load)
    def load_on_cpu(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(map_location, dict):
            map_location = {key: str(on_cpu(value)) for key, value in map_location.items()}
        elif map_location is None:
            map_location = _CPU
        return load(f, on_cpu(map_location), *args, **kwargs)

    class Generator(torch.Generator):
        def __new__(cls, device: Any = "cpu") -> Generator:
            made: Generator = super().__new__(cls, on_cpu(device))  # type: ignore[call-arg]
            return made

    loader: Any = torch.utils.data.DataLoader
    init = loader.__init__

    @functools.wraps(init)
    def init_unpinned(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.pin_memory = False

    context: Any = torch.utils._device.DeviceContext
    enter_device = context.__init__

    _replace(torch, "load", load_on_cpu)
    _replace(torch, "Generator", Generator)
    loader.__init__ = init_unpinned
    context.__init__ = lambda self, device: enter_device(self, on_cpu(device))
    # By its full name: `torch.nn.parallel` holds a function that is called like the module.
    _replace(sys.modules["torch.nn.parallel.data_parallel"], "_get_available_device_type", _constant(None))


def _with_device_mapped(original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, with the GPU replaced by the CPU wherever it stands among the arguments."""

    @functools.wraps(original)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        kwargs = _named(kwargs)
        result = original(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()})
        if watchers and (any(map(is_cuda, args)) or any(map(is_cuda, kwargs.values()))):
            return watchers[-1](result)
        return result

    return mapped


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _replace(holder: Any, name: str, value: Any) -> None:
    """Replace what exists; a name that this version of torch lacks is not invented."""
    if hasattr(holder, name):
        setattr(holder, name, value)
