"""Parts of a model as candidates for float32: which is suspected most, what each costs, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from amp_migrate.verify.recorded.recording import Model
from amp_migrate.verify.recorder.part import Part

Island = tuple[int, str]
"""A part of a model: the model's index and the part's name, which is empty for the whole model."""

NEAR_OVERFLOW = 65504 / 16  # a sixteenth of the largest number of float16
MUCH_VANISHES = 0.01
_NUMBER_INSIDE = re.compile(r"(?<![^.])\d+(?=\.)")


def of(parts: Iterable[Part]) -> tuple[Island, ...]:
    """The parts, as what a run is asked to keep in float32."""
    return tuple(sorted((part.model, part.name) for part in parts))


def ranked(parts: Iterable[Part]) -> list[Part]:
    """The most suspected first: infinities, then values at the ends of float16's range, then what harms the loss."""
    return sorted(parts, key=lambda part: (part.nonfinite, part.overflow, _at_the_ends(part), part.harm), reverse=True)


def _at_the_ends(part: Part) -> bool:
    return part.largest > NEAR_OVERFLOW or part.vanishing > MUCH_VANISHES


def evidence(part: Part) -> str:
    """What was measured at a part, in a few words."""
    if part.nonfinite:
        return f"infinite or NaN in half precision, at most {part.largest:.3g} in float32"
    if part.overflow:
        return "gradients become infinite on their way back through it"
    if part.largest > NEAR_OVERFLOW:
        return f"values up to {part.largest:.3g}, and float16 ends at 65504"
    if part.vanishing > MUCH_VANISHES:
        return f"{part.vanishing:.0%} of its values are zero in float16"
    return f"{part.error:.1e} relative error"


def share(part: Part, parts: Iterable[Part]) -> float:
    """A part's share of the floating-point operations of all models' matrix products and convolutions."""
    total = sum(each.flops * each.calls for each in parts if not each.name)
    return min(1.0, part.flops * part.calls / total) if total else 0.0


def more_bytes(part: Part, passes: int) -> int:
    """How many bytes more the part's results take in float32 than in half precision, for each of so many passes."""
    return round(part.half_bytes * part.calls / passes)


def lines(chosen: Iterable[Part], parts: Sequence[Part], models: Sequence[Model]) -> list[str]:
    """Python that keeps the parts in float32, a line for each model; nothing for a model that is to stay as a whole."""
    of_models: dict[int, list[str]] = {}
    for part in (part for part in chosen if part.name):
        of_models.setdefault(part.model, []).append(part.name)
    written = []
    for ordinal, names in sorted(of_models.items()):
        everything = [part.name for part in parts if part.model == ordinal]
        patterns = ", ".join(f'"{pattern}"' for pattern in _patterns(names, everything))
        written.append(f"keep_fp32({models[ordinal].variable}, {patterns})")
    return written


def _patterns(names: Sequence[str], everything: Sequence[str]) -> list[str]:
    """Names as patterns: one `layers.*.norm` for the same part of every block, where it means these and no others."""
    groups: dict[str, set[str]] = {}
    for name in names:
        groups.setdefault(_NUMBER_INSIDE.sub("*", name), set()).add(name)
    patterns: list[str] = []
    for pattern, group in groups.items():
        matched = {name for name in everything if fnmatchcase(name, pattern)}
        patterns += [pattern] if matched == group and len(group) > 1 else sorted(group)
    return patterns
