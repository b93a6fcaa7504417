"""Whether a result computes something in low precision that cannot be, or had better not be.

The analysis of values reads the result, and what it finds wrong that it does not find in the original is told. What
happens on all ways that lead there is wrong for sure; what may overflow or round depends on the data, and is for people
to look at.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple, TypeAlias

from amp_migrate.flow.analysis import Analysis, analysed
from amp_migrate.flow.answers.calls_of_packages import calls_of_packages
from amp_migrate.flow.answers.exact_casts import ExactCasts, exact_casts
from amp_migrate.flow.casts import Casts, FloatCast, Island
from amp_migrate.flow.domain.atoms import tensors_in
from amp_migrate.flow.domain.tensor import BOOL, CPU, DEVICE, F32, INT, LOW
from amp_migrate.flow.events import (
    A_BUFFER,
    A_COARSE_DRAW,
    A_GRID,
    A_LARGE_NUMBER,
    A_LONG_SUM,
    A_ROUGH_INVERSE,
    A_ROUNDED_GRID,
    A_ROUNDED_PROBABILITY,
    A_RUNNING_BUFFER,
    BESIDE_AN_INVERSE,
    CANCELLED,
    LIKE_A_RESULT,
    OF_AN_INVERSE,
    OF_CASTS,
    OF_DATA,
    OF_DIFFERENCES,
    OF_DISTANCE,
    OF_EXTENTS,
    OF_ITSELF,
    OF_NEIGHBOURS,
    OF_SPECTRA,
    OF_STEEP,
    OF_TOO_LARGE,
    OF_WHOLE,
    OF_WIDENED,
    ONE_BY_ONE,
    ROUNDED_GUARD,
    TOO_LARGE,
    WITHOUT_LIMIT,
    Act,
    Event,
)
from amp_migrate.flow.files import Files
from amp_migrate.flow.pytorch.gradients import are_of_hooks
from amp_migrate.flow.questions import (
    ADDED,
    CACHE_MENDED,
    CHOSEN_BY_DTYPE,
    CLIPPED,
    ENDED,
    EVALUATED_APART,
    GIVEN_SMALL,
    IDLE,
    IDLE_STEP,
    IN_A_SOLVER,
    IN_FLOAT64,
    IN_THREADS,
    LEFT_SCALED,
    LOSS_ON_CPU,
    MADE_ANEW,
    MENDED,
    NO_BFLOAT16,
    NOT_DIVIDED,
    OF_A_REPLACEMENT,
    OF_COMPLEX,
    OF_SKIPPED,
    OF_TWO_SCALES,
    ON_THE_CPU,
    ONE_WITHOUT_GRADIENTS,
    OUTDATED,
    PAST,
    PERHAPS_LEFT_SCALED,
    SAVED_LOW,
    SEVERAL_SCALES,
    STEPS_INSIDE,
    STUCK,
    TRAINS_INSIDE,
    UNLOADED,
    UNREAD_MODELS,
    UNSAVED,
    UNSCALED_AGAIN,
    UNSCALED_LOSS,
    WATCHED,
    WRONG_BY_ITSELF,
    Fault,
    Questions,
    wrong_states,
)
from amp_migrate.flow.source import Code, Module, Site
from amp_migrate.flow.task import Task, with_callers
from amp_migrate.frozen import frozen
from amp_migrate.tables.signatures import Version, Versions, written
from amp_migrate.tables.torch_names import HALF_SINCE

NOT_LOOKED_AT = "the program is too large to look at all of what low precision does in it"
NOT_PARSED = "this Python cannot parse {}: what low precision does in it is not known"
NOT_UNDERSTOOD = (
    "what this calls never returns, as far as it can be read: what low precision does behind it is known in part"
)
Key: TypeAlias = "tuple[str, str, bool, str]"
Measured: TypeAlias = "Mapping[str, Mapping[int, str]]"
# A wrong result costs more than the seconds to look further than other questions do. A run that uses up almost all of
# this takes longer than one that comes to rest: behind half of it, what is only consulted is run for many calls.
_PATIENCE = 42
_BY_ITSELF = frozenset((*WRONG_BY_ITSELF.values(), IN_THREADS, SAVED_LOW, NO_BFLOAT16))
_OF_REGIONS = frozenset((IDLE, IDLE_STEP, IN_FLOAT64, ON_THE_CPU))
_MAY_HARM = frozenset(
    (
        *(WRONG_BY_ITSELF[each] for each in (Act.RISK, Act.GAUGE, Act.REFUSED)),
        *(WRONG_BY_ITSELF[each] for each in (Act.NO_OPTIMIZER, Act.NO_TENSOR, Act.SCALED_AGAIN)),
        IN_THREADS,
        OF_A_REPLACEMENT,
        OF_SKIPPED,
        OF_COMPLEX,
        ONE_WITHOUT_GRADIENTS,
        PERHAPS_LEFT_SCALED,
        WATCHED,
    )
)
_NEVER_CLEARED = "gradients are never cleared, and add up: with a scaler, which divides them, only the latest count"
_NOT_CLEARED_IN_SIGHT = (
    "nothing in sight clears gradients: where nothing does, they add up, and with a scaler, which divides them, only "
    "the latest count"
)
_OF_OLD_KERNELS = WRONG_BY_ITSELF[Act.OLD_KERNELS]
_OF_THE_CACHE = WRONG_BY_ITSELF[Act.WEIGHT_CAST]
# What a cast of the value that leaves a region mends; of the second, what may raise.
_MENDED = frozenset(
    (
        WRONG_BY_ITSELF[Act.KEPT_LOW],
        WRONG_BY_ITSELF[Act.LEFT_FLOAT],
        WRONG_BY_ITSELF[Act.ON_CPU],
        WRONG_BY_ITSELF[Act.LOW_LEAF],
        WRONG_BY_ITSELF[Act.MISMATCH],
        WRONG_BY_ITSELF[Act.NO_KERNEL],
        WRONG_BY_ITSELF[Act.INDEX_STORE],
        WRONG_BY_ITSELF[Act.OVERFLOW],
        WRONG_BY_ITSELF[Act.FOREIGN],
        WRONG_BY_ITSELF[Act.HALF_ARRAY],
        NO_BFLOAT16,
        SAVED_LOW,
    )
)
# What a cast mends at no cost where it turns out to be float32: one object may be made in regions and outside.
_MENDED_ANYWAY = frozenset((A_COARSE_DRAW, A_ROUNDED_PROBABILITY))
_MENDED_RISKS = frozenset((TOO_LARGE, A_LARGE_NUMBER, A_LONG_SUM, ONE_BY_ONE))
_MAY_RAISE = frozenset(
    (
        WRONG_BY_ITSELF[Act.MISMATCH],
        WRONG_BY_ITSELF[Act.NO_KERNEL],
        WRONG_BY_ITSELF[Act.INDEX_STORE],
        WRONG_BY_ITSELF[Act.OVERFLOW],
        WRONG_BY_ITSELF[Act.HALF_ARRAY],
        NO_BFLOAT16,
    )
)
_OF_SCALERS = frozenset().union(*map(wrong_states, Act))
# What runs, and gives other numbers than autocast would, or than the CPU would in float32.
_RUNS = frozenset(
    (
        WRONG_BY_ITSELF[Act.RISK],
        WRONG_BY_ITSELF[Act.KEPT_LOW],
        WRONG_BY_ITSELF[Act.LEFT_FLOAT],
        WRONG_BY_ITSELF[Act.ON_CPU],
        WRONG_BY_ITSELF[Act.FOREIGN],
        WRONG_BY_ITSELF[Act.HALF_ARRAY],
        WRONG_BY_ITSELF[Act.UNREAD_LOSS],
        WRONG_BY_ITSELF[Act.NOT_ALL],
        EVALUATED_APART,
        IN_A_SOLVER,
        CHOSEN_BY_DTYPE,
        ON_THE_CPU,
        STEPS_INSIDE,
        GIVEN_SMALL,
        UNREAD_MODELS,
        SAVED_LOW,
        UNLOADED,
        UNSAVED,
        _NOT_CLEARED_IN_SIGHT,
        CLIPPED,  # as the original may have done it: Apex's gradients are scaled in the body of `amp.scale_loss`
    )
)
# What does not happen in a call that computes without autocast, and is given float32.
_OF_CALLS = frozenset((UNREAD_MODELS, GIVEN_SMALL, CHOSEN_BY_DTYPE)).union(
    WRONG_BY_ITSELF[each]
    for each in (
        *(Act.RISK, Act.REFUSED, Act.NO_KERNEL, Act.MISMATCH, Act.OVERFLOW, Act.INDEX_STORE, Act.DTYPE_REFUSED),
        *(Act.LEFT_FLOAT, Act.ON_CPU, Act.FOREIGN, Act.UNREAD_LOSS, Act.NOT_ALL, Act.HALF_ARRAY, Act.NOT_A_TENSOR),
        Act.KEPT_LOW,
    )
)
# Of code that nobody has read: what only evaluates by it is as well in float32.
_MAY_EVALUATE = frozenset((GIVEN_SMALL, UNREAD_MODELS))


# The first PyTorch whose scaler takes losses on any device.
SCALES_ANYWHERE = (2, 3)


class Trouble(Enum):
    """Which kind of harm it is, where more than its words depends on it."""

    CACHE = "a weight whose cast was kept without a gradient: `cache_enabled=False` mends it"
    PROBABILITY = "a probability that may be rounded to one"
    ROUNDED = "differences of what is rounded: bfloat16 rounds more"
    UNSCALED = "gradients that are taken apart from those of the scaler's loss"
    PAST = "an optimizer that steps past its scaler: Apex may not have known it either"
    SIZED = "gradients of which it is not seen that their scale does not matter"
    GUARDED = "what a number keeps from a point which float16 would round it to, and is not shown to be low"
    UNGUARDED = "half precision that a number may keep from no point, as it is rounded to that"
    READ_SCALED = "gradients of which more than the direction is used while they are scaled"
    LEFT_SCALED = "gradients that are clipped together, and of which no optimizer has some: these stay scaled"
    SCALED_AGAIN = "a loss that is not to be scaled, as the gradient that it goes backward from is"
    UNSCALED_TWICE = "gradients that are unscaled twice: behind a batch that is skipped, the scale is not updated"
    OUTDATED = "gradients of more than one scale: with a scaler for each optimizer they have one"
    SCALER = "what a scaler raises at, or divides wrongly: without a scaler it does not happen"
    BEHIND = "what is low behind its region"
    MENDED = "gradients that are mended where they are not finite, and a scaler skips the step"
    MASK = "a fill with a number that float16 does not have: the least that it has will do"
    CLIPPED = "scaled gradients that are compared with a limit"
    HOLDS_TENSORS = "something that holds tensors, and is cast as if it were one"
    CAST_INPUT = "a cast of what goes into float32 weights: the original may have had them in half precision"
    LIKENED = "weights that take their precision from what a region gives: they are low for good"
    HALVED = "weights that are low without any region: a scaler raises at their gradients"
    UNCLEARED = "gradients that add up from step to step"
    ON_CPU = "a script that is for the CPU: autocast for a GPU does nothing in it"
    IDLE = "low precision that does nothing at all"
    DOUBLE = "a model in float64"
    THREADS = "replicas that compute in float16 whatever the region says: a scaler serves them"
    APART = "an evaluation in low precision of what is trained in float32"
    BY_DTYPE = "a choice by a dtype: what is trained with one number may be evaluated with the other"
    SMALL = "code that nobody has read, with a number that it cannot divide float16 by: it may evaluate in float32"
    ARRAY = "an array of what nobody knows, for code that may not take it low: it may be evaluated in float32"
    TRAINS_INSIDE = "something that trains by itself between a forward and its loss: a region is round all three"
    OLD_KERNELS = "kernels of an older release of a package, which may take float32 alone"
    MEETS_CPU = "a region in which weights meet what is on the CPU: it does nothing where the script runs at all"
    LOSS_ON_CPU = "a loss that is scaled where its parameters are not"
    UNLOADED = "a scaler that is saved, and begins anew where its optimizer goes on"
    UNSAVED = "a scaler that begins anew where its optimizer goes on"
    UNREAD = "a loss or model that nobody has seen, in a region: original code that has none says nothing of it"
    NORM_TWICE = "a gradient penalty through a norm: bfloat16 has the range for it"
    UNHALVED = "gradients for a penalty that come through nothing low: the loss scale is not too large for them"
    WIDENED = "a product of what was cast to float32 for it: where all was float32, the cast says nothing"
    OF_CASTS = "a product of what was cast to float32 for it: where functions are cast, as by autocast, it says nothing"
    SKIPPED = "gradients that are not finite where a scaler has skipped a step: without a scaler they are as before"
    WATCHED = "gradients that are logged while they are scaled: without a scaler they are as before"
    UNLIMITED = "a loss without a least value: bfloat16 has the range for it"
    UNREACHED = "the state of a scaler behind what never returns: the values there are none that the program has"
    UNSEEN = "functions and classes that nobody has looked at"
    ON_MPS = "a step that is on no device of CUDA's"
    UNPLACED = "no device is named: where what is trained is shows in what hands it in"
    PLACE_GIVEN = "a device that nobody knows, and none of CUDA's: which one shows in what hands it in"
    GIVEN = "a callable that callers hand in, in a region: what it does shows in them alone"
    OTHER = "any other"


_APART = (
    *(A_GRID, A_ROUGH_INVERSE, BESIDE_AN_INVERSE, OF_AN_INVERSE, OF_CASTS, OF_DATA, OF_EXTENTS),
    *(OF_DIFFERENCES, OF_DISTANCE, OF_ITSELF, OF_SPECTRA, OF_STEEP, OF_TOO_LARGE, OF_WHOLE, OF_WIDENED, ONE_BY_ONE),
    *(A_RUNNING_BUFFER, OF_NEIGHBOURS, ROUNDED_GUARD),
)
_REASONS = {
    A_COARSE_DRAW: Trouble.ROUNDED,
    A_LONG_SUM: Trouble.BEHIND,
    A_ROUNDED_PROBABILITY: Trouble.PROBABILITY,
    CANCELLED: Trouble.ROUNDED,
    A_GRID: Trouble.ROUNDED,
    A_ROUNDED_GRID: Trouble.ROUNDED,
    A_ROUGH_INVERSE: Trouble.ROUNDED,
    BESIDE_AN_INVERSE: Trouble.ROUNDED,
    OF_AN_INVERSE: Trouble.ROUNDED,
    OF_CASTS: Trouble.OF_CASTS,
    OF_DATA: Trouble.ROUNDED,
    OF_SPECTRA: Trouble.ROUNDED,
    OF_WIDENED: Trouble.WIDENED,
    ONE_BY_ONE: Trouble.ROUNDED,
    OF_DISTANCE: Trouble.ROUNDED,
    OF_DIFFERENCES: Trouble.ROUNDED,
    WITHOUT_LIMIT: Trouble.UNLIMITED,
    LIKE_A_RESULT: Trouble.LIKENED,
}
_TROUBLES = {
    WRONG_BY_ITSELF[Act.KEPT_LOW]: Trouble.BEHIND,
    WRONG_BY_ITSELF[Act.LEFT_FLOAT]: Trouble.BEHIND,
    WRONG_BY_ITSELF[Act.ON_CPU]: Trouble.BEHIND,
    WRONG_BY_ITSELF[Act.HALF_ARRAY]: Trouble.BEHIND,
    SAVED_LOW: Trouble.BEHIND,
    _OF_THE_CACHE: Trouble.CACHE,
    WRONG_BY_ITSELF[Act.OVERFLOW]: Trouble.MASK,
    CLIPPED: Trouble.CLIPPED,
    WRONG_BY_ITSELF[Act.CAST_INPUT]: Trouble.CAST_INPUT,
    IDLE: Trouble.IDLE,
    IDLE_STEP: Trouble.IDLE,
    IN_FLOAT64: Trouble.DOUBLE,
    IN_THREADS: Trouble.THREADS,
    CHOSEN_BY_DTYPE: Trouble.BY_DTYPE,
    EVALUATED_APART: Trouble.APART,
    IN_A_SOLVER: Trouble.APART,
    STEPS_INSIDE: Trouble.APART,
    GIVEN_SMALL: Trouble.SMALL,
    LEFT_SCALED: Trouble.LEFT_SCALED,
    PERHAPS_LEFT_SCALED: Trouble.LEFT_SCALED,
    LOSS_ON_CPU: Trouble.LOSS_ON_CPU,
    ON_THE_CPU: Trouble.MEETS_CPU,
    _OF_OLD_KERNELS: Trouble.OLD_KERNELS,
    TRAINS_INSIDE: Trouble.TRAINS_INSIDE,
    MENDED: Trouble.MENDED,
    WRONG_BY_ITSELF[Act.LOW_LEAF]: Trouble.HALVED,
    WRONG_BY_ITSELF[Act.NORM_TWICE]: Trouble.NORM_TWICE,
    WRONG_BY_ITSELF[Act.NOT_A_TENSOR]: Trouble.HOLDS_TENSORS,
    _NEVER_CLEARED: Trouble.UNCLEARED,
    _NOT_CLEARED_IN_SIGHT: Trouble.UNCLEARED,
    WRONG_BY_ITSELF[Act.GAUGE]: Trouble.READ_SCALED,
    OF_A_REPLACEMENT: Trouble.SCALER,
    OF_TWO_SCALES: Trouble.OUTDATED,
    OUTDATED: Trouble.OUTDATED,
    OF_SKIPPED: Trouble.SKIPPED,
    WATCHED: Trouble.WATCHED,
    OF_COMPLEX: Trouble.SCALER,
    ONE_WITHOUT_GRADIENTS: Trouble.SCALER,
    PAST: Trouble.PAST,
    NOT_DIVIDED: Trouble.READ_SCALED,
    WRONG_BY_ITSELF[Act.SCALED_AGAIN]: Trouble.SCALED_AGAIN,
    WRONG_BY_ITSELF[Act.NO_OPTIMIZER]: Trouble.SCALER,
    WRONG_BY_ITSELF[Act.NO_TENSOR]: Trouble.SCALER,
    UNSCALED_LOSS: Trouble.UNSCALED,
    STUCK: Trouble.SCALER,
    UNSCALED_AGAIN: Trouble.UNSCALED_TWICE,
    ENDED: Trouble.SCALER,
    UNLOADED: Trouble.UNLOADED,
    UNSAVED: Trouble.UNSAVED,
    UNREAD_MODELS: Trouble.UNREAD,
    WRONG_BY_ITSELF[Act.UNREAD_LOSS]: Trouble.UNREAD,
    WRONG_BY_ITSELF[Act.NOT_ALL]: Trouble.UNSEEN,
}


@frozen
class Harm:
    """Something that low precision does to a program.

    Attributes:
        site: where, in the result.
        message: what it is.
        is_sure: whether it happens whatever the data are, and the result must not be written.
        trouble: which kind of harm it is.
        casts: what keeps it from happening; none where nobody can tell.
        island: the statement that is to compute in float32 instead, where one can.
        is_told: whether it is to be told where it is not mended so.
        regions: those it happens in, or that have made what is low.
        quiet: the first statements of these, where gradients are recorded in none: they may as well be float32.
        run_by: the functions that it happens in, by themselves or by what they call, the nearest first.
        inside: where in an installed package, as a reader knows it, if that is called at the site.
        is_of_others: whether it is of a package, or of code that nobody can read: see `Finding`.
    """

    site: Site
    message: str
    is_sure: bool
    trouble: Trouble
    casts: tuple[FloatCast, ...] = ()
    is_told: bool = True
    island: Island | None = None
    regions: frozenset[Site] = frozenset()
    quiet: tuple[Site, ...] = ()
    run_by: tuple[Site, ...] = ()
    inside: str = ""
    is_of_others: bool = False

    @property
    def may_follow(self) -> bool:
        """Whether it may be gone once what it gets is float32: it is on the CPU, behind all else, or a risk."""
        return self.island is not None or self.message.startswith(WRONG_BY_ITSELF[Act.ON_CPU])


class Original:
    """What is asked of a script as it was, which is read only where it is.

    Args:
        scripts: the script, and what is run beside it: see `Result`.
        with_amp: the files with autocast or a scaler in them, so that something may be wrong with them already.
    """

    def __init__(self, files: Files, *scripts: str, with_amp: Collection[str]) -> None:
        self._files, self._scripts, self._with_amp = files, scripts, frozenset(with_amp)

    @cached_property
    def as_written(self) -> Before:
        """What its own code comes to with all switches as they are written."""
        files = self._files.without_packages or self._files
        with _asking(files, self._scripts, as_written=True) as questions:
            return _before(questions)

    def faults(self, read: Iterable[str]) -> Counter[Key]:
        """What is wrong with its precision, if one of the files is read that something may be wrong with."""
        return self.answer.faults.copy() if any(map(self._may_be_wrong, read)) else Counter()

    def is_asked_by(self, result: Found) -> bool:
        """Whether what is wrong with a result hangs on what was wrong before."""
        is_wrong = any(harm for _, harm in result.faults)
        return result.without_device is not None or (is_wrong and any(map(self._may_be_wrong, result.read)))

    def _may_be_wrong(self, file: str) -> bool:
        """Whether a file has autocast or a scaler in it: of installed ones, nobody has said so."""
        return file in self._with_amp or (self._files.is_installed(file) and has_amp(self._files.text(file) or ""))

    @cached_property
    def without_packages(self) -> Original:
        """The same, as far as it is the project's own."""
        files = self._files.without_packages
        return self if files is None else Original(files, *self._scripts, with_amp=self._with_amp)

    @cached_property
    def answer(self) -> Before:
        """What it comes to; another process may have found it."""
        if self.without_packages is not self:
            with suppress(Exception), _asking(self._files, self._scripts) as questions:
                if _is_understood(questions):
                    return _before(questions)
            return self.without_packages.answer
        with _asking(self._files, self._scripts) as questions:
            return _before(questions)


