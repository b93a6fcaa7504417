"""Random training loops are run with true scalers: what is in the gradients, and what raises, was said before."""

from __future__ import annotations

import ast
from collections import defaultdict
from random import Random
from typing import Any

import pytest
import torch
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Atom, Obj, Part, Value
from amp_migrate.flow.domain.machine import EMPTY, LOST, MIXED, SCALED, UNKNOWN, Machine
from amp_migrate.flow.events import Act
from amp_migrate.flow.pytorch.gradients import stage

from .conftest import Texts
from .loops import HEAD, Writer

SCALE = 1024.0
ELSEWHERE = """
import torch


class GradScaler(torch.amp.GradScaler):
    pass


def see(number):
    pass
"""


def run(text: str, seed: int) -> tuple[dict[int, set[tuple[str, ...]]], str]:
    """What the gradients of `a`, `b` and `free` are at each place, and the message of what was raised."""
    random = Random(seed)
    seen: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    scope: dict[str, Any] = {"flag": lambda: random.random() < 0.5, "GradScaler": torch.amp.GradScaler}

    def kind(tensor: torch.Tensor) -> str:
        if tensor.grad is None:
            return "none"
        value = float(tensor.grad)
        if value == 0:
            return "none"
        scaled, rest = divmod(value, SCALE)
        return "mixed" if scaled and rest else "scaled" if scaled else "true" if rest == int(rest) else "mixed"

    def see(number: int) -> None:
        seen[number].add(tuple(kind(scope[name]) for name in ("a", "b", "free")))

    def fail() -> None:
        if random.random() < 0.4:
            raise ValueError

    scope.update(see=see, fail=fail)
    body = text.replace("from elsewhere import GradScaler, fail, flag, see\n", "")
    try:
        exec(compile(body, "program", "exec"), scope)
    except (RuntimeError, AssertionError) as error:
        return seen, str(error)
    return seen, ""


def said_of(machine: Machine, atoms: dict[str, Atom]) -> dict[str, str]:
    """What a state says of the gradients of each parameter."""
    found = {}
    for name, atom in atoms.items():
        grad = machine.get(("grad", atom))
        found[name] = UNKNOWN if grad is None else grad.kind
    return found


def fits(seen: str, said: str) -> bool:
    if said in (UNKNOWN, LOST, MIXED):
        return True
    return {"none": said == EMPTY, "true": said in ("true", "unscaled"), "scaled": said == SCALED, "mixed": False}[seen]


def atoms_of(analysis: Analysis) -> dict[str, Atom]:
    """The optimizers by the line that makes them, and the tensor with a gradient of its own."""
    lines = HEAD.splitlines()
    found: dict[str, Atom] = {}
    for each in analysis.pytorch.registry.optimizers:
        if isinstance(each, Obj):
            found["a" if lines[each.site.line - 1].startswith("opt =") else "b"] = each
    for event in analysis.events.values():
        for leaf in event.leaves:
            if isinstance(leaf, Part) and isinstance(leaf.owner, Obj) and leaf.owner.external == "torch.Tensor":
                found["free"] = leaf
    return found


def may_raise(analysis: Analysis, message: str) -> bool:
    """Whether some state that the analysis has seen explains a message."""
    for event in analysis.events.values():
        for machine, _ in event.states:
            scalers: Value = event.scaler
            for scaler in scalers:
                if "_scale is None" in message and machine.get(("idle", scaler)):
                    return True
                is_update = event.act is Act.UPDATE and "prior to update" in message
                if is_update and not machine.get(("checked", scaler)):
                    return True
                for optimizer in event.optimizer if event.act in (Act.UNSCALE, Act.SCALER_STEP) else ():
                    assert isinstance(scaler, Atom)
                    assert isinstance(optimizer, Atom)
                    now = stage(machine, scaler, optimizer)
                    grad = machine.get(("grad", optimizer))
                    if event.act is Act.UNSCALE and "unscale_()" in message and now != "ready":
                        return True
                    if event.act is Act.SCALER_STEP and "step() has already" in message and now in ("stepped", None):
                        return True
                    is_step = event.act is Act.SCALER_STEP and "for this optimizer" in message
                    if is_step and (grad is None or grad.kind in (EMPTY, UNKNOWN) or now != "ready"):
                        return True
    return False


def contradictions(seed: int) -> tuple[list[str], int, int]:
    """What was seen and not said; how many states were said, and how many of them were seen."""
    text = Writer(seed).text()
    analysis = Analysis(Texts({"p.py": text, "elsewhere.py": ELSEWHERE}), ["p.py"]).run()
    module = analysis.module("p.py")
    assert module is not None
    atoms = atoms_of(analysis)
    said: dict[int, set[Machine]] = defaultdict(set)
    for statement, worlds in analysis.states.items():
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "see":
            assert isinstance(call.args[0], ast.Constant)
            assert isinstance(call.args[0].value, int)
            said[call.args[0].value].update(world.now for world in worlds)
    found: list[str] = []
    seen: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for each in range(12):
        states, message = run(text, seed * 131 + each)
        for number, at_once in states.items():
            seen[number] |= at_once
        if message and not may_raise(analysis, message):
            found.append(f"seed {seed}: raised {message!r}, which was not said")
    for number, tuples in seen.items():
        for kinds in tuples:
            named = {name: kind for name, kind in zip(("a", "b", "free"), kinds, strict=True) if name in atoms}
            told = [said_of(machine, atoms) for machine in said[number]]
            if not any(all(fits(kind, each[name]) for name, kind in named.items()) for each in told):
                found.append(f"seed {seed}, see({number}): {named} was seen, {told} said")
    total = sum(len({tuple(sorted(said_of(m, atoms).items())) for m in said[number]}) for number in seen)
    return found, total, sum(map(len, seen.values()))


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_no_state_of_gradients_is_denied(start: int) -> None:
    results = [contradictions(seed) for seed in range(start, start + 30)]
    assert [line for found, _, _ in results for line in found] == []
    said, seen = sum(each[1] for each in results), sum(each[2] for each in results)
    assert seen > 100
    assert said < 6 * seen
