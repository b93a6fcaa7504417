"""Imports that are followed, without importing anything ourselves, and imports that are answered from one folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
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
        spec = _found_without((_AfterImport,), name, path, target)
        if spec is not None and spec.loader is not None:
            _call_after_exec(spec.loader, self.hooks.pop(name))
        return spec


def _found_without(
    left_out: tuple[type, ...], name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    """What all finders but those of some kinds find."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is not None and not isinstance(finder, left_out):
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
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


class _Instead:
    """A finder that has other files loaded in the places of some, however their modules are found."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        stems = (Path(file).parent.name if file.endswith("__init__.py") else Path(file).stem for file in files)
        self._names = frozenset(stems)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.rpartition(".")[2] not in self._names:
            return None
        spec = _found_without((_Instead, _AfterImport), name, path, target)
        other = self._files.get(os.path.realpath(spec.origin)) if spec is not None and spec.origin else None
        if spec is None or other is None:
            return None
        return spec_from_file_location(name, other, submodule_search_locations=spec.submodule_search_locations)


def load_instead(files: Mapping[str, str]) -> None:
    """Load other files in the places of some modules' own, whose real paths are given."""
    sys.meta_path.insert(0, _Instead(files))
