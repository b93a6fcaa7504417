"""Let `import apex` be answered by the shim, for this process.

    import amp_shim.install
    amp_shim.install.install()
    from apex import amp  # amp_shim.amp

A real Apex on the machine stays where it is, and answers again after `uninstall()`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from amp_shim.install.instead import advice
from amp_shim.patching import Patches

ALIASES = {
    "amp_C": "amp_shim.multi_tensor_apply.amp_c",
    "apex": "amp_shim.install.apex",
    "apex.amp": "amp_shim.amp",
    "apex.amp._amp_state": "amp_shim.amp._amp_state",
    "apex.amp.amp": "amp_shim.amp",
    "apex.amp.frontend": "amp_shim.amp",
    "apex.amp.handle": "amp_shim.amp.handle",
    "apex.amp.opt": "amp_shim.amp.handle",
    "apex.amp.scaler": "amp_shim.amp.scaling.scaler",
    "apex.contrib": "amp_shim.install.contrib",
    "apex.fp16_utils": "amp_shim.fp16_utils",
    "apex.fp16_utils.fp16_optimizer": "amp_shim.fp16_utils.fp16_optimizer",
    "apex.fp16_utils.fp16util": "amp_shim.fp16_utils.fp16util",
    "apex.fp16_utils.loss_scaler": "amp_shim.fp16_utils.loss_scaler",
    "apex.fused_dense": "amp_shim.fused_dense",
    "apex.fused_dense.fused_dense": "amp_shim.fused_dense",
    "apex.mlp": "amp_shim.mlp",
    "apex.mlp.mlp": "amp_shim.mlp",
    "apex.multi_tensor_apply": "amp_shim.multi_tensor_apply",
    "apex.multi_tensor_apply.multi_tensor_apply": "amp_shim.multi_tensor_apply.multi_tensor_apply",
    "apex.normalization": "amp_shim.normalization",
    "apex.normalization.fused_layer_norm": "amp_shim.normalization",
    "apex.optimizers": "amp_shim.optimizers",
    "apex.optimizers.fused_adagrad": "amp_shim.optimizers.fused_adagrad",
    "apex.optimizers.fused_adam": "amp_shim.optimizers.fused_adam",
    "apex.optimizers.fused_lamb": "amp_shim.optimizers.fused_lamb",
    "apex.optimizers.fused_mixed_precision_lamb": "amp_shim.optimizers.fused_mixed_precision_lamb",
    "apex.optimizers.fused_novograd": "amp_shim.optimizers.fused_novograd",
    "apex.optimizers.fused_sgd": "amp_shim.optimizers.fused_sgd",
    "apex.parallel": "amp_shim.parallel",
    "apex.parallel.distributed": "amp_shim.parallel.distributed",
    "apex.parallel.multiproc": "amp_shim.parallel.multiproc",
    "apex.parallel.optimized_sync_batchnorm": "amp_shim.parallel.sync_batchnorm",
    "apex.parallel.sync_batchnorm": "amp_shim.parallel.sync_batchnorm",
    "apex.parallel.LARC": "amp_shim.parallel.larc",
    "apex.pyprof": "amp_shim.pyprof",
    "apex.pyprof.nvtx": "amp_shim.pyprof.nvtx",
    "apex_C": "amp_shim.parallel.flat",
}
"""Apex's modules, and the shim's that stand for them."""


def install(opt_level: str | None = None) -> None:
    """Answer `import apex` from now on. Installing twice is harmless.

    With `opt_level`, every `amp.initialize` uses that level in place of the one that the script names.

    Raises RuntimeError if another `apex` has been imported in this process already.
    """
    loaded = sys.modules.get("apex")
    if loaded is not None and loaded is not sys.modules.get(ALIASES["apex"]):
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
        for name in ALIASES:
            sys.modules.pop(name, None)


class _Finder(MetaPathFinder):
    """Finds `apex`; says of an Apex module that the shim lacks what to use instead."""

    opt_level: str | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in ("apex", "amp_C", "apex_C"):
            return ModuleSpec(fullname, _AliasLoader(self.opt_level))
        if fullname.startswith("apex."):
            raise ModuleNotFoundError(advice(fullname), name=fullname)
        return None


class _AliasLoader(Loader):
    """Puts the shim's modules into `sys.modules` under Apex's names, all at once.

    One by one, importing `apex.amp._amp_state` would set that attribute of `apex.amp`, which is the state itself.
    """

    def __init__(self, opt_level: str | None) -> None:
        self._opt_level = opt_level

    def exec_module(self, module: ModuleType) -> None:
        for alias, name in ALIASES.items():
            sys.modules[alias] = importlib.import_module(name)
        sys.modules["apex.amp"]._amp_state.forced_opt_level = self._opt_level


class _InstallOnLoad:
    """Installs the shim in the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, tuple[str | None]]:
        return install, (_FINDER.opt_level,)


def _with_installer(native: Any) -> Any:
    # A spawned worker reads this dictionary before it imports the script, whose `import apex` must be answered too.
    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**native(name), "amp_shim": _InstallOnLoad()}

    return get_preparation_data


_FINDER = _Finder()
_patches = Patches()
