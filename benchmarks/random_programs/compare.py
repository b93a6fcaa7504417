"""Whether a migrated program did what the program did."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

import torch

from random_programs.execute import Ran

# How far a gradient or a printed number may be from that of float32: a part of itself, and a part of the largest of its
# kind so far. Rounding to half precision, summed up over the few steps of these programs, stays well below; a scaled
# number is a thousand times off, and one that is missing wholly.
OWN, LARGEST = 0.15, 0.04
# Gradients that cancel each other leave rounding alone: a part of the largest of the program.
NOTHING = 1e-3
# These kernels a CPU has not in half precision, and a GPU has.
_NO_KERNEL = re.compile(r"not implemented for '(Half|BFloat16)'|mkldnn|Unsupported dtype Half")
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)")


def same_bits(before: Ran, after: Ran) -> str:
    """What differs between two runs that must be the same to the bit; empty where nothing does."""
    if before.error != after.error:
        return f"error: {before.error or 'none'} / {after.error or 'none'}"
    if before.printed != after.printed:
        return f"printed: {_first(before.printed.splitlines(), after.printed.splitlines())}"
    if len(before.steps) != len(after.steps):
        return f"steps: {len(before.steps)} / {len(after.steps)}"
    if not all(map(_equal, before.weights, after.weights)):
        return "weights at the end"
    return ""


def same_training(before: Ran, after: Ran) -> str:
    """What differs between a run in float32 and one in half precision that rounding does not explain."""
    if bool(before.error) != bool(after.error) or before.error.partition(":")[0] != after.error.partition(":")[0]:
        return f"error: {before.error or 'none'} / {after.error or 'none'}"
    order = [[step.optimizer for step in run.steps] for run in (before, after)]
    if order[0] != order[1]:
        return f"steps: {order[0]} / {order[1]}"
    largest: dict[tuple[int, int], float] = {}
    most = 0.0
    for number, (one, other) in enumerate(zip(before.steps, after.steps, strict=True)):
        for place, (expected, got) in enumerate(zip(one.gradients, other.gradients, strict=True)):
            if (expected is None) != (got is None):
                return f"gradient {place} of step {number}: {_there(expected)} / {_there(got)}"
            if expected is None or got is None:
                continue
            norm = float(expected.norm())
            key = one.optimizer, place
            largest[key] = max(largest.get(key, 0.0), norm)
            most = max(most, norm)
            if not float((expected - got).norm()) <= OWN * norm + LARGEST * largest[key] + NOTHING * most:
                return f"gradient {place} of step {number}: {norm:.4g} / {float(got.norm()):.4g}"
    return _printed(before.printed, after.printed)


def is_the_stand_ins(run: Ran) -> bool:
    """Whether a run failed because a CPU lacks a kernel that a GPU has."""
    return bool(_NO_KERNEL.search(run.error))


def _printed(before: str, after: str) -> str:
    largest: dict[str, float] = {}
    for one, other in zip_longest(before.splitlines(), after.splitlines(), fillvalue=""):
        words = [_NUMBER.sub("#", line) for line in (one, other)]
        if words[0] != words[1]:
            return f"printed: {one!r} / {other!r}"
        for expected, got in zip(map(float, _NUMBER.findall(one)), map(float, _NUMBER.findall(other)), strict=True):
            size = largest[words[0]] = max(largest.get(words[0], 0.0), abs(expected))
            if expected != got and not abs(expected - got) <= OWN * abs(expected) + LARGEST * size + 1e-3:
                return f"printed: {one!r} / {other!r}"
    return ""


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one.nan_to_num(), other.nan_to_num())


def _there(gradient: torch.Tensor | None) -> str:
    return "none" if gradient is None else f"{float(gradient.norm()):.4g}"


def _first(one: Iterable[str], other: Iterable[str]) -> str:
    pairs = zip_longest(one, other, fillvalue="")
    return next(f"{a!r} / {b!r}" for a, b in pairs if a != b)
