"""The kernels of a policy, registered at a device's Autocast key."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from amp_shim.policy.announce import Announce, announcing
from amp_shim.policy.kernels import Kernel, kernel_for, rounding_kernel
from amp_shim.policy.operators import entry_points, full_name, registered_operators, split
from amp_shim.policy.policies import NATIVE_CUDA, Policy, Treatment
from amp_shim.policy.weight_cache import WeightCache

KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
"""The device types that have a policy, and their dispatch keys."""

_Library: Any = torch.library.Library  # its methods carry no annotations

# What a CPU runs instead of a kernel that exists on CUDA only.
_CPU_STAND_INS: dict[str, tuple[str, ...]] = {
    "_cudnn_rnn": ("lstm", "gru", "rnn_tanh", "rnn_relu"),
    "cudnn_convolution": (),
    "cudnn_convolution_transpose": (),
}

# Natural on CUDA, but without a half kernel on the CPU (PyTorch 2.4 has none for the paddings): computed in float32 and
# rounded to the type of the input.
_CPU_WITHOUT_HALF = frozenset({"avg_pool3d", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d"})


class Registration:
    """A policy at the Autocast key of a device type, from construction until `withdraw()`."""

    def __init__(self, policy: Policy, device_type: str, announce: Announce | None = None) -> None:
        self._policy = policy
        self._announce = announce
        self._cache = WeightCache()
        self._libraries = {"aten": _Library("aten", "IMPL")}
        for name, kernel in _kernels(policy, device_type, self._cache, announce).items():
            namespace, _ = split(name)
            if namespace not in self._libraries:
                self._libraries[namespace] = _Library(namespace, "IMPL")
            self._libraries[namespace].impl(name, kernel, KEYS[device_type])
        self._cache.attach()

    def serves(self, policy: Policy, announce: Announce | None) -> bool:
        """Whether registering these anew would change nothing."""
        return self._policy == policy and self._announce == announce

    def withdraw(self) -> None:
        """Put PyTorch's own kernels back."""
        self._cache.detach()
        for library in self._libraries.values():
            library._destroy()


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
