"""How an Apex script goes native: its switch and its scaler, at every place that asks for one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import TypeVar

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.catalog.apex_rules import APEX_STEP
from amp_migrate.plan.code import plain
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Dtype
from amp_migrate.steps.apex.initialize.amp_or_none import condition_of, tests_round, unsaid
from amp_migrate.steps.apex.initialize.asked_above import asked_above
from amp_migrate.steps.apex.initialize.branches import grouped
from amp_migrate.steps.apex.initialize.in_helper import is_chosen, may_be_apart, seen_below, seen_from
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.own_parameter import asked_of_parameter
from amp_migrate.steps.apex.initialize.reached import ways_to
from amp_migrate.steps.apex.initialize.switch import (
    VARIABLE,
    has_name,
    in_words_of,
    is_off,
    is_visible,
    sees,
    switch_code,
)
from amp_migrate.steps.apex.script.decide_evaluation import (
    PASS_SWITCH,
    UNASKED,
    EvaluatedInFloat32,
    Evaluation,
    EvaluationDecider,
)
from amp_migrate.steps.apex.script.hand_switch import SwitchHanding
from amp_migrate.steps.apex.script.native_script import (
    NativeFile,
    NativeScript,
    NativeStart,
    NativeStep,
    ScriptStep,
    WrapperUses,
)
from amp_migrate.steps.apex.script.prepared_steps import PreparedOptimizers, plain_steps_in, without_step_in
from amp_migrate.steps.apex.script.script_group import ApexScript
from amp_migrate.steps.apex.step.folded_branches import FoldedBranch, clip_folds, clips_apart
from amp_migrate.steps.apex.step.fp16_optimizer import copies_of_gradients, trained_networks, wrapper_attributes
from amp_migrate.steps.apex.step.master_parameters import all_parameters, parameters_of, standing_for
from amp_migrate.steps.apex.step.scaler_beside import scaler_at, scaler_of_object
from amp_migrate.steps.apex.uses import apex_state
from amp_migrate.steps.apex.uses.amp_tests import AmpTest, amp_tests, flag_tests
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.apex.uses.loss_scale import scale_reads
from amp_migrate.steps.apex.uses.norm_limits import NormLimit, limit_of, not_clipped
from amp_migrate.steps.flag.switch_route import FlagWay
from amp_migrate.steps.model.route import Creation, Route, Ways
from amp_migrate.steps.model.training_step import Region, TrainingStep
from amp_migrate.steps.read.split import key_of
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.scaler.checkpoint_entries import restored_entries, saved_entries
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Statement, find
from amp_migrate.wishes import Wishes

Place = TypeVar("Place", bound=cst.CSTNode)


INITIALIZED_AGAIN = "amp.initialize comes before this more than once, under different conditions"
UNSAID = "asks for cannot be said where the scaler would be made"


class Unsaid(Enum):
    """Why the ways to a place do not say how it asks whether mixed precision is on."""

    ALL_ALIKE = "all that initializes asks the same"
    BY_SCALER = "it depends on the way, as the scaler does"


class NativeDecider:
    """Decides about one script.

    Args:
        traveller: knows the ways of its scalers, and finds those to other places.
    """

    def __init__(
        self,
        project: Project,
        roles: Roles,
        wishes: Wishes,
        script: ApexScript,
        traveller: Traveller | None,
        values: ValueCalls,
    ) -> None:
        self._project = project
        self._roles = roles
        self._wishes = wishes
        self._dtype = wishes.settings.dtype
        self._apart = wishes.settings.clipped_apart
        self._script = script
        self._initializes = initializes = script.initializes
        self._traveller = traveller
        self._values = values
        self._is_off = is_off(initializes)
        self._is_scaled = self._dtype is not Dtype.BF16 and not self._is_off and not script.is_unscaled
        self._named: set[Initialize] = set()
        self._keeps_keys = False  # of the state that is saved
        # By functions that train and evaluate: how the switch comes to them, and what of them cannot have it.
        self._handed: dict[cst.FunctionDef, FlagWay] = {}
        self._left: list[EvaluatedInFloat32] = []
        # Initializations in helpers, by where their callers make a scaler, in the callers' words.
        self._views: dict[Statement, Initialize] = {}
        self._viewed: set[Initialize] = set()  # the same in the helpers' own words
        # Initializations of what is kept in another function, by where that makes a scaler, in its words.
        self._below: dict[Statement, Initialize] = {}
        # By where objects make scalers, those that they are given instead by who initializes what they have.
        self._outside: dict[Statement, Creation] = {}
        # By where scalers are made of optimizers that Apex never prepares: whether they scale, as code.
        self._unprepared: dict[Statement, str] = {}

    def decide(self, steps: Sequence[ScriptStep]) -> NativeScript | Refusal:
        """What becomes of all files of the script, or what still speaks against native code."""
        files = self._script.files
        refusal = self._refusal(files, steps)
        if refusal is not None:
            return refusal
        keyless = next(apex_state.without_key(files, has_scaler=self._is_scaled), None)
        by_keyword = any(True for file in files for _ in apex_state.given(file, self._project))
        if keyless is not None and (by_keyword or not self._is_scaled or not steps):
            return keyless
        self._keeps_keys = keyless is not None or self._script.keeps_keys
        limit = limit_of(files)
        if isinstance(limit, Refusal):
            return limit
        for step in (each.step.gathered.step for each in steps if limit is not None):
            refusal = None if limit is None else not_clipped(limit, step, has_scaler=self._is_scaled)
            if refusal is not None:
                return refusal
        native = tuple(self._step(each, limit) for each in steps)
        # What is registered, or cast by itself, switches nothing on: that is for whoever initializes.
        is_cast = bool(self._initializes) and not self._is_off
        evaluation = self._evaluation(native) if is_cast else None
        decided = [self._file(file, native, evaluation) for file in files]
        if evaluation is not None:  # in files which have nothing of Apex, and evaluate for the script
            decided += (NativeFile(file, *evaluation.of(file)) for file in evaluation.regions if file not in files)
        return NativeScript(native, tuple(decided), *self._starts(), evaluation=evaluation or Evaluation())

    def _refusal(self, files: Sequence[File], steps: Sequence[ScriptStep]) -> Refusal | None:
        homes = {initialize.home for initialize in self._initializes}
        known = () if self._traveller is None else self._traveller.ways.creations.values()
        creations = [each for each in known if each.given is None]
        made = {creation.home for creation in creations}
        # What is initialized where a scaler is made anyway says nothing about any other.
        stepping = [each for each in self._initializes if each.optimizers is not None]
        prepared = [each for each in stepping if each.home not in made]
        for creation in creations:
            apart = next((each for each in stepping if may_be_apart(self._project, each, creation)), None)
            if apart is not None:
                return Refusal(creation.file, creation.home, f"what {apart.what} {UNSAID}")
            if creation.home not in homes and any(
                each.switch or each.init_scale or is_chosen(self._project, each) for each in self._initializes
            ):
                views = [seen_from(self._project, each, creation) for each in prepared]
                below = [seen_below(self._project, each, creation) for each in prepared]
                if len(views) == 1 and views[0] is not None:
                    self._views[creation.home] = views[0]
                    self._viewed.update(prepared)
                elif len(below) == 1 and below[0] is not None:
                    self._below[creation.home] = below[0]
                elif self._is_never_prepared(files, creation):
                    self._unprepared[creation.home] = self._as_others(creation)
                elif len(stepping) == 1 and (seen := seen_from(self._project, stepping[0], creation)) is not None:
                    self._views[creation.home] = seen  # a helper that steps by itself hands its optimizer back
                elif (outside := self._from_outside(prepared, creation)) is not None:
                    self._outside[creation.home] = outside
                else:
                    what = next(each.what for each in self._initializes)
                    return Refusal(creation.file, creation.home, f"what {what} {UNSAID}")
        for each in steps:
            step = each.step.gathered.step
            switch = self._switch_at(step.file, step.place, each.route, is_step=True)
            if isinstance(switch, Refusal) and step.computes:
                return switch
        folds = [fold for each in steps for fold in each.step.folds]
        for file in files:
            for _, switch in self._tests(file, folds):
                if isinstance(switch, Refusal):
                    return switch
        for file in files:
            given = [call for call, _ in apex_state.given(file, self._project)]
            # Where nothing is scaled, what a checkpoint has of that is passed over.
            restored = amp_calls(file, "load_state_dict") if steps else ()
            for place in (*amp_calls(file, "state_dict"), *restored, *given, *(read for read, _ in scale_reads(file))):
                if self._is_scaled and self._scaler_at(file, place) is None:
                    return Refusal(
                        file, place, "no way for the scaler to where Apex's state is saved, restored or read"
                    )
            for read in (*given, *(read for read, _ in scale_reads(file))):
                if self._may_be_none(file, read):
                    return Refusal(file, read, "the loss scale is asked for where some callers have none")
        return None

    def _from_outside(self, prepared: Sequence[Initialize], creation: Creation) -> Creation | None:
        """The scaler that an object is given in the place of its own by whoever initializes what it has.

        Its own scales nothing until then, and is handed to nobody before.
        """
        initialize = prepared[0] if len(prepared) == 1 else None
        if initialize is None or initialize.optimizers is None or self._traveller is None:
            return None
        tree, made = creation.file.tree, self._traveller.ways.arguments.values()
        owner = tree.owner_class(creation.home)
        holder = self._traveller.holder_of(initialize.file, initialize.optimizers)
        is_handed_on = any(tree.function(each.site.call) is tree.function(creation.home) for each in made)
        if owner is None or holder is None or holder[1] != (creation.file, owner) or is_handed_on:
            return None
        return Creation(initialize.file, initialize.home, f"{holder[0]}.{creation.target.removeprefix('self.')}")

    def _is_never_prepared(self, files: Sequence[File], creation: Creation) -> bool:
        """Whether Apex knows nothing of an optimizer that is made here: where mixed precision is on, it raises."""
        of_levels = all(each.what == "amp.initialize" for each in self._initializes)
        return of_levels and PreparedOptimizers(self._project, files).never(creation)

    def _as_others(self, creation: Creation) -> str:
        """Whether the scaler of an optimizer that Apex never prepares is on: as the others, where that can be said."""
        switches = {switch_code(each) or "True" for each in self._initializes}
        is_said = all(
            each.init_scale is None and is_visible(self._project, each, creation.file, creation.home)
            for each in self._initializes
        )
        return switches.pop() if is_said and len(switches) == 1 else "False"

    def _step(self, each: ScriptStep, limit: NormLimit | None) -> NativeStep:
        step = each.step.gathered.step
        switch = self._switch_at(step.file, step.place, each.route, is_step=True)
        enabled = None if switch is None or isinstance(switch, Refusal) else self._without_scaler(step, switch)
        scaler = None if each.route is None else each.route.scaler
        moved = step.in_float32 if self._is_off else replace(step, enabled=None if enabled is None else plain(enabled))
        code, is_elsewhere = (None, False) if limit is None else (limit.code, not limit.is_made_beside(step))
        return NativeStep(moved, each.step.folds, scaler, code, is_elsewhere)

    def _without_scaler(self, step: TrainingStep, switch: str) -> str:
        """How a step asks for mixed precision whose forward evaluates, too, where callers have no optimizer."""
        scaler, _, asked = switch.partition(".is_enabled()")
        lacking = next((each for each in step.regions if self._may_lack(step, each, scaler)), None)
        if asked or scaler == switch or lacking is None or step.function is None:
            return switch
        way = self._handing.into(step.file, step.function)
        if isinstance(way, FlagWay):
            self._handed[step.function] = way
            return way.code
        self._left.append(EvaluatedInFloat32(step.file, lacking, UNASKED, PASS_SWITCH).since(way))
        return f"{scaler} is not None and {switch}"

    def _may_lack(self, step: TrainingStep, region: Region, scaler: str) -> bool:
        return self._traveller is not None and self._traveller.may_be_none(step.file, region.first, scaler)

    def _file(
        self,
        file: File,
        steps: Sequence[NativeStep],
        evaluation: Evaluation | None,
    ) -> NativeFile:
        evaluated, islands = ((), ()) if evaluation is None else evaluation.of(file)
        reads = dict(scale_reads(file))
        folds = [fold for each in steps for fold in each.folds]
        apart = [
            fold for _, body in bodies(file) for fold in clip_folds(file, body, {}, self._apart) if fold not in folds
        ]
        folds += apart
        dead = [fold.dead for fold in folds]
        restored = self._with_scalers(file, amp_calls(file, "load_state_dict"))
        saved = self._with_scalers(file, (c for c in amp_calls(file, "state_dict") if c not in reads.values()))
        tests = ((test, switch) for test, switch in self._tests(file, folds) if not isinstance(switch, Refusal))
        return NativeFile(
            file,
            evaluated,
            islands,
            folds=tuple(apart),
            tests=tuple(tests),
            reads=self._with_scalers(file, reads),
            saved=saved,
            restored=restored,
            spared=frozenset(call for call, _ in (*saved, *restored) if self._may_be_none(file, call)),
            keeps_keys=self._keeps_keys,
            given=tuple((*each, self._scaler_at(file, each[0])) for each in apex_state.given(file, self._project)),
            parameters=tuple(self._parameters(file, dead)),
            plain=tuple(plain_steps_in(file, self._project, self._roles, [key_of(each.step) for each in steps], dead)),
            wrapper=self._wrapper(file) if any(i.what == "FP16_Optimizer" for i in self._initializes) else None,
        )

    def _evaluation(self, steps: Sequence[NativeStep]) -> Evaluation:
        script = self._script
        moved = [each.step for each in steps]
        left = (each.loss for step in script.all_steps for each in step.apart)
        staying = frozenset[Statement]().union(*left, *(step.native for step in script.all_steps))
        decider = EvaluationDecider(
            self._roles, self._initializes, moved, self._switch_at, self._among, staying, self._handing, self._values
        )
        found = decider.decide(script.shared, has_round_calls=script.has_round_calls)
        known = [key_of(each) for each in moved]
        plain = {file: without_step_in(file, self._project, self._roles, known) for file in script.files}
        apart = [each for file, functions in plain.items() for each in decider.with_gradients(file, functions)]
        return replace(found, left=(*self._left, *found.left, *apart), handed={**self._handed, **found.handed})

    @property
    def _among(self) -> dict[File, Collection[cst.FunctionDef] | None]:
        """The files of the script with the functions in them that evaluate for it; None for the whole file."""
        return {**dict.fromkeys(self._script.files), **self._script.evaluated}

    @cached_property
    def _handing(self) -> SwitchHanding:
        return SwitchHanding(self._project, self._initializes, self._switch_at, self._among, self._may_change)

    def _may_change(self, file: File, node: cst.CSTNode) -> bool:
        return self._wishes.wants(file.tree, node, APEX_STEP.code)

    def _tests(self, file: File, folds: Iterable[FoldedBranch]) -> Iterator[tuple[AmpTest, str | Refusal | None]]:
        """The tests of whether `apex.amp` is there, but for those of folded branches, with the switch that they ask."""
        gone = {fold.statement.test for fold in folds if fold.statement in file.tree.parents}
        homes: list[cst.CSTNode] = [each.home for each in self._initializes if each.replaces_home]
        starting = [each for each in self._initializes if each.file is file]
        deciding = {test.node: each for each in starting for test in tests_round(each)}
        for test in amp_tests(file):
            around = {test.node, *file.tree.ancestors(test.node)}
            if around.isdisjoint(gone):
                if not test.is_switch:
                    if around.isdisjoint(homes):
                        homes.append(test.node)  # another name in it is answered with it
                        yield test, None
                elif test.node not in deciding:
                    yield test, self._switch_at(file, test.node)
                elif around.isdisjoint(homes):
                    yield test, self._decided(file, test, deciding[test.node])
        kept = {*amp_calls(file, "state_dict"), *amp_calls(file, "load_state_dict")}
        yield from ((test, None) for test in flag_tests(file, kept))

    def _decided(self, file: File, test: AmpTest, initialize: Initialize) -> str | Refusal | None:
        """How a test of `apex.amp` that decides about what initializes asks what decides about that itself."""
        parts = condition_of(self._project, initialize, test)
        if parts is None:
            return unsaid(file, test)
        return " and ".join(map(grouped, parts)) or None

    def _starts(self) -> tuple[tuple[NativeStart, ...], tuple[NativeStart, ...], Ways]:
        """What becomes of each initialization, what callers of helpers do instead, and the other ways of scalers."""
        ways = Ways() if self._traveller is None else self._traveller.ways
        made = (self._outside.get(creation.home, creation) for creation in ways.creations.values())
        creations = {creation.home: creation for creation in made}
        apart = {**self._views, **self._below}
        in_callers = tuple(
            NativeStart(apart[each.home], each, is_named=True) for each in ways.creations.values() if each.home in apart
        )
        starts = tuple(  # two calls under one condition share a scaler
            NativeStart(each, creations.pop(each.home, None), is_named=each in self._named)
            for each in self._initializes
        )
        starts += tuple(NativeStart(each, None, is_named=False) for each in self._script.led)
        taken = {*apart, *(each.home for each in self._initializes)}
        others = {
            key: replace(made, enabled=self._unprepared.get(made.home), arguments=self._arguments(made))
            for key, made in ways.creations.items()
            if made.home not in taken
        }
        return starts, in_callers, replace(ways, creations=others)

    def _arguments(self, creation: Creation) -> tuple[str, ...]:
        """What a scaler is made with that does not stand for what initializes."""
        return ("enabled=False",) if creation.home in self._outside else creation.arguments

    def _switch_at(
        self, file: File, at: cst.CSTNode, route: Route | None = None, *, is_step: bool = False
    ) -> str | Refusal | None:
        """How a place asks whether mixed precision is on: None where it always is."""
        switch = self._switch_by_script(file, at, route, is_step=is_step)
        if is_step or not isinstance(switch, Refusal):
            return switch
        own = asked_of_parameter(self._project, self._initializes, file, at)
        return own or asked_above(self._project, self._initializes, file, at) or switch

    def _switch_by_script(
        self, file: File, at: cst.CSTNode, route: Route | None, *, is_step: bool
    ) -> str | Refusal | None:
        """The same by what is initialized on the ways to it, and by the scaler that it has."""
        # What a caller decides is not to be seen in the helper, whose own condition is a part of the caller's.
        own = (each for each in self._initializes if each not in self._viewed)
        known = (*self._views.values(), *own, *self._below.values())
        switched = [initialize for initialize in known if switch_code(initialize) is not None]
        is_late = any(initialize.is_late for initialize in known)
        if not is_late and not self._is_off:
            decided = self._reached(known, file, at, is_step=is_step)
            if not isinstance(decided, Unsaid):
                return decided
            if decided is Unsaid.ALL_ALIKE and not switched:
                return None
            switched = switched if decided is Unsaid.ALL_ALIKE else []
        elif not switched and not is_late:
            return None
        seen = [i for i in switched if not is_late and is_visible(self._project, i, file, at)]
        if seen:
            return self._written(next((i for i in seen if sees(i, file, at)), seen[0]), file, at)
        scaler = self._scaler_at(file, at, for_nobody=False) if route is None else route.scaler
        is_lacking = scaler is not None and not is_step and self._may_be_none(file, at)
        # Beside bfloat16 a scaler is off where the region is not.
        if scaler is not None and not is_lacking and self._dtype is Dtype.FP16:
            return f"{scaler}.is_enabled()"
        others = (in_words_of(self._project, each, file, at) for each in switched if not is_late)
        said = next((each for each in others if each is not None), None)
        if said is None and self._traveller is not None and not is_step and self._dtype is Dtype.FP16:
            held = scaler_of_object(self._traveller, file, at)
            said = None if held is None else f"{held}.is_enabled()"
        return said or Refusal(file, at, UNASKED)

    def _reached(
        self, known: Sequence[Initialize], file: File, at: cst.CSTNode, *, is_step: bool
    ) -> str | Refusal | Unsaid | None:
        """How a place asks for mixed precision, by what has been initialized on the ways to it.

        A step asks what its scaler asks; an evaluation need not ask again what is asked round it and what initializes.
        """
        are_alike = len({switch_code(each) for each in known}) <= 1
        if are_alike and is_step:
            return Unsaid.ALL_ALIKE
        ways = ways_to(self._project, known, file, at) or ()
        if are_alike:  # where no initialization comes before by some way, it is in float32 by that
            return Refusal(file, at, UNASKED) if any(each.may_be_plain for each in ways) else Unsaid.ALL_ALIKE
        if is_step:  # which needs Apex: what goes another way than all that initializes does not get here
            ways = [each for each in ways if not each.is_apart]
        elif ways and all(any(switch_code(i) is None for i in each.before) for each in ways):
            return None  # whatever else is initialized
        reaching = [(*each.asked, *each.doubtful) for each in ways] or [tuple(known)]
        certain = [each.asked for each in ways]
        if any(_differ(each) for each in certain) or any(_differ(each) and not _all_step(each) for each in reaching):
            return Refusal(file, at, INITIALIZED_AGAIN)
        found = [i for each in ways for i in (each.asked if is_step else each.before)]
        if found and not _differ(found) and all(each.before and not each.doubtful for each in ways):
            if switch_code(found[0]) in (None, "False"):
                return switch_code(found[0])
            if all(is_visible(self._project, each, file, at) for each in found):
                return self._written(found[0], file, at)
            return Unsaid.BY_SCALER
        has_scaler = all(each and _all_step(each) for each in reaching)
        return Unsaid.BY_SCALER if is_step or has_scaler else Refusal(file, at, UNASKED)

    def _written(self, initialize: Initialize, file: File, at: cst.CSTNode) -> str:
        """The condition of an initialization at a place that sees what it is made of: by its name, where it is long."""
        switch = switch_code(initialize)
        assert switch is not None
        if not has_name(initialize) or not sees(initialize, file, at):
            return switch
        if initialize not in (*self._initializes, *self._views.values(), *self._below.values()):
            return switch
        self._named.add(initialize)
        return VARIABLE

    def _scaler_at(self, file: File, place: cst.CSTNode, *, for_nobody: bool = True) -> str | None:
        if self._traveller is None or not self._is_scaled:
            return None
        return scaler_at(self._traveller, file, place, for_nobody=for_nobody)

    def _may_be_none(self, file: File, place: cst.CSTNode) -> bool:
        """Whether the scaler at a place is one that float32 callers may do without."""
        scaler = self._scaler_at(file, place)
        return self._traveller is not None and scaler is not None and self._traveller.may_be_none(file, place, scaler)

    def _with_scalers(self, file: File, places: Iterable[Place]) -> tuple[tuple[Place, str | None], ...]:
        return tuple((place, self._scaler_at(file, place)) for place in places)

    def _parameters(self, file: File, dead: Iterable[cst.CSTNode]) -> Iterator[tuple[cst.BaseExpression, str]]:
        gone = {call for block in dead for call in find(block, cst.Call)}
        for call in amp_calls(file, "master_params"):
            if call not in gone and call.args:
                optimizer = call.args[0].value
                around = (each for each in file.tree.ancestors(call) if isinstance(each, cst.If))
                is_apart = any(clips_apart(file, each, self._apart) for each in around)
                named = all_parameters(file, optimizer) if is_apart else None
                given = named or parameters_of(self._project, self._roles, file, optimizer)
                yield standing_for(file, call, given), given

    def _wrapper(self, file: File) -> WrapperUses:
        attributes = list(wrapper_attributes(file, self._roles))
        called = [each for each in attributes if _is_called(file, each[1])]
        clips = [(each, optimizer) for optimizer, each in called if each.attr.value == "clip_master_grads"]
        return WrapperUses(
            scales=self._with_scalers(file, (each for _, each in attributes if each.attr.value == "loss_scale")),
            clips=tuple((each, parameters_of(self._project, self._roles, file, owner)) for each, owner in clips),
            zeroed=tuple(each for _, each in called if each.attr.value == "zero_grad"),
            inner=tuple((each, owner) for owner, each in attributes if each.attr.value == "optimizer"),
            copied=tuple(copies_of_gradients(file, self._roles)),
            networks=tuple(trained_networks(file, self._roles)),
            saved=tuple((each, self._scaler_at(file, each.holder)) for each in saved_entries(file)),
            restored=tuple((each, self._scaler_at(file, each.statement)) for each in restored_entries(file)),
        )


def _is_called(file: File, attribute: cst.Attribute) -> bool:
    call = file.tree.parents[attribute]
    return isinstance(call, cst.Call) and call.func is attribute


def _differ(initializes: Iterable[Initialize]) -> bool:
    return len({switch_code(each) for each in initializes}) > 1


def _all_step(initializes: Iterable[Initialize]) -> bool:
    """Whether all of them prepare optimizers, and have scalers for that."""
    return all(each.optimizers is not None for each in initializes)
