"""The oldest PyTorch that a project says it runs on, as far as that can be read without running anything.

Read are `pyproject.toml` (PEP 621, PEP 735 and Poetry), `setup.cfg`, the strings of `setup.py`, the requirements files
of pip and the environment files of conda. Of several, the lowest counts: the code has to run there, too.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_migrate.report.plain import plain
from amp_migrate.repository import repository
from amp_migrate.settings import DEFAULT_TORCH, NEWEST_TORCH, OLDEST_TORCH
from amp_migrate.tables.signatures import Version, written

_FIRST_AMP = (1, 6)
_PATTERNS = (
    "pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "requirements/*.txt", "*.y*ml",
    "env*/*.y*ml", "conda*/*.y*ml", ".conda/*.y*ml",
)  # fmt: skip
_MOST_BYTES = 2**20  # what is larger is no list of requirements
# `torch>=1.7,<2`, `torch[opt] ~= 2.1; python_version < "3.12"`, conda's `pytorch::pytorch=1.10=py3.9_cuda`.
_REQUIREMENT = re.compile(
    r"(?:[\w-]+::)?(?:py)?torch\s*(?:\[[^\]]*\])?\s*\(?(?P<versions>[=<>!~^][^;#)]*)\)?", re.IGNORECASE
)
# What says how old it may be; `<2` and `!=1.8` do not.
_LOWEST = re.compile(r"(?:>=|===?|=|~=|~|\^|>)\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?")
_OF_CONDA = re.compile(r"^dependencies\s*:", re.MULTILINE)  # what an environment file has, whatever its name is
_BARE = re.compile(r"v?(?P<major>\d+)(?:\.(?P<minor>\d+))?")


@dataclass(frozen=True, order=True)
class DeclaredTorch:
    """A minimum, and where it stands.

    Attributes:
        version: major and minor.
        file: the file that declares it.
        text: what stands there.
    """

    version: Version
    file: Path
    text: str


def target_for(folder: Path) -> tuple[Version, str]:
    """The oldest PyTorch to write for in a folder, and where that comes from; empty words where it is the default.

    What is older than mixed precision in PyTorch itself cannot stay what the code runs on.
    """
    declared = declared_torch(folder)
    if declared is None:
        return DEFAULT_TORCH, ""
    asks = plain(f"{declared.file.name} asks for {declared.text}")
    if declared.version < _FIRST_AMP:
        said = f"{asks}, which has no mixed precision of its own and has to be raised"
        return DEFAULT_TORCH, f"PyTorch {written(DEFAULT_TORCH)} is the target: {said}"
    target = max(min(declared.version, NEWEST_TORCH), OLDEST_TORCH)
    raised = ", which has to be raised to that" if declared.version < OLDEST_TORCH else ""
    return target, f"PyTorch {written(target)} is the target: {asks}{raised}; --target-torch takes another"


def declared_torch(folder: Path) -> DeclaredTorch | None:
    """What the project of a folder declares; None where it says nothing about the oldest PyTorch.

    The nearest folder that declares anything counts, from this one up to the root of its Git repository; outside of a
    repository it is this one alone.
    """
    folder = folder.resolve()
    top = repository(folder) or folder
    for each in (folder, *folder.parents):
        found = [one for file in _files(each) for one in _declared_in(file)]
        if found or each == top:
            return min(found, default=None)
    return None


def _files(folder: Path) -> list[Path]:
    return sorted({file for pattern in _PATTERNS for file in folder.glob(pattern) if file.is_file()})


def _declared_in(file: Path) -> Iterator[DeclaredTorch]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return
        text = file.read_text(encoding="utf-8")
        requirements = list(_requirements(file, text))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, configparser.Error):
        return  # says nothing that could be read
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement.partition("#")[0].partition(";")[0].strip())
        version = None if match is None else lowest(match["versions"])
        if version is not None:
            yield DeclaredTorch(version, file, requirement.strip())


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
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document = toml.loads(text)
    poetry = document.get("tool", {}).get("poetry", {})
    lists = (document.get("project", {}), document.get("dependency-groups", {}))
    yield from (value for each in lists for value in _strings(each))
    groups = [poetry, *poetry.get("group", {}).values()]
    for table in (group.get("dependencies", {}) for group in groups):
        given = table.get("torch")
        for value in given if isinstance(given, list) else [given]:
            version = value.get("version") if isinstance(value, dict) else value
            if isinstance(version, str):
                yield f"torch{'==' if _BARE.match(version) else ''}{version}"


def _strings(value: Any) -> Iterator[str]:
    """All strings in lists and tables, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
