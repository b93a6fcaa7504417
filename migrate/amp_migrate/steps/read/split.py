"""Training steps that are spread over functions: the forward in one, `backward()` or the optimizer in another.

A function that has only a part of a step is joined with the functions that call it, and those with their callers, until
forward, backward and step are together. All of them move, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.gradients.steppers import Steppers
from amp_migrate.steps.model.training_step import Backward, TrainingStep
from amp_migrate.steps.read.gather import Gathered
from amp_migrate.steps.read.value_calls import CalledTogether, ValueCalls
from amp_migrate.steps.scaler.callers import with_overriding
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.steps.statements.no_grad import is_quiet
from amp_migrate.trees.nodes import Statement, find

Key: TypeAlias = "tuple[File, cst.FunctionDef | None]"
# Makes the step of one function from its own calls of backward and those of its parts.
Regather: TypeAlias = "Callable[[File, cst.FunctionDef | None, list[Backward]], Gathered | Refusal]"


@frozen
class Split:
    """A step in several functions.

    Attributes:
        parts: what each function has of it; a caller stands before what it calls.
        calls: for each function that is called as a part, its callers with the calls; those that only step are the
            last.
        idle: the other calls of such a function: gradients are switched off there, so that none of them trains.
        penalties: the functions that take the gradients of a penalty for their callers, or call one that does.
        alone: what each function has by itself, where a caller has all of a step: what it calls may go backward for
            something else, as for samples that follow the gradient of their energy.
    """

    parts: tuple[Gathered, ...]
    calls: dict[FunctionRef, tuple[tuple[TrainingStep, CallSite], ...]]
    idle: dict[FunctionRef, tuple[CallSite, ...]]
    penalties: frozenset[FunctionRef]
    alone: tuple[Gathered, ...] = ()


class Joiner:
    """Joins the parts of split steps.

    Args:
        regather: see `Regather`.
        steppers: knows the functions that step for others; None where nobody has to know of steps.
        values: knows who calls functions that are handed on as values.
    """

    def __init__(self, project: Project, regather: Regather, steppers: Steppers | None, values: ValueCalls) -> None:
        self._project = project
        self._steppers = steppers
        self._values = values
        self._regather = regather
        self._parts: dict[Key, Gathered] = {}
        # Functions that only take gradients of penalties, or call such ones.
        self._between: dict[Key, TrainingStep] = {}
        self._remote: dict[Key, dict[cst.Call, Backward]] = {}
        self._sites: dict[Key, list[tuple[Key, CallSite]]] = {}
        self._idle: dict[Key, list[CallSite]] = {}
        self._failed: dict[Key, Refusal | None] = {}
        # The functions that are given a loss, or what keeps it, by callers who are not seen, with what is said of that.
        self._given: dict[Key, str] = {}

    def join(self, found: Sequence[Gathered]) -> list[Gathered | Refusal | Split]:
        """The steps of a project, given what each of its functions has, in the order of those.

        What cannot be joined is taken for all there is of its step.
        """
        self._parts = {key_of(each.step): each for each in found}
        todo = [key for key, each in self._parts.items() if not each.is_whole]
        asked = set(todo)
        while todo:
            key = todo.pop(0)
            for caller in self._attach(key):
                part = self._parts.get(caller)
                if part is not None and not part.is_whole and caller not in asked:
                    asked.add(caller)
                    todo.append(caller)
        called = [(key, function) for key, each in self._parts.items() for _, function in each.step.called_parts]
        called += self._penalties_between()
        for caller, function in called:
            self._attach_called(caller, function)
        return list(self._result({key_of(each.step): each for each in found}))

    def _penalties_between(self) -> list[tuple[Key, FunctionRef]]:
        """The functions that call another for a penalty which they hand on, each with what it calls."""
        found: list[tuple[Key, FunctionRef]] = []
        todo = [call.part for each in self._parts.values() for call in each.step.penalty_calls]
        while todo:
            function = todo.pop()
            key = function.file, function.node
            if key in self._between:
                continue
            part = self._regather(*key, [])
            if isinstance(part, Refusal):
                self._failed[key] = part
                continue
            self._between[key] = part.step
            found += [(key, call.part) for call in part.step.penalty_calls]
            todo += [call.part for call in part.step.penalty_calls]
        return found

    def _attach_called(self, caller: Key, function: FunctionRef) -> None:
        """Link a function that uses its callers' scaler to all of them: each has to have one."""
        key = function.file, function.node
        stepping = None if self._steppers is None else self._steppers.sites(function)
        sites = (self._called_with(function) or {}).get(function, ()) if stepping is None else stepping
        self._sites[key] = [((each.file, each.file.tree.function(each.call)), each) for each in sites]
        for other, site in self._sites[key]:
            step = self._step_of(other)
            called = () if step is None else step.called_parts
            # What takes the gradients of a penalty may be called for its value, too, where a step has a scaler for it.
            if not any(call is site.call or (stepping is None and _is(part, function)) for call, part in called):
                self._failed[key] = None
        if caller not in [other for other, _ in self._sites[key]]:
            self._failed[key] = self._failed[caller] = None

    def _step_of(self, key: Key) -> TrainingStep | None:
        """What a function has of a step."""
        return self._parts[key].step if key in self._parts else self._between.get(key)

    def _attach(self, key: Key) -> list[Key]:
        """Give the callers of a part their calls of it; the callers."""
        file, node = key
        part = self._parts[key]
        if key in self._sites:  # with another that the same calls may run
            return []
        together = None if node is None else self._called_with(self._project.reference(file, node))
        if node is None or together is None:
            self._failed[key] = None
            if node is not None and part.without_forward is not None and _is_given(node, part.step.backwards):
                self._given[key] = self._unseen(self._project.reference(file, node))
            return []
        parts: dict[FunctionRef, Gathered] = {}
        for function in together:
            own = function.file, function.node
            known = self._parts.get(own) or self._regather(*own, [])
            if isinstance(known, Refusal):
                self._failed[key] = known
                return []
            parts[function] = self._parts[own] = known
        for function, sites in together.items():
            own = function.file, function.node
            self._sites[own] = []
            self._idle[own] = [each for each in sites if is_quiet(each.file, each.file.tree.statement(each.call))]
            if len(self._idle[own]) == len(sites):
                self._failed[own] = None
            for site in (each for each in sites if each not in self._idle[own]):
                caller = (site.file, site.file.tree.function(site.call))
                self._sites[own].append((caller, site))
                statement = site.file.tree.statement(site.call)
                run = [parts[each] for each in together if site.call in (other.call for other in together[each])]
                obstacle = _unfit_call(site, statement) or _unlike(site, run)
                if obstacle is not None or caller == own:
                    self._failed[own] = obstacle
                    continue
                call = Backward(
                    statement,
                    site.call,
                    site.call,
                    part=function,
                    computes=part.without_forward is None,
                    of_object=all(_is_kept(each) for part in run for each in part.step.backwards),
                    steps=part.without_step is None,
                )
                self._remote.setdefault(caller, {})[site.call] = call
                self._gather_again(caller, own)
        return [caller for function in together for caller, _ in self._sites[function.file, function.node]]

    def _called_with(self, function: FunctionRef) -> CalledTogether | None:
        """A function with all its calls, and the others that these may run; None where they are not all known."""
        overriding = with_overriding(self._project, function)
        if any(overriding.values()):
            return overriding
        sites = self._sites_of(function)
        if sites is None:
            return self._values.together(function)
        return {function: tuple(sites)} if sites else None

    def _gather_again(self, caller: Key, callee: Key) -> None:
        known = self._parts.get(caller)
        own = [] if known is None else [each for each in known.step.backwards if each.part is None]
        order = caller[0].tree.order
        backwards = sorted([*own, *self._remote[caller].values()], key=lambda each: order[each.statement])
        again = self._regather(*caller, backwards)
        if isinstance(again, Refusal):
            self._failed[callee] = again
        else:
            self._parts[caller] = again

    def _sites_of(self, function: FunctionRef) -> Sequence[CallSite] | None:
        """The calls of a function whose name alone tells them; None where only values do."""
        if function.owner is None or not function.is_bound:
            is_known = len(function.file.scopes.of(function.node).lookup(function.name)) == 1
        else:
            is_known = self._project.is_only_method(function) or self._project.is_called_by_its_name(function)
            is_known = is_known and not self._project.overriding(function)
        return self._project.call_sites(function) if is_known and not function.node.decorators else None

    def _result(self, originals: dict[Key, Gathered]) -> Iterator[Gathered | Refusal | Split]:
        told: set[Key] = set()
        for key, original in originals.items():
            if key in told:
                continue
            group = self._group(key)
            told.update(group)
            if len(group) == 1 and original.is_whole and key not in self._failed:
                yield original
            elif self._is_joined(group):
                by_itself = tuple(originals[each] for each in group if each in originals)
                is_one = any(each.is_by_itself for each in by_itself)
                yield replace(self._split(group), alone=by_itself if is_one else ())
            else:
                reason = next((self._failed[each] for each in group if self._failed.get(each) is not None), None)
                for each in (originals[other] for other in group if other in originals):
                    alone = each.alone()
                    if isinstance(alone, Refusal):
                        unseen = next((self._given[other] for other in group if other in self._given), "")
                        yield replace(reason or replace(alone, hint=f"{unseen}{alone.hint}"), left=each.step.places)
                    elif each.is_by_itself:
                        yield alone
                    else:
                        yield replace(alone, unscalable=reason or alone.unscalable or _apart(each.step))

    def _unseen(self, function: FunctionRef) -> str:
        """How it comes that what gives a function its loss is not known."""
        sites = self._project.call_sites(function)
        is_uncalled = sites is not None and not sites and not any(True for _ in self._project.possible_calls(function))
        if is_uncalled and function.name != "__call__":  # which runs where an object is called, by whatever name
            return f"no call that runs this {function.name}() is among the files that were given: "
        return f"not every call of {function.name}() can be seen: "

    def _group(self, start: Key) -> list[Key]:
        """A part with all that it is called by or calls, the callers first."""
        links: dict[Key, set[Key]] = {}
        for callee, sites in self._sites.items():
            for caller, _ in sites:
                links.setdefault(callee, set()).add(caller)
                links.setdefault(caller, set()).add(callee)
        group, todo = {start}, [start]
        while todo:
            for other in links.get(todo.pop(), ()):
                if other not in group:
                    group.add(other)
                    todo.append(other)
        return sorted(group, key=lambda key: (self._depth(key, ()), key[0].name, _position(key)))

    def _depth(self, key: Key, seen: tuple[Key, ...]) -> int:
        """How many functions stand above a part."""
        if key in seen:
            return 0
        return max((1 + self._depth(caller, (*seen, key)) for caller, _ in self._sites.get(key, ())), default=0)

    def _is_joined(self, group: list[Key]) -> bool:
        tops = [key for key in group if key not in self._sites]
        return (
            bool(tops)
            and not any(key in self._failed for key in group)
            and all(key in self._parts and self._parts[key].is_whole for key in tops)
        )

    def _split(self, group: list[Key]) -> Split:
        calls = {
            self._project.reference(file, node): tuple(
                (step, site) for caller, site in self._sites[file, node] if (step := self._step_of(caller)) is not None
            )
            for file, node in group
            if node is not None and (file, node) in self._sites
        }
        idle = {function: tuple(self._idle.get((function.file, function.node), ())) for function in calls}
        penalties = frozenset(each for each in calls if (each.file, each.node) in self._between)
        return Split(tuple(self._parts[key] for key in group if key in self._parts), calls, idle, penalties)


