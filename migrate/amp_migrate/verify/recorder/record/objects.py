"""The script's modules, optimizers and schedules, followed from where they are made."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

_KEPT = 24  # objects that are kept beyond their lives, so that they can be looked at when the script ends


class Objects:
    """Follows every module, optimizer and schedule that the process makes."""

    def __init__(self) -> None:
        self._modules: dict[int, weakref.ref[nn.Module]] = {}
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._schedules: dict[int, weakref.ref[Any]] = {}
        self._scalers: dict[int, weakref.ref[Any]] = {}
        self._kept: list[Any] = []
        self._numbers = itertools.count()

    def follow(self) -> None:
        """Begin. Copies and what comes out of a file are followed too: they are made without `__init__`."""
        for kind, known in (
            (nn.Module, self._modules),
            (torch.optim.Optimizer, self._optimizers),
            (LRScheduler, self._schedules),
            (torch.amp.GradScaler, self._scalers),
        ):
            self._follow(kind, "__init__", known)
            if hasattr(kind, "__setstate__"):
                self._follow(kind, "__setstate__", known)

    def _follow(self, kind: Any, method: str, known: dict[int, weakref.ref[Any]]) -> None:
        original = getattr(kind, method)
        numbers = self._numbers

        def made(this: Any, *args: Any, **kwargs: Any) -> Any:
            number = next(numbers)
            known[number] = weakref.ref(this, lambda reference: known.pop(number, None) and None)
            return original(this, *args, **kwargs)

        made.__wrapped__ = original  # type: ignore[attr-defined]
        setattr(kind, method, made)

    def models(self) -> list[nn.Module]:
        """The modules that are no part of another one and hold something, in the order in which they were made."""
        alive = _alive(self._modules)
        children = (module.__dict__.get("_modules", {}).values() for module in alive)
        parts = {id(part) for some in children for part in some if part is not None}
        return [module for module in alive if id(module) not in parts and any(True for _ in tensors_of(module))]

    def optimizers(self) -> list[Any]:
        """Every optimizer, in order."""
        return _alive(self._optimizers)

    def schedules(self) -> list[Any]:
        """Every schedule of a learning rate, in order."""
        return _alive(self._schedules)

    def scalers(self) -> list[Any]:
        """Every loss scaler, in order."""
        return _alive(self._scalers)

    def keep(self) -> None:
        """Keep the first of what is there until the process ends: a script's objects die with its `main()`."""
        for each in (*self.models(), *self.optimizers(), *self.schedules()):
            if len(self._kept) < _KEPT and not any(each is other for other in self._kept):
                self._kept.append(each)


def _alive(known: dict[int, weakref.ref[Any]]) -> list[Any]:
    found: dict[int, Any] = {}
    for number in sorted(known):
        each = known[number]() if number in known else None
        if each is not None:
            found.setdefault(id(each), each)
    return list(found.values())


def tensors_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters and buffers of a module, by name."""
    yield from module.named_parameters()
    yield from module.named_buffers()
