"""The deprecated modules, and what they are called now: `torch.cuda.amp.autocast_mode` is `torch.amp.autocast_mode`."""

from __future__ import annotations

from amp_migrate.renames.rename import Rename
from amp_migrate.tables.star_names import OF_TORCH_AMP

NEW_MODULE = "torch.amp"
OLD_PACKAGES = ("torch.cuda.amp", "torch.cpu.amp")
_SUBMODULES = ("autocast_mode", "grad_scaler")
OLD_MODULES = frozenset({*OLD_PACKAGES, *(f"{package}.{name}" for package in OLD_PACKAGES for name in _SUBMODULES)})


def successor(full: str) -> str:
    """The full name of a deprecated module, or of something in it, with the new module in the place of the old."""
    package = next((each for each in OLD_PACKAGES if full == each or full.startswith(f"{each}.")), None)
    return full if package is None else NEW_MODULE + full.removeprefix(package)


def moves_with_module(rename: Rename) -> bool:
    """Whether a use stays right as it is written once its module is the new one: only its arguments change."""
    return _public(successor(rename.old)) == rename.new


def home(full: str) -> str:
    """The module to import something from, given its full name in a deprecated one: the shortest that has it."""
    return _public(successor(full)).rpartition(".")[0]


def _public(full: str) -> str:
    """`torch.amp.autocast` for `torch.amp.autocast_mode.autocast`, which is the same object."""
    module, _, name = full.rpartition(".")
    is_public = name in OF_TORCH_AMP and module.removeprefix(f"{NEW_MODULE}.") in _SUBMODULES
    return f"{NEW_MODULE}.{name}" if is_public else full
