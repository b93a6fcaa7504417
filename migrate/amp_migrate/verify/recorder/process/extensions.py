"""Extensions that a script compiles with `torch.utils.cpp_extension.load`: built once for all runs of a verification.

They are built in its own folder, from a copy of what the user has built already, whose folder is only read. Ninja
builds anew what another path is named for; so where a run has a copy of the user's files, theirs are named.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any


def build_apart(module: ModuleType, folder: str, copies: Mapping[str, str]) -> None:
    """Let `load` of the module build below `folder`, where the script names no place of its own.

    Args:
        copies: folders of this run, and those of the user that they are copies of, or made of links to.
    """
    load: Any = module.load
    signature = inspect.signature(load)

    @wraps(load)
    def load_apart(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if given.get("build_directory") is not None:
            return load(*args, **kwargs)
        named = partial(_named, {own: Path(theirs) for own, theirs in copies.items() if _as_copied(own, theirs)})
        sources, includes = given["sources"], given.get("extra_include_paths")
        given["sources"] = [named(each) for each in ([sources] if isinstance(sources, str) else sources)]
        if includes:
            given["extra_include_paths"] = [named(each) for each in includes]
        key = hashlib.sha256(repr(given).encode()).hexdigest()[:16]
        known = Path(module._get_build_directory(given["name"], False))
        with _own(Path(folder) / key / given["name"], known) as build:
            return load(**{**given, "build_directory": str(build)})

    module.load = load_apart  # type: ignore[attr-defined]


def _named(copies: Mapping[str, Path], path: str | os.PathLike[str]) -> str:
    """A path of a copy as one of what it is a copy of; others as they are."""
    absolute = Path(os.path.abspath(path))
    for own, theirs in copies.items():
        if absolute.is_relative_to(own):
            return str(theirs / absolute.relative_to(own))
    return str(absolute)


def _as_copied(own: str, theirs: str) -> bool:
    """Whether a copy still holds what was copied, so that a compiler finds the same there; it reads no Python."""
    files = (Path(folder, name) for folder, _, names in os.walk(own) for name in names if not name.endswith(".py"))
    try:
        return all(
            _stamp(path) == _stamp(Path(theirs, path.relative_to(own))) for path in files if not path.is_symlink()
        )
    except OSError:  # one of them is not there
        return False


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@contextmanager
def _own(build: Path, known: Path) -> Iterator[Path]:
    """A folder to build in that no other process builds in, begun as a copy of one that is known.

    The system gives it to the next where a process is ended; a lock of PyTorch's would stay, and nobody get past it.
    """
    build.parent.mkdir(parents=True, exist_ok=True)
    with open(build.parent / "taken", "w") as taken:
        fcntl.flock(taken, fcntl.LOCK_EX)
        if not build.exists():
            _copy(known, build)
        (build / "lock").unlink(missing_ok=True)
        yield build


def _copy(known: Path, build: Path) -> None:
    """Copy with the times of files, by which Ninja knows what is up to date; begin anew where that cannot be done."""
    begun = build.parent / "begun"
    shutil.rmtree(begun, ignore_errors=True)
    try:
        shutil.copytree(known, begun, symlinks=True)
    except OSError:
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir()
    begun.rename(build)
