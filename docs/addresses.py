"""What the site takes from pyproject.toml: the address of the repository, where `[project.urls]` names one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def on_config(config: Any) -> Any:
    """Called by MkDocs with its settings."""
    urls = addresses(PYPROJECT.read_text(encoding="utf-8"))
    if "Repository" in urls:
        config["repo_url"] = urls["Repository"]
        config["repo_name"] = "/".join(urls["Repository"].rstrip("/").split("/")[-2:])
    if "Documentation" in urls and "/blob/" not in urls["Documentation"]:
        config["site_url"] = urls["Documentation"].rstrip("/") + "/"
    return config


def addresses(text: str) -> dict[str, str]:
    """`[project.urls]` of a pyproject.toml; empty where it has none."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    urls: dict[str, str] = toml.loads(text)["project"].get("urls", {})
    return urls
