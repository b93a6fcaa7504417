"""Find `apex` in the shim, and beside an Apex that is installed.

What NVIDIA has deleted comes from the shim. What Apex still has stays Apex's own where it is installed and compiled:
its optimizers, layers and kernels are faster than any that are written in Python.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from amp_shim.install.aliases import ALIASES, EXTENSIONS
from amp_shim.install.instead import advice
from amp_shim.support.patching import Patches


def install(opt_level: str | None = None) -> None:
    """Answer `import apex` from now on. Installing twice is harmless.

    An Apex that is installed keeps what it still has (`apex.optimizers`, `apex.normalization`, ...), if its compiled
    extensions are there; `apex.amp`, `apex.parallel`, `apex.fp16_utils` and `apex.pyprof` are the shim's in any case.

    With `opt_level`, every `amp.initialize` uses that level in place of the one that the script names.

    Raises RuntimeError if `apex` has been imported in this process already.
    """
    loaded = sys.modules.get("apex")
    if loaded is not None and _FINDER not in sys.meta_path:
        raise RuntimeError(
            f"amp_shim: apex is imported already, from {loaded.__file__}; call install() before the first import"
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        _patches.set(spawn, "get_preparation_data", _with_installer(spawn.get_preparation_data))
    _FINDER.opt_level = opt_level


def uninstall() -> None:
    """Stop answering: the next `import apex` finds what is installed on the machine, if anything."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        _patches.undo()
        for name in [name for name in sys.modules if name in ALIASES or name.startswith("apex.")]:
            del sys.modules[name]


class _Finder(MetaPathFinder):
    """Finds `apex`; says of an Apex module that neither it nor the shim has what to use instead."""

    opt_level: str | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in ("amp_C", "apex_C") and PathFinder.find_spec(fullname) is None:
            return ModuleSpec(fullname, _Alias(self))
        if fullname == "apex":
            return _beside(real, self) if (real := _installed_apex()) else ModuleSpec(fullname, _Alias(self))
        if fullname.startswith("apex.") and PathFinder.find_spec(fullname, path) is None:
            raise ModuleNotFoundError(advice(fullname), name=fullname)
        return None

    def answer(self, kept: Collection[str] = ()) -> None:
        """Put the shim's modules into `sys.modules` under Apex's names, but for packages that Apex keeps.

        All at once: one by one, importing `apex.amp._amp_state` would set that attribute of `apex.amp`, which is the
        state itself.
        """
        for alias, name in ALIASES.items():
            if ".".join(alias.split(".")[:2]) not in kept:
                sys.modules[alias] = importlib.import_module(name)
        sys.modules["apex.amp"]._amp_state.forced_opt_level = self.opt_level


class _Alias(Loader):
    """Loads the shim in the place of an Apex that is not installed."""

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder

    def exec_module(self, module: ModuleType) -> None:
        self._finder.answer()


class _Beside(Loader):
    """Loads an Apex that is installed, with the shim's packages in the places of those that it keeps not."""

    def __init__(self, native: Loader, finder: _Finder) -> None:
        self._native = native
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._native.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        kept = {"apex", "apex.contrib", *(name for name in EXTENSIONS if _is_compiled(name, module.__path__))}
        self._finder.answer(kept)
        self._native.exec_module(module)
        for alias in ALIASES:
            package, _, name = alias.rpartition(".")
            if package == "apex" and alias not in kept:
                setattr(module, name, sys.modules[alias])


class _InstallOnLoad:
    """Installs the shim in the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, tuple[str | None]]:
        return install, (_FINDER.opt_level,)


def _installed_apex() -> ModuleSpec | None:
    """NVIDIA's Apex on this machine. Of another package called `apex`, such as the one on PyPI, the answer is None."""
    spec = PathFinder.find_spec("apex")
    places = spec.submodule_search_locations if spec is not None else None
    return spec if places and PathFinder.find_spec("apex.multi_tensor_apply", places) is not None else None


def _is_compiled(name: str, path: Sequence[str]) -> bool:
    """Whether Apex has a package, and the extension that it calls."""
    found = PathFinder.find_spec(name, path if name.startswith("apex.") else None)
    return found is not None and PathFinder.find_spec(EXTENSIONS[name]) is not None


def _beside(spec: ModuleSpec, finder: _Finder) -> ModuleSpec:
    assert spec.loader is not None
    spec.loader = _Beside(spec.loader, finder)
    return spec


def _with_installer(native: Any) -> Any:
    # A spawned worker reads this dictionary before it imports the script, whose `import apex` must be answered too.
    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**native(name), "amp_shim": _InstallOnLoad()}

    return get_preparation_data


_FINDER = _Finder()
_patches = Patches()
