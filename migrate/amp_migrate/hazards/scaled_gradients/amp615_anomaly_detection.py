"""Anomaly detection is on while a scaler finds its scale."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import IS_SCRIPT, is_constant
from amp_migrate.trees.own_calls import argument

RULE = Rule(
    code="AMP615",
    name="anomaly-detection",
    summary="anomaly detection raises on the overflows by which a scaler finds its scale",
    example="""
          import torch
        -
        - torch.autograd.set_detect_anomaly(True)


          def train(model, optimizer, scaler, loader):
              for x, y in loader:
                  optimizer.zero_grad()
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                      loss = (model(x) - y).square().mean()
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()
        """,
    why="A scaler lets gradients overflow and skips the step. Anomaly detection raises on the first NaN instead.",
    sources=("https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",),
    safety=Safety.UNSAFE,
    options=("--unsafe",),
)
FLOAT16_ONLY = True
OF_MODELS = True
# What switches it on, with the arguments that have to be true for that.
_SWITCHES = {
    "torch.autograd.set_detect_anomaly": ("mode", "check_nan"),
    "torch.autograd.detect_anomaly": ("check_nan",),
}
_WORDS = ("set_detect_anomaly", "detect_anomaly")
_IMPORTS = 3


def detect(script: Script) -> Iterator[Hazard]:
    """Every call that switches it on in a file whose losses are scaled, in one that imports it, or when imported."""
    for file, is_imported in _files(script) if script.moved or script.courses else ():
        for call in file.calls:
            if is_imported and not _runs_on_import(file, call):
                continue
            needed = _SWITCHES.get(file.names.callee(call) or "", ())
            switches = [argument(call, name, place) for place, name in enumerate(needed)]
            is_on = needed and all(_is_true(script, file, each) for each in switches)
            if is_on and not _is_asked_for(script, file, call):
                is_written = all(each is None or is_constant(each, "True") for each in switches)
                yield Hazard(
                    call,
                    f"{file.tree.quote(call)} raises when the loss scale overflows, which is no fault",
                    f"{'remove it' if is_written else 'switch it off'}, or look for the NaN in float32",
                    _repair(script, file, call) if is_written else (),
                    file,
                )


def _files(script: Script) -> Iterator[tuple[File, bool]]:
    """The files that may switch it on for a script, each with whether that only imports it."""
    library = script.roles.project.library
    yield script.file, False
    for file in dict.fromkeys(each for word in _WORDS for each in library.mentioning(word)):
        if library.brings(file, script.file, _IMPORTS):
            yield file, False
        elif library.brings(script.file, file, _IMPORTS):
            yield file, True


def _runs_on_import(file: File, call: cst.Call) -> bool:
    """Whether a call runs as soon as its file is imported: outside of functions, and of what only a script runs."""
    around = list(file.tree.ancestors(call))
    is_of_script = any(isinstance(each, cst.If) and file.tree.code(each.test) in IS_SCRIPT for each in around)
    return not is_of_script and not any(isinstance(each, cst.FunctionDef) for each in around)


def _is_asked_for(script: Script, file: File, call: cst.Call) -> bool:
    """Whether somebody has to ask for it, by a test that no scaling of a loss is under: who debugs does."""
    scaling = (event.node for course in script.courses for event in course.backwards)
    asked = _tests(file, call)
    return bool(asked) and not any(asked <= _tests(script.file, each) for each in scaling)


def _tests(file: File, node: cst.CSTNode) -> set[tuple[str, bool]]:
    """The tests that a node is under in its function, each with what it has to come to."""
    found: set[tuple[str, bool]] = set()
    below = node
    for around in file.tree.ancestors(node):
        if isinstance(around, cst.FunctionDef):
            break
        test = file.tree.code(around.test) if isinstance(around, cst.If) and below is not around.test else ""
        if isinstance(around, cst.If) and test and test not in IS_SCRIPT:
            found.add((test, below is around.body))
        below = around
    return found


def _is_true(script: Script, file: File, value: cst.BaseExpression | None) -> bool:
    """Whether an argument is true, be it by a name for that; where none is given, it is by default."""
    return value is None or is_constant(value, "True") or script.flowing.constant_of(file, value) is True


def _repair(script: Script, file: File, call: cst.Call) -> tuple[Edit, ...]:
    """Take the statement out, where it does nothing else."""
    statement = file.tree.parents[call]
    return (script.editor(RULE.code, file).remove(statement),) if isinstance(statement, cst.Expr) else ()
