"""What the proof says of results of real repositories: how many files were proved, and how many refused, and why.

    python benchmarks/proved_results.py OUTPUTS... && python benchmarks/mutate_results.py --table

`OUTPUTS` are what `output_net.py record --keep` writes, and `output_net.py again --keep` says of a second run. Every
file that is written was proved. No text of a checkout is kept in the results.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "proved.json"
_REFUSED = re.compile(r"AMP002 .*|AMP290 .*: internal: .*")  # of an Apex script: native AMP was refused, so the shim
_DETAILS = re.compile(r"^.*internal: | \[.*\]$")


def outputs(pools: Iterable[Path]) -> Iterator[tuple[str, str, Path]]:
    """Each repository and dtype with the folder of what was kept of its run."""
    for said in sorted(path for pool in pools for path in pool.glob("*/*/said.json")):
        yield said.parent.parent.name, said.parent.name, said.parent


def gather(pools: Iterable[Path]) -> dict[str, Any]:
    """The counts by dtype."""
    found: dict[str, dict[str, Any]] = defaultdict(
        lambda: {"repositories": [], "written": 0, "refused": Counter(), "run again": 0, "changed again": []}
    )
    for repository, dtype, folder in outputs(pools):
        row = found[dtype]
        row["repositories"].append(repository)
        row["written"] += sum(path.is_file() for path in (folder / "written").rglob("*"))
        said = json.loads((folder / "said.json").read_text(encoding="utf-8"))
        for line in (line for lines in said.values() for line in lines):
            refusal = _REFUSED.search(line)
            if refusal is not None and "belong together" not in line:
                row["refused"][re.sub(r"`[^`]*`", "...", _DETAILS.sub("", refusal.group()))] += 1
        if (folder / "again.json").exists():
            row["run again"] += 1
            names = json.loads((folder / "again.json").read_text(encoding="utf-8"))
            row["changed again"] += [f"{repository}/{name}" for name in names]
    return dict(sorted(found.items(), reverse=True))


def section(proved: Mapping[str, Any]) -> str:
    """The part of docs/mutants.md about them."""
    text = "## Results of real repositories\n\n"
    text += "Every file that is written has passed the check. What was refused is left as it was, or on `amp_shim`.\n\n"
    text += "| `--dtype` | repositories | files written | refused | run over again | changed again |\n"
    text += "|---|---:|---:|---:|---:|---:|\n"
    reasons: Counter[str] = Counter()
    for dtype, row in proved.items():
        cells = (len(row["repositories"]), row["written"], sum(row["refused"].values()), row["run again"])
        text += f"| {dtype} | {' | '.join(map(str, cells))} | {len(row['changed again'])} |\n"
        reasons.update(row["refused"])
    for reason, number in sorted(reasons.items()):
        text += f"\nRefused, {number}: {reason}.\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="+", metavar="OUTPUTS", help="a folder of kept outputs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="default: %(default)s")
    options = parser.parse_args()
    options.output.write_text(json.dumps(gather(options.outputs), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
