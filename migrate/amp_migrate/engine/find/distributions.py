"""What stands beside a `setup.py` or its like is installed, and can be imported from anywhere, under whatever name."""

from __future__ import annotations

import ast
import configparser
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from amp_migrate.pyproject import toml_tables
from amp_migrate.syntax import nodes_in

_DECLARING = ("setup.py", "setup.cfg", "pyproject.toml")
_NAME = re.compile(r"\bname\s*=\s*[\"']?([\w.-]+)")


def installs(folder: str, package: str) -> bool:
    """Whether a folder is one from which a package is installed: by its own name, as the only one, or below `src`.

    What else stands there is not taken for it: a copy of a repository may have its own `datasets`, or `utils`.
    """
    home, last = os.path.split(folder)
    return package in _names(folder) or (last == "src" and bool(_names(home)))


def _names(folder: str) -> frozenset[str]:
    """The names that a distribution in a folder may have: that of the folder, and those it declares."""
    texts = list(filter(None, (_text(os.path.join(folder, each)) for each in _DECLARING)))
    found = [os.path.basename(folder), *(name for text in texts for name in _NAME.findall(text))]
    return frozenset(re.sub(r"[-.]", "_", each) for each in found) if texts else frozenset()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


@lru_cache(maxsize=10_000)
def package_dirs(folder: str, roots: tuple[str, ...]) -> Mapping[str, str]:
    """The folders that hold packages under other names than their own, by those: `package_dir={"tool": "src"}`.

    Args:
        folder: what is declared there counts first, then what is above it.
        roots: above these nothing is looked at.
    """
    found = dict(_package_dirs(folder))
    home = os.path.dirname(folder)
    if any(home == root or home.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
        found = {**package_dirs(home, roots), **found}
    return MappingProxyType(found)


def _package_dirs(home: str) -> Iterator[tuple[str, str]]:
    for name, read in (("pyproject.toml", _of_pyproject), ("setup.cfg", _of_cfg), ("setup.py", _of_setup)):
        text = _text(os.path.join(home, name))
        try:
            found = read(text) if text else {}
        except (ValueError, SyntaxError, RecursionError, MemoryError, AttributeError, configparser.Error):
            continue  # says nothing that could be read
        for package, where in found.items():
            if isinstance(package, str) and isinstance(where, str):
                yield package, os.path.normpath(os.path.join(home, where))


def _of_pyproject(text: str) -> Mapping[str, object]:
    found: Mapping[str, object] = toml_tables(text).get("tool", {}).get("setuptools", {}).get("package-dir", {})
    return found


def _of_cfg(text: str) -> Mapping[str, object]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    pairs = (line.split("=", 1) for line in re.split(r"[\n,]", parser.get("options", "package_dir", fallback="")))
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def _of_setup(text: str) -> Mapping[str, object]:
    nodes = [*nodes_in(ast.parse(text))]
    given = [each.value for each in nodes if isinstance(each, ast.keyword) and each.arg == "package_dir"]
    names = {each.id for each in given if isinstance(each, ast.Name)}
    for each in nodes:
        if isinstance(each, ast.Assign) and any(isinstance(to, ast.Name) and to.id in names for to in each.targets):
            given.append(each.value)
    pairs = (pair for each in given if isinstance(each, ast.Dict) for pair in zip(each.keys, each.values, strict=True))
    return {
        key.value: value.value
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Constant)
    }
