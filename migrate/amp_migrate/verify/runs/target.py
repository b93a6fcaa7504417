"""What is to be run: a script by its file, or a module by its name, as `python -m` does."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from amp_migrate.verify.usage import UsageError

_SEARCH_PATH = "import json, sys; print(json.dumps(sys.path[1:]))"


@dataclass(frozen=True)
class Target:
    """What is to be run.

    Attributes:
        file: the absolute path of its Python file.
        module: the name that it is run by; empty for a script, which is run by its file.
        root: the folder that holds the module, or the outermost of its packages; None for a script.
        changed: files of the other script, and which of this one's are loaded in their places, wherever they are found.
        copies: folders made of links that this one is in, and those whose places they take.
    """

    file: Path
    module: str = ""
    root: Path | None = None
    changed: Mapping[Path, Path] = field(default_factory=dict, compare=False, repr=False)
    copies: Mapping[Path, Path] = field(default_factory=dict, compare=False, repr=False)

    @property
    def words(self) -> tuple[str, ...]:
        """What stands for it on a command line, after the interpreter or the launcher."""
        return ("-m", self.module) if self.module else (str(self.file),)


def target(named: str, python: str, *, module: bool) -> Target:
    """What the user named. Raises UsageError where it does not exist."""
    return _module(named, python) if module else Target(_script(named))


def _script(path: str) -> Path:
    found = Path(path)
    if not found.exists():
        raise UsageError(f"{path}: no such file")
    if not found.is_file():
        raise UsageError(f"{path}: not a file; name the script to run, or a module with -m")
    if found.suffix == ".ipynb":
        script = found.with_suffix(".py")
        raise UsageError(f"{path}: a notebook is not run; `jupyter nbconvert --to script` makes {script} of it")
    return Path(os.path.abspath(found))


def _module(name: str, python: str) -> Target:
    """Where a module lies that is found from the working folder, or else by the interpreter."""
    file = _file_of(name, [os.getcwd()]) or _file_of(name, _search_path(python))
    if file is None:
        raise UsageError(f"-m {name}: no such module; start it from the folder where `python -m {name}` does")
    depth = name.count(".") + (file.name == "__main__.py")
    return Target(file, name, file.parents[depth])


def _search_path(python: str) -> list[str]:
    asked = subprocess.run((python, "-c", _SEARCH_PATH), capture_output=True, text=True, check=False)
    return list(json.loads(asked.stdout)) if asked.returncode == 0 else []


def _file_of(name: str, path: Sequence[str]) -> Path | None:
    """The file that `python -m name` runs, looked for without importing the packages it is in."""
    for part in name.split("."):
        spec = PathFinder.find_spec(part, path)
        path = _below(spec)
    if path:  # a package
        spec = PathFinder.find_spec("__main__", path)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(os.path.abspath(spec.origin))


def _below(spec: ModuleSpec | None) -> list[str]:
    """Where the modules of a package are looked for; nowhere for what is no package."""
    return list(spec.submodule_search_locations or ()) if spec is not None else []
