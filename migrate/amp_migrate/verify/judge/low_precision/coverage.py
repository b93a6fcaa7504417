"""How much of the work runs in half precision, in which format, throughout the run: beside what autocast would give.

What autocast gives is measured: the oracle runs the original's own forward passes under it. Where the original has
mixed precision of its own, that is what the migrated script must have too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TypeAlias

from amp_migrate.verify.judge.gates import Check, Status, matrix_dtypes
from amp_migrate.verify.recorded.recording import LOW_DTYPES, Counted, Trace

ENOUGH = 0.5  # of the work that autocast would put into half precision
_GAPS = 0.25  # of the later looks that may find less
_NEARLY = 0.9  # of that work: what is missing then is an operation here and there
_WORSE = (Status.PASS, Status.WARN, Status.FAIL)
Look: TypeAlias = tuple[int, float, float]
"""An attempt at a step, the share of its work in half precision, and the share that there should be.

What a script switches off within its region it means to keep in float32: that is no part of its work here.
"""


def coverage(original: Trace, migrated: Trace, oracle: Trace | None) -> Check | None:
    """G12: work in half precision, throughout. None where there is nothing to measure it by."""
    title = "half precision throughout"
    model = original if original.uses_amp else oracle
    if model is None:
        return None
    found = []
    for whose, looks in _of_optimizers(migrated, model):
        status, detail = _of_one(looks, whose, in_original=original.uses_amp)
        if kept := _kept(migrated):
            detail += f"; {kept:.0%} of all is in regions that switch autocast off"
            status = max(status, Status.WARN, key=_WORSE.index) if kept > 1 - ENOUGH else status
        found.append(Check("G12", title, status, detail))
    return max(found, key=lambda check: _WORSE.index(check.status), default=None)


def in_float32(migrated: Trace, oracle: Trace | None) -> str:
    """What autocast would put into half precision and the script does not, where that is no fault; empty for little."""
    found = []
    for whose, looks in _of_optimizers(migrated, oracle) if oracle is not None else ():
        share, wanted = _shares(looks)
        if not wanted:
            found.append(
                (0.0, f"{share:.0%} of the work{whose}, with no call of a module to show what autocast would give")
            )
        elif share < _NEARLY * wanted:
            found.append((share / wanted, f"{share:.0%} of the work{whose}, where autocast would give {wanted:.0%}"))
    return min(found)[1] if found else ""


def _of_optimizers(migrated: Trace, model: Trace) -> list[tuple[str, list[Look]]]:
    """The looks at the steps of each optimizer, and whose they are, where there are several."""
    found: dict[int, list[Look]] = {}
    for optimizer, look in _looks(migrated, model):
        found.setdefault(optimizer, []).append(look)
    return [(f" of optimizer {each}" if len(found) > 1 else "", looks) for each, looks in sorted(found.items())]


def _shares(looks: Sequence[Look]) -> tuple[float, float]:
    """The share of the work in half precision, and the share that there should be, over all looks."""
    return fmean(share for _, share, _ in looks), fmean(wanted for _, _, wanted in looks)


def _of_one(looks: Sequence[Look], whose: str, *, in_original: bool) -> tuple[Status, str]:
    """What is to be said of the steps of one optimizer: another one's work does not make up for theirs."""
    share, wanted = _shares(looks)
    there = (
        f"{wanted:.0%} in the original" if in_original else f"and autocast round the forward passes gives {wanted:.0%}"
    )
    steps = f"{len(looks)} step{'s' if len(looks) > 1 else ''}"
    detail = f"{share:.0%} of the work at {steps}{whose}, {there}"
    low = [attempt for attempt, here, there in looks if here < ENOUGH * there]
    if not low:
        return Status.PASS, detail
    later = [attempt for attempt, _, _ in looks[3:]] or [attempt for attempt, _, _ in looks]
    gaps = [attempt for attempt in low if attempt in later]
    if share < ENOUGH * wanted:
        return Status.FAIL, detail
    detail += f"; at step {low[0]} it is {next(here for attempt, here, _ in looks if attempt == low[0]):.0%}"
    if looks[-1][0] in low or len(gaps) >= _GAPS * len(later):
        return Status.FAIL, detail
    return Status.WARN, detail


