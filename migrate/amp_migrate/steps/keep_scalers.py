"""New scalers in checkpoints: each is saved and restored where its optimizer is."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.optimizers import OPTIMIZER_SIGN
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps import checkpoints
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.model import Refusal
from amp_migrate.steps.travel import Traveller


def keep_in_checkpoints(roles: Roles, traveller: Traveller, draft_of: Callable[[File], Draft]) -> None:
    """Save and restore every scaler that is made; ways to the checkpoints are added to those of the steps."""
    if not traveller.ways.creations:
        return
    library = roles.project.library
    for file in library.calling("state_dict", OPTIMIZER_SIGN):
        # Optimizers that share a scaler share its entry: the last of them in one checkpoint has it behind.
        saved = {
            (entry.place, scaler): entry
            for entry in checkpoints.saved_entries(file, roles)
            if (scaler := _scaler_beside(traveller, file, entry.optimizer)) is not None
        }
        for (_, scaler), entry in saved.items():
            checkpoints.write_saved(draft_of(file), entry, scaler)
    for file in library.calling("load_state_dict", OPTIMIZER_SIGN):
        restored = {
            (file.tree.block(entry.statement), file.tree.code(entry.checkpoint), scaler): entry
            for entry in checkpoints.restored_entries(file, roles)
            if (scaler := _scaler_beside(traveller, file, entry.optimizer)) is not None
        }
        for (_, _, scaler), restored_entry in restored.items():
            checkpoints.write_restored(draft_of(file), restored_entry, scaler)
    for file in _callers_of_restorers(roles, traveller):
        given = {
            (each.call, scaler): each
            for each in checkpoints.given_entries(file, roles)
            if (scaler := _scaler_beside(traveller, file, each.optimizer)) is not None
        }
        for (_, scaler), given_entry in given.items():
            checkpoints.write_given(draft_of(file), given_entry, scaler)


def _callers_of_restorers(roles: Roles, traveller: Traveller) -> list[File]:
    """The files that make a scaler and save a state: what restores it may stand in another file."""
    makers = dict.fromkeys(creation.file for creation in traveller.ways.creations.values())
    return [file for file in makers if "state_dict" in file.uses]


def _scaler_beside(traveller: Traveller, file: File, optimizer: cst.BaseExpression) -> str | None:
    """The scaler that is on its way to a place, or can be sent there, with the optimizer that is there."""
    route = traveller.reach(file, [optimizer], create=False)
    if isinstance(route, Refusal):
        return None
    traveller.ways.add(route)
    return route.scaler