class Before(NamedTuple):
    """An original.

    Attributes:
        faults: what is wrong with its precision.
        is_on_cpu: whether all that it trains is on the CPU for certain.
        is_on_mps: whether all that it trains is on mps or the CPU for certain.
    """

    faults: Counter[Key]
    is_on_cpu: bool
    is_on_mps: bool


class Found(NamedTuple):
    """A result.

    Attributes:
        faults: what is wrong with its precision, each with the harm that it does, if any.
        without_device: where a loss goes backward, if all do on the CPU, or no device but mps is named anywhere.
        switched: where one does, if another device is named only behind switches that are off as they are written.
        read: the files that were read.
        casts: those to float32 that are in it.
        has_packages: whether what is installed has been looked into.
    """

    faults: list[tuple[Key, Harm | None]]
    without_device: Site | None
    read: frozenset[str]
    casts: ExactCasts
    switched: Site | None = None
    has_packages: bool = False


class Result:
    """What is asked of the result of a script.

    Of a script whose analysis does not come to its end, only refused losses and what a cast mends are given.

    Args:
        scripts: the file that is run; behind it, files whose functions are run as well, with the objects that it has
            made, if nobody calls them.
        torch: the oldest PyTorch that is written for.
        measured: by file, the lines of the result whose values left float16's range in float32, each with why.
        packages: the oldest and the newest version that is asked for of some packages.
    """

    def __init__(
        self,
        files: Files,
        scripts: Sequence[str],
        torch: Version,
        measured: Measured | None = None,
        packages: Mapping[str, Versions] | None = None,
    ) -> None:
        self.scripts = tuple(scripts)
        self._files, self._torch, self._measured, self._packages = files, torch, measured or {}, packages or {}

    @cached_property
    def answer(self) -> Found:
        """What it comes to; another process may have found it."""
        if (own := self._files.without_packages) is not None:
            with suppress(Exception), _asking(self._files, self.scripts) as questions:
                if _is_understood(questions):
                    return self._found(questions)._replace(has_packages=True)
            return Result(own, self.scripts, self._torch, self._measured, self._packages).answer
        with _asking(self._files, self.scripts) as questions:
            return self._found(questions)

    def _found(self, questions: Questions) -> Found:
        return _found(questions, self.scripts[0], self._torch, self._measured, self._packages)


