"""Imported by Python at start-up, because its folder is first on PYTHONPATH: the way into an unedited script."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))
_RECORDER = "_amp_verify_recorder"


def load_recorder() -> None:
    """Load the recorder from its folder, so that the user's interpreter needs no installation of this project."""
    if _RECORDER in sys.modules:  # by the process that this one was forked from
        return
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(
        _RECORDER, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_RECORDER] = package
    spec.loader.exec_module(package)


def _run_own_sitecustomize() -> None:
    """Run the `sitecustomize` that ours hides, if the user has one."""
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ != "preload":
    # The script sees the search path it would see without us, here and in its environment.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    load_recorder()
    importlib.import_module(f"{_RECORDER}.process.start").start(_HERE)
    _run_own_sitecustomize()
