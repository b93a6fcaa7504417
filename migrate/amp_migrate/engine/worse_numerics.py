"""Asks the analysis of values about the steps that would be written: what low precision breaks is left, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

from amp_migrate.catalog.apex_rules import APEX_STEP
from amp_migrate.catalog.step_rules import FP32_STEP, RISKY_NUMERICS, ROUNDED_PROBABILITY, STEP_LEFT, UNSCALE_FIRST
from amp_migrate.engine.flow_files import FlowFiles
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.workspace import Workspace
from amp_migrate.prove.precision import Harm, Trouble, harms
from amp_migrate.report.finding import Finding, Kind, seen_from
from amp_migrate.settings import Settings

LEFT_AS_IT_WAS = "left as it was: "
_REGION = "autocast("
_BY_HAND = "put what it needs in float32 into torch.amp.autocast(..., enabled=False), and run again"
_UNSCALABLE = "use --dtype bf16, which needs no scaler"
_ELSEWHERE = "put the forward pass that its loss comes from into torch.amp.autocast(...) by hand, and scale this loss"
_UNCAST = "drop the cast to half precision, which autocast does where it may, and run again"
_FOR_LEFT = {Trouble.HALVED: _UNCAST, Trouble.IDLE: _ELSEWHERE, Trouble.SCALER: _UNSCALABLE}
_OF_THEMSELVES = (Trouble.HALVED, Trouble.IDLE, Trouble.SCALER)  # what is not for autocast's doing
_UNCACHED = (
    "one weight is used under no_grad and with gradients: cache_enabled=False, for before PyTorch 2.15 the cast that "
    "is kept has no gradient"
)
_CLEARED = "call zero_grad() in each round, unless they are meant to add up: then use --dtype bf16"
_EXACT = "let its inputs be float32 (.float()) where autocast is switched off"
_IN_FLOAT32 = f"{_EXACT}, or use --dtype bf16"
_BEFORE_IT_ROUNDS = "let the sigmoid or softmax that gives it see float32 (.float()), or the loss see logits"
_BEHIND = "let what comes out of the region be float32 (.float())"
_FOR_TOLD = {
    Trouble.BEHIND: _BEHIND,
    Trouble.CLIPPED: UNSCALE_FIRST,
    Trouble.ROUNDED: _EXACT,
    Trouble.PROBABILITY: _BEFORE_IT_ROUNDS,
    Trouble.SCALER: _UNSCALABLE,
    Trouble.UNCLEARED: _CLEARED,
}


@dataclass(frozen=True)
class WorseNumerics:
    """What low precision does to the steps of a plan.

    Attributes:
        left: for each file with a step that cannot compute in low precision, why.
        told: what a reader has to look at in the others.
        uncached: the files that have to be planned again, with regions that keep no casts of weights.
        masked: the lines that have to be planned again with masks that float16 can hold.
    """

    left: Mapping[Path, Finding]
    told: tuple[Finding, ...]
    uncached: frozenset[str]
    masked: frozenset[tuple[str, int]] = frozenset()


def worse_numerics(workspace: Workspace, plans: Iterable[FilePlan], settings: Settings) -> WorseNumerics:
    """What the analysis of values finds in the results of a plan, and not in the originals."""
    changed = {each.source.name: each for each in plans if each.changed}
    stepping = {name: steps[0] for name, each in changed.items() if (steps := _steps(each))}
    if not stepping:
        return WorseNumerics({}, (), frozenset())
    before = FlowFiles(workspace)
    after = FlowFiles(workspace.with_texts(each.source.with_text(each.after) for each in changed.values()))
    has_regions = any(_REGION in each.source.text for each in changed.values())
    left: dict[Path, Finding] = {}
    told: dict[Finding, None] = {}
    uncached: set[str] = set()
    masked: set[tuple[str, int]] = set()
    for name, step in stepping.items():
        found = harms(before if has_regions else None, after, name, settings.target_torch)
        sure = [harm for harm in found if harm.is_sure]
        if any(harm.trouble is Trouble.CACHE for harm in sure) and name not in settings.uncached:
            uncached |= {name, *(harm.site.file for harm in sure if harm.site.file in changed)}
        elif new := {each for each in _masks(sure, changed) if each not in settings.masked}:
            masked |= new
        elif sure:
            where = _at(sure[0], changed)
            trouble = sure[0].trouble
            is_said = trouble in (Trouble.HALVED, Trouble.IDLE, Trouble.SCALER) or sure[0].message.startswith(
                "autocast "
            )
            what = sure[0].message if is_said else f"under autocast {sure[0].message}"
            file = "line " if where.path == step.path else f"{seen_from(where.path, step.path)}:"
            left[changed[name].source.path] = _left(
                step, f"{what} ({file}{where.line})", _FOR_LEFT.get(trouble, _BY_HAND)
            )
        else:
            told.update((_at(harm, changed), None) for harm in found if not _is_said(harm, changed))
            if name in settings.uncached:
                told[replace(step, code=RISKY_NUMERICS.code, kind=Kind.NOTE, message=_UNCACHED)] = None
    return WorseNumerics(
        left, tuple(each for each in told if settings.applies(each.code)), frozenset(uncached), frozenset(masked)
    )


def left_for_its_scaler(plan: FilePlan, what: str, line: int) -> Finding | None:
    """What is said of a plan whose scaler does not work on some way through its file; None where it moves no step.

    Args:
        what: what is wrong.
        line: where, in the result.
    """
    steps = _steps(plan)
    return _left(steps[0], f"{what} (line {_line_before(plan, line)})", _UNSCALABLE) if steps else None


def _left(step: Finding, why: str, hint: str) -> Finding:
    return replace(step, code=STEP_LEFT.code, kind=Kind.LEFT, message=f"{LEFT_AS_IT_WAS}{why}", hint=hint)


def _masks(found: Iterable[Harm], changed: Mapping[str, FilePlan]) -> Iterator[tuple[str, int]]:
    """The lines of the originals that fill something low with too large a number."""
    for harm in found:
        if harm.trouble is Trouble.MASK:
            yield harm.site.file, _line_before(changed.get(harm.site.file), harm.site.line)


def _at(harm: Harm, changed: Mapping[str, FilePlan]) -> Finding:
    """What is said of a place, as it stood before."""
    line = _line_before(changed.get(harm.site.file), harm.site.line)
    hint = _FOR_TOLD.get(harm.trouble, _IN_FLOAT32)
    return Finding(harm.site.file, line, 0, _code(harm), Kind.NOTE, harm.message, hint)


def _is_said(harm: Harm, changed: Mapping[str, FilePlan]) -> bool:
    """Whether a plan tells of a harm already, at its place."""
    plan = changed.get(harm.site.file)
    first, last = (_line_before(plan, line) for line in (harm.site.line, harm.site.end_line))
    findings = () if plan is None else plan.findings
    return any(each.code == _code(harm) and first <= each.line <= last for each in findings)


def _code(harm: Harm) -> str:
    return ROUNDED_PROBABILITY.code if harm.trouble is Trouble.PROBABILITY else RISKY_NUMERICS.code


def _steps(plan: FilePlan) -> list[Finding]:
    """What is said of the steps that move in a file."""
    codes = (FP32_STEP.code, APEX_STEP.code)
    return [each for each in plan.findings if each.code in codes and each.kind is Kind.MIGRATED]


def _line_before(plan: FilePlan | None, line: int) -> int:
    """The line of a file as it was that a line of the result comes from; the one before it where it is new."""
    if plan is None:
        return line
    old, new = plan.source.text.splitlines(), plan.after.splitlines()
    for what, first, last, begin, end in _opcodes(plan.source.text, plan.after):
        if begin < line <= end:
            if what == "equal":
                return first + line - begin
            like = [SequenceMatcher(None, each.strip(), new[line - 1].strip()).ratio() for each in old[first:last]]
            return first + 1 + like.index(max(like)) if like else max(first, 1)
    return len(old)


@lru_cache(maxsize=8)
def _opcodes(old: str, new: str) -> Sequence[tuple[str, int, int, int, int]]:
    """What became of the lines of a text, in which there may be many harms."""
    return SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False).get_opcodes()