def has_amp(text: str) -> bool:
    """Whether a text has autocast or a scaler in it."""
    return "autocast(" in text or "GradScaler(" in text


def harms(before: Original, after: Found) -> list[Harm]:
    """What is wrong with the precision of a result, and not of the original, in order of place.

    Args:
        before: the files as they were; asked only where something is wrong now, or no device is named.
    """
    faults, at, read = after[:3]
    before = before if after.has_packages else before.without_packages
    new = list(_new(faults, before.faults(read))) if any(harm for _, harm in faults) else []
    if at is not None and before.answer.is_on_cpu:
        new.insert(0, Harm(at, "everything is on the CPU", is_sure=True, trouble=Trouble.ON_CPU))
    elif at is not None and before.answer.is_on_mps:
        new.insert(0, Harm(at, "everything is on mps or the CPU", is_sure=True, trouble=Trouble.ON_MPS))
    elif at is not None:
        new.append(Harm(at, Trouble.UNPLACED.value, is_sure=False, trouble=Trouble.UNPLACED, is_told=False))
    elif after.switched is not None and before.as_written.is_on_cpu:
        what = "everything is on the CPU, unless a switch in the code is turned"
        new.insert(0, Harm(after.switched, what, is_sure=True, trouble=Trouble.ON_CPU))
    return _with_insides(new)


