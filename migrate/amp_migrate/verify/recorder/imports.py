"""Imports that are followed, without importing anything ourselves, and imports that are answered from one folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


class _AfterImport:
    """A finder that changes nothing about how a module is found, only what happens once it has been loaded."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Hook]] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.hooks:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    _call_after_exec(spec.loader, self.hooks.pop(name))
                return spec
        return None


def _call_after_exec(loader: Any, hooks: list[Hook]) -> None:
    exec_module = loader.exec_module

    def exec_then_hook(module: ModuleType) -> None:
        exec_module(module)
        for hook in hooks:
            hook(module)

    loader.exec_module = exec_then_hook


_finder = _AfterImport()


def after_import(name: str, hook: Hook) -> None:
    """Call `hook(module)` when the module called `name` has been loaded; at once if it is loaded already."""
    if name in sys.modules:
        hook(sys.modules[name])
        return
    _finder.hooks.setdefault(name, []).append(hook)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def once_after_import(names: Sequence[str], holds: str, hook: Hook) -> None:
    """Call `hook` on the module that goes by any of `names`, once though it may go by several.

    Args:
        holds: what such a module has; one without it is another.
    """
    seen: list[ModuleType] = []

    def once(module: ModuleType) -> None:
        if not any(module is other for other in seen) and hasattr(module, holds):
            seen.append(module)
            hook(module)

    for name in names:
        after_import(name, once)


class _SearchFirst:
    """A finder that looks for modules outside packages in one folder, as Python does in that of a script."""

    def __init__(self, folder: str) -> None:
        self._path = [folder]

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, self._path) if path is None else None


def search_first(folder: str) -> None:
    """Look for modules in `folder` before the working folder, which `python -m` would take them from."""
    sys.meta_path.insert(0, _SearchFirst(folder))
