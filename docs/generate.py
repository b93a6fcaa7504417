"""Writes what the documentation takes from the rules: docs/rules.md, and the table in README.md.

Run it after a rule has changed: `python docs/generate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amp_migrate.report.marks import between
from amp_migrate.report.rules_markdown import document, table
from amp_migrate.rules.rule import all_rules

ROOT = Path(__file__).parents[1]


def generated() -> Mapping[Path, str]:
    """What each file with generated text should hold."""
    rules = all_rules()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return {
        ROOT / "docs/rules.md": document(rules),
        ROOT / "README.md": between(readme, "rules", table(rules, "docs/rules.md")),
    }


def main() -> None:
    """Write the files."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
