"""What is said of files that change for the sake of a training step in another one, or of inference by Apex."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_STEP
from amp_migrate.plan.edit import AddArgument, AddParameter, Cast, Edit, Wrap
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.model.route import SCALER_NAMES


def told_beside(moves: Iterable[Move]) -> Iterator[Move]:
    """The same moves, which say of every file that changes what changes there, once, where nothing else is said."""
    moves = tuple(moves)
    told = {each.path for move in moves for each in move.findings if each.kind in (Kind.MIGRATED, Kind.NOTE)}
    said: set[tuple[str, str]] = set()
    for move in moves:
        findings = list(move.findings)
        for edit in move.edits:
            message = f"changes with {_cause(move)} in another file: {_change(edit)}"
            if edit.tree.name not in told and (edit.tree.name, message) not in said:
                said.add((edit.tree.name, message))
                findings.append(Finding.at(edit.tree, edit.node, edit.rule, Kind.NOTE, message))
        yield replace(move, findings=tuple(findings))


def _cause(move: Move) -> str:
    moved = {each.code for each in move.findings if each.kind is Kind.MIGRATED}
    return "inference" if APEX_INITIALIZE.code in moved and APEX_STEP.code not in moved else "a training step"


def _change(edit: Edit) -> str:
    text = " ".join(map(str, edit.codes))
    if isinstance(edit.change, Wrap):
        return "what is computed here runs under autocast, too"
    if isinstance(edit.change, Cast):
        return "a value is computed in float32 (.float())"
    if "state_dict" in text:
        return "the GradScaler's state is kept in checkpoints"
    if isinstance(edit.change, (AddParameter, AddArgument)):
        name = edit.change.name if isinstance(edit.change, AddParameter) else edit.change.keyword
        is_switch = name and name not in SCALER_NAMES
        return "whether mixed precision is on is handed on" if is_switch else "a GradScaler is handed on"
    return "a GradScaler is made for it" if "GradScaler(" in text else "its GradScaler has a part in this"
