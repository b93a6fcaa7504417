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

_LEVELS = ("O0", "O1", "O2", "O3", "O4", "O5")

_USAGE = """\
usage: python -m amp_shim [--opt-level LEVEL] SCRIPT [ARGS...]
       python -m amp_shim [--opt-level LEVEL] -m MODULE [ARGS...]

Run a training script as if NVIDIA Apex were installed: `import apex` is answered by amp_shim in this process.

  SCRIPT             path of a Python file; it runs as __main__, with its own folder first on sys.path
  -m MODULE          a module or package by its dotted name, as `python -m` takes it
  --opt-level LEVEL  O0 to O5, in place of the level that the script passes to amp.initialize
  -h, --help         show this text

exit codes: those of the script; 2 if there is no such script or module
"""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name. Returns 2 after a usage error; otherwise the script's own exit code ends it."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(_USAGE, end="")
        return 0
    level: str | None = None
    if arguments and arguments[0] == "--opt-level":
        level = arguments[1] if len(arguments) > 1 else ""
        if level not in _LEVELS:
            return _refuse(f"--opt-level takes one of {', '.join(_LEVELS)}, found {level!r}")
        arguments = arguments[2:]
    if not arguments:
        return _refuse("no script given")
    if arguments[0] == "-m":
        return _run_module(arguments[1:], level)
    if arguments[0].startswith("-"):
        return _refuse(f"unknown option {arguments[0]}")
    return _run_script(arguments, level)


def _run_script(arguments: Sequence[str], level: str | None) -> int:
    path = Path(arguments[0]).absolute()
    if not path.is_file():
        return _refuse(f"{arguments[0]}: no such file")
    install(level)
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


def _run_module(arguments: Sequence[str], level: str | None) -> int:
    if not arguments:
        return _refuse("-m needs the name of a module")
    module = arguments[0]
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        return _refuse(f"-m {module}: no such module")
    install(level)
    sys.argv = list(arguments)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _refuse(problem: str) -> int:
    print(f"amp_shim: {problem}; see python -m amp_shim --help", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
