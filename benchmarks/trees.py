"""Trees of files to time the codemod on, made from what every machine has."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).parents[1]
_HELPER = '''

def helper_{0}(values):
    """The root mean square of some numbers."""
    total = 0.0
    for value in values:
        total += value * value
    return (total / max(len(values), 1)) ** 0.5
'''


def without_amp(folder: Path, files: int) -> Path:
    """Copies of Python's own library, which has nothing to migrate, until there are so many files."""
    library = Path(sysconfig.get_path("stdlib"))
    modules = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    for number, path in zip(range(files), cycle(modules), strict=False):
        copy = folder / f"copy{number // len(modules)}" / path.relative_to(library)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return folder


def one_script(folder: Path, lines: int) -> Path:
    """A training script that migrates, as long as `lines`: a fixture's, with functions that nobody calls."""
    text = (ROOT / "fixtures/fp32_resnet/train.py").read_text(encoding="utf-8")
    number = 0
    while text.count("\n") < lines:
        text += _HELPER.format(number)
        number += 1
    folder.mkdir(parents=True)
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return script


def commit(folder: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """The scripts of some fixtures by name, as a commit hook is given them."""
    projects(folder, 1)
    return tuple(folder / "copy0" / name / "train.py" for name in names)


def idle_commit(folder: Path, files: int) -> tuple[Path, ...]:
    """So many files without AMP, as a commit hook is given them."""
    return tuple(sorted(without_amp(folder, files).rglob("*.py")))


def projects(folder: Path, copies: int) -> Path:
    """So many copies of every fixture, each in a folder of its own: all of it has to be parsed, and most is changed."""
    for number in range(copies):
        for script in sorted((ROOT / "fixtures").glob("*/train.py")):
            copy = folder / f"copy{number}" / script.parent.name
            shutil.copytree(script.parent, copy, ignore=shutil.ignore_patterns("expected", "__pycache__"))
    return folder
