"""Writes docs/field-results.md from what field.py found.

python benchmarks/field_table.py
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/field.json"
PAGE = ROOT / "docs/field-results.md"
_MOVED = ("AMP201", "AMP501")
_ON_SHIM = ("AMP290",)
_NAMES = ("AMP101", "AMP102", "AMP103", "AMP104", "AMP105", "AMP106")
_COLUMNS = (
    *("repository", "commit", "files", "changed", "steps moved", "on the shim", "left", "names changed"),
    *("`backward()`", "with a scaler"),
)
_HEAD = """# What happens to real code

Made by `benchmarks/field_table.py` from `benchmarks/results/field.json`, which `python benchmarks/field.py FOLDER...`
finds out about any checkouts.

Each repository is migrated as it is. A fault is a file that makes `amp-migrate` fail, a
changed file that does not compile, or a file that a second run would change again. `backward()` counts all calls that
have no scaler yet, tests and profiling included, and beside it what of them goes through a scaler after the run: a
count by Python's own parser, which knows nothing of `amp-migrate`. Steps are counted by its report: a step may have
several `backward()`. Repositories that are on native AMP already have names to change, and no steps.
"""


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """The page's text."""
    return "".join(f"{line}\n" for line in _lines(runs))


def _lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield _HEAD
    faults = sum(len(each["crashes"]) + len(each["broken"]) + len(each["unstable"]) for each in runs)
    repositories = {each["repository"] for each in runs}
    files = sum(each["files"] for each in runs)
    dtypes = ", ".join(dict.fromkeys(each["dtype"] for each in runs))
    yield f"{len(repositories)} repositories, `--dtype` {dtypes}, {files:,} files read, {faults} faults."
    yield ""
    yield "With `--dtype fp16`:"
    yield ""
    yield "| " + " | ".join(_COLUMNS) + " |"
    yield "|---|---|" + "---:|" * (len(_COLUMNS) - 2)
    first = [each for each in runs if each["dtype"] == "fp16"]
    for each in first:
        cells = (each["files"], each["changed"], *_counts(each), each["plain"], each["scaled"])
        yield f"| {each['repository']} | {each['commit']} | " + " | ".join(map(str, cells)) + " |"
    yield ""
    yield "Why steps were left:"
    yield ""
    yield "| reason | steps |"
    yield "|---|---:|"
    reasons: Counter[str] = Counter()
    for each in first:
        reasons.update(each["reasons"])
    for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {reason} | {number} |"


def _counts(found: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Steps moved, on the shim, and left; names changed."""

    def number(rules: tuple[str, ...], kind: str = "migrated") -> int:
        return sum(count for key, count in found["codes"].items() if key.startswith(rules) and key.endswith(kind))

    return number(_MOVED), number(_ON_SHIM, kind=""), sum(found["reasons"].values()), number(_NAMES)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))["runs"]), encoding="utf-8")


if __name__ == "__main__":
    main()
