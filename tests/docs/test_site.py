"""What the site takes from pyproject.toml."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ADDRESSES = Path(__file__).parents[2] / "docs" / "addresses.py"
HEAD = '[project]\nname = "x"\n'


@pytest.mark.parametrize(
    ("urls", "config"),
    [
        ("", {}),
        (
            '[project.urls]\nRepository = "https://h.org/o/amp"\nDocumentation = "https://o.h.org/amp"\n',
            {"repo_url": "https://h.org/o/amp", "repo_name": "o/amp", "site_url": "https://o.h.org/amp/"},
        ),
        (
            '[project.urls]\nRepository = "https://h.org/o/amp"\nDocumentation = "https://h.org/o/amp/blob/main/docs"\n',
            {"repo_url": "https://h.org/o/amp", "repo_name": "o/amp"},
        ),
    ],
)
def test_addresses_come_from_one_place(urls: str, config: dict[str, Any], tmp_path: Path) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(HEAD + urls)
    on_config = runpy.run_path(str(ADDRESSES))["on_config"]
    on_config.__globals__["PYPROJECT"] = pyproject
    assert on_config({}) == config