def _with_insides(new: Iterable[Harm]) -> list[Harm]:
    """The same with where in packages they are in their messages, those of one call and kind as one."""
    found: dict[Harm, list[str]] = {}
    for each in new:
        found.setdefault(replace(each, inside=""), []).append(each.inside)
    return [
        replace(each, message=f"{each.message} (in {_first_of(places)})", is_of_others=True)
        if (places := [*filter(None, of)])
        else each
        for each, of in found.items()
    ]


def _first_of(places: Sequence[str]) -> str:
    first, *others = dict.fromkeys(places)
    return f"{first}{f' and {len(others)} more' if others else ''}"


def _before(questions: Questions) -> Before:
    """What is wrong with an original. Of weights that Apex has made low nothing is known here."""
    faults = (each for each in _faults(questions) if each.what != WRONG_BY_ITSELF[Act.CAST_INPUT])
    return Before(Counter(map(_key, faults)), questions.is_on_cpu, questions.is_on_mps)


def _found(
    questions: Questions, script: str, torch: Version, measured: Measured, packages: Mapping[str, Versions]
) -> Found:
    """What is wrong with a result."""
    analysis = questions.analysis
    what = Trouble.SIZED.value
    found: list[tuple[Key, Harm | None]] = [
        ((script, what, False, ""), Harm(each, what, False, Trouble.SIZED, is_told=False)) for each in questions.sized
    ]
    guards = analysis.pytorch.guards
    for kind, sites in ((Trouble.GUARDED, guards.unshown), (Trouble.UNGUARDED, guards.made)):
        of_kind = (Harm(each, kind.value, False, kind, is_told=False) for each in sorted(sites))
        found += (((script, kind.value, False, ""), harm) for harm in of_kind)
    casts, exact = Casts(analysis), exact_casts(analysis)
    calls: dict[Site, Harm] = {}
    faults = list(_first_of_large(_faults(questions)))
    running = {each.event.code.parent for each in faults if each.event and each.why == A_RUNNING_BUFFER}
    # What a region makes low is taken to be on a GPU: of a script on the CPU that is asked of the original.
    is_elsewhere = questions.names_device and not (questions.is_on_mps or questions.optimizes_on_cpu)
    losses = questions.events(Act.BACKWARD)
    first = losses[0].site if losses else None
    at = None if is_elsewhere else first
    switched = first if is_elsewhere and not analysis.pytorch.places_as_written & ~CPU else None
    if first is not None and is_elsewhere and not analysis.pytorch.places & DEVICE:
        handed_in = Harm(first, Trouble.PLACE_GIVEN.value, is_sure=False, trouble=Trouble.PLACE_GIVEN, is_told=False)
        found.append(((script, handed_in.message, False, ""), handed_in))
    for fault in faults:
        harm = None
        is_of_hook = fault.event is not None and are_of_hooks(analysis.events, fault.event.sources)
        happens = fault.always or fault.is_seen or (is_of_hook and not analysis.is_complete)
        oldest, newest = packages.get(fault.why, (None, None))
        has_kernels = fault.what == _OF_OLD_KERNELS and oldest is not None and oldest >= HALF_SINCE[fault.why]
        may_have_kernels = fault.what == _OF_OLD_KERNELS and (newest is None or newest >= HALF_SINCE[fault.why])
        if fault.what == WRONG_BY_ITSELF[Act.FOREIGN] and fault.event is not None:
            happens |= casts.is_low_on_a_way(fault.event)
        is_told = (happens or fault.what in _MAY_HARM) and not has_kernels
        is_mended = fault.what in (_MENDED if happens else _MAY_RAISE) or fault.why in _MENDED_ANYWAY
        is_mended |= (happens and fault.why in _MENDED_RISKS) or _is_left_by_unread(analysis, fault)
        mending = casts.against(fault.event) if fault.event and is_mended else ()
        is_array = fault.what == WRONG_BY_ITSELF[Act.HALF_ARRAY] and not mending
        if is_array and (quiet := questions.without_gradients(_made_of(questions, fault))):
            harm = Harm(fault.site, _message(fault), False, Trouble.ARRAY, is_told=False, quiet=quiet)
            found.append((_key(fault), harm))
            continue
        is_told |= is_array  # it raises where it is one in half precision, as a region in training makes it
        # To fill with another number costs nothing where it turns out to be float32.
        is_filled = fault.what == WRONG_BY_ITSELF[Act.OVERFLOW] and _is_floating(fault)
        if not (fault.what == _OF_THE_CACHE and torch >= CACHE_MENDED) and (is_told or mending or is_filled):
            message = _message(fault)
            runs = fault.what in _RUNS or (fault.what == LOSS_ON_CPU and torch >= SCALES_ANYWHERE)
            is_alone = fault.event is not None and fault.event.code in analysis.taken_alone
            is_sure = happens and not (runs or may_have_kernels or is_alone)
            is_apart = fault.what == WRONG_BY_ITSELF[Act.REFUSED] or _grows(fault, running)
            island = casts.island(fault.event) if fault.event and is_apart else None
            regions = (
                frozenset({fault.site} if fault.what in _OF_REGIONS else ())
                if fault.event is None
                else _regions(fault.event)
            )
            quiet = questions.without_gradients(regions) if is_sure or fault.what in _MAY_EVALUATE else ()
            run_by = _run_by(fault.event) if is_sure and fault.event is not None else ()
            harm = Harm(fault.site, message, is_sure, _trouble(fault), mending, is_told, island, regions, quiet, run_by)
            # What a way past the call comes to, too, is so.
            behind = next(
                (site for site, is_passed in questions.ends.items() if not (is_passed and fault.always)), None
            )
            if behind is not None and is_sure and (fault.what in _OF_SCALERS or fault.what == _NEVER_CLEARED):
                harm = replace(harm, site=behind, message=NOT_UNDERSTOOD, trouble=Trouble.UNREACHED)
            # Not what else there is in a program decides on a refused loss, on code of which nobody has the text, or on
            # what a hook is given, which nothing divides by the scale.
            is_foreign = fault.what == WRONG_BY_ITSELF[Act.FOREIGN] and happens
            is_seen = is_foreign or fault.what == WRONG_BY_ITSELF[Act.REFUSED] or _is_own(analysis, fault)
            is_seen |= is_of_hook
            if not (analysis.is_complete or is_seen):
                harm = replace(harm, is_sure=False, is_told=False) if harm.casts else None
        if harm is not None and analysis.files.is_installed(fault.site.file):
            leading = [] if fault.event is None else calls_of_packages(fault.event)
            for site in (leading or [_at(questions)]) if harm.is_told else ():
                at_call = _at_call(site, harm, analysis)
                found.append((_key(fault), at_call))
                if fault.what in _OF_CALLS and at_call.regions:
                    calls.setdefault(site, at_call)
            continue
        found.append((_key(fault), harm))
    if not analysis.is_complete:
        kernels = next((each for each in analysis.modules.values() if each is not None and _compiles(each)), None)
        also = "" if kernels is None else f", and the kernels that {kernels.file} compiles may take one type alone"
        harm = Harm(_at(questions), _unseen(analysis) + also, kernels is not None, Trouble.UNSEEN)
        found.append(((script, NOT_LOOKED_AT, True, ""), harm))
        return Found(found, at, frozenset(analysis.modules), exact)
    for file in analysis.unparsed:
        what = NOT_PARSED.format(file)
        found.append(((script, what, True, ""), Harm(_at(questions), what, False, Trouble.UNSEEN)))
    for where in [*questions.ends][:1]:
        found.append(((script, NOT_UNDERSTOOD, True, ""), Harm(where, NOT_UNDERSTOOD, False, Trouble.UNSEEN)))
    found += _measured(casts, measured)
    found += _unread(questions, casts, calls)
    found += _rounded_means(questions, casts)
    found += _forwards(questions, casts)
    unshown = (each for each in questions.events(Act.CLIP) if questions.may_be_left_scaled(each) is None)
    what = Trouble.LEFT_SCALED.value
    found += [
        ((script, what, False, ""), Harm(each.site, what, False, Trouble.LEFT_SCALED, is_told=False))
        for each in unshown
    ]
    found += [
        ((script, Act.GIVEN.value, False, ""), Harm(each.site, Act.GIVEN.value, False, Trouble.GIVEN, is_told=False))
        for each in questions.events(Act.GIVEN)[:1]
    ]
    return Found(found, at, frozenset(analysis.modules), exact, switched)


