"""Copies of Apex's repository in a tree: what is in one is Apex's own, its examples and tests too."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping

_PACKAGE = os.path.join("apex", "amp", "__init__.py")
_SETUP = "setup.py"
_NAMES_APEX = re.compile(rb"\bname\s*=\s*[\"']apex[\"']")


def apex_copies(reals: Collection[str], named: Iterable[str]) -> Mapping[str, str]:
    """The folders that hold a copy of Apex, each with its `setup.py`: that names Apex, beside the package.

    A package that stands in somebody else's project is not of these, and neither is a folder that was asked for.

    Args:
        reals: the real paths of all files.
        named: those of the folders that were named.
    """
    homes = {each.removesuffix(os.sep + _PACKAGE) for each in reals if each.endswith(os.sep + _PACKAGE)}
    found = {each: os.path.join(each, _SETUP) for each in sorted(homes.difference(named))}
    return {home: setup for home, setup in found.items() if setup in reals and _is_of_apex(setup)}


def _is_of_apex(setup: str) -> bool:
    try:
        with open(setup, "rb") as file:
            return _NAMES_APEX.search(file.read()) is not None
    except OSError:
        return False
