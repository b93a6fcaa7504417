"""Apex scripts to native AMP, a group of files at a time; what cannot be native goes to the shim as a whole.

`initialize` in one file, `scale_loss` in another and `state_dict` in a third are one script. Files that belong together
are migrated together, or they all keep Apex's calls and get them from `amp_shim`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import loaded_by
from amp_migrate.analysis.project import CallSite, Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.catalog.apex_rules import (
    APEX_EVALUATION,
    APEX_IMPORT,
    APEX_INITIALIZE,
    APEX_LEVEL,
    APEX_ON_SHIM,
    APEX_STEP,
)
from amp_migrate.catalog.step_rules import RISKY_NUMERICS, STEP_LEFT, UNSCALE_FIRST
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import Move, Refusal
from amp_migrate.report.finding import Finding, Kind, seen_from
from amp_migrate.settings import Apex, Dtype, Settings
from amp_migrate.steps.apex.beside.read_beside import Beside, read_beside
from amp_migrate.steps.apex.beside.without_apex import is_native_without_apex
from amp_migrate.steps.apex.initialize.amp_or_none import with_amp_asked
from amp_migrate.steps.apex.initialize.first_time import made_with_object
from amp_migrate.steps.apex.initialize.in_helper import calls_of_helper, lifted
from amp_migrate.steps.apex.initialize.in_loops import further_up, may_be_set_by_calls
from amp_migrate.steps.apex.initialize.initialize_calls import STAYED, Initialize
from amp_migrate.steps.apex.initialize.reached import ways_to
from amp_migrate.steps.apex.initialize.switch import is_off
from amp_migrate.steps.apex.names.apex_imports import Fate
from amp_migrate.steps.apex.names.rest_of_apex import ApexRest
from amp_migrate.steps.apex.script.decide_native import INITIALIZED_AGAIN, UNSAID, NativeDecider
from amp_migrate.steps.apex.script.doubts import REGION_ROUND_CALL, of_unknown_amp
from amp_migrate.steps.apex.script.led_initializes import with_led_apart
from amp_migrate.steps.apex.script.native_script import NativeScript, ScriptStep, WrapperUses
from amp_migrate.steps.apex.script.prepared_steps import PreparedOptimizers, plain_steps_in
from amp_migrate.steps.apex.script.read_script import ScriptReader
from amp_migrate.steps.apex.script.script_group import (
    ApexScript,
    asks_apex,
    handed_wrappers,
    is_idle,
    programs_with,
    scripts_of,
    starts,
)
from amp_migrate.steps.apex.script.told_steps import told_of_steps
from amp_migrate.steps.apex.step.apex_steps import ApexStep, clips_under_scale
from amp_migrate.steps.apex.step.fp16_optimizer import wrapped_receivers
from amp_migrate.steps.apex.uses import apex_state
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_name, amp_uses, has_later_wrapper, wrapper_calls
from amp_migrate.steps.apex.uses.apex_guards import amp_by_name, is_apex_import, probes_for_apex
from amp_migrate.steps.apex.uses.cast_functions import cast_functions, cast_uses, form_of, said_of
from amp_migrate.steps.apex.uses.loss_scale import scale_reads
from amp_migrate.steps.apex.uses.unread_attributes import prepared_unread
from amp_migrate.steps.apex.write.write_apex import NOT_SCALED, write_apex, write_float32, write_uses
from amp_migrate.steps.apex.write.write_beside import write_beside
from amp_migrate.steps.apex.write.write_uses import drop_imports
from amp_migrate.steps.gradients.gradient_uses import told_of_scaled_gradients
from amp_migrate.steps.gradients.steppers import optimizer_steps
from amp_migrate.steps.model.route import Ways
from amp_migrate.steps.model.training_step import OptimizerStep, TrainingStep
from amp_migrate.steps.read.split import key_of
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.scaler.callers import uncalled
from amp_migrate.steps.scaler.find_route import Lent, Traveller, lost
from amp_migrate.steps.scaler.in_checkpoints import keep_in_checkpoints, places_of_states, restored_in_front
from amp_migrate.steps.scaler.made_first import late_uses, make_first
from amp_migrate.steps.scaler.made_late import early_calls
from amp_migrate.steps.scaler.own_scalers import OwnScalers
from amp_migrate.steps.scaler.stale_calls import told_of_stale
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.steps.told_beside import told_beside
from amp_migrate.steps.write.write_route import write_arguments
from amp_migrate.tables.apex_names import AN_OLD_APEX, KEY_PREFIXES, NATIVE_TODAY, SHIM_SINCE, USE_SHIM
from amp_migrate.trees.nodes import Statement, last_word, nested_statements, walk
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

Files: TypeAlias = tuple[File, ...]
_STATES = ("state_dict", "load_state_dict")
_UNSCALED = "scale it by a torch.amp.GradScaler, or run with --dtype bf16, which has float32's range"


class ApexMigration:
    """Moves the Apex scripts of a project.

    Args:
        scaler_beside: the scaler that a step which has nothing of Apex is given in the same run, for an optimizer.
    """

    def __init__(
        self,
        project: Project,
        roles: Roles,
        wishes: Wishes,
        values: ValueCalls,
        scaler_beside: Callable[[File, cst.BaseExpression], str | None],
    ) -> None:
        self.project = project
        self.wishes = wishes
        self.settings = settings = wishes.settings
        self.roles = roles
        self._values = values
        self._scaler_beside = scaler_beside
        self._files: tuple[File, ...] = ()
        self._unwanted: set[File] = set()
        self._native: set[File] = set()
        self._on_shim: set[File] = set()
        self._left: set[File] = set()  # what runs with an Apex that has all of it, or without one
        self._has_shim = settings.target_torch >= SHIM_SINCE and settings.apex is not Apex.NATIVE
        self._travellers: dict[Files, Traveller] = {}  # of the scripts that are native
        self._lent: dict[Files, dict[cst.Call, Lent]] = {}  # what each of them has the calls of others pass

    def _is_wanted(self, script: Files) -> bool:
        """Whether nothing of a script is to be left: it moves as a whole, or not at all."""
        calls = [(file, call) for file in script for call in _calls(file)]
        if calls:
            return all(self.wishes.wants(file.tree, call, APEX_STEP.code) for file, call in calls)
        imports = [(file, each) for file in script for each in _imports(file)]
        return all(self.wishes.wants(file.tree, each, APEX_IMPORT.code) for file, each in imports)

    def moves(self, files: Iterable[File]) -> list[Move]:
        """What becomes of every script that uses Apex, and of all else that a file uses of it."""
        given = tuple(files)
        self._files = tuple(each for each in given if not self._is_beside_apex(each))
        apex = [file for file in self._files if asks_apex(file)]
        reader = ScriptReader(self.project, self.roles, self.wishes, self._files, self._values)
        decided: dict[Files, Move] = {}
        # What only says how functions compute belongs to the scripts there are, and goes their way.
        handed = handed_wrappers(self.project, self._files)
        for script in sorted(scripts_of(self.project, apex, handed), key=lambda each: not any(map(_calls, each))):
            if self._is_wanted(script):
                decided[script] = self._move(script, reader)
            else:
                self._unwanted.update(script)
        self._decide_anew(decided, reader)
        moves = list(decided.values())
        edits = [edit for move in moves for edit in move.edits]
        rest = ApexRest(self.project, self.wishes, edits)
        for file in self._files:
            if file not in self._unwanted and file not in self._left:
                stays, amp_is_gone = self._is_on_shim(file), file in self._native
                moves += rest.moves(file, stays=stays, amp_is_gone=amp_is_gone, probes=self._probes)
        moves.append(Move((), tuple(_told_of_shim(of_unknown_amp(self._files), has_shim=False))))
        moves.append(Move((), tuple(self._told_of_copies(each for each in given if each not in self._files))))
        return list(told_beside(moves))

    @property
    def _probes(self) -> Fate:
        """What becomes of code that only sees whether Apex is there.

        It asks for the shim where anything trains on that; it has its answer where all is native; else it is left.
        """
        if self._on_shim:
            return Fate.SHIM
        return Fate.GONE if self._native else Fate.PROVIDED_FOR

    def _is_beside_apex(self, file: File) -> bool:
        """Whether `import apex` loads a file of the tree: that of Apex itself, or one that keeps a copy of it."""
        library = self.project.library
        return library.module("apex", file) is not None or library.text_not_given("apex", file) is not None

    def _told_of_copies(self, files: Iterable[File]) -> Iterator[Finding]:
        """What is said of each file that trains with the `apex` of its own tree, and is no part of that."""
        for file in files:
            calls, loaded = _calls(file), self.project.library.name_of_module("apex", file)
            is_part = loaded is not None and file.name.startswith(loaded.removesuffix("__init__.py"))
            if calls and not is_part and self._is_wanted((file,)):
                reason = "left as it was: `import apex` loads what stands in this project by that name"
                hint = "where that is a copy of NVIDIA's, a further run moves this once the copy has another name"
                yield Finding.at(file.tree, calls[0], APEX_ON_SHIM.code, Kind.LEFT, reason, hint)

    def _decide_anew(self, decided: dict[Files, Move], reader: ScriptReader) -> None:
        """Decide anew about native scripts where what has been decided of others since says something of them.

        Others may read their checkpoints by the key of Apex's state, or hand scalers to the same functions.
        """
        keeping: set[Files] = set()
        todo = deque(decided)
        while todo:
            files = todo.popleft()
            if not self._native.issuperset(files):
                continue
            known = self._known_by_keys(files, keeps_keys=files in keeping)
            if known is not None:
                keeping.add(files)
            elif all(self._lent_by_others(files, call) == lent for call, lent in self._lent.get(files, {}).items()):
                continue
            self._native.difference_update(files)
            decided[files] = self._move(files, reader, known or (), keeps_keys=files in keeping)
            if known is None or not self._native.issuperset(files):
                todo = deque(decided)

    def _known_by_keys(self, files: Files, *, keeps_keys: bool) -> tuple[Refusal, ...] | None:
        """Why a native script stays with Apex for others, which read its checkpoints by the key of Apex's state.

        The shim takes the state of a scaler for its own, so that it may be kept under that key; Apex does not.

        Args:
            keeps_keys: whether it is kept so already.

        Returns:
            None where nothing of that is to be decided anew.
        """
        elsewhere = apex_state.read_elsewhere(self.project, files)
        with_apex = [each for each in elsewhere if each not in self._native]
        apart = [each for each in with_apex if each not in self._on_shim and not _scales(each)]
        others = [each for each in with_apex if each in self._on_shim or each in apart]
        if not others or (keeps_keys and not apart):
            return None
        if not apart and not any(True for file in files for _ in apex_state.given(file, self.project)):
            return ()
        other = (apart or others)[0]
        return (Refusal(*elsewhere[other], f"{other.name} reads Apex's state by this key, and stays with Apex"),)

    def _move(
        self, files: Files, reader: ScriptReader, known: tuple[Refusal, ...] = (), *, keeps_keys: bool = False
    ) -> Move:
        """What becomes of one script.

        Args:
            known: what is known already to stand in the way of native AMP.
            keeps_keys: whether what it saves of its scaler stays under the keys of Apex's state.
        """
        of_others = (*self._beside_name(files), *prepared_unread(self.project, files))
        if of_others:
            self._left.update(files)
            return Move((), tuple(_told_of_shim(of_others, has_shim=False)))
        if is_idle(self.project, files) and self.settings.apex is not Apex.SHIM:
            if self._probes is not Fate.GONE:
                files = tuple(file for file in files if not probes_for_apex(file))
            dropped = tuple(edit for file in files for edit in drop_imports(self._editor(file, APEX_IMPORT.code)))
            # What imports it for another PyTorch alone is no native script, for which a probe would have its answer.
            return self._native_move(files, Move(dropped, tuple(_told_of_imports(files)))) if dropped else Move()
        withdrawn = tuple(self._withdrawn(files))
        beside = None if withdrawn else self._beside(files)
        if isinstance(beside, Beside):
            idle = {file for file, _ in beside.idle}
            native_files = tuple(file for file in files if file not in idle)
            folded = self._native_move(native_files, self._folded_onto_native(native_files, beside))
            return replace(folded, findings=(*folded.findings, *self._kept_idle(beside)))
        known = (*known, *withdrawn, *((beside,) if isinstance(beside, Refusal) else ()))
        script = reader.read(files, known, alone="" if any(map(_calls, files)) else self._alone(files))
        script = replace(script, keeps_keys=keeps_keys)
        native = _asked_for_shim(script) if self.settings.apex is Apex.SHIM else self._to_native(script)
        if isinstance(native, Move):
            return self._native_move(files, native)
        if self.settings.apex is not Apex.SHIM:
            native = (*native, *_carried_along(files, native))
        needs_apex = any(map(has_later_wrapper, files))
        # The shim would put Apex's branches into force where the native ones run by now.
        runs_natively = self.settings.apex is not Apex.SHIM and is_native_without_apex(self.project, files)
        has_shim = self._has_shim and not needs_apex and not runs_natively
        if has_shim:
            self._on_shim.update(files)
        elif self._has_shim:
            self._left.update(files)
        instead = AN_OLD_APEX if needs_apex else NATIVE_TODAY if runs_natively else ""
        return Move((), tuple(_told_of_shim(native, has_shim=has_shim, instead=instead)))

    def _alone(self, files: Files) -> str:
        """Why files that only say what functions compute in go no native script's way; empty where they do."""
        loading = programs_with(self.project, self._files, files)
        if any(all(each in self._native for each in loaded if starts(each)) for loaded in loading):
            return ""
        shims = [each for loaded in loading for each in loaded if each in self._on_shim and starts(each)]
        for each in sorted(shims, key=lambda shim: shim.name):
            return f"what is in {seen_from(each.name, files[0].name)} is, which uses it"
        if self._native and not self._on_shim:
            return ""
        names = {amp_name(file, node) for file in files for node in cast_functions(file)}
        name = min(filter(None, names), default="disable_casts")
        return f"no script that is seen to use amp.{name} here is among the files that were given"

    def _to_native(self, script: ApexScript) -> Move | tuple[Refusal, ...]:
        """The move of a script to native AMP, or what speaks against it."""
        if script.refusals:
            return script.refusals
        initializes: list[Initialize | Refusal] = [*script.initializes]
        for seen in (with_amp_asked, made_with_object, lifted):
            initializes = [each if isinstance(each, Refusal) else seen(self.project, each) for each in initializes]
        refused = next((each for each in initializes if isinstance(each, Refusal)), None)
        if refused is not None:
            return (refused,)
        read = [each for each in initializes if isinstance(each, Initialize)]
        script = with_led_apart(self.project, script, read)
        sooner = self._made_sooner(script)
        native = self._natively(sooner)
        if isinstance(native, Refusal) and sooner is not script:
            native = self._natively(script)
        return (native,) if isinstance(native, Refusal) else native

    def _made_sooner(self, script: ApexScript) -> ApexScript:
        """A script whose scalers are made before what saves or restores them, where that can be."""
        is_scaled = self.settings.dtype is not Dtype.BF16 and not is_off(script.initializes) and not script.is_unscaled
        if _says_state(script) or not is_scaled:
            return script
        making = {each.file.tree.function(each.home) or each.file.tree.module: each for each in script.initializes}
        homes: dict[cst.CSTNode, Statement] = {scope: each.home for scope, each in making.items()}
        late: dict[Statement, set[cst.CSTNode]] = {}
        for file, optimizer in places_of_states(self.project.library):
            for home, site in early_calls(self.project, file, optimizer, homes):
                late.setdefault(home, set()).add(site.call)
        called = {home: frozenset(calls) for home, calls in late.items()}
        for home, optimizer in restored_in_front(self.project.library, homes):
            late.setdefault(home, set()).add(optimizer)
        moved = {
            each: further_up(each, late[each.home]) or further_up(each, called.get(each.home, ()))
            for each in making.values()
            if each.home in late and not may_be_set_by_calls(script.files, each)
        }
        if not any(moved.values()):
            return script
        return replace(script, initializes=tuple(moved.get(each) or each for each in script.initializes))

    def _natively(self, script: ApexScript) -> Move | Refusal:
        """The move of a script to native AMP, with scalers that are made wherever that can be."""
        native = self._decided(script)
        # Where an object cannot say what was asked for, who initializes makes the scaler, and gives it. Where it cannot
        # be said yet when the optimizer is made, the scaler is made where a helper gets that.
        for gives, late in ((True, False), (False, True)):
            if isinstance(native, Refusal) and native.reason.endswith(UNSAID):
                other = self._decided(script, gives=gives, late=late)
                native = native if isinstance(other, Refusal) else other
        return native

    def _decided(self, script: ApexScript, *, gives: bool = False, late: bool = False) -> Move | Refusal:
        """The move of a script to native AMP, with scalers that objects make, or are given with their optimizers.

        Args:
            gives: whether they are given.
            late: whether they are made where a helper gets the optimizer that initializes Apex.
        """
        sited = self._site(script, gives=gives, late=late)
        if isinstance(sited, Refusal):
            return sited
        steps, travellers = sited
        traveller, *own = travellers
        ways = traveller if steps else None
        kept = self._kept(script, travellers)

        def decide() -> NativeScript | Refusal:
            return NativeDecider(self.project, self.roles, self.wishes, script, ways, self._values).decide(steps)

        native = decide()
        if isinstance(native, NativeScript) and self._is_made_earlier(script, native, traveller, kept):
            native = decide()
        if isinstance(native, Refusal):
            return native
        beside = _with_others(native, [each.ways for each in own])
        if beside is None:
            return self._decided(_without_own(script), gives=gives, late=late)
        native = beside
        uses = self._uses(script, native, travellers, kept)
        in_loops = [each for each in script.initializes if each.file.tree.loop(each.home) is not None]
        early = ((e, [use for one in travellers for use in late_uses(one.ways, uses, e.home)]) for e in in_loops)
        moved_up = {each: further_up(each, found) for each, found in early if found}
        for each, seen in moved_up.items():
            if seen is None:
                return Refusal(each.file, each.call, "a step may come without the loop that initializes Apex")
            others = tuple(moved_up.get(one) or one for one in script.initializes)
            return self._decided(replace(script, initializes=others), gives=gives, late=late)
        self._travellers[script.files] = traveller
        edits = (*write_apex(native, self.roles, self.settings), *kept.edits)
        scaled = (each.step for each in native.steps if each.scaler is not None)
        told = (
            *_told_of_native(self.project, script, native, self.settings),
            *self._told_of_unprepared(script, native),
            *(told for step in scaled for told in told_of_scaled_gradients(self.roles, step)),
            *kept.findings,
        )
        for one in travellers:
            told += (*_told_of_dead(one), *told_of_stale(self.project, one.ways, APEX_STEP.code))
        return Move(edits, told)

    def _told_of_unprepared(self, script: ApexScript, native: NativeScript) -> Iterator[Finding]:
        """The steps of optimizers that Apex did not know, and whose gradients it left scaled for that."""
        prepared = PreparedOptimizers(self.project, script.files)
        if any(each.what != "amp.initialize" for each in script.initializes):
            return
        own = {each.home for each in native.ways.creations.values() if each.enabled is not None}
        for step in (each.step for each in native.steps if each.scaler is not None):
            for each in (one for one in step.optimizer_steps if last_word(one.call.func) == "step"):
                is_left = prepared.leaves(step.file, each.optimizer, own)
                if is_left and _is_scaled(step, each.optimizer, each.statement):
                    hint = "they are divided by it now: where its learning rate made up for that, it is too low"
                    yield _never_prepared(step.file, each, hint)
        known = {key_of(each.step) for each in native.steps}
        # What goes backward by itself has plain gradients, as far as they come of that.
        apart = [
            (file, body)
            for file in script.files
            for function, body in bodies(file)
            if (file, function) not in known and not any(backward_calls(body))
        ]
        hint = "they are under it still, if a scaled loss comes to them: let the scaler step, before its update()"
        for file, body in apart if any(each.scaler for each in native.steps) else ():
            for each in optimizer_steps(self.roles, file, body):
                if each.part is None and not each.call.args and prepared.leaves(file, each.optimizer, own):
                    yield _never_prepared(file, each, hint)

    def _is_made_earlier(self, script: ApexScript, native: NativeScript, traveller: Traveller, kept: Move) -> bool:
        """Move up the scalers that some use would find without a value; whether there are any."""
        ways = traveller.ways
        made = dict(ways.creations)
        make_first(ways, self._uses(script, native, [traveller], kept), {each.home for each in script.initializes})
        return ways.creations != made

    def _uses(
        self, script: ApexScript, native: NativeScript, travellers: Sequence[Traveller], kept: Move
    ) -> list[Edit]:
        """The edits that may name a scaler, but for those that make one."""
        uses = [*write_uses(native, self.roles, self.settings), *kept.edits]
        editor = self._editor(script.files[0], APEX_STEP.code)
        return [*uses, *(edit for each in travellers for edit in write_arguments(each.ways, editor))]

    def _kept(self, script: ApexScript, travellers: Sequence[Traveller]) -> Move:
        """What saves and restores new scalers, where the script said nothing of Apex's own state."""
        if _says_state(script):
            return Move()
        editor = self._editor(script.files[0], APEX_STEP.code)
        kept = [move for each in travellers for move in keep_in_checkpoints(self.roles, each, editor, self.wishes)]
        edits = tuple(edit for move in kept for edit in move.edits)
        return Move(edits, tuple(each for move in kept for each in move.findings))

    def _native_move(self, files: Files, move: Move) -> Move:
        """The move of a script to native AMP; where a part of it is to be left alone, the script stays, and is told."""
        unwanted = self.wishes.unwanted(move.edits)
        if unwanted is None:
            self._native.update(files)
            return move
        self._unwanted.update(files)
        file = next((each for each in files if _calls(each)), None)
        if file is None:
            return Move()
        message = f"left on Apex: {unwanted.seen_from(file.tree)}, and the script moves as a whole"
        return Move((), (Finding.at(file.tree, _calls(file)[0], APEX_ON_SHIM.code, Kind.LEFT, message),))

    def _editor(self, file: File, rule: str) -> Editor:
        return Editor(file, self.settings, rule)

    def _beside(self, files: Files) -> Beside | Refusal | None:
        """The native AMP that a script has beside Apex, where it may serve what asked for Apex."""
        if self.settings.apex is Apex.SHIM or self.settings.apex_o2 is Apex.SHIM:
            return None
        return read_beside(self.roles, files)

    def _beside_name(self, files: Files) -> Iterator[Refusal]:
        """Why files stay: their program imports `apex.amp` by a string, and trains with an Apex that still has it."""
        named = [each for each, _ in self._by_name]
        programs = [loaded_by(self.project, [each]) for each in (*self._files, *named)] if named else []
        for by, call in self._by_name:
            beside = frozenset().union(*(program for program in programs if by in program))
            for file in files if not beside.isdisjoint(files) else ():
                first = next(iter([*_calls(file), *amp_uses(file), *_imports(file)]), file.tree.module)
                line = by.tree.position(call)[0]
                reason = f"{seen_from(by.name, file.name)}:{line} imports Apex by a string, which is not followed"
                yield Refusal(file, first, reason, "import it by a statement (`from apex import amp`), and run again")
            if not beside.isdisjoint(files):
                return

    @cached_property
    def _by_name(self) -> list[tuple[File, cst.Call]]:
        """The files that import `apex.amp` by a string, each with the first call that does."""
        calls = ((file, amp_by_name(file)) for file in self.project.library.mentioning("apex"))
        return [(file, call) for file, call in calls if call is not None]

    def _withdrawn(self, files: Files) -> Iterator[Refusal]:
        """What was found of a native script when its plan was looked at."""
        by_name = {file.name: file for file in files}
        for each in self.settings.withdrawn:
            file = by_name.get(each.file) if each.code == APEX_STEP.code else None
            if file is not None:
                yield Refusal(file, next(iter(_calls(file)), file.tree.module), each.reason, each.hint)

    def _folded_onto_native(self, files: Files, beside: Beside) -> Move:
        """Let the native AMP that a script has beside Apex serve what asked for Apex."""
        edits: list[Edit] = []
        told: list[Finding] = []
        for file in files:
            plain = self._plain_beside(file)
            told += _told_of_plain(file, plain)
            edits += write_float32(self._editor(file, APEX_STEP.code), plain, NOT_SCALED)
            edits += write_beside(self._editor(file, APEX_STEP.code), beside)
            edits += drop_imports(self._editor(file, APEX_STEP.code))
        for file, statement in beside.steps:
            message = "Apex step folded onto the native AMP that the script has beside it"
            told.append(Finding.at(file.tree, statement, APEX_STEP.code, Kind.MIGRATED, message))
        for file in files:
            for call in amp_calls(file, "initialize"):
                message = "amp.initialize is gone: what asked for Apex asks for the script's own native AMP"
                told.append(Finding.at(file.tree, call, APEX_INITIALIZE.code, Kind.MIGRATED, message))
                note = "the script's own native AMP decides about its scale and casts: Apex's options are not asked"
                told.append(Finding.at(file.tree, call, APEX_LEVEL.code, Kind.NOTE, note))
                if beside.told:
                    note = f"{beside.told} chooses nothing any more: native AMP is what there is"
                    told.append(Finding.at(file.tree, call, APEX_LEVEL.code, Kind.NOTE, note))
        return Move(tuple(edits), tuple(told))

    def _plain_beside(self, file: File) -> list[Statement]:
        """The plain steps of a file in functions that have nothing of Apex or native AMP."""
        amp = set(_calls(file))
        known = [
            (file, each) for each, body in bodies(file) if names_amp(file, body) or any(c in amp for c in walk(body))
        ]
        return list(plain_steps_in(file, self.project, self.roles, known, ()))

    def _kept_idle(self, beside: Beside) -> Iterator[Finding]:
        """Keep on the shim what only the branches of Apex used: other scripts may ask for it by name."""
        if self._has_shim:
            self._on_shim.update(file for file, _ in beside.idle)
        told = (
            Refusal(file, node, f"nothing here uses {node.name.value} any more", "delete it, if nobody else does")
            for file, node in beside.idle
        )
        return _told_of_shim(told, has_shim=self._has_shim)

    def _is_on_shim(self, file: File) -> bool:
        """Whether a file belongs to a script whose steps stay on the shim, though it may not use `apex.amp` itself."""
        folders = (each.name.rpartition("/")[0] for each in self._on_shim if starts(each))
        beside = any(file.name.startswith(f"{folder}/" if folder else "") for folder in folders)
        return file in self._on_shim or (beside and file not in self._native)

    def _spare(self, script: ApexScript, site: CallSite, optimizers: list[cst.BaseExpression]) -> Lent | None:
        """What a call passes for a scaler in a program that never initializes this script, and has no state of it."""
        ways = ways_to(self.project, script.initializes, site.file, site.call)
        if not ways or not all(way.is_apart for way in ways):
            return None
        own = {self._scaler_beside(site.file, each) for each in optimizers}
        scaler = own.pop() if len(own) == 1 else None
        if scaler is not None:
            return Lent(scaler)
        lent = self._lent[script.files][site.call] = self._lent_by_others(script.files, site.call)
        return lent

    def _lent_by_others(self, files: Files, call: cst.Call) -> Lent:
        """What a call passes for a scaler of another script, as far as that has been decided."""
        native = (script for script in self._travellers if script != files and self._native.issuperset(script))
        found = (self._travellers[script].lends(call) for script in native)
        return next((each for each in found if each is not None), Lent("None", may_be_none=True))

    def _site(
        self, script: ApexScript, *, gives: bool, late: bool
    ) -> tuple[list[ScriptStep], Sequence[Traveller]] | Refusal:
        """Each step with the way of its scaler, and what knows the ways of each to other places."""
        homes: dict[cst.CSTNode, Statement] = {}
        # What prepares a model alone makes no scaler, where another call prepares the optimizer.
        stepping = [each for each in script.initializes if each.optimizers is not None]
        for initialize in stepping or script.initializes:
            tree = initialize.file.tree
            if not isinstance(initialize.home, cst.Return):
                scope = tree.function(initialize.home) or tree.module
                # The scale of the latest is that of all: it has to be said where each of them has run.
                if scope in homes and tree.block(initialize.home) not in tree.ancestors(homes[scope]):
                    return Refusal(initialize.file, initialize.call, INITIALIZED_AGAIN)
                homes[scope] = initialize.home
            for file, call in calls_of_helper(self.project, initialize) if late else ():
                homes.setdefault(file.tree.function(call) or file.tree.module, call)
        self._lent[script.files] = {}
        spare = partial(self._spare, script)
        traveller = Traveller(self.project, homes, self._values, gives=gives, spare=spare)
        if self.settings.dtype is Dtype.BF16 or is_off(script.initializes) or script.is_unscaled:
            return [ScriptStep(each, None) for each in script.all_steps], [traveller]
        own = self._own(script, homes)
        if own is not None:
            return own
        found: list[ScriptStep] = []
        for moving in script.steps:
            step = moving.gathered.step
            if moving.gathered.unscalable is not None:
                return moving.gathered.unscalable
            route = traveller.reach(step.file, [o.optimizer for o in step.optimizer_steps])
            if isinstance(route, Refusal):
                return route
            traveller.ways.add(route)
            found.append(ScriptStep(moving, route))
        for split in script.splits:
            scaled = split.scaled(self.roles, traveller.reach)
            if isinstance(scaled, Refusal):
                return scaled
            for part, way in scaled:
                if way is not None:
                    traveller.ways.add(way)
                found.append(ScriptStep(part, way))
        for function in traveller.dead.values() if not traveller.ways.creations else ():
            return lost(function.file, function.node, uncalled(function))  # a library, called from elsewhere
        return found, [traveller]

    def _own(
        self, script: ApexScript, homes: dict[cst.CSTNode, Statement]
    ) -> tuple[list[ScriptStep], Sequence[Traveller]] | None:
        """The step of a script whose optimizers have a scaler each, where Apex's state is that of none of them."""
        step = script.steps[0] if len(script.all_steps) == len(script.steps) == 1 else None
        is_asked = _says_state(script) or any(True for file in script.files for _ in scale_reads(file))
        is_asked |= any(True for file in script.files for _ in apex_state.given(file, self.project))
        if step is None or not step.gathered.own or is_asked or any(each.is_late for each in script.initializes):
            return None
        own = OwnScalers(lambda names: Traveller(self.project, homes, self._values, names=names, is_own=True))
        ways = own.routes(step.gathered.own, Traveller.reach, Ways())
        if not ways:
            return None
        found: list[ScriptStep] = []
        for part, (traveller, route) in zip(step.gathered.own, ways, strict=True):
            traveller.ways.add(route)
            gathered = replace(step.gathered, step=part, unscalable=None, own=())
            found.append(ScriptStep(replace(step, gathered=gathered, folds=() if found else step.folds), route))
        return found, [traveller for traveller, _ in ways]


