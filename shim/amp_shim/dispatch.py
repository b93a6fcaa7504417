"""Put a policy into force at the dispatcher's Autocast keys, and take it out again.

    with enforce(NATIVE_CUDA, "cpu"), torch.autocast("cpu", dtype=torch.float16):
        model(x)  # casts like CUDA autocast, on a machine without a GPU

An operator that the policy treats as PyTorch does keeps PyTorch's kernel and costs nothing.
"""

from __future__ import annotations

from functools import lru_cache
from types import TracebackType
from typing import Any

import torch

from amp_shim.announce import Announce, announcing
from amp_shim.kernels import Kernel, kernel_for, rounding_kernel
from amp_shim.operators import entry_points, full_name, has_operator, registered_operators, split
from amp_shim.policy import NATIVE_CUDA, Policy, Treatment
from amp_shim.weight_cache import WeightCache

_Library: Any = torch.library.Library  # its methods carry no annotations

_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}

# What a CPU runs instead of a kernel that exists on CUDA only.
_CPU_STAND_INS: dict[str, tuple[str, ...]] = {
    "_cudnn_rnn": ("lstm", "gru", "rnn_tanh", "rnn_relu"),
    "cudnn_convolution": (),
    "cudnn_convolution_transpose": (),
}

# Natural on CUDA, but without a half kernel on the CPU: computed in float32 and rounded to the type of the input.
_CPU_WITHOUT_HALF = frozenset({"avg_pool3d"})

_open: dict[str, list[Enforcement]] = {"cpu": [], "cuda": []}


class Enforcement:
    """A policy in force on one device type, process-wide, until `close()`; also a context manager.

    Enforcements nest: the newest one holds, and closing it puts the one below back in force.
    """

    def __init__(self, policy: Policy, device_type: str, announce: Announce | None = None) -> None:
        self.policy = policy
        self.device_type = device_type
        self._announce = announce
        self._libraries: dict[str, Any] | None = None
        self._cache = WeightCache()

    def close(self) -> None:
        """Take the policy out of force. Closing twice is harmless."""
        stack = _open[self.device_type]
        if self not in stack:
            return
        was_on_top = stack[-1] is self
        stack.remove(self)
        if was_on_top:
            self._withdraw()
            if stack:
                stack[-1]._register()

    def __enter__(self) -> Enforcement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _register(self) -> None:
        key, libraries = _KEYS[self.device_type], {"aten": _Library("aten", "IMPL")}
        for name, kernel in _kernels(self.policy, self.device_type, self._cache, self._announce).items():
            namespace, _ = split(name)
            if namespace not in libraries:
                libraries[namespace] = _Library(namespace, "IMPL")
            libraries[namespace].impl(name, kernel, key)
        self._libraries = libraries
        self._cache.attach()

    def _withdraw(self) -> None:
        if self._libraries is not None:
            self._cache.detach()
            for library in self._libraries.values():
                library._destroy()
            self._libraries = None


def enforce(policy: Policy, device_type: str = "cpu", announce: Announce | None = None) -> Enforcement:
    """Make `torch.autocast(device_type)` follow `policy` in this process until the returned handle is closed.

    On "cpu" the policy replaces the CPU's own lists, and the CPU stands in for a GPU: an operator that runs in half
    gets its arguments rounded to half, computes in float32 and rounds its result to half, which is what tensor cores
    do and many times faster than the CPU's half kernels; its backward pass rounds at the same places. `nn.LSTM` and
    its kin are cast as cuDNN's are. On "cuda" only the operators that differ from native autocast are touched, and
    half means half. Banned operators raise RuntimeError while autocast is enabled for the device.

    `announce` is called with a line such as `Float->Half (linear)` for each argument that is cast; every operator that
    casts then goes through Python.

    Forked workers inherit the enforcement; spawned ones do not. Raises ValueError for another device type and for a
    policy that names an operator that PyTorch does not have.
    """
    if device_type not in _KEYS:
        raise ValueError(f"enforce: no autocast policy for device type {device_type!r}; use one of {sorted(_KEYS)}")
    unknown = sorted(family for family in policy.families if not has_operator(family))
    if unknown:
        raise ValueError(f"enforce: PyTorch {torch.__version__} has no operator {', '.join(unknown)}")
    enforcement = Enforcement(policy, device_type, announce)
    stack = _open[device_type]
    if stack:
        stack[-1]._withdraw()
    stack.append(enforcement)
    enforcement._register()
    return enforcement


def _kernels(
    policy: Policy, device_type: str, cache: WeightCache, announce: Announce | None = None
) -> dict[str, Kernel]:
    """The kernels that turn the device's native lists into the policy, by full operator name."""
    kernels: dict[str, Kernel] = {}
    for op, treatment in _changes(policy, device_type, everything=announce is not None):
        if treatment is Treatment.NATURAL:
            kernels[full_name(op)] = torch.library.fallthrough_kernel
            continue
        kernel = kernel_for(op, treatment, device_type, cache)
        if announce is not None:
            kernel = announcing(op, treatment, device_type, kernel, announce)
        kernels[full_name(op)] = kernel
    if device_type == "cpu":
        natural = dict.fromkeys(registered_operators("AutocastCPU"), torch.library.fallthrough_kernel)
        for family in sorted(_CPU_WITHOUT_HALF - policy.families):
            natural.update({full_name(op): rounding_kernel(op, "cpu") for op in entry_points(family)})
        return {**natural, **kernels}
    return kernels


@lru_cache(maxsize=64)
def _changes(policy: Policy, device_type: str, everything: bool) -> tuple[tuple[torch._ops.OpOverload, Treatment], ...]:
    """The operators to register and what each gets: on "cuda" those that differ from native, or `everything`."""
    families = policy.families | (NATIVE_CUDA.families if device_type == "cuda" else frozenset())
    changes = []
    for family in sorted(families):
        treatment = policy.treatment(family)
        if device_type == "cuda" and not everything and treatment is NATIVE_CUDA.treatment(family):
            continue
        names = _CPU_STAND_INS.get(family, (family,)) if device_type == "cpu" else (family,)
        changes += [(op, treatment) for name in names for op in entry_points(name)]
    return tuple(changes)
