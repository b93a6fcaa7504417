"""Writes docs/fault-detection.md from what fault_detection.py and mutation.py measured.

python benchmarks/fault_table.py
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from field_faults import section

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/fault_detection.json"
OF_THE_FIELD = ROOT / "benchmarks/results/field_faults.json"
TIMES = ROOT / "benchmarks/results/field_times.json"
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


_OF_THE_FIELD = """
## In scripts that nobody here wrote

Measured by `benchmarks/mutation.py`, put together by `benchmarks/field_faults.py`. The scripts are those of public
repositories that `benchmarks/faults/field_scripts.json` names, made small enough to end within seconds, each for 22 to
36 steps of each optimizer. Operators of mutation, which know nothing of the scripts, change what `amp-migrate` writes
for them wherever a run comes by: a statement is lost, a number is off, a region ends too early, a loss is not scaled, a
learning rate is halved late. A sample of as many of each kind as of the others is verified on a CPU that stands in for
a GPU. A mutant is found where the verdict is not PASS, and has no effect where the verdict is PASS and its runs are
those of the right migration, to the bit, with mixed precision on and off. It counts as declared where that very verdict
says that what it does was not looked at, and as missed otherwise. The half format is named, as `--dtype` names it; in
what was measured at 9e5147d it was not. Where a script is not the original's program with
mixed precision off, nothing else of it was run: no such script is passed.
"""


def page(cases: Sequence[dict[str, Any]], field: Sequence[dict[str, Any]], times: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    lines = (*_lines(cases), *_OF_THE_FIELD.splitlines(), "", *section(field), *_times(times))
    return "".join(f"{line}\n" for line in lines)


def _times(times: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What a verification costs, of short runs and of longer ones."""
    yield ""
    yield "### What it costs"
    yield ""
    yield (
        "CPU seconds of a verification, all its processes together, as a multiple of what running both scripts once "
        "takes, each in an interpreter of its own (`benchmarks/field_times.py`). Torch is imported once for all runs "
        "of a verification, and twice for two scripts. Without that, of runs that are forked once torch is imported, "
        "it is the multiple on the right: the runs that measure noise make 20 steps, however many the others make."
    )
    yield ""
    yield "| optimizer steps | runs of scripts | in the middle | at worst | of forked runs, in the middle | at worst |"
    yield "|---|---|---|---|---|---|"
    for title, of in (("up to 100", range(100)), ("more", range(100, 10**6))):
        rows = [row for row in times if row["steps"] in of]
        whole, forked = ([row[f"verification{kind}"] / row[f"once{kind}"] for row in rows] for kind in ("", " forked"))
        if rows:
            cells = [f"{what(ratios):.1f}" for ratios in (whole, forked) for what in (statistics.median, max)]
            yield f"| {title} | {len(rows)} | {' | '.join(cells)} |"


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
    return str(case["sentence"]).partition(":")[0]


def main() -> None:
    """Write the page."""
    planted, field, times = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULT, OF_THE_FIELD, TIMES))
    PAGE.write_text(page(planted["cases"], field, times), encoding="utf-8")


if __name__ == "__main__":
    main()