def _says_state(script: ApexScript) -> bool:
    """Whether a script says something of Apex's own state, or what wraps its optimizers does."""
    says = any(True for file in script.files for name in _STATES for _ in amp_calls(file, name))
    return says or any(map(wrapper_calls, script.files))


def _without_own(script: ApexScript) -> ApexScript:
    """A script whose optimizers cannot have a scaler each."""
    steps = (replace(each, gathered=replace(each.gathered, own=())) for each in script.steps)
    return replace(script, steps=tuple(steps))


def _with_others(native: NativeScript, others: Sequence[Ways]) -> NativeScript | None:
    """A script with the scalers of its other optimizers beside that of the first; None where one is made elsewhere."""
    made = [each for ways in others for each in ways.creations.values()]
    starts = tuple(
        replace(start, others=tuple(each.target for each in made if each.home is start.initialize.home))
        for start in native.starts
    )
    homes = [each.initialize.home for each in starts if each.creation is not None]
    if any(each.home not in homes for each in made):
        return None
    return replace(native, starts=starts, others=tuple(replace(each, creations={}) for each in others))


def _scales(file: File) -> bool:
    """Whether a file trains with Apex, and saves what it reads by itself."""
    return any(True for _ in amp_calls(file, "scale_loss"))


def _carried_along(files: Files, refusals: Sequence[Refusal]) -> Iterator[Refusal]:
    """For each file of a script in which nothing stands in the way: where it does, for the whole of the script."""
    told = {each.file for each in refusals}
    for file in files:
        calls = [*_calls(file), *wrapped_receivers(file)] if any(map(wrapper_calls, files)) else _calls(file)
        if calls and file not in told:
            cause = refusals[0]
            where = f"{seen_from(cause.file.name, file.name)}:{cause.file.tree.position(cause.node)[0]}"
            yield Refusal(file, calls[0], f"what is in {where} is, and the script moves as a whole")