def key_of(step: TrainingStep) -> Key:
    """What a part of a step is known by: its function."""
    return step.file, step.function


def _is_given(node: cst.FunctionDef, backwards: Sequence[Backward]) -> bool:
    """Whether a function goes backward by what its callers give it."""
    parameters = {each.name.value for each in find(node.params, cst.Param)}
    return any(not parameters.isdisjoint(reads([each.loss])) for each in backwards)


def _is_kept(backward: Backward) -> bool:
    """Whether a loss is an attribute of the object, read here or in another of its methods."""
    return all(each.startswith("self.") for each in reads([backward.loss]))


def _position(key: Key) -> int:
    file, node = key
    return -1 if node is None else file.tree.order[node]


def _is(found: FunctionRef | None, wanted: FunctionRef) -> bool:
    return found is not None and found.node is wanted.node


def _unfit_call(site: CallSite, statement: Statement) -> Refusal | None:
    """Why a call cannot stand for a backward: it has to be a statement, or all that is assigned or returned by one."""
    plain = (cst.Expr, cst.Assign, cst.AugAssign, cst.Return)
    value = statement.value if isinstance(statement, plain) else None
    if value is site.call:
        return None
    code = site.file.tree.quote(site.call)
    reason = f"{code}, which goes backward, is part of a longer expression"
    return Refusal(site.file, site.call, reason, "make it a statement of its own")


def _unlike(site: CallSite, parts: Sequence[Gathered]) -> Refusal | None:
    """Why a call cannot stand for a backward: what it may run differs in how much of the step it is."""
    if len({(part.without_forward is None, part.without_step is None) for part in parts}) == 1:
        return None
    code = site.file.tree.quote(site.call)
    reason = f"of the functions that `{code}` may run, one computes the loss or steps, and another does not"
    return Refusal(site.file, site.call, reason, "let all of them do the same part of the step")


def _apart(step: TrainingStep) -> Refusal:
    call, function = step.called_parts[0]
    return Refusal(
        step.file,
        call,
        f"{function.name}() has a part in the step, and is not seen to be called only in steps that can be moved",
        "pass it the scaler by hand, or run with --dtype bf16, which needs no scaler",
    )
