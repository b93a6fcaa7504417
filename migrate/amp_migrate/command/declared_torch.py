"""The oldest PyTorch that a project says it runs on, as far as that can be read without running anything.

Read are `pyproject.toml` (PEP 621, PEP 735 and Poetry), `setup.cfg`, the strings of `setup.py`, the requirements files
of pip and the environment files of conda. Of several, the lowest counts: the code has to run there, too. So are the
versions of packages that do not take half precision in all of theirs.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from amp_migrate.frozen import frozen_in_order
from amp_migrate.pyproject import toml_tables
from amp_migrate.report.plain import plain
from amp_migrate.repository import repository
from amp_migrate.settings import DEFAULT_TORCH, NEWEST_TORCH, OLDEST_TORCH
from amp_migrate.tables.signatures import Version, Versions, written
from amp_migrate.tables.torch_names import HALF_SINCE

_FIRST_AMP = (1, 6)
_LAST_OF_1 = (1, 13)
_PATTERNS = (
    "pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "requirements/*.txt", "*.y*ml",
    "env*/*.y*ml", "conda*/*.y*ml", ".conda/*.y*ml",
)  # fmt: skip
_MOST_BYTES = 2**20  # what is larger is no list of requirements
# `torch>=1.7,<2`, `torch[opt] ~= 2.1; python_version < "3.12"`, conda's `pytorch::pytorch=1.10=py3.9_cuda`.
_REQUIREMENT = r"(?:[\w-]+::)?{}\s*(?:\[[^\]]*\])?\s*\(?(?P<versions>[=<>!~^][^;#)]*)\)?"
_OF_TORCH = re.compile(_REQUIREMENT.format("(?:py)?torch"), re.IGNORECASE)
# A package built for one kind of machine has its name and that: `-gpu`, `-cu110`, conda's `-cuda11.3`.
_BUILT_FOR = r"(?:[-_.](?:cpu|gpu|(?:cu|cuda|rocm)[\d.]*))?"
_OF_HALF = {each: re.compile(_REQUIREMENT.format(re.escape(each) + _BUILT_FOR), re.IGNORECASE) for each in HALF_SINCE}
# What says how new it may be; `>=1.7` and `!=1.8` do not.
_HIGHEST = re.compile(
    r"(?P<how><=|<|===?|=|~=|~|\^)\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?(?P<any>\.\*)?"
)
# What says how old it may be; `<2` and `!=1.8` do not.
_LOWEST = re.compile(r"(?:>=|===?|=|~=|~|\^|>)\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?")
_OF_CONDA = re.compile(r"^dependencies\s*:", re.MULTILINE)  # what an environment file has, whatever its name is
_BARE = re.compile(r"v?(?P<major>\d+)(?:\.(?P<minor>\d+))?")


_T = TypeVar("_T")


@frozen_in_order
class DeclaredTorch:
    """The version to write for, and where it stands.

    Attributes:
        version: major and minor of the oldest that is asked for; of the newest, where only that has mixed precision.
        file: the file that declares it.
        text: what stands there.
    """

    version: Version
    file: Path
    text: str

    @property
    def is_without_amp(self) -> bool:
        """Whether it is older than mixed precision in PyTorch itself: what runs on it says nothing about the target."""
        return self.version < _FIRST_AMP

    @property
    def is_to_be_raised(self) -> bool:
        """Whether what is written does not run on it."""
        return self.version < OLDEST_TORCH

    def asking(self, file: str) -> str:
        """What a file asks for, as a message says it."""
        raised = ", which has no mixed precision of its own and has to be raised" if self.is_without_amp else ""
        return plain(f"{file} asks for {self.text}{raised}")


def target_for(folder: Path) -> tuple[Version, str]:
    """The oldest PyTorch to write for in a folder, and where that comes from; empty words where it is the default.

    What is older than mixed precision in PyTorch itself cannot stay what the code runs on.
    """
    declared = declared_torch(folder)
    if declared is None:
        return DEFAULT_TORCH, ""
    if declared.is_without_amp:
        return DEFAULT_TORCH, f"PyTorch {written(DEFAULT_TORCH)} is the target: {declared.asking(declared.file.name)}"
    target = nearest_possible(declared.version)
    raised = ", which has to be raised to that" if declared.is_to_be_raised else ""
    asks = declared.asking(declared.file.name)
    return target, f"PyTorch {written(target)} is the target: {asks}{raised}; --target-torch takes another"


def declared_torch(folder: Path) -> DeclaredTorch | None:
    """What the project of a folder declares; None where it says nothing about the oldest PyTorch, or the last.

    The nearest folder that declares anything counts, from this one up to the root of its Git repository; outside of a
    repository it is this one alone.
    """
    return _nearest(folder, _lowest_in)


def _nearest(folder: Path, ask: Callable[[Path], _T | None]) -> _T | None:
    """What the nearest folder says that says anything, from this one up to the root of its repository."""
    folder = folder.resolve()
    top = repository(folder) or folder
    for each in (folder, *folder.parents):
        found = ask(each)
        if found is not None or each == top:
            return found
    return None


def declared_below(folder: Path, files: Iterable[Path]) -> tuple[Mapping[str, DeclaredTorch], Sequence[DeclaredTorch]]:
    """What the folders of some files declare by their real paths, or the nearest ones above them up to `folder`.

    What asks for a PyTorch without mixed precision cannot stay, and says no more than a folder that says nothing: that
    is given by itself.
    """
    top = folder.resolve()
    known: dict[Path, DeclaredTorch | None] = {}
    ancient: list[DeclaredTorch] = []

    def nearest(each: Path) -> DeclaredTorch | None:
        if each == top or top not in each.parents:
            return None
        if each not in known:
            found = _lowest_in(each)
            if found is not None and found.is_without_amp:
                ancient.append(found)
                found = None
            known[each] = found or nearest(each.parent)
        return known[each]

    found = {str(each): nearest(each) for each in {file.resolve().parent for file in files}}
    return {each: declared for each, declared in found.items() if declared is not None}, sorted(ancient)


def declared_packages(folder: Path) -> dict[str, Versions]:
    """The oldest and the newest version that a folder asks for, or the nearest above it, of packages that need one."""
    found = {name: _nearest(folder, partial(_versions_in, package)) for name, package in _OF_HALF.items()}
    return {name: versions for name, versions in found.items() if versions is not None}


def nearest_possible(version: Version) -> Version:
    """The PyTorch to write for where a version is asked for."""
    return max(min(version, NEWEST_TORCH), OLDEST_TORCH)


def _versions_in(package: re.Pattern[str], folder: Path) -> Versions | None:
    """The oldest and the newest version that a folder asks for of a package; None where it does not ask for it."""
    said = [versions for file in _files(folder) for _, versions in _specified(file, package)]
    if not said:
        return None
    oldest, newer = [lowest(each) for each in said], [newest(each) for each in said]
    return (
        None if None in oldest else min(filter(None, oldest)),
        None if None in newer else max(filter(None, newer)),
    )


def _lowest_in(folder: Path) -> DeclaredTorch | None:
    return min((one for file in _files(folder) for one in _declared_in(file)), default=None)


def _files(folder: Path) -> list[Path]:
    return sorted({file for pattern in _PATTERNS for file in folder.glob(pattern) if file.is_file()})


def _declared_in(file: Path) -> Iterator[DeclaredTorch]:
    for requirement, versions in _specified(file, _OF_TORCH):
        version = _written_for(versions)
        if version is not None:
            yield DeclaredTorch(version, file, requirement)


def _specified(file: Path, package: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The requirements of a package in a file, each with what it says of versions."""
    try:
        now = file.stat()
        requirements = _read(file, now.st_mtime_ns, now.st_size)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, configparser.Error):
        return  # says nothing that could be read
    for requirement in requirements:
        match = package.fullmatch(requirement.partition("#")[0].partition(";")[0].strip())
        if match is not None:
            yield requirement.strip(), match["versions"]