def _at_call(site: Site, harm: Harm, analysis: Analysis) -> Harm:
    """What is wrong in a package, at what calls it: there is nothing to be changed but that."""
    inside = f"{analysis.files.shown(harm.site.file)}:{harm.site.line}"
    trouble = Trouble.OTHER if harm.trouble is Trouble.MASK else harm.trouble
    return replace(harm, site=site, trouble=trouble, casts=(), island=None, inside=inside)


def _first_of_large(faults: Collection[Fault]) -> Iterator[Fault]:
    """Faults, but for those of a value that has got as large as it is by another: that one is float32, or told."""
    large = {each.site for each in faults if each.why == A_LARGE_NUMBER}
    for each in faults:
        tensor = each.event.tensor if each.event and each.why == A_LARGE_NUMBER else None
        if tensor is None or tensor.born.isdisjoint(large - {each.site}):
            yield each


def _is_floating(fault: Fault) -> bool:
    """Whether something is about a tensor of which nothing shows that it may be whole numbers."""
    return (
        fault.event is not None and fault.event.tensor is not None and not fault.event.tensor.precision & (INT | BOOL)
    )


def _is_left_by_unread(analysis: Analysis, fault: Fault) -> bool:
    """Whether a module that nobody has read gives something in a region that is low, or float32: to cast it is safe."""
    is_left = fault.what in (WRONG_BY_ITSELF[Act.LEFT_FLOAT], WRONG_BY_ITSELF[Act.FOREIGN])
    tensor = fault.event.tensor if fault.event and is_left else None
    if tensor is None or tensor.precision & ~(LOW | F32):
        return False
    return not tensor.regions.isdisjoint(analysis.pytorch.of_unread)


