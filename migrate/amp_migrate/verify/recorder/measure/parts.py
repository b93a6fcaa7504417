"""What mixed precision costs each part of a model: the part as it ran, beside itself in float32 on the same inputs.

Errors that were made before a part do not count for it, because both computations begin with what it was given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from ..part import Part
from ..process.place import UsersCode
from ..progress import Progress
from .models import owner

_HALVES = (torch.float16, torch.bfloat16)
_SMALLEST_HALF = 2.0**-24  # smaller values are zero in float16


@dataclass
class Parts:
    """Compares every call of every part of the models that it is told of."""

    progress: Progress
    users: UsersCode
    # Not weakly: a model that is a local variable of the script's main() is gone when the parts are written.
    _known: dict[nn.Module, Part] = field(default_factory=dict)
    _replaying: bool = False

    def install(self) -> None:
        """Follow the calls of all modules. Nothing is compiled, because compiled code would not call them."""
        module: Any = nn.Module
        call = module.__call__

        @functools.wraps(call)
        def compared(this: Any, *args: Any, **kwargs: Any) -> Any:
            part = self._known.get(this)
            if part is None or self._replaying or not torch.is_grad_enabled():
                return call(this, *args, **kwargs)
            state = _random_state(self.progress.device)
            watch = _Overflow(part)
            watch.arriving(args, kwargs)
            result = call(this, *args, **kwargs)
            with suppress(Exception), self._replay(state):  # a part that cannot be called twice is not compared
                expected = self._in_float32(part, this, args, kwargs)
                _compare(part, tree_leaves(result), tree_leaves(expected), watch)
            part.calls += 1
            return result

        module.__call__ = compared
        module.compile = lambda this, *args, **kwargs: None
        holder: Any = torch
        holder.compile = lambda model=None, **options: model if model is not None else lambda function: function

    def add(self, ordinal: int, model: nn.Module) -> None:
        """Compare the parts of a model from now on."""
        for name, module in model.named_modules():
            leaf = not any(True for _ in module.children())
            # `custom_fwd` casts what is iterable item by item, and would take an `nn.Sequential` for a list.
            named = "" if hasattr(module, "__iter__") else owner(type(module), self.users)
            learns = any(True for _ in module.parameters())
            part = Part(ordinal, name, type(module).__name__, leaf, owner=named, learns=learns)
            self._known.setdefault(module, part)

    def write(self) -> None:
        """Write a `part` event for each part that was called."""
        for part in self._known.values():
            if part.calls:
                self.progress.writer.put("part", **asdict(part))

    @contextmanager
    def _replay(self, state: list[Tensor]) -> Iterator[None]:
        after = _random_state(self.progress.device)
        self._replaying = True
        _set_random_state(state)
        try:
            with torch.no_grad(), torch.autocast(self.progress.device, enabled=False):
                yield
        finally:
            _set_random_state(after)
            self._replaying = False

    def _in_float32(self, part: Part, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """What the module gives in float32. Its buffers keep their values: the call has copies of its own."""
        own = {name: _whole(value) for name, value in module.named_parameters(remove_duplicate=False)}
        own |= {name: _whole(value).clone() for name, value in module.named_buffers(remove_duplicate=False)}
        args, kwargs = tree_map(_whole, args), tree_map(_whole, kwargs)
        if part.calls:
            return functional_call(module, own, args, kwargs, tie_weights=False)
        with FlopCounterMode(display=False) as counter:
            result = functional_call(module, own, args, kwargs, tie_weights=False)
        part.flops = counter.get_total_flops()
        return result


class _Overflow:
    """One call's gradients: finite when they reach the part from behind, and not when they leave it."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._came_finite = False

    def arriving(self, args: Any, kwargs: Any) -> None:
        """Look at the gradients of the inputs, once they are there."""
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, Tensor) and value.requires_grad:
                value.register_hook(self._leave)

    def leaving(self, difference: float) -> Callable[[Tensor], None]:
        """The hook for a result that is `difference` away from what it should be."""

        def come(gradient: Tensor) -> None:
            norm = float(torch.linalg.vector_norm(gradient.detach().float()))
            if norm < float("inf"):
                self._came_finite = True
                self._part.harm = max(self._part.harm, norm * difference)

        return come

    def _leave(self, gradient: Tensor) -> None:
        if self._came_finite and not bool(torch.isfinite(gradient.detach()).all()):
            self._part.overflow = True


def _compare(part: Part, results: list[Any], expected: list[Any], watch: _Overflow) -> None:
    half_bytes = 0
    for got, wanted in zip(results, expected, strict=False):
        if not (isinstance(got, Tensor) and isinstance(wanted, Tensor) and got.is_floating_point() and got.numel()):
            continue
        if got.dtype in _HALVES:
            half_bytes += got.numel() * got.element_size()
        difference = _differ(part, got.detach().float(), wanted.float())
        if got.requires_grad:
            got.register_hook(watch.leaving(difference))
    part.half_bytes = part.half_bytes or half_bytes


def _differ(part: Part, got: Tensor, wanted: Tensor) -> float:
    """Add one result to what is known of a part; returns the norm of the difference, 0 where one is not finite."""
    if not bool(torch.isfinite(wanted).all()):
        return 0.0
    absolute = wanted.abs()
    part.largest = max(part.largest, float(absolute.max()))
    part.vanishing = max(part.vanishing, float(((absolute > 0) & (absolute < _SMALLEST_HALF)).float().mean()))
    if not bool(torch.isfinite(got).all()):
        part.nonfinite = True
        return 0.0
    norm, difference = (float(torch.linalg.vector_norm(value)) for value in (wanted, got - wanted))
    part.error = max(part.error, difference / norm if norm else 0.0)
    return difference


def _whole(value: Any) -> Any:
    """A half or float32 tensor as a float32 one without a history; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    return value.detach().float() if value.dtype in _HALVES else value.detach()


def _random_state(device: str) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state()] if device == "cuda" else states


def _set_random_state(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)
