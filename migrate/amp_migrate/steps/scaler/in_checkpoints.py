"""New scalers in checkpoints: each is saved and restored where its optimizer is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import parameter
from amp_migrate.analysis.files import File
from amp_migrate.analysis.library import Library
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import OPTIMIZER_SIGN
from amp_migrate.catalog.step_rules import RISKY_NUMERICS
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import Move, Refusal
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.model.route import Route, Ways
from amp_migrate.steps.scaler import checkpoint_entries, own_files
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.steps.scaler.made_late import MadeLate, early_calls, made_late
from amp_migrate.steps.scaler.one_process import is_in_one_process
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.steps.write.write_route import unwanted_way
from amp_migrate.trees.nodes import Statement, block_of
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

_SaysAll: TypeAlias = Callable[[cst.BaseExpression], bool]


def keep_in_checkpoints(roles: Roles, traveller: Traveller, editor: Editor, wishes: Wishes) -> Iterator[Move]:
    """The moves that save and restore every scaler that is made; ways to the checkpoints are added to the steps'."""
    beside = _Beside(traveller, editor, wishes)
    if not traveller.ways.creations:
        return
    library = roles.project.library
    saved: list[tuple[Editor, checkpoint_entries.SavedEntry, Route]] = []
    restored: list[tuple[Editor, checkpoint_entries.RestoredEntry, Route]] = []
    given: list[tuple[Editor, checkpoint_entries.GivenEntry, Route]] = []
    saving = list(library.calling("state_dict", OPTIMIZER_SIGN))
    for file in saving:
        # Optimizers that share a scaler share its entry: the last of them in one checkpoint has it behind.
        of_file = {
            (entry.place, route.scaler): (entry, route)
            for entry in checkpoint_entries.saved_entries(file)
            if (route := beside.route(file, entry.optimizer)) is not None
        }
        saved += ((editor.of(file), *each) for each in of_file.values())
    is_saved = bool(saved) or any(
        beside.is_of_others(file, entry.optimizer)
        for file in saving
        for entry in checkpoint_entries.saved_entries(file)
    )
    loading = list(library.calling("load_state_dict", OPTIMIZER_SIGN))
    for file in loading:
        back = {
            (file.tree.block(entry.statement), file.tree.code(entry.checkpoint), route.scaler): (entry, route)
            for entry in checkpoint_entries.restored_entries(file)
            if (is_saved or not _saves_others(file)) and (route := beside.route(file, entry.optimizer)) is not None
        }
        restored += ((editor.of(file), *each) for each in back.values())
    for file in _callers_of_restorers(traveller):
        handed = {
            (entry.call, route.scaler): (entry, route)
            for entry in checkpoint_entries.given_entries(file, roles)
            if (route := beside.route(file, entry.optimizer)) is not None
            and not traveller.is_spared(file, entry.call, route.scaler)  # it would be asked for its state
        }
        given += ((editor.of(file), *each) for each in handed.values())
    keys = (each.key for entries in (saved, restored, given) for _, each, _ in entries)
    of_objects = [each.file for each in traveller.ways.creations.values() if each.target.startswith("self.")]
    keyed = dict.fromkeys(at.file for entries in (saved, restored) for at, _, _ in entries)
    files = (*of_objects, *loading) if of_objects else ()
    key = checkpoint_entries.key_beside(keys, files, () if given else keyed, traveller.names)
    for at, entry, way in saved:
        is_spared = _may_be_none(traveller, at.file, entry.holder, way.scaler)
        yield _move(checkpoint_entries.write_saved(at, entry, way.scaler, key, is_spared=is_spared), way)
    for at, each, way in restored:
        if is_in_one_process(at.file, each.statement):
            yield Move((), (_told_apart(at.file, each),))
        else:
            is_spared = _may_be_none(traveller, at.file, each.statement, way.scaler)
            yield _move(checkpoint_entries.write_restored(at, each, way.scaler, key, is_spared=is_spared), way)
    behind = {
        (late.home, scaler): (file, entry, late)
        for file in (loading if is_saved else ())
        for entry in checkpoint_entries.restored_entries(file)
        for late, scaler in beside.late(file, entry, entry.checkpoint)
    }
    for (_, scaler), (file, each, late) in behind.items():
        yield Move((checkpoint_entries.write_restored(editor.of(file), each, scaler, key, late=late),))
    name = traveller.names[0]
    yield from (_move(checkpoint_entries.write_given(at, each, way.scaler, name), way) for at, each, way in given)
    yield from _in_own_files(library, beside, editor)


