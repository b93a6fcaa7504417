"""Writes what the documentation takes from the rules: docs/rules.md.

Run it after a rule has changed: `python docs/generate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amp_migrate.report.rules.rules_markdown import document
from amp_migrate.rulebook import all_rules

ROOT = Path(__file__).parents[1]


def generated() -> Mapping[Path, str]:
    """What each file with generated text should hold."""
    return {ROOT / "docs/rules.md": document(all_rules())}


def main() -> None:
    """Write the files."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
