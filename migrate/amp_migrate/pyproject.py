"""What a `pyproject.toml` says, read by the reader of TOML that this Python has."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def toml_tables(text: str) -> Any:
    """The tables of a text by their names; a `ValueError` is raised where it is no TOML."""
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(text)
