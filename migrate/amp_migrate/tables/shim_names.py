"""What the shim has: read from its files, because importing it would import torch."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path

from amp_migrate.tables.apex_names import SHIM, SHIM_MODULES
from amp_migrate.tables.apex_natives import INNER_MODULES


def in_shim(module: str) -> str:
    """The shim's module for one of Apex's: `amp_shim.parallel` for `apex.parallel.distributed`."""
    module = SHIM_MODULES.get(module, INNER_MODULES.get(module, module))
    return module.replace("apex", SHIM, 1)


@cache
def shim_has(full: str) -> bool:
    """Whether the shim has a module, or something in one."""
    module, _, name = full.rpartition(".")
    return _names(full) is not None or name in (_names(module) or ())


@cache
def _names(module: str) -> frozenset[str] | None:
    """What a module of the shim binds, its modules included; None where there is no such module."""
    spec = importlib.util.find_spec(SHIM)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return None
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    if path.is_dir():
        names.update(each.stem for each in path.iterdir() if each.suffix == ".py" or (each / "__init__.py").is_file())
    return frozenset(names)