def places_of_states(library: Library) -> Iterator[tuple[File, cst.BaseExpression]]:
    """The optimizers whose states are saved or restored where those of their scalers would be, too."""
    for file in library.calling("state_dict", OPTIMIZER_SIGN):
        yield from ((file, each.optimizer) for each in checkpoint_entries.saved_entries(file))
    for file in _saving_alone(library):
        yield from ((file, each.optimizer) for each in own_files.saved_alone(file))
    for file in library.calling("load_state_dict", OPTIMIZER_SIGN):
        yield from ((file, each.optimizer) for each in checkpoint_entries.restored_entries(file))
        yield from ((file, each.optimizer) for each in own_files.restored_alone(file))


def restored_in_front(
    library: Library, homes: Mapping[cst.CSTNode, Statement]
) -> Iterator[tuple[Statement, cst.BaseExpression]]:
    """What makes a scaler, and the optimizer above it in its function that goes on from its state.

    They are those whose scalers cannot be restored where they are made, as the checkpoint is gone by then.
    """
    saving = list(library.calling("state_dict", OPTIMIZER_SIGN))
    has_entries = any(True for file in saving for _ in checkpoint_entries.saved_entries(file))
    alone = {entry.ending for file in _saving_alone(library) for entry in own_files.saved_alone(file)}
    for file in library.calling("load_state_dict", OPTIMIZER_SIGN) if has_entries or alone else ():
        places: list[tuple[checkpoint_entries.RestoredEntry | own_files.OwnFile, cst.BaseExpression, _SaysAll]] = []
        if has_entries:
            places += ((each, each.checkpoint, _says_nothing) for each in checkpoint_entries.restored_entries(file))
        for each in own_files.restored_alone(file):
            if each.ending in alone:
                places.append((each, each.path, partial(own_files.asks_for, file, each)))
        for entry, source, says_all in places:
            home = _home_behind(file, entry.optimizer, homes)
            is_lost = home is not None and made_late(file, entry.statement, source, home, says_all) is None
            if home is not None and is_lost and not is_in_one_process(file, entry.statement):
                yield home, entry.optimizer


def _home_behind(file: File, node: cst.CSTNode, homes: Mapping[cst.CSTNode, Statement]) -> Statement | None:
    """The place behind this one in its function that a scaler has to be made at."""
    tree = file.tree
    home = homes.get(tree.function(node) or tree.module)
    return home if home is not None and tree.order[node] < tree.order[home] else None


def _says_nothing(test: cst.BaseExpression) -> bool:
    return False


def _in_own_files(library: Library, beside: _Beside, editor: Editor) -> Iterator[Move]:
    """The moves that save and restore scalers beside optimizers that have files of their own.

    What is restored is what is saved so.
    """
    saved: set[tuple[str, str]] = set()
    alone = {file: [*own_files.saved_alone(file)] for file in _saving_alone(library)}
    wholes = {each.ending for entries in alone.values() for each in entries if each.is_whole}
    loading = library.calling("load", OPTIMIZER_SIGN) if wholes else ()
    are_loaded = any(own_files.loads_whole(file, wholes) for file in loading)
    for file, entries in alone.items():
        for entry, route in beside.last_of(file, (e for e in entries if not (e.is_whole and are_loaded))):
            saved.add((entry.ending, route.scaler))
            is_spared = _may_be_none(beside.traveller, file, entry.statement, route.scaler)
            yield _move(own_files.write_saved_alone(editor.of(file), entry, route.scaler, is_spared=is_spared), route)
    for file in library.calling("load_state_dict", OPTIMIZER_SIGN) if saved else ():
        for entry, route in beside.last_of(file, own_files.restored_alone(file)):
            if (entry.ending, route.scaler) in saved and is_in_one_process(file, entry.statement):
                yield Move((), (_told_apart(file, entry),))
            elif (entry.ending, route.scaler) in saved:
                is_spared = _may_be_none(beside.traveller, file, entry.statement, route.scaler)
                edit = own_files.write_restored_alone(editor.of(file), entry, route.scaler, is_spared=is_spared)
                yield _move(edit, route)
        for entry in own_files.restored_alone(file):
            asks = partial(own_files.asks_for, file, entry)
            for late, scaler in beside.late(file, entry, entry.path, asks):
                if (entry.ending, scaler) in saved:
                    yield Move((own_files.write_restored_alone(editor.of(file), entry, scaler, late=late),))


def _saving_alone(library: Library) -> Iterator[File]:
    """The files that may save an optimizer, or its state, to a file of its own."""
    yield from dict.fromkeys(file for name in ("state_dict", "save") for file in library.calling(name, OPTIMIZER_SIGN))


