"""Writes docs/fault-detection.md from what fault_detection.py measured.

python benchmarks/fault_table.py
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/fault_detection.json"
PAGE = ROOT / "docs/fault-detection.md"

_HEAD = """# What `amp-verify` finds

Made by `benchmarks/fault_table.py` from `benchmarks/results/fault_detection.json`, which
`python benchmarks/fault_detection.py` measures.

Each fault is an edit of the text that `amp-migrate` writes for a script in `benchmarks/faults/scripts/`. The scripts
and their faulty copies are then verified as any others, on a CPU that stands in for a GPU. A fault is found where the
verdict is not PASS. A right migration raises a false alarm where its verdict is not PASS: those are what `amp-migrate`
writes for float16, bfloat16 and `auto`, the same with a loss scale that starts too high, and the expected texts of the
fixtures. The faults were known when the checks were written: for faults that nobody thought of the figures say little.
"""


def page(cases: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    return "".join(f"{line}\n" for line in _lines(cases))


def _lines(cases: Sequence[dict[str, Any]]) -> Iterator[str]:
    faults = [case for case in cases if case["fault"]]
    rights = [case for case in cases if not case["fault"]]
    found = sum(case["verdict"] != "PASS" for case in faults)
    alarms = sum(case["verdict"] != "PASS" for case in rights)
    yield _HEAD
    yield f"- {found} of {len(faults)} faults found, in {len({case['script'] for case in faults})} scripts"
    scripts = len({case["script"] for case in rights})
    yield f"- {alarms} false alarms in {len(rights)} right migrations of {scripts} scripts"
    yield ""
    yield "| fault | scripts | found | by |"
    yield "|---|---|---|---|"
    for name in dict.fromkeys(case["fault"] for case in faults):
        planted = [case for case in faults if case["fault"] == name]
        number = sum(case["verdict"] != "PASS" for case in planted)
        yield f"| {name} | {len(planted)} | {number} | {_by(planted)} |"


def _by(planted: Sequence[dict[str, Any]]) -> str:
    """What gave the verdicts, the most frequent first."""
    counted = Counter(map(_reason, planted))
    return "; ".join(reason for reason, _ in counted.most_common())


def _reason(case: dict[str, Any]) -> str:
    if case["verdict"] == "PASS":
        return "not found"
    if case["verdict"] == "MIGRATED_FAILED":
        return "the script stops" + (": named" if case["suspicion"] else "")
    return case["sentence"].partition(":")[0]


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))["cases"]), encoding="utf-8")


if __name__ == "__main__":
    main()
