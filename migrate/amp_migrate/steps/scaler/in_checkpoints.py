"""New scalers in checkpoints: each is saved and restored where its optimizer is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import OPTIMIZER_SIGN
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.scaler import checkpoint_entries
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.steps.write.write_route import unwanted_way
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor


def keep_in_checkpoints(roles: Roles, traveller: Traveller, editor: Editor, wishes: Wishes) -> Iterator[Edit]:
    """The edits that save and restore every scaler that is made; ways to the checkpoints are added to the steps'."""
    beside = _Beside(traveller, editor, wishes)
    if not traveller.ways.creations:
        return
    library = roles.project.library
    saved: list[tuple[Editor, checkpoint_entries.SavedEntry, str]] = []
    restored: list[tuple[Editor, checkpoint_entries.RestoredEntry, str]] = []
    given: list[tuple[Editor, checkpoint_entries.GivenEntry, str]] = []
    for file in library.calling("state_dict", OPTIMIZER_SIGN):
        # Optimizers that share a scaler share its entry: the last of them in one checkpoint has it behind.
        of_file = {
            (entry.place, scaler): entry
            for entry in checkpoint_entries.saved_entries(file, roles)
            if (scaler := beside.scaler(file, entry.optimizer)) is not None
        }
        saved += ((editor.of(file), entry, scaler) for (_, scaler), entry in of_file.items())
    for file in library.calling("load_state_dict", OPTIMIZER_SIGN):
        back = {
            (file.tree.block(entry.statement), file.tree.code(entry.checkpoint), scaler): entry
            for entry in checkpoint_entries.restored_entries(file, roles)
            if (scaler := beside.scaler(file, entry.optimizer)) is not None
        }
        restored += ((editor.of(file), each, scaler) for (_, _, scaler), each in back.items())
    for file in _callers_of_restorers(roles, traveller):
        handed = {
            (each.call, scaler): each
            for each in checkpoint_entries.given_entries(file, roles)
            if (scaler := beside.scaler(file, each.optimizer)) is not None
        }
        given += ((editor.of(file), each, scaler) for (_, scaler), each in handed.items())
    keys = (each.key for entries in (saved, restored, given) for _, each, _ in entries)
    key = checkpoint_entries.key_beside(keys)
    yield from (checkpoint_entries.write_saved(*each, key) for each in saved)
    yield from (checkpoint_entries.write_restored(*each, key) for each in restored)
    yield from (checkpoint_entries.write_given(*each) for each in given)


def _callers_of_restorers(roles: Roles, traveller: Traveller) -> list[File]:
    """The files that make a scaler and save a state: what restores it may stand in another file."""
    makers = dict.fromkeys(creation.file for creation in traveller.ways.creations.values())
    return [file for file in makers if "state_dict" in file.uses]


@dataclass(frozen=True)
class _Beside:
    """Finds scalers beside their optimizers."""

    traveller: Traveller
    editor: Editor
    wishes: Wishes

    def scaler(self, file: File, optimizer: cst.BaseExpression) -> str | None:
        """The scaler that is on its way to a place, or can be sent there, with the optimizer that is there."""
        route = self.traveller.reach(file, [optimizer], create=False)
        if isinstance(route, Refusal) or unwanted_way(route, self.editor, self.wishes) is not None:
            return None
        sites = ((argument.site.file, argument.site.call) for argument in route.arguments)
        if any(self._is_too_early(*place) for place in ((file, optimizer), *sites)):
            return None
        self.traveller.ways.add(route)
        return route.scaler

    def _is_too_early(self, file: File, node: cst.CSTNode) -> bool:
        """Whether a place comes before the one that a scaler has to be made at."""
        tree = file.tree
        homes = [home for scope, home in self.traveller.homes.items() if scope is (tree.function(node) or tree.module)]
        return any(tree.order[node] < tree.order[home] for home in homes)
