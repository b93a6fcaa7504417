"""Writes docs/shim-field.md: the shim in real scripts, beside Apex itself, and beside native AMP.

python benchmarks/shim_table.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/shim-field.md"
Runs = Sequence[Mapping[str, Any]]

_FIELD = """# The shim, measured

Made by `benchmarks/shim_table.py` from `benchmarks/results/`.

## Public scripts, unmodified

Training scripts as they stand in their repositories, run by `python -m amp_shim` with synthetic data and small models
where a script has options for that. There was no GPU: the CPU stood in for it as in `amp-verify run`. What a script
needs that is gone for other reasons than Apex was bridged from outside, by modules that it imports; no script was
edited. Losses are means of the first and of the last quarter of all backward passes; all are finite. Of DCGAN they are
the discriminator's.
"""
_REFERENCE = """
## Beside Apex itself

`benchmarks/apex_reference.py` trains the same models from the same seeds with the `apex.amp` of a checkout from before
May 2025 and with the shim, with gradients clipped, and with steps that meet an inf on purpose. Without a GPU both run
on the CPU: at O0, O2 and O3 by the same kernels, at O1 Apex by half kernels and the shim by float32 ones between
roundings to half. Numbers are the largest differences of a loss and of the norm of a weight, relative to Apex's; losses
of Apex's own O1 and O2 are as far from each other (1e-2, 1e-4, 1e-1, 9e-5 and 8e-5, in the order of the rows).
"""
_HOST = """
## What a step costs

`benchmarks/shim_host.py` times what is left of a step without its forward and backward pass, with as many parameters
as the model has, so small that only Python and dispatch are left: zeroing gradients, scaling, unscaling, the test for
overflows, the optimizer's step. *Added* is the median of the differences to a native loop of the same rounds, with
quartiles; *least* is the difference of the least times of all rounds. The share is that of a native step of the model
in bfloat16 on this CPU, at the size of `benchmarks/shim.py`. O2 copies gradients to float32 and weights back to half,
so its part grows with the tensors.
"""
_CALLS = """
An operator that a policy overrides goes through Python; one that it does not override costs nothing. On a GPU, Apex's
O1 overrides six of native autocast's: `gelu`, `std`, `var`, `grid_sampler`, `ctc_loss` and `binary_cross_entropy`.
Neither model calls one. Where the CPU stands in for a GPU, every listed operator goes through Python and rounds its
arguments, so the time of O1 and O4 there says nothing about a GPU. Microseconds of `gelu` on 8 elements:
"""


def page(field: Mapping[str, Any], reference: Mapping[str, Any], host: Mapping[str, Any]) -> str:
    """The page's text."""
    return "".join(f"{line}\n" for line in _lines(field, reference, host))


def _lines(field: Mapping[str, Any], reference: Mapping[str, Any], host: Mapping[str, Any]) -> Iterator[str]:
    yield _FIELD
    yield f"{field['date']}, PyTorch {field['torch']}."
    yield ""
    yield from _scripts(field["runs"])
    yield _REFERENCE
    yield _machine(reference["machine"])
    yield ""
    yield from _comparisons(reference["comparisons"])
    yield _HOST
    yield _machine(host["machine"])
    yield ""
    yield from _around_the_layers([each for each in host["added"] if each["arm"] != "policy"])
    yield _CALLS
    yield from _calls([each for each in host["added"] if each["arm"] == "policy"])


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['device']}, PyTorch {machine['torch']}, load {machine['load']:.1f}."


def _scripts(runs: Runs) -> Iterator[str]:
    yield "| repository | commit | script | level | steps | skipped | losses | bridged |"
    yield "|---|---|---|---|---:|---:|---:|---|"
    for run in runs:
        level = run["level"] + (f", {run['processes']} processes" if run["processes"] > 1 else "")
        first, last = run["losses"]
        counts = f"{run['steps']} | {run['skipped']} | {first:.2f} to {last:.2f}"
        bridged = "; ".join(run["bridged"])
        yield f"| {run['repository']} | {run['commit']} | `{run['script']}` | {level} | {counts} | {bridged} |"


def _comparisons(comparisons: Runs) -> Iterator[str]:
    yield "| level | training | steps | losses | weights | loss scales | skipped steps |"
    yield "|---|---|---:|---:|---:|---|---|"
    for each in comparisons:
        losses, weights = (_difference(each[name]) for name in ("loss_difference", "weight_difference"))
        scales = "the same" if each["same_scales"] else "differ"
        skipped = ", ".join(map(str, each["skipped"])) or "none"
        skips = f"the same: {skipped}" if each["same_skips"] else "differ"
        yield f"| {each['level']} | {each['case']} | {each['steps']} | {losses} | {weights} | {scales} | {skips} |"


def _difference(value: float) -> str:
    return f"{value:.0e}" if value else "0"


def _around_the_layers(added: Runs) -> Iterator[str]:
    yield "| parameters of | level | elements of each | native, µs | added, µs | quartiles | least | share |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for each in added:
        low, high = each["quartiles"]
        numbers = f"{each['native']:.0f} | {each['added']:.0f} | {low:.0f} to {high:.0f} | {each['least']:.0f}"
        yield f"| {each['workload']} | {each['arm']} | {each['elements']} | {numbers} | {each['share']:.1%} |"


def _calls(added: Runs) -> Iterator[str]:
    yield "| calls | native | added | quartiles |"
    yield "|---:|---:|---:|---:|"
    for each in added:
        low, high = each["quartiles"]
        calls = each["workload"].removesuffix(" calls")
        yield f"| {calls} | {each['native']:.0f} | {each['added']:.0f} | {low:.0f} to {high:.0f} |"


def main() -> None:
    """Read the results and write the page."""
    names = ("shim-field.json", "apex-reference-cpu.json", "shim-host.json")
    PAGE.write_text(page(*(json.loads((RESULTS / name).read_text(encoding="utf-8")) for name in names)), "utf-8")


if __name__ == "__main__":
    main()
