"""Writes docs/speed.md from what codemod.py measured.

python benchmarks/codemod_table.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/codemod.json"
COMMANDS = ("grep -rlE", "import libcst", "parse what survives", "amp-migrate --check", "torchfix")
UNPROVED = "the same without proof"
_HEAD = """# Speed

Made by `benchmarks/codemod_table.py` from `benchmarks/results/codemod.json`, which `python benchmarks/codemod.py`
measures.
"""
_TORCHFIX = "TorchFix is the nearest tool: a linter of PyTorch code on LibCST. It ran once, the others in turns.\n"
_TAIL = """\
Each number is a process from its start to its end. `grep -rlE` searches the tree for the words that make a file worth
reading; `import libcst` is Python's start and that of the parser; parsing alone is what no tool on LibCST can do
without.
{torchfix}
The time grows with the lines that have to be parsed, not with those of the tree: files without a word of mixed
precision or training are read and not parsed. Of the rest, each is parsed, rewritten, and shown to be
[the same program](same-program.md) but for its precision. As many processes work as there are processors, and the
memory is that of the largest of them.
"""


def generated(result: Mapping[str, Any]) -> Mapping[Path, str]:
    """What each file with text from the measurement should hold."""
    trees = result["trees"]
    commands = [name for name in COMMANDS if any(name in tree["timings"] for tree in trees)]
    tail = _TAIL.format(torchfix=_TORCHFIX if "torchfix" in commands else "")
    return {
        ROOT / "docs/speed.md": "\n".join(
            [_HEAD, _machine(result["machine"]), "", *_table(trees, commands), "", tail + _proof(trees)]
        ),
    }


def _proof(trees: Sequence[Mapping[str, Any]]) -> str:
    """What the proof of results takes of the processor time; nothing where that was not measured."""
    shares = []
    for tree in trees:
        if "fixtures" in tree["name"] and UNPROVED in tree["timings"]:
            with_it, without = (
                sum(each["processor"] for each in tree["timings"][name]) for name in ("amp-migrate --check", UNPROVED)
            )
            shares.append(f"{100 * (1 - without / with_it):.0f} % of {tree['name']}")
    return f"\nThe proof takes of the processor time: {', '.join(shares)}.\n" if shares else ""


def _machine(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['date']}, {machine['processor']}, {machine['processors']} processors, "
        f"Python {machine['python']}, LibCST {machine['libcst']}. Seconds; medians where there were several runs."
    )


def _table(trees: Sequence[Mapping[str, Any]], commands: Sequence[str]) -> Iterator[str]:
    columns = ("tree", "files", "lines to parse", *(f"`{name}`" for name in commands), "memory (MiB)")
    yield "| " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * (len(columns) - 1)
    for tree in trees:
        timings = tree["timings"]
        seconds = [_seconds(timings.get(name, ())) for name in commands]
        memory = median(each["peak"] for each in timings["amp-migrate --check"])
        cells = (tree["name"], f"{tree['files']:,}", f"{tree['surviving_lines']:,}", *seconds, f"{memory:.0f}")
        yield "| " + " | ".join(cells) + " |"


def _seconds(timings: Sequence[Mapping[str, float]]) -> str:
    return f"{median(each['seconds'] for each in timings):.2f}" if timings else ""


def main() -> None:
    """Write the files."""
    for path, text in generated(json.loads(RESULT.read_text(encoding="utf-8"))).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
