"""The flow analysis' table of operators beside what PyTorch gives: on a GPU, or on fake tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Tup, Value
from amp_migrate.flow.domain.tensor import NAMES, OTHER, Tensor, precisions
from amp_migrate.flow.source import Module, read_module
from amp_migrate.tables.operators import NO_HALF_KERNEL

from gpu_suite.flow_samples import BY_PARTS, MADE, ONLY_ON_A_GPU, PAIRS, SAMPLES, seen
from gpu_suite.sizes import Sizes


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """Every sample, within CUDA's autocast and without, and what has no kernel for half precision.

    A rehearsal asks PyTorch's fake tensors in place of a GPU.
    """
    device = "cuda" if sizes.device == "cuda" else "fake"
    wrong = [
        {"region": on, "given": " and ".join(pair).replace("torch.", ""), "said": each}
        for on in (True, False)
        for pair in PAIRS
        for each in compared(on, pair, device=device)[0]
    ]
    kernels = kernels_for_half() if device == "cuda" else []
    save({"samples": len(SAMPLES), "calls": 8 * len(SAMPLES), "wrong": wrong, "kernels": kernels})


def compared(on: bool, pair: tuple[str, str], *, device: str = "fake") -> tuple[list[str], int]:
    """What the table has wrong, and how many samples it knows for certain; those that raise are passed over."""
    values, _ = said(on, pair)
    wrong = []
    certain = 0
    for sample, value, actual in zip(SAMPLES, values, seen(on, pair, device=device), strict=True):
        if not actual or (on and device == "fake" and sample in (*BY_PARTS, *ONLY_ON_A_GPU)):
            continue
        tensor = tensors(value)
        bits = OTHER if tensor is None else tensor.precision
        names = {NAMES[1 << bit] for bit in range(7) if bits >> bit & 1}
        if bits & OTHER:
            wrong.append(f"{sample}: {actual}, said nothing")
        elif actual not in names:
            wrong.append(f"{sample}: {actual}, said {precisions(bits)}")
        certain += names == {actual} and not bits & OTHER
    return wrong, certain


def kernels_for_half() -> list[str]:
    """What is said to have no kernel for half precision and has one on this GPU."""
    of_floats = [each for each in SAMPLES if _operators(each) & NO_HALF_KERNEL and "a.float()" in each]
    halved = tuple(each.replace("a.float()", "a.half()") for each in of_floats)
    found = zip(of_floats, seen(False, PAIRS[0], samples=halved, device="cuda"), strict=True)
    return [sample for sample, actual in found if actual]


def _operators(sample: str) -> set[str]:
    return {name.removeprefix("torch.") for name in re.findall(r"[\w.]+(?=\()", sample)}


class _OneText:
    """The only file of a program."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self, file: str) -> str | None:
        """Its text."""
        return self._text

    def module(self, file: str) -> Module | None:
        """It, parsed."""
        return read_module(file, self._text)

    def note_run(self, statements: int) -> None:
        """Nobody asks."""

    def locate(self, dotted: str, importer: str) -> str | None:
        """No import leads to another."""
        return None

    without_packages = None

    def is_installed(self, file: str) -> bool:
        """There are no packages."""
        return False

    def shown(self, file: str) -> str:
        """It."""
        return file


@cache
def said(on: bool, pair: tuple[str, str]) -> tuple[tuple[Value, ...], frozenset[str]]:
    """What the analysis says of each sample, and the operators that it has used for it."""
    lines = [MADE.format(*pair), f"    with torch.amp.autocast('cuda', dtype=torch.float16, enabled={on}):"]
    for index, sample in enumerate(SAMPLES):
        fresh = "        a = torch.rand(4, 4, device='cuda', dtype=" + pair[0] + ")\n" if "_(" in sample else ""
        lines.append(f"{fresh}        r{index} = {sample}")
    analysis = Analysis(_OneText("\n".join(lines)), ["t.py"]).run()
    values = {
        node.id: value
        for node, value in analysis.values.items()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return tuple(values[f"r{index}"] for index in range(len(SAMPLES))), frozenset(analysis.pytorch.used)


def tensors(value: Value) -> Tensor | None:
    """The first tensor that a value may be."""
    for each in value:
        if isinstance(each, Tensor):
            return each
        if isinstance(each, Tup) and each.items:
            return tensors(each.items[0])
    return None
