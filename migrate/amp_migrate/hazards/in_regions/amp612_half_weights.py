"""A scaler steps an optimizer whose weights are float16 themselves, or complex."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.chains import steady, tests_of
from amp_migrate.flow.domain.atoms import NEVER, Atom, Dtype, Obj
from amp_migrate.flow.domain.tensor import F16, Tensor
from amp_migrate.flow.events import LIKE_A_RESULT, Act, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import branches
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP612",
    name="half-weights",
    summary="a scaler steps an optimizer whose weights are float16, or complex",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
        - model.half()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        'A scaler refuses float16 gradients ("Attempting to unscale FP16 gradients"). Autocast casts what needs to be '
        "cast by itself: the weights stay in float32. So do those of a module that is made in a forward pass, like "
        "what a region has given (`nn.Linear(8, 2).to(hidden)`), if only `hidden.device` is taken. Complex gradients "
        "no scaler unscales at all (pytorch/pytorch#58228)."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every cast of a model to float16 where it is made, or before its optimizer is, that nobody takes back.

    Elsewhere it may be for an export, behind the training.
    """
    yield from _made_like_results(script)
    yield from _complex(script)
    flowing, questions = script.flowing, script.flowing.questions
    steps = questions.events(Act.SCALER_STEP) if script.courses else []
    made = questions.events(Act.OPTIMIZER_MADE) if steps else []
    told: set[cst.CSTNode] = set()
    for event in questions.events(Act.HALVED) if steps else ():
        place = flowing.interpreted.place(event.site)
        halved = {each for each in event.subject if isinstance(each, Atom) and questions.are_float16(each)}
        step = next((each for each in steps if halved & questions.owners_of(each.optimizer)), None)
        is_first = any(event.code.has(each.site) for each in halved if isinstance(each, Obj)) or any(
            step is not None and each.code is event.code and each.site > event.site and each.optimizer & step.optimizer
            for each in made
        )
        call = None if step is None else flowing.interpreted.node_at(script.file, step.site)
        if place is None or call is None or not is_first:
            continue
        file, node = place
        statement = file.tree.statement(node)
        if statement in told:
            continue
        told.add(statement)
        node = statement if isinstance(node, cst.Attribute) else node  # `p.data`, of `p.data = p.data.half()`
        if not branches(file, statement) or _is_scaled_there(script, event, steps):
            scaler = script.file.tree.code(cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value)
            yield Hazard(
                node,
                f"{file.tree.quote(node)} makes weights float16, which {scaler} refuses to unscale",
                "remove it: autocast casts what needs to be cast",
                file=file,
            )


def _is_scaled_there(script: Script, halved: Event, steps: Sequence[Event]) -> bool:
    """Whether a scaler steps wherever tests have a model cast to float16: it is on, and nothing else is asked.

    What another option decides may be meant for where the model is not cast.
    """
    flowing, questions = script.flowing, script.flowing.questions
    tests, code = tests_of(halved), halved.code
    asked = {(text, outcome) for text, outcome, _ in tests}
    for step in steps:
        is_meant = not halved.subject.isdisjoint(questions.owners_of(step.optimizer))
        ways = [steady(each, step.code, step.node) for each in flowing.chains.to(step, code)] if is_meant else []
        if tests and any({(text, outcome) for text, outcome, _ in way} <= asked for way in ways):
            return all(questions.is_on(each) or questions.is_on_where(each, code, tests) for each in step.scaler)
    return False


def _complex(script: Script) -> Iterator[Hazard]:
    """Every step by a scaler of an optimizer with complex parameters."""
    flowing, questions = script.flowing, script.flowing.questions
    for event in questions.events(Act.SCALER_STEP) if script.courses else ():
        call = flowing.interpreted.node_at(script.file, event.site) if questions.steps_complex(event) else None
        if call is not None:
            yield Hazard(
                call,
                f"{script.file.tree.quote(call)} raises: no scaler unscales gradients of complex parameters",
                "keep them as real parameters, of which torch.view_as_complex() makes complex ones where they are "
                "used, or train in bfloat16 without a scaler",
            )


def _made_like_results(script: Script) -> Iterator[Hazard]:
    """Every module that gets the precision of what is float16 on all ways, as a region computes it, and keeps that."""
    flowing, questions = script.flowing, script.flowing.questions
    for event in questions.events(Act.LOW_LEAF) if script.courses and questions.events(Act.SCALER_STEP) else ():
        place = flowing.place(script.file, event) if event.why == LIKE_A_RESULT else None
        call = event.node
        if place is None or not isinstance(call, ast.Call):
            continue
        given = (questions.analysis.values.get(e, NEVER) for e in (*call.args, *(each.value for each in call.keywords)))
        like = [each for value in given for each in value if isinstance(each, (Dtype, Tensor))]
        if all(each.precision == F16 for each in like):
            file, node = place
            yield Hazard(
                node,
                f"{file.tree.quote(node)} gives weights the float16 of a region, for the whole of the training",
                "move the module to the device alone: autocast casts what needs to be cast",
                file=file,
            )
