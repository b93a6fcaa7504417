"""`amp_shim` in a script's process: for CUDA's casts on a CPU, for Apex scripts, for parts kept in float32."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def load_shim(folder: str) -> None:
    """Make `amp_shim` importable from the folder that the harness names, and from nowhere else beside it."""
    if "amp_shim" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "amp_shim", Path(folder) / "__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["amp_shim"] = package
    spec.loader.exec_module(package)