def _message(fault: Fault) -> str:
    node = None if fault.event is None else fault.event.node
    if fault.why == A_ROUNDED_PROBABILITY and isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        return f"{name}() takes probabilities that low precision has rounded"
    if fault.why == A_ROUNDED_PROBABILITY:
        return "a division by probabilities that low precision has rounded, to zero at last"
    if fault.what == _OF_OLD_KERNELS:
        return f"{fault.why} has no kernels for half precision before its {written(HALF_SINCE[fault.why])}"
    what = "a scaler would be made anew" if fault.what == MADE_ANEW else fault.what  # of an optimizer that goes on
    return f"{what}: {fault.why}" if fault.why else what


def _run_by(event: Event) -> tuple[Site, ...]:
    """The functions that something happens in, by themselves or by what they call, the nearest first."""
    tasks = with_callers(each for each in event.seen_by if isinstance(each, Task))
    return tuple(dict.fromkeys(task.code.site for task in tasks))


def _regions(event: Event) -> frozenset[Site]:
    """The regions that something happens in, and those that have made what it is about."""
    around = frozenset() if event.context is None else event.context.cuda.regions
    return around.union(*(each.regions for each in (*filter(None, [event.tensor]), *tensors_in(event.subject))))


def _made_of(questions: Questions, fault: Fault) -> frozenset[Site]:
    """The regions that may have made the tensors low which an array is made of."""
    sources = frozenset() if fault.event is None else fault.event.sources
    made = (each.tensor for each in questions.events(Act.TO_NUMPY) if each.site in sources)
    return frozenset().union(*(each.regions for each in made if each is not None))


