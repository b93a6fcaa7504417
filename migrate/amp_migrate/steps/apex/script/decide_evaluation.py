"""Where the regions of a script's evaluation go, and whether mixed precision is on in each of them.

Apex patched the process, so that evaluation ran in mixed precision, too, once a model was initialized. Where a function
cannot ask for that, since others call it or because it runs before as well, its region is round those calls of it that
can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code, plain
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize, casts_prepared_alone
from amp_migrate.steps.apex.initialize.own_parameter import asked_of_parameter
from amp_migrate.steps.apex.initialize.reached import may_run_early, runs_early, ways_to
from amp_migrate.steps.apex.script.doubts import REGION_ROUND_CALL
from amp_migrate.steps.apex.script.hand_switch import SwitchHanding
from amp_migrate.steps.apex.script.prepared_models import PreparedModels
from amp_migrate.steps.apex.script.script_group import trains
from amp_migrate.steps.flag.switch_route import FlagWay
from amp_migrate.steps.model.training_step import Island, Region, TrainingStep
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.regions.evaluation import EvaluationRegions, called_below
from amp_migrate.steps.regions.find_regions import Placement, RegionFinder
from amp_migrate.steps.regions.kept_apart import nowhere
from amp_migrate.trees.nodes import Statement, find, last_word

UNASKED = "whether mixed precision is on cannot be asked here"
GOES_BACKWARD = "it goes backward by itself"
PASS_SWITCH = "pass the switch to this function, and put the forward into torch.amp.autocast(..., enabled=...)"

_Switched: TypeAlias = "tuple[Region, Code | None]"
REGION_BY_HAND = "where nothing reads its gradients, put its forward into torch.amp.autocast(..., enabled=...)"


@frozen
class EvaluatedInFloat32:
    """An evaluation forward that stays in float32, why, and what to do by hand."""

    file: File
    region: Region
    reason: str
    hint: str

    @property
    def function(self) -> cst.FunctionDef | None:
        """The function that it stands in."""
        return self.file.tree.function(self.region.first)

    def since(self, handed: FlagWay | Refusal | None) -> EvaluatedInFloat32:
        """The same with the reason why the switch cannot be handed on to it."""
        if not isinstance(handed, Refusal):
            return self
        return replace(self, reason=f"{self.reason}, and the switch cannot be handed on: {handed.reason}")


@frozen
class Evaluation:
    """The regions of a script's evaluation.

    Attributes:
        regions: those of each file, with their switch; None where mixed precision is always on.
        islands: the losses that read their inputs in float32.
        left: the forwards that get no region.
        round_calls: the functions that have their regions round the calls of them.
        handed: how the switch comes to those that cannot ask for it, and have it handed on.
    """

    regions: Mapping[File, tuple[_Switched, ...]] = field(default_factory=dict)
    islands: Mapping[File, tuple[Island, ...]] = field(default_factory=dict)
    left: tuple[EvaluatedInFloat32, ...] = ()
    round_calls: frozenset[cst.FunctionDef] = frozenset()
    handed: Mapping[cst.FunctionDef, FlagWay] = field(default_factory=dict)

    def of(self, file: File) -> tuple[tuple[_Switched, ...], tuple[Island, ...]]:
        """What there is in a file."""
        return self.regions.get(file, ()), self.islands.get(file, ())


class EvaluationDecider:
    """Decides about the evaluation of one script.

    Args:
        moved: its training steps.
        switch_at: how a place asks whether mixed precision is on; None where it always is.
        among: its files with the functions in them that evaluate for it; None for the whole file.
        staying: the statements that compute the losses of plain steps which stay.
        handing: finds how the switch comes to functions that cannot ask for it.
        values: knows which models an expression may be.
    """

    def __init__(
        self,
        roles: Roles,
        initializes: Sequence[Initialize],
        moved: Sequence[TrainingStep],
        switch_at: Callable[[File, cst.CSTNode], str | Refusal | None],
        among: Mapping[File, Collection[cst.FunctionDef] | None],
        staying: Collection[Statement],
        handing: SwitchHanding,
        values: ValueCalls,
    ) -> None:
        self._roles, self._project, self._losses = roles, roles.project, roles.losses
        self._initializes = initializes
        self._switch_at, self._among, self._handing = switch_at, among, handing
        self._early = partial(runs_early, roles.project, initializes)
        self._of_prepared = casts_prepared_alone(initializes)
        self._regions = EvaluationRegions(
            roles,
            moved,
            of_process=True,
            is_apart=PreparedModels(roles, initializes, values).is_apart if self._of_prepared else nowhere,
            in_float32=lambda file, each: each in staying or self._early(file, each),
        )
        self._starting = {each.file.tree.function(each.home) for each in initializes}

    def decide(self, shared: Iterable[FunctionRef], *, has_round_calls: bool) -> Evaluation:
        """The regions, wherever the functions are that they belong to.

        Args:
            shared: the functions of other files that evaluate for the script, and for others.
            has_round_calls: whether there may be regions round the calls of functions.
        """
        placed: dict[File, Placement] = {}
        outside = {each.node: each for each in shared if self._may_be_outside(each)}
        stuck: set[cst.FunctionDef] = set()
        files = {*self._among}
        while True:
            round_calls = frozenset(outside)
            for file in files:
                placed[file] = self._regions.of(file, self._among[file], round_calls)
            bare = [each for each in outside.values() if not self._has_regions(each, placed, round_calls)]
            left = [] if bare else [*self._left(placed)]
            found = {each.node: each for each in self._functions(left) if each.node not in stuck}
            more = [each for each in found.values() if has_round_calls and self._may_be_outside(each)]
            if not bare and not more:
                break
            stuck.update(each.node for each in bare)
            outside.update((each.node, each) for each in more)
            outside = {node: each for node, each in outside.items() if node not in stuck}
            around = {site.file for each in (*bare, *more) for site in self._project.call_sites(each) or ()}
            files = (around | {each.file for each in (*bare, *more)}) & {*self._among}
        apart = {each.node: each for each in shared if each.node not in round_calls and not trains(each.file)}
        lacking = {**apart, **{each.node: each for each in self._functions(left)}} if has_round_calls else {}
        ways: dict[cst.FunctionDef | None, FlagWay | Refusal | None] = {}
        ways.update((node, self._handing.into(each.file, node)) for node, each in lacking.items())
        handed = {node: way for node, way in ways.items() if isinstance(way, FlagWay)}
        for file in dict.fromkeys(each.file for node, each in apart.items() if node in handed):
            own = {node for node, each in apart.items() if node in handed and each.file is file}
            placed[file] = self._regions.of(file, own.union(self._among.get(file) or ()), round_calls)
        regions = {file: tuple(self._switched(file, each.regions, handed)) for file, each in placed.items()}
        islands = {file: each.islands for file, each in placed.items()}
        plain = {node for node, way in ways.items() if way is None}
        left = [e for e in left if e.function not in plain and not self._handing.is_off(e.file, e.region.first)]
        told = (each.since(ways.get(each.function)) for each in left if each.function not in handed)
        asking = {file.tree.function(region.first) for file, found in regions.items() for region, _ in found}
        used = {node: way for node, way in handed.items() if node is not None and node in asking}
        return Evaluation(regions, islands, tuple(told), round_calls, used)

    def with_gradients(self, file: File, functions: Iterable[cst.FunctionDef | None]) -> Iterator[EvaluatedInFloat32]:
        """What stays in float32 because it goes backward, be it to free memory: Apex cast it as all else."""
        for function in functions:
            first = self._regions.first_with_gradients(file, function)
            if first is not None and not self._handing.is_off(file, first.first):
                yield EvaluatedInFloat32(file, first, GOES_BACKWARD, REGION_BY_HAND)

    def _left(self, placed: Mapping[File, Placement]) -> Iterator[EvaluatedInFloat32]:
        for file in self._among:
            for region in placed[file].regions:
                switch = self._switch_of(file, region)
                if isinstance(switch, EvaluatedInFloat32) and not self._is_low_inside(file, region, placed):
                    yield switch

    def _is_low_inside(self, file: File, region: Region, placed: Mapping[File, Placement]) -> bool:
        """Whether whatever runs a module in a region is a function that has regions itself, wherever it is called."""
        finder = RegionFinder(file, self._roles)
        calls = [call for each in finder.members(region) for call in finder.forwards(each)]
        functions = [[*self._may_run(file, call)] for call in calls]
        return bool(calls) and all(
            found and all(self._has_own_region(each, placed) for each in found) for found in functions
        )

    def _may_run(self, file: File, call: cst.Call) -> Iterator[FunctionRef]:
        known = self._project.called(file, call) or self._project.method_of_given(file, call)
        return self._project.may_call(file, call, "torch") if known is None else iter((known,))

    def _has_own_region(self, function: FunctionRef, placed: Mapping[File, Placement]) -> bool:
        regions = placed[function.file].regions if function.file in placed else ()
        own = [each for each in regions if function.file.tree.function(each.first) is function.node]
        switches = (self._switch_of(function.file, each) for each in own)
        return bool(own) and not any(isinstance(each, EvaluatedInFloat32) for each in switches)

    def _switched(
        self, file: File, regions: Iterable[Region], handed: Mapping[cst.FunctionDef | None, FlagWay]
    ) -> Iterator[_Switched]:
        for region in regions:
            way = handed.get(file.tree.function(region.first))
            switch = self._switch_of(file, region) if way is None else way.code
            if not isinstance(switch, EvaluatedInFloat32):
                yield region, None if switch is None else plain(switch)

    def _switch_of(self, file: File, region: Region) -> str | EvaluatedInFloat32 | None:
        switch = self._switch_at(file, region.first)
        if isinstance(switch, Refusal):
            return EvaluatedInFloat32(file, region, UNASKED, PASS_SWITCH)
        if self._may_be_early(file, region.first, switch):
            return EvaluatedInFloat32(file, region, "it runs before amp.initialize, too", REGION_ROUND_CALL)
        return switch

    def _may_be_early(self, file: File, at: cst.CSTNode, switch: str | None) -> bool:
        """Whether a place runs in float32 by some way, where the switch is none of those that its callers pass."""
        may = may_run_early(self._project, self._initializes, file, at)
        return may and (switch is None or switch != asked_of_parameter(self._project, self._initializes, file, at))

    def _functions(self, left: Iterable[EvaluatedInFloat32]) -> Iterator[FunctionRef]:
        for each in left:
            if each.function is not None:
                yield self._project.reference(each.file, each.function)

    def _may_be_outside(self, function: FunctionRef) -> bool:
        """Whether a region round the call of a function casts what Apex cast in it, and with the weights of the time.

        What is cast of a weight serves as long as the region is open, and would stay behind weights that are loaded.
        Losses that autocast refuses have no place in it either.
        """
        node = function.node
        is_later = node.asynchronous is not None or any(True for _ in find(node.body, cst.Yield))
        if self._of_prepared or is_later or not self._project.call_sites(function):
            return False
        own = [(function.file, call) for call in find(node.body, cst.Call)]
        below = called_below(self._roles, own)
        calls = [*own, *((each.file, call) for each in below.values() for call in find(each.node.body, cst.Call))]
        starts = node in self._starting or not self._starting.isdisjoint(below)
        loads = any(last_word(call.func) == "load_state_dict" for _, call in calls)
        return not starts and not loads and not any(self._losses.is_banned(each, call) for each, call in calls)

    def _has_regions(
        self, function: FunctionRef, placed: Mapping[File, Placement], round_calls: frozenset[cst.FunctionDef]
    ) -> bool:
        """Whether each call of a function has a region round it, or computed in float32."""
        if any(True for _ in self._project.possible_calls(function)):
            return False
        return all(
            self._has_region(site, placed, round_calls)
            if self._is_own(site)
            else function.file not in self._among or self._is_apart(site)
            for site in self._project.call_sites(function) or ()
        )

    def _is_own(self, site: CallSite) -> bool:
        among = self._among.get(site.file, ())
        return among is None or site.file.tree.function(site.call) in among

    def _is_apart(self, site: CallSite) -> bool:
        ways = ways_to(self._project, self._initializes, site.file, site.call)
        return ways is not None and all(each.is_apart or each.is_early for each in ways)

    def _has_region(
        self, site: CallSite, placed: Mapping[File, Placement], round_calls: frozenset[cst.FunctionDef]
    ) -> bool:
        tree = site.file.tree
        caller, statement = tree.function(site.call), tree.statement(site.call)
        if caller in round_calls or caller in self._regions.within or self._early(site.file, statement):
            return True
        around = {*tree.ancestors(site.call)}
        if any(isinstance(each, (cst.Lambda, cst.GeneratorExp)) for each in around):
            return False
        siblings = (tree.siblings(each.first) for each in placed[site.file].regions)
        regions = zip(placed[site.file].regions, siblings, strict=True)
        runs = (run[run.index(each.first) : run.index(each.last) + 1] for each, run in regions)
        return any(each in around for run in runs for each in run)
