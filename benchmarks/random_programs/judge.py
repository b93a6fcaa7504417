"""One program before and after it is migrated: with precision off the same to the bit, with it on the same training."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from amp_migrate.catalog.step_rules import RISKY_NUMERICS
from amp_migrate.engine.migrate import migrate
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

from random_programs.compare import is_the_stand_ins, same_bits, same_training
from random_programs.execute import Noise, Precision, Ran, execute

# What rounding to float16 may do to a weight, and more; a program that this much throws off its course tells nothing.
_NOISES = tuple(Noise(size, pattern) for pattern in (0, 1, 2, 3, 4) for size in (2e-3, -2e-3))


@dataclass(frozen=True)
class Judged:
    """What came of a program.

    Attributes:
        unfit: why it says nothing: it does not run as it is, or its course hangs on the last digit.
        after: its files when migrated; empty where nothing in it changed.
        errors: what the codemod said that it should never have to say.
        wrong: what differs, by the precision that it was run with.
        told: what was said of worse numerics in what was moved: with a finding, it is no surprise.
        unknown: what a CPU cannot run in half precision, by the same.
        runs: how many runs were compared with that of the program as it was.
    """

    unfit: str = ""
    after: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    wrong: Mapping[Precision, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    unknown: Mapping[Precision, str] = field(default_factory=dict)
    runs: int = 0


def judge(files: Mapping[str, str], settings: Settings) -> Judged:
    """Run a program, migrate it, and run what became of it."""
    before = execute(files, Precision.AS_IT_IS)
    if not _is_fit(before):
        return Judged(unfit=before.error or "it takes no step")
    after, errors, told = migrated(files, settings)
    if after == files:
        return Judged(errors=errors)
    wrong: dict[Precision, str] = {}
    unknown: dict[Precision, str] = {}
    difference = same_bits(before, execute(after, Precision.OFF))
    if difference:
        wrong[Precision.OFF] = difference
    ran = execute(after, Precision.ON)
    if is_the_stand_ins(ran):
        unknown[Precision.ON] = ran.error
    else:
        difference = same_training(before, ran)
        if difference and not wrong and _is_thrown_off(files, before):
            return Judged(unfit="rounding alone changes its course")
        if difference:
            wrong[Precision.ON] = difference
    return Judged(after=after, errors=errors, wrong=wrong, told=told, unknown=unknown, runs=2 - len(unknown))


def _is_thrown_off(files: Mapping[str, str], before: Ran) -> bool:
    """Whether a change of its weights in the third digit takes a program off its course."""
    return any(same_training(before, execute(files, Precision.AS_IT_IS, noise)) for noise in _NOISES)


def migrated(
    files: Mapping[str, str], settings: Settings
) -> tuple[Mapping[str, str], tuple[str, ...], tuple[str, ...]]:
    """The files of a program when it is migrated, the errors that there were, and what was told of its numerics."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        outcome = migrate([Path(folder)], settings)
        after = {each.source.path.name: each.after for each in outcome.plans}
    errors = tuple(
        finding.message
        for finding in outcome.findings
        # To refuse what it cannot prove is what --prove is for.
        if finding.kind is Kind.ERROR and not (settings.prove and finding.code == "AMP002")
    )
    told = tuple(each.message for each in outcome.findings if each.code == RISKY_NUMERICS.code)
    return {**files, **after}, errors, told


def _is_fit(ran: Ran) -> bool:
    """Whether a run is one that its author could have meant; errors that it raises itself are."""
    return bool(ran.steps) and (not ran.error or ran.error == "RuntimeError: out of memory")
