"""What `mutation.py` measured, as one file: the newest of each case, and what was seen in those that were missed.

    python benchmarks/field_faults.py OLDER.jsonl NEWER.jsonl --commits OLDER,NEWER

Texts of the scripts are left out. Each mutant that was missed was looked at by a person: `faults/reviewed.json` says in
words what it does, and which line of its own verdict says that this was not looked at, where one does.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).parent
RESULT = HERE / "results/field_faults.json"
REVIEWED = HERE / "faults/reviewed.json"
NAMED = ("script", "arguments", "dtype", "kind", "operator", "line", "number")
KEPT = (*NAMED, "outcome", "verdict", "check", "runs", "steps", "parameters", "seconds")
Case: TypeAlias = dict[str, Any]


def gathered(measured: Sequence[tuple[str, Sequence[Case]]], reviewed: Sequence[Case]) -> list[Case]:
    """The newest of each case with the commit that it was measured at; of what was missed, what was seen in it.

    Raises ValueError where a review names a line that the verdict does not have.
    """
    newest: dict[tuple[Any, ...], Case] = {}
    said: dict[tuple[Any, ...], Sequence[str]] = {}
    for commit, cases in measured:
        for case in cases:
            key = tuple(case[name] for name in NAMED)
            before = newest.get(key, {})
            newest[key] = {name: case[name] for name in KEPT} | {"commit": commit}
            if before and before["outcome"] != case["outcome"]:
                newest[key]["before"] = before["outcome"]
            said[key] = case["said"]
    for review in reviewed:
        key = tuple(review[name] for name in NAMED)
        case = newest.get(key, {})
        if case.get("outcome") not in ("missed", "false alarm"):
            continue
        case["words"] = review["words"]
        if declared := review.get("declared", ""):
            lines = [line for line in said[key] if line.startswith(declared)]
            if not lines:
                raise ValueError(f"{key}: its verdict has no line that begins with: {declared}")
            case |= {"outcome": "declared", "line_of_the_verdict": lines[0]}
    return [newest[key] for key in sorted(newest, key=str)]


def sentence(cases: Sequence[Case]) -> str:
    """The figures in a sentence, as the README has it."""
    faults = Counter(case["outcome"] for case in cases if case["kind"] not in ("", "right"))
    right = [case["outcome"] for case in cases if case["kind"] in ("", "right")]
    wrong = faults.total() - faults["no effect"]
    scripts = len({case["script"] for case in cases if case["kind"] not in ("", "right")})
    return (
        f"of {wrong} mutants of {scripts} public scripts that nobody here wrote it found {faults['found']}, named "
        f"{faults['declared']} as not looked at and missed {faults['missed']}, with {right.count('false alarm')} false "
        f"alarms in {len(right)} right ones"
    )


def section(cases: Sequence[Case]) -> Iterator[str]:
    """The figures, and what was missed, as Markdown."""
    faults = [case for case in cases if case["kind"] not in ("", "right")]
    rights = [case for case in cases if case["kind"] in ("", "right")]
    counts = Counter(case["outcome"] for case in faults)
    wrong = len(faults) - counts["no effect"]
    scripts = len({case["script"] for case in faults})
    alarms = [case for case in rights if case["outcome"] == "false alarm"]
    by_hand = [case for case in rights if case["kind"]]
    yield f"- {len(faults)} mutants of {scripts} scripts; {counts['no effect']} of them change nothing in any run"
    yield (
        f"- of the other {wrong}, {counts['found']} found ({counts['found'] / wrong:.1%}), {counts['declared']} "
        f"declared as not looked at, {counts['missed']} missed"
    )
    of = len({case["script"] for case in rights})
    yield (
        f"- {len(alarms)} false alarms in {len(rights)} right migrations of {of} scripts: "
        f"{sum(not case['kind'] for case in alarms)} of {len(rights) - len(by_hand)} by `amp-migrate` in float16, "
        f"bfloat16 and `auto`, {sum(bool(case['kind']) for case in alarms)} of {len(by_hand)} by hand"
    )
    first = Counter(case.get("before", case["outcome"]) for case in cases)
    if mended := [case for case in cases if "before" in case]:
        yield (
            f"- this is after mending: before, {first['missed'] + first['declared']} were passed, and right migrations "
            f"raised {first['false alarm']} alarms. Of these {len(mended)} are judged otherwise since "
            f"{' and '.join(sorted({case['commit'] for case in mended}))}; what was found was not measured again"
        )
    yield ""
    yield "| kind of mutant | made | no effect | found | declared | missed |"
    yield "|---|---|---|---|---|---|"
    for kind in sorted({case["kind"] for case in faults}):
        yield _row(kind, Counter(case["outcome"] for case in faults if case["kind"] == kind))
    yield _row("all", counts)
    yield ""
    yield "| optimizer steps | found of those with an effect | parameters | found of those with an effect |"
    yield "|---|---|---|---|"
    steps = _shares(faults, "steps", (0, 24, 40))
    sizes = _shares(faults, "parameters", (0, 10**4, 10**6))
    yield from (f"| {a} | {b} |" for a, b in zip(steps, sizes, strict=True))
    if by_size := sorted({size for case in faults if (size := _size(case)) is not None}):
        yield ""
        yield "| a number that is off by | made | no effect | found | declared | missed |"
        yield "|---|---|---|---|---|---|"
        for size in by_size:
            yield _row(f"{size:g} %", Counter(case["outcome"] for case in faults if _size(case) == size))
    yield ""
    yield "Right variants by hand, and false alarms:"
    yield ""
    yield "| variant | verified | false alarms |"
    yield "|---|---|---|"
    for name in sorted({case["operator"] for case in by_hand}):
        each = [case["outcome"] for case in by_hand if case["operator"] == name]
        yield f"| {name} | {len(each)} | {each.count('false alarm')} |"
    for outcome, title in (
        ("missed", "What was missed"),
        ("declared", "What was passed, and declared as not looked at"),
        ("false alarm", "False alarms"),
    ):
        found = [case for case in cases if case["outcome"] == outcome]
        if found:
            yield ""
            yield f"### {title}"
            yield ""
        for case in found:
            yield f"- {_named(case)}: {case.get('words', 'not looked into')}"


def _size(case: Case) -> float | None:
    """By how many hundredths a mutant has a number wrong; None for any other."""
    found = re.match(r"float off by ([\d.]+)%|learning rate ([\d.]+) % higher|learning rate (halved)", case["operator"])
    return None if found is None else 50.0 if found[3] else float(found[1] or found[2])


def _row(kind: str, counts: Mapping[str, int]) -> str:
    columns = (counts[outcome] for outcome in ("no effect", "found", "declared", "missed"))
    return f"| {kind} | {sum(counts.values())} | {' | '.join(map(str, columns))} |"


def _shares(faults: Sequence[Case], name: str, bounds: Sequence[int]) -> Iterator[str]:
    for low, high in zip(bounds, (*bounds[1:], None), strict=True):
        here = [
            case["outcome"]
            for case in faults
            if case["outcome"] != "no effect" and low <= case[name] and (high is None or case[name] < high)
        ]
        bound = f"from {low:,}" if high is None else f"{low:,} to {high - 1:,}"
        yield f"{bound} | {here.count('found')} of {len(here)}"


def _named(case: Case) -> str:
    place = f", line {case['line']}" if case["line"] else ""
    return f"{case['operator'] or 'as `amp-migrate` writes it'} in `{case['script']}` ({case['dtype']}{place})"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, nargs="+")
    parser.add_argument("--commits", required=True, help="one for each, separated by commas")
    options = parser.parse_args()
    files = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in options.measured]
    measured = list(zip(options.commits.split(","), files, strict=True))
    cases = gathered(measured, json.loads(REVIEWED.read_text(encoding="utf-8")))
    RESULT.write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
