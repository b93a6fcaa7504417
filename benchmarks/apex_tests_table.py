"""Writes the table of Apex's own tests into docs/shim-differences.md.

python benchmarks/apex_tests_table.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/shim-differences.md"
BEGIN, END = "<!-- Apex's own tests -->\n", "<!-- /Apex's own tests -->\n"
Tests = Sequence[Mapping[str, Any]]

# Why a test fails on the shim, by a part of its name: with what Apex's tests ask for, and what stands above.
DIFFERENCES = {
    "test_fused_optimizer.py::TestFusedSGD.test_half": (
        "momentum of half parameters is float32 here, as the list above says; the test wants it in half, as torch's is"
    ),
    "test_checkpointing.py::TestCheckpointing.test_restoring": (
        "PyTorch's own test tools, once they are imported, forbid the cudnn flags that the test sets, with Apex too"
    ),
    "TestMultiTensorUnscaleL2Norm.test_fuzz": (
        "Apex's kernel gives a tensor of one element, too (`at::empty({1})`); the test compares it with a scalar"
    ),
    "test_inplace_exp_is_error_for_half": "in-place functions on half run in half here, as the list above says",
    "TestFusedMixedPrecisionLamb.test_half": (
        "the test's reference computes in half; here parameters are those of `FusedLAMB` in float32, rounded once"
    ),
}
_LATE = "late"
# What a GPU or its driver is needed for.
_DRIVER = ("more than 1 GPU required", "times kernels", "needs 60 GB", "needs tensors of 6 GB", "compiles for a GPU")
_PARAMETERS = re.compile(r"_(batch_size|use_activation|elementwise_affine|b?float16_elementwise_affine)_\w+$|_cuda$")

_HEAD = """## Apex's own tests

Made by `benchmarks/apex_tests_table.py` from what `benchmarks/apex_tests.py` and `benchmarks/apex_l1.py` found: the
tests of Apex as it was before May 2025 (cb65b8ed^), unchanged, on the shim, with a CPU in the place of the GPU.
"""
_L1 = """
`tests/L1` compares the losses of `main_amp.py` at every level and option, there of a build with extensions and of plain
Python, here of the shim and of Apex's Python, scaled down to a small network and five steps. "Same" is Apex's
`compare.py`: equal to the bit. At O1 the CPU rounds around float32 arithmetic for the shim, and runs half kernels for
Apex.
"""


def section(tests: Mapping[str, Any], l1: Mapping[str, Any]) -> str:
    """The section's text."""
    return "".join(f"{line}\n" for line in _lines(tests, l1))


def unexplained(tests: Tests) -> list[str]:
    """The tests that fail, and nobody has said why."""
    failed = [test for test in tests if _outcome(test) == "failed"]
    return [test["test"] for test in failed if not any(part in test["test"] for part in DIFFERENCES)]


def _lines(tests: Mapping[str, Any], l1: Mapping[str, Any]) -> Iterator[str]:
    yield _HEAD
    yield _machine(tests["machine"])
    yield ""
    yield from _rows(tests["tests"])
    yield _L1
    yield _machine(l1["machine"])
    yield ""
    yield from _levels(l1["comparisons"])


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['device']}, PyTorch {machine['torch']}."


def _rows(tests: Tests) -> Iterator[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for test in tests:
        file, _, name = test["test"].partition("::")
        row = (file, _PARAMETERS.sub("", name), _told(test))
        counts[row] = counts.get(row, 0) + 1
    outcomes = [_outcome(test) for test in tests]
    passed, failed, late = (outcomes.count(each) for each in ("passed", "failed", _LATE))
    yield (
        f"{passed} pass, {failed} fail, {late} did not end in time, {len(tests) - passed - failed - late} cannot run. "
        f"Of the {failed}, {len(unexplained(tests))} are not explained yet."
    )
    yield ""
    yield "| file | test | cases | on the shim |"
    yield "|---|---|---:|---|"
    last = ""
    for (file, name, told), count in counts.items():
        yield f"| {'' if file == last else f'`{file}`'} | {name} | {count} | {told} |"
        last = file


def _outcome(test: Mapping[str, Any]) -> str:
    is_late = test["outcome"] == "failed" and test["said"].startswith("TimeoutError")
    return _LATE if is_late else str(test["outcome"])


def _told(test: Mapping[str, Any]) -> str:
    if test["outcome"] == "passed":
        return "passes"
    if test["outcome"] == "skipped":
        needs_driver = any(part in test["said"] for part in _DRIVER)
        return f"needs a GPU: {test['said']}" if needs_driver else f"Apex leaves it out: {test['said']}"
    if _outcome(test) == _LATE:
        return f"does not end in time here: {test['said'].removeprefix('TimeoutError: ')}"
    why = next((text for part, text in DIFFERENCES.items() if part in test["test"]), test["said"])
    return f"{'fails, not explained yet' if unexplained([test]) else 'differs'}: {why}"


def _levels(comparisons: Tests) -> Iterator[str]:
    yield "| level | runs | same | farthest loss |"
    yield "|---|---:|---:|---:|"
    for level in dict.fromkeys(each["level"] for each in comparisons):
        runs = [each for each in comparisons if each["level"] == level and not each["fused_adam"]]
        farthest = max(each["farthest"] for each in runs)
        same = sum(each["same"] for each in runs)
        yield f"| {level} | {len(runs)} | {same} | {f'{farthest:.0e}' if farthest else '0'} |"
    fused = sum(each["fused_adam"] for each in comparisons)
    yield ""
    yield f"The {fused} runs with `FusedAdam`, which Apex's Python has not, end."


def main() -> None:
    """Read the results and write the section."""
    results = (json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in ("apex-tests", "apex-l1"))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{section(*results)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