def _never_prepared(file: File, step: OptimizerStep, hint: str) -> Finding:
    name = file.tree.quote(step.optimizer)
    message = f"amp.initialize never prepared {name}: Apex left its gradients under the loss scale"
    return Finding.at(file.tree, step.call, APEX_LEVEL.code, Kind.NOTE, message, hint)


def _told_of_shim(refusals: Iterable[Refusal], *, has_shim: bool, instead: str = "") -> Iterator[Finding]:
    """What is said of scripts that are not native; `instead`: what follows where the shim does not serve them."""
    kind = Kind.NOTE if has_shim else Kind.LEFT
    outcome = "left as it was" if instead == NATIVE_TODAY else "left on Apex"
    outcome = "kept on amp_shim instead of native AMP" if has_shim else outcome
    for each in dict.fromkeys(refusals):
        hint = each.hint if has_shim or each.hint != USE_SHIM else instead
        yield Finding.at(each.file.tree, each.node, APEX_ON_SHIM.code, kind, f"{outcome}: {each.reason}", hint)


def _told_of_native(
    project: Project, script: ApexScript, native: NativeScript, settings: Settings
) -> Iterator[Finding]:
    for left in native.evaluation.left:
        message = f"evaluation stays in float32: {left.reason}"
        yield Finding.at(left.file.tree, left.region.first, APEX_EVALUATION.code, Kind.NOTE, message, left.hint)
    for file, name, function in () if is_off(script.initializes) else script.by_others:
        evaluation = native.evaluation
        if function is not None and function.node in {*evaluation.round_calls, *evaluation.handed}:
            continue
        where = "is in another file, and may not be this script's alone"
        message = f"evaluation stays in float32: {last_word(name)}() {where}"
        yield Finding.at(file.tree, name, APEX_EVALUATION.code, Kind.NOTE, message, REGION_ROUND_CALL)
    for each in native.steps:
        step = each.step
        if all(backward.part is not None for backward in step.backwards):
            continue
        scaler = "" if each.scaler is None else f" with {each.scaler}"
        message = f"Apex step moved to native autocast{scaler}"
        if is_off(script.initializes):
            message = "Apex step is a plain one now: opt_level O0 computed in float32, and a comment keeps it there"
        yield Finding.at(step.file.tree, step.place, APEX_STEP.code, Kind.MIGRATED, message)
        if script.is_unscaled and settings.dtype is not Dtype.BF16:
            message = "nothing scales this loss, as nothing did with Apex: small gradients become zero in float16"
            yield Finding.at(step.file.tree, step.place, APEX_LEVEL.code, Kind.NOTE, message, _UNSCALED)
        for clip in () if each.scaler is None else clips_under_scale(step):
            message = "gradients are clipped while they are scaled, as they were under amp.scale_loss"
            yield Finding.at(step.file.tree, clip, RISKY_NUMERICS.code, Kind.NOTE, message, UNSCALE_FIRST)
    for native_file in native.files:
        yield from _told_of_plain(native_file.file, native_file.plain)
        if native_file.wrapper is not None:
            yield from _told_of_wrapper(script, native_file.file, native_file.wrapper)
    for moved in () if is_off(script.initializes) else script.all_steps:
        yield from _told_of_staying(moved)
    for made in (each for each in native.ways.creations.values() if each.enabled is not None):
        outcome = "off" if made.enabled == "False" else "on where the others are"
        message = f"amp.initialize never prepares this optimizer, for which Apex raises: its scaler is {outcome}"
        yield Finding.at(made.file.tree, made.home, APEX_LEVEL.code, Kind.NOTE, message)
    yield from _told_of_limits(native)
    initializes = (*script.initializes, *script.led)
    yield from told_of_steps(project, script.files, native.steps, initializes)
    yield from _told_of_imports(tuple(file for file in script.files if not _calls(file)))
    for file in script.files:
        for node in cast_uses(file):
            note = said_of(file, node, form_of(project, file, node, settings.target_torch))
            if note:
                yield Finding.at(file.tree, node, APEX_LEVEL.code, Kind.NOTE, note)
    for initialize in initializes:
        tree, call = initialize.file.tree, initialize.call
        message = f"{initialize.what} is gone: native AMP needs no preparation of models and optimizers"
        yield Finding.at(tree, call, APEX_INITIALIZE.code, Kind.MIGRATED, message)
        for note in (each for each in initialize.notes if each != STAYED or not script.is_unscaled):
            yield Finding.at(tree, call, APEX_LEVEL.code, Kind.NOTE, note)


