"""Training that goes on from a checkpoint: whether what the script holds then is what it held when it saved."""

from __future__ import annotations

from typing import Any

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.recorded.recording import State, Trace
from amp_migrate.verify.recorder.spec import Resume
from amp_migrate.verify.runs.process import RunResult

_TITLE = "goes on from a checkpoint as it was saved"
_TENSOR = ", tensor "
_NOTHING = "not there"


def resumed(original: RunResult, migrated: RunResult) -> Check:
    """G18: what the original has again when it goes on, the migrated script has, too, and its loss scale besides.

    What the original does not restore itself is not asked for: the state of an order of samples, a model's mode.
    """
    if reason := _not_seen(original):
        return Check("G18", _TITLE, Status.NOT_ASSESSED, f"the original: {reason}")
    lost_before = _lost(original.trace)
    kept = _held(_saves(original.trace)[0]).keys() - lost_before.keys()
    if not any(_TENSOR in name for name in kept):
        reason = "the original has nothing again of what it saved: --resume-args is to name its checkpoint"
        return Check("G18", _TITLE, Status.NOT_ASSESSED, reason)
    if reason := _not_seen(migrated):
        return Check("G18", _TITLE, Status.FAIL, reason)
    lost = {name: values for name, values in _lost(migrated.trace).items() if name not in lost_before}
    if lost:
        name, (before, after) = next(iter(lost.items()))
        more = f"; {len(lost) - 1} more differ" if len(lost) > 1 else ""
        told = f"{name}: {before} when it was saved, {after} when it went on"
        if _TENSOR in name:
            told = f"{name} is {'gone' if after == _NOTHING else 'another'} when it goes on"
        return Check("G18", _TITLE, Status.FAIL, f"{told}{more}")
    others = f"; {len(lost_before)} others the original does not restore" if lost_before else ""
    return Check("G18", _TITLE, Status.PASS, f"{len(kept)} tensors and settings are what they were{others}")


def _not_seen(result: RunResult) -> str:
    """Why nothing can be said of a run; empty where it saved and went on."""
    if not result.ended_well:
        return result.complaint
    if not _saves(result.trace):
        return "nothing with an optimizer's state was saved: raise --steps, or have the script save sooner"
    if not any(state.point == Resume.GOES_ON.value for state in result.trace.states):
        return "it did not train again: --resume-args is to ask for more training than was saved, too"
    return ""


def _saves(trace: Trace) -> list[State]:
    return [state for state in trace.states if state.point == Resume.SAVES.value]


def _lost(trace: Trace) -> dict[str, tuple[str, str]]:
    """What is not as it was saved, with both values; beside the checkpoint that most is as in."""
    after = _held(next(state for state in trace.states if state.point == Resume.GOES_ON.value))
    each = []
    for state in _saves(trace):
        before = _held(state)
        names = dict.fromkeys((*before, *after))
        each.append({n: (_told(before, n), _told(after, n)) for n in names if before.get(n) != after.get(n)})
    return min(reversed(each), key=len)


def _held(state: State) -> dict[str, Any]:
    """Settings first, because they say most: a lost loss scale, a learning rate."""
    held: dict[str, Any] = dict(state.settings)
    for kind, objects in (("model", state.models), ("optimizer", state.optimizers)):
        for number, tensors in enumerate(objects):
            held.update({f"{kind} {number}{_TENSOR}{each.name}": each.bits for each in tensors})
    return held


def _told(held: dict[str, Any], name: str) -> str:
    if name not in held:
        return _NOTHING
    return f"{held[name]:g}" if isinstance(held[name], float) else str(held[name])
