"""Writes an Apex script as native AMP, once it is known that all of it can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_STEP
from amp_migrate.plan.code import Code, code, listed, plain
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Dtype, Settings
from amp_migrate.steps.apex.initialize.in_helper import is_chosen, seen_from
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.switch import VARIABLE, is_short, is_visible, switch_code
from amp_migrate.steps.apex.script.write_fp16_optimizer import write_wrapped
from amp_migrate.steps.apex.step.apex_steps import ApexStep
from amp_migrate.steps.apex.step.master_parameters import parameters_of
from amp_migrate.steps.apex.step.scaler_beside import scaler_at
from amp_migrate.steps.apex.uses import apex_state
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.apex.uses.apex_guards import drop_imports
from amp_migrate.steps.apex.uses.cast_functions import write_functions
from amp_migrate.steps.apex.uses.loss_scale import scale_reads, write_read
from amp_migrate.steps.model.route import Creation, Route
from amp_migrate.steps.model.training_step import Region
from amp_migrate.steps.outputs.region_outputs import cast_outputs
from amp_migrate.steps.regions.evaluation import evaluation_regions
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.steps.write.write_route import write_ways
from amp_migrate.steps.write.write_step import write_island, write_region, write_step
from amp_migrate.trees.nodes import Statement, find
from amp_migrate.write.editor import Editor


@dataclass(frozen=True)
class Sited:
    """A step with the way of its scaler; no way where it goes without one."""

    step: ApexStep
    route: Route | None
    traveller: Traveller


class ApexWriter:
    """Says what becomes of one group of files.

    Attributes:
        left_in_float32: evaluation forwards that cannot ask whether mixed precision is on.
    """

    def __init__(self, project: Project, roles: Roles, settings: Settings) -> None:
        self.project = project
        self.roles = roles
        self.settings = settings
        self.dtype = settings.dtype
        self.left_in_float32: list[tuple[File, Region]] = []
        self._named_switches: set[Initialize] = set()
        # Initializations in helpers, by where their callers make a scaler, in the callers' words.
        self._views: dict[Statement, Initialize] = {}

    def _editor(self, file: File) -> Editor:
        return Editor(file, self.settings, APEX_STEP.code)

    def refusal(
        self, files: Sequence[File], initializes: Sequence[Initialize], sited: Sequence[Sited]
    ) -> Refusal | None:
        """What still speaks against native code, now that the ways are known."""
        traveller = sited[0].traveller if sited else None
        homes = {initialize.home for initialize in initializes}
        prepared = [each for each in initializes if each.optimizers is not None]
        for creation in () if traveller is None else traveller.ways.creations.values():
            if creation.home not in homes and any(
                each.switch or each.init_scale or is_chosen(self.project, each) for each in initializes
            ):
                views = [seen_from(self.project, each, creation) for each in prepared]
                if len(views) != 1 or views[0] is None:
                    reason = "amp.initialize is not called where the optimizer is made"
                    return Refusal(creation.file, creation.home, reason)
                self._views[creation.home] = views[0]
        for each in sited:
            step = each.step.gathered.step
            switch = self._switch_at(initializes, step.file, step.place, each.traveller, each.route)
            if isinstance(switch, Refusal) and step.computes:
                return switch
        for file in files:
            given = (call for call, _ in apex_state.given(file, self.project))
            saved = (*amp_calls(file, "state_dict"), *amp_calls(file, "load_state_dict"), *given)
            for place in (*saved, *(read for read, _ in scale_reads(file))):
                if self.dtype is not Dtype.BF16 and self._scaler_at(file, place, traveller) is None:
                    return Refusal(
                        file, place, "no way for the scaler to where Apex's state is saved, restored or read"
                    )
        return None

    def edits(self, files: Sequence[File], initializes: Sequence[Initialize], sited: Sequence[Sited]) -> Iterator[Edit]:
        """All that changes."""
        traveller = sited[0].traveller if sited else None
        for each in sited:
            yield from self._step(initializes, each)
        steps = [each.step.gathered.step for each in sited]
        for file in files:
            editor = self._editor(file)
            mine = [step for step in steps if step.file is file]
            regions = [region for step in mine for region in step.regions]
            placed = evaluation_regions(file, self.roles, mine)
            for region, enabled in self._evaluated(file, placed.regions, initializes, traveller):
                regions.append(region)
                yield write_region(editor, region, self.dtype, enabled)
            for island in placed.islands:
                yield from write_island(editor, island)
            yield from cast_outputs(editor, file, self.roles, regions, self.dtype)
            yield from self._checkpoints(file, traveller)
            yield from self._master_params(file, [fold.dead for s in sited for fold in s.step.folds])
            yield from write_functions(editor)
            if any(initialize.what == "FP16_Optimizer" for initialize in initializes):
                yield from self._wrapped(file, traveller)
            yield from drop_imports(editor)
        made = () if traveller is None else traveller.ways.creations.values()
        creations = {creation.home: creation for creation in made}
        for initialize in initializes:  # two calls under one condition share a scaler
            yield from self._initialize(initialize, creations.pop(initialize.home, None))
        if traveller is not None:
            ways = traveller.ways
            for creation in ways.creations.values():
                if creation.home in self._views:
                    lines = self._scaler_lines(self._views[creation.home], creation)
                    yield self._editor(creation.file).after(creation.home, *lines)
            taken = {*self._views, *(initialize.home for initialize in initializes)}
            ways.creations = {key: made for key, made in ways.creations.items() if made.home not in taken}
            yield from write_ways(ways, self._editor(files[0]), self.dtype)

    def _step(self, initializes: Sequence[Initialize], each: Sited) -> Iterator[Edit]:
        step = each.step.gathered.step
        editor = self._editor(step.file)
        switch = self._switch_at(initializes, step.file, step.place, each.traveller, each.route)
        enabled = None if switch is None or isinstance(switch, Refusal) else plain(switch)
        scaler = None if each.route is None else each.route.scaler
        yield from write_step(editor, replace(step, enabled=enabled), self.dtype, scaler)
        for fold in each.step.folds:
            yield editor.splice(fold.statement, fold.live)

    def _switch_at(
        self,
        initializes: Sequence[Initialize],
        file: File,
        at: cst.CSTNode,
        traveller: Traveller | None,
        route: Route | None = None,
    ) -> str | Refusal | None:
        """How a place asks whether mixed precision is on: None where it always is."""
        # What a caller decides is not to be seen in the helper, whose own condition is a part of the caller's.
        known = (*self._views.values(), *(i for i in initializes if not self._views or i.optimizers is None))
        switched = [initialize for initialize in known if switch_code(initialize) is not None]
        if not switched:
            return None
        initialize = next((i for i in switched if is_visible(self.project, i, file, at)), None)
        if initialize is not None:
            switch = switch_code(initialize)
            assert switch is not None
            if is_short(switch) or file is not initialize.file or not _sees(initialize, file, at):
                return switch
            self._named_switches.add(initialize)
            return VARIABLE
        scaler = self._scaler_at(file, at, traveller) if route is None else route.scaler
        if scaler is not None and self.dtype is Dtype.FP16:  # elsewhere it is off where the region is bfloat16
            return f"{scaler}.is_enabled()"
        return Refusal(file, at, "whether mixed precision is on cannot be asked here")

    def _initialize(self, initialize: Initialize, creation: Creation | None) -> Iterator[Edit]:
        editor = Editor(initialize.file, self.settings, APEX_INITIALIZE.code)
        lines = self._scaler_lines(initialize, creation)
        if initialize.setting is not None:
            yield editor.remove(initialize.setting)
        if initialize.replaces_home:
            yield editor.substitute(initialize.home, *initialize.rebinds, *lines)
        else:
            yield editor.substitute(initialize.statement, *initialize.rebinds)
            if lines:
                yield editor.before(initialize.home, *lines)  # what else stands in the `if` may use the scaler

    def _scaler_lines(self, initialize: Initialize, creation: Creation | None) -> list[Code]:
        """The lines that make a scaler, and give the script's switch a name where it is long."""
        editor, home = self._editor(initialize.file), initialize.home
        lines: list[Code] = []
        switch = switch_code(initialize)
        if switch is not None and not is_short(switch) and (creation is not None or initialize in self._named_switches):
            lines.append(plain(f"{VARIABLE} = {switch}"))
            switch = VARIABLE
        if creation is not None:
            conditions = [] if switch is None else [plain(switch)]
            if self.dtype is Dtype.AUTO:
                conditions.append(editor.is_float16(home))
            arguments = [] if initialize.init_scale is None else [plain(f"init_scale={initialize.init_scale}")]
            arguments += [code("enabled={}", listed(conditions, " and "))] if conditions else []
            lines.append(code("{} = {}", creation.target, editor.new_scaler(home, arguments)))
        return lines

    def _evaluated(
        self, file: File, regions: Sequence[Region], initializes: Sequence[Initialize], traveller: Traveller | None
    ) -> Iterator[tuple[Region, Code | None]]:
        """The regions of evaluation with their switch: Apex patched the process, so that it ran in mixed precision."""
        for region in regions:
            switch = self._switch_at(initializes, file, region.first, traveller)
            if isinstance(switch, Refusal):
                self.left_in_float32.append((file, region))
            else:
                yield region, None if switch is None else plain(switch)

    def _checkpoints(self, file: File, traveller: Traveller | None) -> Iterator[Edit]:
        editor = self._editor(file)
        reads = dict(scale_reads(file))
        for read in reads:
            yield write_read(editor, read, self._scaler_at(file, read, traveller))
        for call in (each for each in amp_calls(file, "state_dict") if each not in reads.values()):
            yield from apex_state.write_saved(editor, call, self._scaler_at(file, call, traveller))
        for call in amp_calls(file, "load_state_dict"):
            yield from apex_state.write_restored(editor, call, self._scaler_at(file, call, traveller))
        for call, index in apex_state.given(file, self.project):
            yield from apex_state.write_given(editor, call, index, self._scaler_at(file, call, traveller))

    def _wrapped(self, file: File, traveller: Traveller | None) -> Iterator[Edit]:
        return write_wrapped(
            self._editor(file),
            self.roles,
            lambda place: self._scaler_at(file, place, traveller),
            lambda optimizer: parameters_of(self.project, self.roles, file, optimizer),
        )

    def _scaler_at(self, file: File, place: cst.CSTNode, traveller: Traveller | None) -> str | None:
        if traveller is None or self.dtype is Dtype.BF16:
            return None
        return scaler_at(traveller, self.roles, file, place)

    def _master_params(self, file: File, dead: Iterable[cst.CSTNode]) -> Iterator[Edit]:
        gone = {call for block in dead for call in find(block, cst.Call)}
        for call in amp_calls(file, "master_params"):
            if call not in gone and call.args:
                parameters = parameters_of(self.project, self.roles, file, call.args[0].value)
                yield self._editor(file).replace(call, parameters)


def _sees(initialize: Initialize, file: File, at: cst.CSTNode) -> bool:
    home, scope = file.scopes.of(initialize.home), file.scopes.of(at)
    while scope is not home and scope.parent is not None:
        scope = scope.parent
    return scope is home