@lru_cache(256)
def _read(file: Path, changed: int, size: int) -> Sequence[str]:
    """The requirements in a file: what asks for several packages reads it once, as long as it stays as it is."""
    return () if size > _MOST_BYTES else (*_requirements(file, file.read_text(encoding="utf-8")),)


def lowest(versions: str) -> Version | None:
    """The oldest version that a specification takes, of pip, Poetry or conda; None where it names none.

    Of alternatives (`|`) the lowest counts, of clauses that must all hold the highest.
    """
    bounds = []
    for alternative in re.split(r"\|\|?", versions):
        found = [
            (int(match["major"]), int(match["minor"] or 0))
            for clause in re.split(r"[,\s](?=\s*[=<>!~^])", alternative)
            if (match := _LOWEST.match(clause.strip())) is not None
        ]
        if not found:
            return None
        bounds.append(max(found))
    return min(bounds)


def newest(versions: str) -> Version | None:
    """The newest version that a specification takes; None where there is no limit."""
    bounds = []
    for alternative in re.split(r"\|\|?", versions):
        clauses = re.split(r"[,\s](?=\s*[=<>!~^])", alternative)
        found = [_highest(match) for clause in clauses if (match := _HIGHEST.match(clause.strip())) is not None]
        if not found:
            return None
        bounds.append(min(found))
    return max(bounds)


