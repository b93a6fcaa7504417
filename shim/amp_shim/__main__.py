"""Run a script that imports Apex, unmodified, on the shim."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from amp_shim.install import install

_USAGE = """\
usage: python -m amp_shim SCRIPT [ARGS...]
       python -m amp_shim -m MODULE [ARGS...]

Run a training script as if NVIDIA Apex were installed: `import apex` is answered by amp_shim in this process.

  SCRIPT     path of a Python file; it runs as __main__, with its own folder first on sys.path
  -m MODULE  a module or package by its dotted name, as `python -m` takes it
  -h, --help show this text

exit codes: those of the script; 2 if there is no such script or module
"""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name. Returns 2 after a usage error; otherwise the script's own exit code ends it."""
    if not arguments:
        return _refuse("no script given")
    first = arguments[0]
    if first in ("-h", "--help"):
        print(_USAGE, end="")
        return 0
    if first == "-m":
        return _run_module(arguments[1:])
    if first.startswith("-"):
        return _refuse(f"unknown option {first}")
    return _run_script(first, arguments)


def _run_script(script: str, arguments: Sequence[str]) -> int:
    path = Path(script).absolute()
    if not path.is_file():
        return _refuse(f"{script}: no such file")
    install()
    sys.argv = list(arguments)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(path.resolve().parent)
    # The script's module stays alive after its last line, for exit handlers and for workers that look up its functions.
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__loader__ = SourceFileLoader("__main__", str(path))
    sys.modules["__main__"] = module
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    return 0


def _run_module(arguments: Sequence[str]) -> int:
    if not arguments:
        return _refuse("-m needs the name of a module")
    module = arguments[0]
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        return _refuse(f"-m {module}: no such module")
    install()
    sys.argv = list(arguments)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _refuse(problem: str) -> int:
    print(f"amp_shim: {problem}; see python -m amp_shim --help", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
