"""`apex.contrib`, of which the shim has nothing: every name raises an ImportError that says what to use instead."""

from __future__ import annotations

from typing import NoReturn

from amp_shim.install.instead import advice

# A package without files: the import system asks `amp_shim.install` for every submodule.
__path__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    # `from apex.contrib import xentropy` looks for an attribute first, and keeps quiet about the submodule's error.
    raise ImportError(advice(f"apex.contrib.{name}"), name=f"apex.contrib.{name}")
