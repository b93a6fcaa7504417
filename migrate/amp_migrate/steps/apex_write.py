"""Writes an Apex script as native AMP, once it is known that all of it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.settings import Dtype
from amp_migrate.steps import apex_checkpoints
from amp_migrate.steps.apex_calls import amp_calls
from amp_migrate.steps.apex_functions import write_functions
from amp_migrate.steps.apex_guards import drop_imports
from amp_migrate.steps.apex_helper import is_chosen, seen_from
from amp_migrate.steps.apex_initialize import Initialize
from amp_migrate.steps.apex_parameters import parameters_of
from amp_migrate.steps.apex_scale import scale_reads, write_read
from amp_migrate.steps.apex_scalers import scaler_at
from amp_migrate.steps.apex_switch import VARIABLE, is_short, is_visible, switch_code
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.evaluation import evaluation_regions
from amp_migrate.steps.model import Refusal, Region, TrainingStep
from amp_migrate.steps.read_apex import ApexStep
from amp_migrate.steps.region_outputs import cast_outputs
from amp_migrate.steps.travel import Traveller
from amp_migrate.steps.ways import Creation, Route
from amp_migrate.steps.write_fp16 import write_wrapped
from amp_migrate.steps.write_native import write_island, write_region, write_step
from amp_migrate.steps.write_ways import write_ways
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Line, Statement, find


@dataclass(frozen=True)
class Sited:
    """A step with the way of its scaler; no way where it goes without one."""

    step: ApexStep
    route: Route | None
    traveller: Traveller


class ApexWriter:
    """Writes one group of files.

    Attributes:
        left_in_float32: evaluation forwards that cannot ask whether mixed precision is on.
    """

    def __init__(self, project: Project, roles: Roles, dtype: Dtype, draft_of: Callable[[File], Draft]) -> None:
        self.project = project
        self.roles = roles
        self.dtype = dtype
        self.draft = draft_of
        self.left_in_float32: list[tuple[File, Region]] = []
        self._named_switches: set[Initialize] = set()
        # Initializations in helpers, by where their callers make a scaler, in the callers' words.
        self._views: dict[Statement, Initialize] = {}

    def refusal(self, files: list[File], initializes: list[Initialize], sited: list[Sited]) -> Refusal | None:
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
            code = self._switch_at(initializes, step.file, step.place, each.traveller, each.route)
            if isinstance(code, Refusal) and step.computes:
                return code
        for file in files:
            given = (call for call, _ in apex_checkpoints.given(file, self.project))
            saved = (*amp_calls(file, "state_dict"), *amp_calls(file, "load_state_dict"), *given)
            for place in (*saved, *(read for read, _ in scale_reads(file))):
                if self.dtype is not Dtype.BF16 and self._scaler_at(file, place, traveller) is None:
                    return Refusal(
                        file, place, "no way for the scaler to where Apex's state is saved, restored or read"
                    )
        return None

    def write(self, files: list[File], initializes: list[Initialize], sited: list[Sited]) -> None:
        """Write everything."""
        traveller = sited[0].traveller if sited else None
        for each in sited:
            self._write_step(initializes, each)
        steps = [each.step.gathered.step for each in sited]
        for file in files:
            mine = [step for step in steps if step.file is file]
            regions = [region for step in mine for region in step.regions]
            regions += self._write_evaluation(file, initializes, mine, traveller)
            cast_outputs(self.draft, file, self.roles, regions, self.dtype)
            self._write_checkpoints(file, traveller)
            self._write_master_params(file, [fold.dead for s in sited for fold in s.step.folds])
            write_functions(self.draft(file))
            if any(initialize.what == "FP16_Optimizer" for initialize in initializes):
                self._write_wrapped(file, traveller)
            drop_imports(self.draft(file))
        made = () if traveller is None else traveller.ways.creations.values()
        creations = {creation.home: creation for creation in made}
        for initialize in initializes:  # two calls under one condition share a scaler
            self._write_initialize(initialize, creations.pop(initialize.home, None))
        if traveller is not None:
            ways = traveller.ways
            for creation in ways.creations.values():
                if creation.home in self._views:
                    lines = self._scaler_lines(self._views[creation.home], creation)
                    self.draft(creation.file).edits.after(creation.home, *lines)
            taken = {*self._views, *(initialize.home for initialize in initializes)}
            ways.creations = {key: made for key, made in ways.creations.items() if made.home not in taken}
            write_ways(ways, self.draft, self.dtype, {})

    def _write_step(self, initializes: list[Initialize], each: Sited) -> None:
        step = each.step.gathered.step
        draft = self.draft(step.file)
        code = self._switch_at(initializes, step.file, step.place, each.traveller, each.route)
        enabled = None if code is None or isinstance(code, Refusal) else build.expression(code)
        write_step(draft, replace(step, enabled=enabled), self.dtype, None if each.route is None else each.route.scaler)
        for fold in each.step.folds:
            draft.edits.splice(fold.statement, fold.live)

    def _switch_at(
        self,
        initializes: list[Initialize],
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
            code = switch_code(initialize)
            assert code is not None
            if is_short(code) or file is not initialize.file or not _sees(initialize, file, at):
                return code
            self._named_switches.add(initialize)
            return VARIABLE
        scaler = self._scaler_at(file, at, traveller) if route is None else route.scaler
        if scaler is not None and self.dtype is Dtype.FP16:  # elsewhere it is off where the region is bfloat16
            return f"{scaler}.is_enabled()"
        return Refusal(file, at, "whether mixed precision is on cannot be asked here")

    def _write_initialize(self, initialize: Initialize, creation: Creation | None) -> None:
        draft = self.draft(initialize.file)
        rebinds = [draft.line(each) for each in initialize.rebinds]
        lines = self._scaler_lines(initialize, creation)
        if initialize.setting is not None:
            draft.edits.substitute(initialize.setting)
        if initialize.replaces_home:
            draft.edits.substitute(initialize.home, *rebinds, *lines)
        else:
            draft.edits.substitute(initialize.statement, *rebinds)
            draft.edits.before(initialize.home, *lines)  # what else stands in the `if` may use the scaler

    def _scaler_lines(self, initialize: Initialize, creation: Creation | None) -> list[Line]:
        """The lines that make a scaler, and give the script's switch a name where it is long."""
        draft, home = self.draft(initialize.file), initialize.home
        lines: list[Line] = []
        code = switch_code(initialize)
        if code is not None and not is_short(code) and (creation is not None or initialize in self._named_switches):
            lines.append(draft.line(f"{VARIABLE} = {code}"))
            code = VARIABLE
        if creation is not None:
            enabled = [] if code is None else [code]
            if self.dtype is Dtype.AUTO:
                enabled.append(f"{draft.dtype(self.dtype, home)} == {draft.torch(home)}.float16")
            arguments = [] if initialize.init_scale is None else [f"init_scale={initialize.init_scale}"]
            arguments += [f"enabled={' and '.join(enabled)}"] if enabled else []
            lines.append(draft.line(f"{creation.target} = {draft.new_scaler(home, *arguments)}"))
        return lines

    def _write_evaluation(
        self, file: File, initializes: list[Initialize], steps: list[TrainingStep], traveller: Traveller | None
    ) -> Iterator[Region]:
        """The regions of evaluation: Apex patched the process, so that it ran in mixed precision too."""
        draft = self.draft(file)
        placed = evaluation_regions(file, self.roles, steps)
        for region in placed.regions:
            code = self._switch_at(initializes, file, region.first, traveller)
            if isinstance(code, Refusal):
                self.left_in_float32.append((file, region))
            else:
                write_region(draft, region, self.dtype, None if code is None else build.expression(code))
                yield region
        for island in placed.islands:
            write_island(draft, island)

    def _write_checkpoints(self, file: File, traveller: Traveller | None) -> None:
        draft = self.draft(file)
        reads = dict(scale_reads(file))
        for read in reads:
            write_read(draft, read, self._scaler_at(file, read, traveller))
        for call in (each for each in amp_calls(file, "state_dict") if each not in reads.values()):
            apex_checkpoints.write_saved(draft, call, self._scaler_at(file, call, traveller))
        for call in amp_calls(file, "load_state_dict"):
            scaler = self._scaler_at(file, call, traveller)
            apex_checkpoints.write_restored(draft, call, scaler)
        for call, index in apex_checkpoints.given(file, self.project):
            apex_checkpoints.write_given(draft, call, index, self._scaler_at(file, call, traveller))

    def _write_wrapped(self, file: File, traveller: Traveller | None) -> None:
        write_wrapped(
            self.draft(file),
            self.roles,
            lambda place: self._scaler_at(file, place, traveller),
            lambda optimizer: parameters_of(self.project, self.roles, file, optimizer),
        )

    def _scaler_at(self, file: File, place: cst.CSTNode, traveller: Traveller | None) -> str | None:
        if traveller is None or self.dtype is Dtype.BF16:
            return None
        return scaler_at(traveller, self.roles, file, place)

    def _write_master_params(self, file: File, dead: Iterable[cst.CSTNode]) -> None:
        gone = {call for block in dead for call in find(block, cst.Call)}
        draft = self.draft(file)
        for call in amp_calls(file, "master_params"):
            if call not in gone and call.args:
                draft.edits.replace(
                    call, build.expression(parameters_of(self.project, self.roles, file, call.args[0].value))
                )


def _sees(initialize: Initialize, file: File, at: cst.CSTNode) -> bool:
    home, scope = file.scopes.of(initialize.home), file.scopes.of(at)
    while scope is not home and scope.parent is not None:
        scope = scope.parent
    return scope is home