def _at(questions: Questions) -> Site:
    """Where the script's first loss goes backward; its first line where none does."""
    focus = questions.analysis.focus
    losses = (each.site for each in questions.events(Act.BACKWARD) if each.site.file in focus)
    return next(losses, Site(focus[0], 1, 0, 1, 0))


def _unseen(analysis: Analysis) -> str:
    """What is said where an analysis does not come to its end."""
    first, *others = sorted(analysis.unseen, key=lambda each: (each.file, each.site))
    more = f" and {len(others)} more" if others else ""
    return f"{NOT_LOOKED_AT}: {first.name or 'the code'} of {first.file}{more}"


def _compiles(module: Module) -> bool:
    """Whether a file compiles an extension for functions of autograd, which are given what low precision makes."""
    modules = {node.module for node in module.import_statements if isinstance(node, ast.ImportFrom)}
    modules |= {each.name for node in module.import_statements for each in node.names}
    is_made = "torch.utils.cpp_extension" in modules or {"torch.utils", "cpp_extension"} <= modules
    bases = (base for node in module.codes if isinstance(node, ast.ClassDef) for base in node.bases)
    return is_made and any(ast.unparse(each).rpartition(".")[2] == "Function" for each in bases)


def _is_own(analysis: Analysis, fault: Fault) -> bool:
    """Whether something happens for certain in the script itself, however far its analysis came around it.

    What is not followed into is unknown, and who does not come to rest says nothing: what is certain stays so.
    """
    return (fault.always or fault.is_seen) and fault.site.file in analysis.focus


def _measured(casts: Casts, measured: Measured) -> Iterator[tuple[Key, Harm]]:
    """What computes in low precision, and left its range where it was measured."""
    for file, lines in measured.items():
        for line, why in lines.items():
            if (low := casts.measured(file, line)) is not None:
                site, island = low
                harm = Harm(site, why, is_sure=False, trouble=Trouble.OTHER, island=island)
                yield (file, why, False, f"line {line}"), harm


def _unread(questions: Questions, casts: Casts, of_packages: Mapping[Site, Harm]) -> Iterator[tuple[Key, Harm | None]]:
    """The calls of code that nobody has read, in a region, which may compute in float32 what they are given there.

    Args:
        of_packages: calls of code that nobody changes, each with what is wrong in it: these may, too.
    """
    found: dict[Site, tuple[ast.AST | None, str]] = {}
    kernels: set[Site] = set()
    for event in questions.events(Act.FOREIGN, Act.UNREAD_MODEL, Act.UNREAD_LOSS):
        if questions.analysis.files.is_installed(event.site.file):
            continue
        if event.act is Act.UNREAD_LOSS:
            found.setdefault(event.site, (questions.node_at(event.site), event.why))
            continue
        is_inside = event.context is not None and event.context.cuda.may_be_on
        is_told = event.act is not Act.FOREIGN or (any(event.sure_in.values()) and not casts.against(event))
        if event.context is not None and event.context.in_gradient:
            kernels.add(event.site)
        elif event.seen_by and event.code not in questions.analysis.given_up and is_inside and is_told:
            found.setdefault(event.site, (event.node, event.why))
    message = "its code could not be read: {}".format
    harms = {
        site: Harm(site, message(why), False, Trouble.UNREAD, is_of_others=True) for site, (_, why) in found.items()
    }
    harms |= {site: replace(harm, is_sure=False) for site, harm in of_packages.items() if site not in found}
    nodes = {site: questions.node_at(site) for site in of_packages} | {site: node for site, (node, _) in found.items()}
    kept: set[Site] = set()
    for site, harm in sorted(harms.items(), key=lambda each: each[0]):
        node = nodes[site] if site not in kernels else None
        islands = casts.unread(node, site.file, kept) if isinstance(node, ast.Call) else ()
        kept |= {site for each in islands for site in (each.alone or each.value, *each.before)}
        for island in islands:
            yield (site.file, harm.message, False, ""), replace(harm, is_told=False, island=island)