def _looks(migrated: Trace, model: Trace) -> Iterator[tuple[int, Look]]:
    """The optimizer and the look, of every attempt that was looked at."""
    wanted = {each.attempt: share for each in model.counted if (share := _share(each)) is not None}
    optimizer = {step.index: step.optimizer for step in (*model.steps, *migrated.steps)}
    of_optimizer: dict[int, list[float]] = {}
    for attempt, share in wanted.items():
        of_optimizer.setdefault(optimizer.get(attempt, 0), []).append(share)
    for each in migrated.counted:
        own = optimizer.get(each.attempt, 0)
        here, known = _share(each), of_optimizer.get(own)
        if here is not None and (each.attempt in wanted or known):
            there = wanted.get(each.attempt)
            yield own, (each.attempt, here, fmean(known or ()) if there is None else there)


def _share(counted: Counted) -> float | None:
    work = counted.work() - counted.kept
    return counted.work(LOW_DTYPES) / work if work else None


def _kept(migrated: Trace) -> float:
    """The share of the work in regions that switch autocast off within others."""
    work = sum(each.work() for each in migrated.counted)
    return sum(each.kept for each in migrated.counted) / work if work else 0.0


def dtype(original: Trace, migrated: Trace, asked: str) -> Check | None:
    """G13: the half format is the one that was asked for, or else the original's; with neither, one that fits the rest.

    None where nothing is in half precision, or nothing speaks against the format that is there.
    """
    title = "the half format that was asked for"
    found = matrix_dtypes(migrated) & LOW_DTYPES
    before = matrix_dtypes(original) & LOW_DTYPES
    wanted = frozenset({asked}) if asked else before
    if not wanted:
        odd = _odd(found, migrated)
        return Check("G13", title, Status.WARN, f"{odd}; --dtype says which is meant") if odd else None
    if not found:
        return None
    source = "as was asked for" if asked else "as in the original"
    detail = " and ".join(sorted(found))
    detail += f", {source}" if found == wanted else f", and not {' and '.join(sorted(wanted))} {source}"
    return Check("G13", title, Status.PASS if found == wanted else Status.FAIL, detail)


def _odd(found: frozenset[str], migrated: Trace) -> str:
    """What of the half formats that are there is hardly meant; empty where nothing is."""
    if len(found) > 1:
        return f"both {' and '.join(sorted(found))}"
    if found == {"bfloat16"} and any(scale.value != 1 for scale in migrated.scales):
        return "bfloat16 with a loss scale, which only float16 needs"
    return ""


def operations(original: Trace, migrated: Trace) -> Check | None:
    """G14: what a native original computes in which dtype, the migrated script does. None for other originals."""
    if not original.uses_amp or original.environment.get("apex"):
        return None
    title = "operations in the original's dtypes"
    theirs = {each.attempt: each for each in migrated.counted}
    for ours in original.counted:
        if ours.attempt not in theirs:
            continue
        a, b = ({each[:2]: each[2:] for each in counted.table} for counted in (ours, theirs[ours.attempt]))
        differing = sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))
        if differing:
            name, kind = differing[0]
            calls, work = zip(a.get((name, kind), (0, 0)), b.get((name, kind), (0, 0)), strict=True)
            others = f", {len(differing) - 1} more differ" if len(differing) > 1 else ""
            amount = f"{work[0]:.3g} and {work[1]:.3g} operations" if any(work) else f"{calls[0]} and {calls[1]} calls"
            detail = f"step {ours.attempt}: {name} in {kind}, {amount}{others}"
            status = Status.FAIL if _work_differs(ours, theirs[ours.attempt]) else Status.WARN
            return Check("G14", title, status, detail)
    return Check("G14", title, Status.PASS, f"at {len(original.counted)} steps")


def _work_differs(a: Counted, b: Counted) -> bool:
    dtypes = {dtype for _, dtype, _, _ in (*a.table, *b.table)}
    return any(a.work({dtype}) != b.work({dtype}) for dtype in dtypes)
