"""Which file an `import` would load, among files known beforehand and without running anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import chain

from amp_migrate.engine.find.distributions import package_dirs


def resolve(
    dotted: str,
    importer: str,
    files: Container[str],
    roots: Sequence[str],
    is_script: Callable[[], bool] = lambda: True,
) -> str | None:
    """The file that `dotted` names when the file `importer` imports it; None when it is none of `files`.

    No file is meant to load itself: `import apex` in an `apex.py` is that of a package which is installed.

    Args:
        dotted: a module as an import statement names it: `engine`, `pkg.engine`, `.engine`, `..`.
        importer: the real path of the importing file.
        files: the real paths that may be answered.
        roots: real paths of folders that may stand on `sys.path`.
        is_script: whether the importing file may be run as a script; asked only where it matters.
    """
    name = dotted.lstrip(".")
    level = len(dotted) - len(name)
    folder = os.path.dirname(importer)
    bases = _bases(level, folder, files, roots, is_script)
    stems = (os.path.join(base, *name.split(".")) if name else base for base in bases)
    for stem in stems if level else chain(stems, _renamed(name, folder, roots)):
        # A package wins over a module of the same name, as in the import system.
        for candidate in (os.path.join(stem, "__init__.py"), stem + ".py"):
            if candidate in files and candidate != importer:
                return candidate
    return None


def _bases(
    level: int, folder: str, files: Container[str], roots: Sequence[str], is_script: Callable[[], bool]
) -> Iterator[str]:
    if level:
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        yield folder
        return
    package_root = folder
    while os.path.join(package_root, "__init__.py") in files:
        package_root = os.path.dirname(package_root)
    # A file of a package finds its siblings only when it is run as a script: the package's root comes first.
    yield package_root
    if package_root != folder and is_script():
        yield folder
    for root in roots:
        yield root
        yield os.path.join(root, "src")  # the layout in which a project's packages stand below `src`


def _renamed(name: str, folder: str, roots: Sequence[str]) -> Iterator[str]:
    """Where a module stands by what declares its package to be in a folder of another name."""
    parts = name.split(".")
    for home in (folder, *roots):
        declared = package_dirs(home, tuple(roots))
        for count in range(len(parts), -1, -1) if declared else ():
            if (where := declared.get(".".join(parts[:count]))) is not None:
                yield os.path.join(where, *parts[count:])
