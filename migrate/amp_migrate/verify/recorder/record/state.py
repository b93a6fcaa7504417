"""What the script's objects hold at points of a run: modules, optimizers, schedules and random numbers, by fingerprint.

Two runs whose fingerprints are equal hold the same bits, in what no loss has shown yet as well: averaged weights,
running statistics, schedules. A few values of every tensor stand beside its fingerprint, so that where the bits differ
it can be told by how much.
"""

from __future__ import annotations

import gc
import hashlib
import random
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ..progress import Progress
from .objects import Objects, tensors_of

_VALUES = 8
_MUCH = 2**28  # bytes of state beyond which only few points are looked at
_FEW = (1, 20)
_PLAIN = (bool, int, float, str)


def fingerprint(tensor: Tensor) -> str:
    """Of a tensor's bits, wherever it is; equal for equal bits of one dtype and shape."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return f"not read: {tensor.layout}"
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(data.numpy().data, digest_size=8).hexdigest()


def described(tensor: Tensor) -> list[Any]:
    """Dtype, shape, fingerprint and a few values, as JSON."""
    if isinstance(tensor, (UninitializedBuffer, UninitializedParameter)):
        return [str(tensor.dtype).removeprefix("torch."), [], "not made yet", []]
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), fingerprint(tensor), _values(tensor)]


def _values(tensor: Tensor) -> list[float]:
    if not (tensor.is_floating_point() and tensor.layout is torch.strided and tensor.numel()) or tensor.is_meta:
        return []
    flat = tensor.detach().reshape(-1)
    picked = flat[:: max(1, flat.numel() // _VALUES)][:_VALUES]
    return [float(value) for value in picked.double().tolist()]


class StateRecorder:
    """Writes a `state` event after the first attempts at optimizer steps, then ever more rarely, and at the end."""

    def __init__(self, progress: Progress, objects: Objects) -> None:
        self._progress = progress
        self.objects = objects
        self._much = False

    def install(self) -> None:
        """Look after every attempt that is among those looked at, or where the run saves or goes on."""
        self._progress.after_attempt.append(self._after_attempt)

    def _after_attempt(self) -> None:
        number = self._progress.attempts
        if number == 1:
            self.objects.keep()
        if not self._progress.spec.program:
            return
        if number in _FEW or (not self._much and _is_point(number)):
            self.look(f"{number}")

    def look(self, point: str) -> None:
        """Write the state as it is now."""
        gc.collect()  # what is alive must not depend on when Python last looked
        objects = self.objects
        # With mixed precision off there are others than in the original: only a script is held against itself by these.
        scalers = objects.scalers() if self._progress.spec.resume else []
        models = [_model(module) for module in objects.models()]
        optimizers = [_optimizer(each) for each in objects.optimizers()]
        self._much = _bytes(objects) > _MUCH
        self._progress.writer.put(
            "state",
            point=point,
            attempt=self._progress.attempts,
            models=models,
            optimizers=optimizers,
            schedules=[{"state": _plain(each.state_dict())} for each in objects.schedules()],
            scalers=[_plain(each.state_dict()) for each in scalers],
            random=_random_state(self._progress.device),
        )


def _is_point(number: int) -> bool:
    """1, 2, 5, 10, 20, 50, ..."""
    text = str(number)
    return text[0] in "125" and not text[1:].strip("0")


def _model(module: nn.Module) -> dict[str, Any]:
    tensors = [[name, *described(tensor)] for name, tensor in tensors_of(module)]
    return {"class": type(module).__name__, "training": module.training, "tensors": tensors}


def _optimizer(optimizer: Any) -> dict[str, Any]:
    groups = [_plain(group) for group in optimizer.param_groups]
    state = []
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items() if hasattr(optimizer.state, "get") else ():
            if isinstance(value, Tensor):
                state.append([f"{index}.{key}", *described(value)])
            elif isinstance(value, _PLAIN):
                state.append([f"{index}.{key}", type(value).__name__, [], repr(value), []])
    return {"class": type(optimizer).__name__, "groups": groups, "state": state}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """The entries that are numbers, words, or short sequences of them; tensors of one element are numbers."""
    found: dict[str, Any] = {}
    for key, each in values.items():
        value = each.item() if isinstance(each, Tensor) and each.numel() == 1 else each
        if value is None or isinstance(value, _PLAIN):
            found[str(key)] = value
        elif isinstance(value, (list, tuple)) and len(value) <= 64 and all(isinstance(item, _PLAIN) for item in value):
            found[str(key)] = list(value)
    return found


def _bytes(objects: Objects) -> int:
    tensors = [tensor for module in objects.models() for _, tensor in tensors_of(module)]
    return 3 * sum(tensor.numel() * tensor.element_size() for tensor in tensors)  # two moments beside each


def _random_state(device: str) -> dict[str, str]:
    states = {"torch": fingerprint(torch.get_rng_state()), "python": _hash(repr(random.getstate()).encode())}
    if device == "cuda" and torch.cuda.is_initialized():
        states["cuda"] = fingerprint(torch.cuda.get_rng_state())
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        name, keys, *rest = numpy.random.get_state()
        states["numpy"] = _hash(keys.tobytes() + repr((name, rest)).encode())
    return states


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