def _rounded_means(questions: Questions, casts: Casts) -> Iterator[tuple[Key, Harm]]:
    """The rounded means that differences cancel of, where all of one can be float32; the difference itself is told."""
    for event in questions.events(Act.RISK):
        if event.why != CANCELLED or not event.seen_by or not any(event.sure_in.values()):
            continue
        message = f"{WRONG_BY_ITSELF[Act.RISK]}: {CANCELLED}"
        for site, (island, given) in casts.unrounded(event).items():
            harm = Harm(site, message, False, Trouble.ROUNDED, given, is_told=False, island=island)
            yield (site.file, message, False, ""), harm


def _forwards(questions: Questions, casts: Casts) -> Iterator[tuple[Key, Harm]]:
    """What computes through a norm in float16 what is derived twice, where all of that can be float32."""
    message, is_installed = WRONG_BY_ITSELF[Act.NORM_TWICE], questions.analysis.files.is_installed
    for event in questions.events(Act.NORM_TWICE):
        islands = casts.derived_twice(event) if event.seen_by else ()
        if any(is_installed(each.value.file) for each in islands):
            continue
        for each in islands:
            harm = Harm(each.value, message, False, Trouble.NORM_TWICE, is_told=False, island=each)
            yield (each.value.file, message, False, ""), harm
        if islands and not any(each.casts for each in islands):
            what = Trouble.UNHALVED.value
            yield (event.site.file, what, False, ""), Harm(event.site, what, False, Trouble.UNHALVED, is_told=False)


def _new(found: Iterable[tuple[Key, Harm | None]], known: Counter[Key]) -> Iterator[Harm]:
    """What faults do that were not there before."""
    left = known.copy()
    for key, harm in found:
        if harm is not None and harm.inside:  # which has one for each call that leads there
            if not known[key]:
                yield harm
        elif left[key]:
            left[key] -= 1
        elif harm is not None:
            yield harm


def _grows(fault: Fault, running: Collection[Code | None]) -> bool:
    """Whether a product grows with the number of its terms, or with the steps; or rounding moves what it is about.

    Args:
        running: the classes whose buffers follow what they compute. Other buffers are as good as weights.
    """
    is_of_running = fault.why == A_BUFFER and fault.event is not None and fault.event.code.parent in running
    return fault.why in _APART or is_of_running


def _trouble(fault: Fault) -> Trouble:
    by_kind = Trouble.SCALER if fault.what in _OF_SCALERS else Trouble.OTHER
    return _REASONS.get(fault.why) or _TROUBLES.get(fault.what, by_kind)


def _read(files: Files, scripts: Sequence[str], *, as_written: bool) -> Questions:
    has_packages = files.without_packages is not None
    focus, beside = scripts[:1], scripts[1:]
    return Questions(analysed(files, focus, beside, _PATIENCE, only_whole=has_packages, as_written=as_written))


def _is_understood(questions: Questions) -> bool:
    """Whether a program has been looked at to its end with the packages that it uses.

    Else it is looked at without them: of what is too large, never returns as far as it can be read, or is written for
    another Python, less is known than of what has not been read at all.
    """
    analysis = questions.analysis
    is_parsed = not any(map(analysis.files.is_installed, analysis.unparsed))
    return analysis.is_complete and is_parsed and not analysis.gone_on


@contextmanager
def _asking(files: Files, scripts: Sequence[str], *, as_written: bool = False) -> Iterator[Questions]:
    """Ask what an analysis comes to, which is let go then: a project has many scripts."""
    questions = _read(files, scripts, as_written=as_written)
    try:
        yield questions
    finally:
        questions.analysis.let_go()


def _faults(questions: Questions) -> Sequence[Fault]:
    # Gradients of several scales are clipped on ways that the analysis cannot tell from those that are gone.
    found = [each for each in questions.faults() if each.always or each.what != SEVERAL_SCALES]
    if not questions.events(Act.ZERO):
        # Of a part of a program nobody knows what its callers clear: only what is seen in it counts.
        found = [each for each in found if each.what in _BY_ITSELF]
    # With a switch that is off, nothing divides them.
    uncleared = [each.site for each in questions.uncleared if any(map(questions.is_on, each.scaler))]
    what = _NOT_CLEARED_IN_SIGHT if uncleared and questions.handing_on_gradients else _NEVER_CLEARED
    added = {site: Fault(site, what) for site in uncleared}
    found = [each for each in found if each.what != ADDED or each.site not in added] + [*added.values()]
    found = [each for each in found if each.why != WITHOUT_LIMIT or questions.is_unlimited(each.event)]
    found = [e for e in found if e.why != A_BUFFER or e.event is None or not questions.is_constant(e.event)]
    by_region = (*(questions.doubled_regions() or questions.idle_regions()), *questions.evaluating_apart())
    by_region += (*questions.given_small(), *questions.idle_steps(), *questions.unread_models)
    by_region += tuple(Fault(each, ON_THE_CPU) for each in sorted(questions.trained_on_cpu))
    found += _beside_inverses(questions)
    of_checkpoints = (*questions.unsaved, *questions.unloaded)
    return [*by_region, *questions.of_skipped, *questions.watched, *of_checkpoints, *questions.wrongly_divided, *found]


def _beside_inverses(questions: Questions) -> list[Fault]:
    """What is rounded before it meets an inverse: a chain of projections is as exact as its roughest product."""
    uses = [each for each in questions.events(Act.INVERSE_USED) if each.seen_by]
    casts = Casts(questions.analysis)
    found = {event.site: event for each in uses for event in casts.beside_inverse(each)}
    return [Fault(each.site, WRONG_BY_ITSELF[each.act], why=each.why, event=each) for each in found.values()]


def _key(fault: Fault) -> Key:
    # Of a scaler, `why` tells the tests on a way, of which a result has others.
    return (fault.site.file, fault.what, fault.always, "" if fault.what in _OF_SCALERS else fault.why)
