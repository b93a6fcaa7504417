"""Writes docs/examples-verified.md from what verify_examples.py found.

python benchmarks/examples_table.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/verify_examples.json"
PAGE = ROOT / "docs/examples-verified.md"

_HEAD = """# PyTorch's examples, verified

Made by `benchmarks/examples_table.py` from `benchmarks/results/verify_examples.json`, which
`python benchmarks/verify_examples.py FOLDER` finds out about a checkout of github.com/pytorch/examples.

Each script runs as it is, against what `amp-migrate` writes of it, with `amp-verify run --synthetic-data` on a CPU that
stands in for a GPU: 20 optimizer steps, as many runs as a verdict takes, nothing downloaded.
"""


def page(result: Mapping[str, Any]) -> str:
    """The page's text."""
    return "".join(f"{line}\n" for line in _lines(result))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    yield _HEAD
    found: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for each in result["verified"]:
        found.setdefault((each["script"], each["launch"], each["arguments"]), {})[each["dtype"]] = each
    passed = sum(all(each["verdict"] == "PASS" for each in dtypes.values()) for dtypes in found.values())
    yield f"Commit {result['commit']}: {passed} of {len(found)} pass in both."
    yield ""
    yield "| script | arguments | float16 | bfloat16 |"
    yield "|---|---|---|---|"
    for (script, launch, arguments), dtypes in found.items():
        told = " ".join(f"`{words}`" for words in (f"--launch '{launch}'" if launch else "", arguments) if words)
        verdicts = " | ".join(dtypes[dtype]["verdict"].replace("_", " ") for dtype in ("fp16", "bf16"))
        yield f"| {script} | {told} | {verdicts} |"
    yield ""
    yield "Why not PASS:"
    yield ""
    for (script, _, arguments), dtypes in found.items():
        for dtype, each in dtypes.items():
            if each["verdict"] != "PASS":
                yield f"- {script} `{arguments}`, {dtype}: {each['sentence']}"
    yield ""
    yield "Not run:"
    yield ""
    for folder, reason in result["not_run"].items():
        yield f"- {folder}: {reason}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
