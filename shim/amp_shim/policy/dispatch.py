"""Put a policy into force at the dispatcher's Autocast keys, and take it out again.

    with autocast(NATIVE_CUDA, "cpu", dtype=torch.float16):
        model(x)  # casts like CUDA autocast, on a machine without a GPU

An operator that the policy treats as PyTorch does keeps PyTorch's kernel and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import TracebackType

import torch

from amp_shim.policy.announce import Announce
from amp_shim.policy.operators import has_operator
from amp_shim.policy.policies import Policy
from amp_shim.policy.registration import KEYS, Registration

_open: dict[str, list[Enforcement]] = {device_type: [] for device_type in KEYS}
_registered: dict[str, Registration] = {}
_lock = RLock()


class Enforcement:
    """A policy in force on one device type, process-wide, until `close()`; also a context manager.

    Enforcements nest: the newest one holds, and closing it puts the one below back in force.
    """

    def __init__(self, policy: Policy, device_type: str, announce: Announce | None = None) -> None:
        self.policy = policy
        self.device_type = device_type
        self.announce = announce

    def close(self) -> None:
        """Take the policy out of force. Closing twice is harmless."""
        with _lock:
            if self in _open[self.device_type]:
                _open[self.device_type].remove(self)
                _settle(self.device_type)

    def __enter__(self) -> Enforcement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
    if device_type not in KEYS:
        raise ValueError(f"enforce: no autocast policy for device type {device_type!r}; use one of {sorted(KEYS)}")
    unknown = sorted(family for family in policy.families if not has_operator(family))
    if unknown:
        raise ValueError(f"enforce: PyTorch {torch.__version__} has no operator {', '.join(unknown)}")
    enforcement = Enforcement(policy, device_type, announce)
    with _lock:
        _open[device_type].append(enforcement)
        _settle(device_type)
    return enforcement


@contextmanager
def autocast(
    policy: Policy, device_type: str, dtype: torch.dtype | None = None, cache_enabled: bool | None = None
) -> Iterator[None]:
    """`torch.autocast(device_type, dtype=dtype)` by a policy, which holds in the whole process meanwhile.

    Other threads only notice where they are inside an autocast region of that device type themselves. Raises ValueError
    as `enforce` does.
    """
    with enforce(policy, device_type), torch.autocast(device_type, dtype=dtype, cache_enabled=cache_enabled):
        yield


def _settle(device_type: str) -> None:
    """Register the newest policy, unless it is in force already: then other threads compute on undisturbed."""
    newest = _open[device_type][-1] if _open[device_type] else None
    registered = _registered.get(device_type)
    if registered is not None:
        if newest is not None and registered.serves(newest.policy, newest.announce):
            return
        _registered.pop(device_type).withdraw()
    if newest is not None:
        _registered[device_type] = Registration(newest.policy, device_type, newest.announce)