def _told_of_wrapper(script: ApexScript, file: File, uses: WrapperUses) -> Iterator[Finding]:
    """What answers in another way where an `FP16_Optimizer` goes, and with it a network of float16 weights."""
    for attribute, _ in uses.clips:
        call = file.tree.parents[attribute]
        if not isinstance(file.tree.parents[call], cst.Expr):
            message = "clip_master_grads gave -1 where gradients overflow: clip_grad_norm_ gives inf or NaN there"
            hint = "where the norm is compared with -1, ask torch.isfinite(norm) instead"
            yield Finding.at(file.tree, call, APEX_LEVEL.code, Kind.NOTE, message, hint)
    states = ((each, n) for each in script.files for word in _STATES for n in each.uses.get(word, ()))
    are_kept = any(isinstance(node, cst.Attribute) and not is_optimizer(each, node.value) for each, node in states)
    for call, _ in uses.networks if are_kept else ():
        prefix = KEY_PREFIXES.get(file.names.callee(call))
        if prefix is not None:
            name = last_word(call.func)
            message = f'{name} put "{prefix}" before each key of the state of its network, and is gone'
            hint = f'a checkpoint of before is loaded by {{key.removeprefix("{prefix}"): value for key, value in ...}}'
            yield Finding.at(file.tree, call, APEX_LEVEL.code, Kind.NOTE, message, hint)