def _highest(clause: re.Match[str]) -> Version:
    how, major, minor = clause["how"], int(clause["major"]), clause["minor"]
    if how == "<" and not int(clause["patch"] or 0):
        return _before(major, int(minor or 0))
    # `~=1.4` takes 1.13, and `~=1.4.0` does not; `~1`, `=1` and `==1.*` take all that begin so.
    is_any = (how == "~=" and clause["patch"] is None) or (minor is None and (how in "~=" or clause["any"] is not None))
    return _before(major + 1, 0) if how == "^" or is_any else (major, int(minor or 0))


def _before(major: int, minor: int) -> Version:
    if minor:
        return major, minor - 1
    return _LAST_OF_1 if major == 2 else (major - 1, sys.maxsize)


def _written_for(versions: str) -> Version | None:
    """The version that a specification has the code written for; None where it names none."""
    oldest, last = lowest(versions), newest(versions)
    is_limit = last is not None and _FIRST_AMP <= last < DEFAULT_TORCH
    return last if is_limit and (oldest is None or oldest < _FIRST_AMP) else oldest


def _requirements(file: Path, text: str) -> Iterable[str]:
    """The requirements in a file, and perhaps other strings."""
    if file.name == "pyproject.toml":
        return _in_pyproject(text)
    if file.name == "setup.cfg":
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(text)
        return [line for section in parser.values() for value in section.values() for line in value.splitlines()]
    if file.suffix == ".py":
        strings = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        return [line for value in strings if isinstance(value, str) for line in value.splitlines()]
    if file.suffix == ".txt":
        return text.splitlines()
    if not _OF_CONDA.search(text):
        return []
    # conda's `- pytorch=1.10`, quoted or not; and pip's below it.
    return [line.strip().removeprefix("-").strip().strip("\"'") for line in text.splitlines()]


def _in_pyproject(text: str) -> Iterator[str]:
    document = toml_tables(text)
    poetry = document.get("tool", {}).get("poetry", {})
    lists = (document.get("project", {}), document.get("dependency-groups", {}))
    yield from (value for each in lists for value in _strings(each))
    groups = [poetry, *poetry.get("group", {}).values()]
    tables = [group.get("dependencies", {}) for group in groups]
    for name, given in (entry for table in tables for entry in table.items()):
        for value in given if isinstance(given, list) else [given]:
            version = value.get("version") if isinstance(value, dict) else value
            if isinstance(version, str):
                yield f"{name}{'==' if _BARE.match(version) else ''}{version}"


def _strings(value: Any) -> Iterator[str]:
    """All strings in lists and tables, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
