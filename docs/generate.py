"""Writes what the documentation takes from the rules: docs/rules.md, and the table in README.md.

Run it after a rule has changed: `python docs/generate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amp_migrate.report.rules_markdown import document, table
from amp_migrate.rules.rule import all_rules

ROOT = Path(__file__).parents[1]
_OPEN, _CLOSE = "<!-- rules -->\n", "<!-- /rules -->\n"


def generated() -> Mapping[Path, str]:
    """What each file with generated text should hold."""
    rules = all_rules()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = readme.partition(_OPEN)
    _, _, after = rest.partition(_CLOSE)
    return {
        ROOT / "docs/rules.md": document(rules),
        ROOT / "README.md": f"{before}{_OPEN}{table(rules, 'docs/rules.md')}{_CLOSE}{after}",
    }


def main() -> None:
    """Write the files."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
