"""A checkpoint holds the optimizer and not the scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import RECIPE
from amp_migrate.flow import events as flow
from amp_migrate.flow.domain.atoms import NEVER, Atom, Class, Obj, one
from amp_migrate.flow.questions import Fault
from amp_migrate.hazards.seen.course import Course
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.made_anew import made_anew
from amp_migrate.hazards.seen.script import Script
from amp_migrate.plan.edit import Edit
from amp_migrate.report.finding import seen_from
from amp_migrate.steps.scaler.checkpoint_entries import (
    SavedEntry,
    key_beside,
    restored_entries,
    saved_entries,
    uses_of_name,
    write_restored,
    write_saved,
)
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.nodes import last_word, walk_own

RULE = Rule(
    code="AMP611",
    name="scaler-not-saved",
    summary="a checkpoint keeps the optimizer and not its scaler",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          checkpoint = torch.load("last.pt")
          model.load_state_dict(checkpoint["model"])
          optimizer.load_state_dict(checkpoint["optimizer"])
        + if checkpoint.get("scaler"):
        +     scaler.load_state_dict(checkpoint["scaler"])

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()

          state = {
              "model": model.state_dict(),
              "optimizer": optimizer.state_dict(),
        +     "scaler": scaler.state_dict(),
          }
          torch.save(state, "last.pt")
        """,
    why=(
        "A resumed run starts again with a scale of 65536 and counts again to 2000 before it grows: it skips steps "
        "that the first run did not skip, and the two part ways. Save the scaler beside the optimizer, and load it "
        'with `scaler.load_state_dict(checkpoint["scaler"])` where the checkpoint has it. Both are '
        "added where the scaler is certain to be there already. A scaler that is saved, and that nobody loads where "
        "the optimizer is loaded, is told of as well."
    ),
    sources=(f"{RECIPE}#saving-resuming",),
    safety=Safety.UNSAFE,
    options=("--unsafe",),
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every checkpoint of an optimizer whose scaler nobody saves, or which nobody loads."""
    entries = {each.optimizer: each for each in saved_entries(script.file)}
    told: set[object] = set()
    for where, optimizer, _, course, _ in _apart(script, script.flowing.questions.unloaded):
        scaler = course.scaler
        reason = f"{where.tree.code(optimizer)} goes on from its checkpoint, and {scaler} does not, though it is saved"
        yield Hazard(optimizer, reason, f"load {scaler}'s state there, too", file=where)
    for where, optimizer, state, course, scalers in _apart(script, script.flowing.questions.unsaved):
        entry = entries.get(optimizer)
        place = where.tree.statement(optimizer) if entry is None else entry.place
        if place not in told:
            told.add(place)
            called = [_called(script, where, each) for each in sorted(scalers, key=lambda each: each.site)]
            if len(called) > 1 and all(called):
                yield Hazard(
                    optimizer,
                    f"the checkpoint holds {where.tree.code(optimizer)} and not {' or '.join(called)}, which steps it",
                    "hand that on, save its state_dict() beside it, and load it where the optimizer is loaded",
                    file=where,
                )
                continue
            repair = () if entry is None else _repair(script, course, entry)
            yield _hazard(script, where, optimizer, state, course, called, repair)


def _hazard(
    script: Script,
    file: File,
    optimizer: cst.BaseExpression,
    state: cst.BaseExpression,
    course: Course,
    called: Sequence[str],
    repair: tuple[Edit, ...],
) -> Hazard:
    scaler = course.scaler
    home = "" if file is script.file else f" of {seen_from(script.file.name, file.name)}"
    if home and scaler.startswith("self.") and len(called) == 1 and called[0]:
        scaler, home = called[0], ""
    saved = _saved_beside(file, state, scaler)
    return Hazard(
        optimizer,
        f"the checkpoint holds {file.tree.code(optimizer)} and not {scaler}{home}",
        f"{saved}{home and ' there'}, and load it where the optimizer is loaded",
        repair,
        file,
    )


def _saved_beside(file: File, state: cst.CSTNode, scaler: str) -> str:
    """What to write where an optimizer's state is saved, so that the scaler's is, too, by what holds that."""
    parents, name, own = file.tree.parents, scaler.rpartition(".")[2], f"{scaler}.state_dict()"
    while isinstance(parents[state], (cst.ListComp, cst.GeneratorExp)):
        state = parents[state]
    holder = parents[state]
    above = parents[holder]
    if isinstance(holder, cst.DictElement):
        return f'add "{name}": {own}'
    if isinstance(holder, cst.Element):
        return f"add {own} as one more element"
    called = last_word(above.func) if isinstance(above, cst.Call) else ""
    if isinstance(holder, cst.Arg) and called in ("dict", "update") and holder.keyword is not None:
        return f"add {name}={own}"
    if isinstance(holder, cst.Arg) and called in ("append", "add"):
        return f"{called} {own}, too"
    if isinstance(holder, cst.Assign) and isinstance(holder.targets[0].target, cst.Subscript):
        return f'add {file.tree.code(holder.targets[0].target.value)}["{name}"] = {own}'
    if isinstance(holder, cst.Arg):
        return f"save {own} with it, or to a file beside it"
    uses = (each for each in uses_of_name(file, state) if not isinstance(parents[each], cst.AssignTarget))
    use = next(uses, None)
    return f"save {own} with it" if use is None else _saved_beside(file, use, scaler)


def _called(script: Script, file: File, scaler: Obj) -> str:
    """How a scaler is called in a file, or else an object that has it, and gives its state; empty for no name."""
    analysis = script.flowing.questions.analysis
    module = analysis.module(file.name)
    having = {owner for owner, value in analysis.heap.cells() if value == one(scaler) and _gives_state(owner)}
    names = [each for each in nodes_in(module.tree) if isinstance(each, (ast.Name, ast.Attribute))] if module else []
    values = [(ast.unparse(each), analysis.values.get(each, NEVER)) for each in names]
    for wanted in ({scaler}, having):
        found = (text for text, value in values if value and value <= wanted and not text.startswith("self"))
        if (name := next(found, "")) != "":
            return name
    return ""


def _gives_state(owner: Atom) -> bool:
    kind = owner.made_of if isinstance(owner, Obj) else None
    methods = kind.code.node.body if isinstance(kind, Class) and isinstance(kind.code.node, ast.ClassDef) else []
    return any(isinstance(each, ast.FunctionDef) and each.name == "state_dict" for each in methods)


def _lasting(script: Script) -> Iterator[Course]:
    """How each scaler is used that is not made anew (AMP614): of one that is, nothing is left to be loaded."""
    anew = {atom for event, _ in made_anew(script) for atom in event.scaler}
    for course in script.courses:
        if all(anew.isdisjoint(each.scalers) for each in course.of(flow.Act.SCALER_STEP)):
            yield course


def _apart(
    script: Script, faults: Sequence[Fault]
) -> Iterator[tuple[File, cst.BaseExpression, cst.BaseExpression, Course, set[Obj]]]:
    """The optimizers that a scaler steps and whose state is kept without its own, whatever each is called there.

    Beside each stand the file in which that happens, as a base class saves what a class that derives from it trains
    with, what is kept: its state, or all of it, and all scalers that step it.
    """
    steps = [
        (course, step)
        for course in _lasting(script)
        for event in course.of(flow.Act.SCALER_STEP)
        for step in event.known
    ]
    stepping = {atom: course for course, step in steps for atom in step.optimizer}
    for fault in faults if stepping else ():
        owners = () if fault.event is None else (*fault.event.optimizer, *fault.event.subject)
        known = [stepping[atom] for atom in owners if atom in stepping]
        where = script.flowing.interpreted.place(fault.site) if known else None
        if where is not None and isinstance(where[1], cst.Call):
            scalers = (each for _, step in steps if not step.optimizer.isdisjoint(owners) for each in step.scaler)
            found = {each for each in scalers if isinstance(each, Obj)}
            yield *_kept(script, where[0], where[1], owners), known[0], found


def _kept(
    script: Script, file: File, call: cst.Call, optimizers: Sequence[object]
) -> tuple[File, cst.BaseExpression, cst.BaseExpression]:
    """A file, an optimizer as it is called where a call keeps or loads its state or all of it, and what is kept."""
    func = cst.ensure_type(call.func, cst.Attribute)
    if func.attr.value in ("state_dict", "load_state_dict"):
        return file, func.value, call
    given = (each for arg in call.args for each in walk_own(arg.value) if isinstance(each, cst.BaseExpression))
    wholes = (each for each in given if not script.flowing.value_of(file, each).isdisjoint(optimizers))
    whole = next(wholes, call.args[0].value)
    return file, whole, whole


def _repair(script: Script, course: Course, entry: SavedEntry) -> tuple[Edit, ...]:
    """Save the scaler, and load it wherever the optimizer is loaded, if it is there at all of these places."""
    file, name = script.file, _word(entry.optimizer)
    loads = [each for each in restored_entries(file) if _word(each.optimizer) == name]
    calls = [call for call in file.calls if _loads(call, name)]
    key = key_beside([entry.key, *(each.key for each in loads)])
    is_known = bool(loads) and len(loads) == len(calls) and key not in _strings(file)
    places = [entry.optimizer, *(each.optimizer for each in loads)]
    if not is_known or not all(_is_there(script, course, place) for place in places):
        return ()
    editor = script.editor(RULE.code)
    return (
        write_saved(editor, entry, course.scaler, key),
        *(write_restored(editor, each, course.scaler, key) for each in loads),
    )


def _word(node: cst.BaseExpression) -> str:
    return (dotted(node) or "").rpartition(".")[2]


def _loads(call: cst.Call, name: str) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "load_state_dict":
        return False
    return _word(call.func.value) == name


def _strings(file: File) -> set[object]:
    return {each.evaluated_value for each in file.tree.every(cst.SimpleString)}


def _is_there(script: Script, course: Course, place: cst.BaseExpression) -> bool:
    """Whether the scaler is bound on every way to a place, in the function of the place or as its argument."""
    file, tree = script.file, script.file.tree
    bindings = file.scopes.of(place).lookup(course.scaler)
    return (
        "." not in course.scaler
        and bool(bindings)
        and all(
            (each.kind is BindingKind.PARAMETER and tree.body(place) is course.body)
            or (
                file.names.callee(each.value) in GRAD_SCALER
                and tree.body(each.node) is tree.body(place)
                and tree.order[each.node] < tree.order[place]
                and tree.block(tree.statement(each.node)) in tree.ancestors(place)
            )
            for each in bindings
        )
    )
