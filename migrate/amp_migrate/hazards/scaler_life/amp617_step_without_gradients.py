"""A scaler steps an optimizer whose parameters have no gradients."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.atoms import Atom, Obj, Part
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.pytorch.gradients import overlap
from amp_migrate.flow.questions import BY_HAND
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import branches, rounds
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP617",
    name="step-without-gradients",
    summary="a scaler steps an optimizer whose parameters have no gradients",
    example="""
          import copy

          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for epoch in range(3):
              best = copy.deepcopy(model)
              for x, y in loader:
                  optimizer.zero_grad()
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                      loss = (model(x) - y).square().mean()
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()
        -     model = best
        +     model.load_state_dict(best.state_dict())
        """,
    why=(
        'A scaler that finds no gradient raises "No inf checks were recorded for this optimizer", where an optimizer '
        "by itself does nothing and says nothing. Either they were cleared between `backward()` and `step()`, or the "
        "loss is computed from other parameters than the optimizer was made of: from those of a copy of the model, an "
        "average or the best one so far, that has taken its place."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every step of a scaler that always finds no gradients, or does from the time on when its model is replaced."""
    flowing = script.flowing
    for fault in flowing.questions.steps_without_gradients if script.courses else ():
        node = flowing.interpreted.node_at(script.file, fault.site)
        if node is None or fault.event is None or fault.why == BY_HAND:
            continue
        step = script.file.tree.quote(node)
        where = "" if fault.always else _where_skipped(script, fault.event, node) if fault.is_seen else None
        if where is not None:
            yield Hazard(
                node,
                f"{step} finds no gradients, and raises{where}",
                "clear them before the backward pass or behind the step, and compute the loss from what it trains",
            )
        for replacing in _replacing(script, fault.event):
            name, what = script.file.tree.code(replacing.targets[0].target), script.file.tree.quote(replacing)
            yield Hazard(
                replacing,
                f"{what} leaves {step} without gradients, to raise: its optimizer has the old parameters",
                f"load the values, {name}.load_state_dict(...), or make the optimizer anew of {name}.parameters()",
            )


def _where_skipped(script: Script, step: Event, node: cst.CSTNode) -> str | None:
    """On which way there are no gradients, in the words of the message: where a test skips the backward pass alone.

    A loop over nothing skips one, too, for all that can be seen, but hardly does.
    """
    file, tree = script.file, script.file.tree
    around = branches(file, tree.statement(node))
    for event in script.flowing.questions.events(Act.BACKWARD):
        backward = script.flowing.interpreted.node_at(file, event.site) if event.optimizer & step.optimizer else None
        if backward is not None and tree.loop(backward) is tree.loop(node) and tree.body(backward) is tree.body(node):
            tests = branches(file, tree.statement(backward))
            if set(tests) > set(around):
                line = tree.position(next(each for each in tests if each not in around))[0]
                return f", where the test in line {line} skips {tree.quote(backward)}"
    return None


def _replacing(script: Script, step: Event) -> Iterator[cst.Assign]:
    """Where what an optimizer trains is replaced by what no optimizer has, in a loop that goes on to step it.

    What is put back in the same loop is lent only: an average takes its place to be evaluated.
    """
    flowing, file, tree = script.flowing, script.file, script.file.tree
    own, foreign = _trained(script, step)
    given = [(each, _parts(script, each.value)) for each in tree.every(cst.Assign) if own and foreign]
    for assign, parts in given:
        path = dotted(assign.targets[0].target)
        if path is None or not parts.isdisjoint(own) or parts.isdisjoint(foreign):
            continue
        home = tree.owner_class if "." in path else tree.function
        uses = (each for each in tree.every(cst.Name, cst.Attribute) if dotted(each) == path)
        held = (_parts(script, each) for each in uses if home(each) is home(assign))
        if all(each.isdisjoint(own) or each.isdisjoint(foreign) for each in held):
            continue
        back = [each for each, parts in given if dotted(each.targets[0].target) == path and not parts.isdisjoint(own)]
        lent = {each.loop for one in back for each in rounds(flowing, file, one)}
        loops = {each.loop: each.file for each in rounds(flowing, file, assign)}
        behind = tree.siblings(assign)[tree.siblings(assign).index(assign) :]
        is_last = any(isinstance(each, (cst.Break, cst.Return, cst.Raise)) for each in behind)
        if not is_last and any(
            loop is not None and loop not in lent and flowing.runs(where, loop, step) for loop, where in loops.items()
        ):
            yield assign


def _trained(script: Script, step: Event) -> tuple[frozenset[Atom], set[Atom]]:
    """What owns the parameters of an optimizer, and what those that a loss may be of and that no optimizer has."""
    questions = script.flowing.questions
    known = questions.analysis.pytorch.registry.optimizers
    losses = [each for each in questions.events(Act.BACKWARD) if each.optimizer & step.optimizer]
    reached = {leaf for each in losses for leaf in each.leaves if isinstance(leaf, Part)}
    return questions.owners_of(step.optimizer), {
        leaf.owner for leaf in reached if all(overlap(each, frozenset({leaf})) is False for each in known.values())
    }


def _parts(script: Script, node: cst.BaseExpression) -> frozenset[Obj]:
    return script.flowing.questions.analysis.heap.objects_in(script.flowing.value_of(script.file, node))
