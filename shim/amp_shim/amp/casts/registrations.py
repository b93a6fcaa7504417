"""Functions of other modules that the next `amp.initialize` with O1 is to replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amp_shim.support.patching import Patches

_registered: list[tuple[Any, str, Callable[[Any], Any]]] = []


def register(module: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """Queue `module.name`, to become `wrap(module.name)`. Raises ValueError if `module` has no such name."""
    if not hasattr(module, name):
        raise ValueError(
            f"amp: no function named {name!r} in {getattr(module, '__name__', module)}; nothing to register"
        )
    _registered.append((module, name, wrap))


def apply_registrations(patches: Patches) -> None:
    """Replace what was registered since the last call, and empty the queue."""
    for module, name, wrap in _registered:
        patches.set(module, name, wrap(getattr(module, name)))
    _registered.clear()