def _is_scaled(step: TrainingStep, optimizer: cst.BaseExpression, at: Statement) -> bool:
    """Whether gradients of an optimizer that steps may be of a loss that Apex scales, since they were cleared last."""
    tree, path = step.file.tree, dotted(optimizer)
    own = (each for each in step.file.calls if tree.function(each) is step.function)
    clears = (each for each in own if path and dotted(each.func) == f"{path}.zero_grad")
    begin = max((tree.order[each] for each in clears if tree.order[each] < tree.order[at]), default=-1)
    since = [each for each in step.backwards if begin < tree.order[each.statement] < tree.order[at]]
    return begin < 0 or not since or any(each.context is not None or each.part is not None for each in since)


def _told_of_limits(native: NativeScript) -> Iterator[Finding]:
    """The limits of a loss scale that go: scripts which name different ones share the steps."""
    for initialize in native.scaling if any(each.scaler is not None for each in native.steps) else ():
        names = ("min_loss_scale", "max_loss_scale")
        for name, own, kept in zip(names, initialize.limits, native.limits, strict=True):
            if own is not None and kept is None and not initialize.is_static:
                message = f"{name} is gone: not all that share these steps have it, and GradScaler knows no limits"
                yield Finding.at(initialize.file.tree, initialize.call, APEX_LEVEL.code, Kind.NOTE, message)