def _may_be_none(traveller: Traveller, file: File, at: cst.CSTNode, scaler: str) -> bool:
    """Whether the scaler at a place may be None: some call passes that, or it is what a function has where none does.

    Calls in files that were not given pass none, where the optimizer need not be given either. What trains needs one.
    """
    function = file.tree.function(at)
    new = None if function is None else traveller.ways.parameters.get(function)
    if function is None or new is None or new.name != scaler or any(True for _ in backward_calls(block_of(function))):
        return traveller.is_spared(file, at, scaler)
    after = parameter(function, new.after)
    return (after is not None and after.default is not None) or traveller.is_spared(file, at, scaler)


def _move(edit: Edit, way: Route) -> Move:
    return Move((edit,), beside=Ways.of([way]).trees)


def _saves_others(file: File) -> bool:
    """Whether a file saves checkpoints; where none of them has an optimizer's state, a scaler has nothing to load."""
    return any(file.names.callee(call) == "torch.save" for call in file.calls)


def _told_apart(file: File, entry: checkpoint_entries.RestoredEntry | own_files.OwnFile) -> Finding:
    """What is said where a scaler is not restored, as the scales of the processes would differ from then on."""
    message = f"only one process loads {file.tree.code(entry.optimizer)} here: its scaler is saved, but not loaded"
    hint = "load both in every process: what DistributedDataParallel averages has to be of one scale"
    return Finding.at(file.tree, entry.statement, RISKY_NUMERICS.code, Kind.NOTE, message, hint)


def _callers_of_restorers(traveller: Traveller) -> list[File]:
    """The files that make a scaler and save a state: what restores it may stand in another file."""
    makers = dict.fromkeys(creation.file for creation in traveller.ways.creations.values())
    return [file for file in makers if "state_dict" in file.uses]


@frozen
class _Beside:
    """Finds scalers beside their optimizers."""

    traveller: Traveller
    editor: Editor
    wishes: Wishes

    def route(self, file: File, optimizer: cst.BaseExpression) -> Route | None:
        """The way of a scaler that goes to a place, or can be sent there, with the optimizer that is there."""
        route = self.traveller.reach(file, [optimizer], create=False)
        if isinstance(route, Refusal) or unwanted_way(route, self.editor, self.wishes) is not None:
            return None
        if not self.traveller.is_fed(route):  # nobody calls what would take it, or only what has none of these
            return None
        sites = ((argument.site.file, argument.site.call) for argument in route.arguments)
        if any(self._is_too_early(*place) for place in ((file, optimizer), *sites)):
            return None
        self.traveller.ways.add(route)
        return route

    def is_of_others(self, file: File, optimizer: cst.BaseExpression) -> bool:
        """Whether what comes to a place with its optimizer is a scaler of other scripts, and none of these."""
        route = self.traveller.reach(file, [optimizer], create=False)
        return isinstance(route, Route) and not self.traveller.is_fed(route) and self.traveller.is_lent(route)

    def last_of(self, file: File, entries: Iterable[own_files.OwnFile]) -> Iterator[tuple[own_files.OwnFile, Route]]:
        """The places of each scaler, with its way there: of optimizers that share one, the last that always follows."""
        found = [(each, route) for each in entries if (route := self.route(file, each.optimizer)) is not None]
        for index, (each, way) in enumerate(found):
            later = (other for other, route in found[index + 1 :] if route.scaler == way.scaler)
            if not any(own_files.is_followed(file, each, other) for other in later):
                yield each, way

    def late(
        self,
        file: File,
        entry: checkpoint_entries.RestoredEntry | own_files.OwnFile,
        source: cst.BaseExpression,
        says_all: _SaysAll = _says_nothing,
    ) -> Iterator[tuple[MadeLate, str]]:
        """Where, and by which name, a scaler is restored that is made behind its optimizer, in the same function."""
        home = _home_behind(file, entry.optimizer, self.traveller.homes)
        if home is None or is_in_one_process(file, entry.statement):
            return
        route = self.traveller.reach(file, [entry.optimizer], create=False)
        late = made_late(file, entry.statement, source, home, says_all)
        if late is not None and isinstance(route, Route) and not (route.parameters or route.arguments):
            yield late, route.scaler

    def _is_too_early(self, file: File, node: cst.CSTNode) -> bool:
        """Whether a place may come before the one that a scaler has to be made at."""
        traveller = self.traveller
        early = early_calls(traveller.project, file, node, traveller.homes) if traveller.homes else ()
        return _home_behind(file, node, traveller.homes) is not None or any(True for _ in early)
