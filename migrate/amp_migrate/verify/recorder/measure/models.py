"""The models of a script: the modules that it calls by themselves and trains, in the order of their first call."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
from torch import nn

from ..process.place import UsersCode
from ..writer import Writer

Found = Callable[[int, nn.Module], None]

_local = threading.local()


def follow(writer: Writer, users: UsersCode, found: Iterable[Found], *, losses: bool = False) -> None:
    """Record a `model` event for each model and call all of `found` with its ordinal and it, before its first call.

    A model is a module with parameters that is called under grad mode, and not by another module.

    Args:
        losses: whether a module of a class of the user's counts that has no parameters, too: what computes a loss.
    """
    module: Any = nn.Module
    call = module.__call__
    known: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(_local, "inside", False):
            return call(self, *args, **kwargs)
        is_one = self not in known and torch.is_grad_enabled()
        if is_one and (any(True for _ in self.parameters()) or (losses and owner(type(self), users))):
            known[self] = ordinal = len(known)
            writer.put("model", ordinal=ordinal, **_call_site(self, users.caller()))
            for call_back in found:
                call_back(ordinal, self)
        _local.inside = True
        try:
            return call(self, *args, **kwargs)
        finally:
            _local.inside = False

    module.__call__ = followed


def owner(kind: type[nn.Module], users: UsersCode) -> str:
    """The class of the user's that has the forward of a class of modules; empty for a forward of PyTorch's."""
    found = next(each for each in kind.__mro__ if "forward" in vars(each))
    code = getattr(vars(found)["forward"], "__code__", None)
    return found.__name__ if code is not None and users.holds(code.co_filename) else ""


def _call_site(model: nn.Module, frame: FrameType | None) -> dict[str, Any]:
    if frame is None:
        return {"variable": "model", "path": "", "line": 0}
    return {"variable": _variable(model, frame), "path": frame.f_code.co_filename, "line": frame.f_lineno}


def _variable(model: nn.Module, frame: FrameType) -> str:
    """What the calling code calls the model: a name, or an attribute of a name; "model" where neither can be told."""
    for scope in (frame.f_locals, frame.f_globals):
        for name, value in scope.items():
            if value is model:
                return name
    for name, value in frame.f_locals.items():
        attributes = vars(value) if hasattr(value, "__dict__") else {}
        for attribute, held in {**attributes, **attributes.get("_modules", {})}.items():
            if held is model:
                return f"{name}.{attribute}"
    return "model"