def _told_of_plain(file: File, steps: Iterable[Statement]) -> Iterator[Finding]:
    for statement in steps:
        message = "step left in float32: Apex does not scale its loss"
        hint = "without the comment above it, a further run moves it"
        yield Finding.at(file.tree, statement, STEP_LEFT.code, Kind.LEFT, message, hint)


def _told_of_staying(step: ApexStep) -> Iterator[Finding]:
    for each in step.apart:
        message = (
            "step left in float32: Apex does not scale its loss, and the penalty in it cannot be scaled where it stands"
        )
        hint = "make the call that takes its gradients a statement of its own (`penalty = ...`)"
        yield Finding.at(step.gathered.step.file.tree, each.statement, STEP_LEFT.code, Kind.LEFT, message, hint)


def _told_of_dead(traveller: Traveller) -> Iterator[Finding]:
    for each in (function for node, function in traveller.dead.items() if node in traveller.ways.parameters):
        message = f"{uncalled(each)}: whoever calls it passes a GradScaler from now on"
        yield Finding.at(each.file.tree, each.node, APEX_LEVEL.code, Kind.NOTE, message, "delete it, if nobody does")


def _told_of_imports(files: Files) -> Iterator[Finding]:
    for file in files:
        for statement in _imports(file):
            message = "import of apex.amp is gone: no step here needs it"
            yield Finding.at(file.tree, statement, APEX_IMPORT.code, Kind.MIGRATED, message)


def _asked_for_shim(script: ApexScript) -> tuple[Refusal, ...]:
    file = script.files[0]
    place = next((i.call for i in script.initializes if i.file is file), file.tree.module)
    return (Refusal(file, place, "that was asked for"),)


def _calls(file: File) -> list[cst.Call]:
    """The calls that prepare and take Apex's training steps."""
    return [
        *wrapper_calls(file),
        *(call for name in ("initialize", "init", "scale_loss") for call in amp_calls(file, name)),
    ]


def _imports(file: File) -> list[Statement]:
    """The imports that only bring in `apex.amp`."""
    inside = (statement for _, body in bodies(file) for statement in nested_statements(body))
    return [each for each in inside if isinstance(each, (cst.Import, cst.ImportFrom)) and is_apex_import(file, each)]
