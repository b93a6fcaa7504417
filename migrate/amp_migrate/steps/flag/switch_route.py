"""How a switch of mixed precision comes to a place: as a parameter of each function on the way there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from amp_migrate.analysis.arguments.command_line import CommandLine
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.catalog.step_rules import NO_SWITCH
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.route import NewArgument
from amp_migrate.steps.scaler.callers import every_call, unfilled, with_overriding


@frozen
class FlagParameter:
    """A function takes the flag, behind its other parameters.

    Attributes:
        default: what it is where a call does not say; None where all do.
    """

    function: FunctionRef
    name: str
    default: str | None = None


@frozen
class FlagWay:
    """How the flag is written at a place, and what it takes to get it there.

    Attributes:
        code: the boolean that says whether mixed precision is wanted.
        lines: the command lines that it comes from.
    """

    code: str
    lines: frozenset[CommandLine] = frozenset()
    parameters: tuple[FlagParameter, ...] = ()
    arguments: tuple[NewArgument, ...] = ()


# How a place says by itself whether mixed precision is wanted, or why nobody can; None where its callers may say so.
Said = Callable[[File, cst.CSTNode], "FlagWay | Refusal | None"]


class SwitchTraveller:
    """Finds the ways of a switch through the calls of functions.

    Args:
        said: what a place says by itself.
        names: what its parameters may be called.
        default: what they are where a call does not say; None where all calls have to.
        obstacle: why a function cannot have a parameter more, or a call an argument, if there is a reason.
    """

    def __init__(
        self,
        project: Project,
        said: Said,
        names: Sequence[str],
        default: str | None = None,
        obstacle: Callable[[FunctionRef, Sequence[CallSite]], str | None] = lambda *_: None,
    ) -> None:
        self._project, self._said = project, said
        self._names, self._default, self._obstacle = names, default, obstacle
        self._taking: dict[cst.CSTNode, str] = {}  # functions that are being given the switch, by that name

    def reach(self, file: File, at: cst.CSTNode, seen: tuple[cst.CSTNode, ...] = ()) -> FlagWay | Refusal:
        """The way of the switch to a place."""
        said = self._said(file, at)
        function = file.tree.function(at)
        if said is None and function is not None:
            return self.from_callers(file, function, seen)
        return said or lost(file, at, f"{file.name} does not say it at `{file.tree.quote(at)}`")

    def from_callers(self, file: File, node: cst.FunctionDef, seen: tuple[cst.CSTNode, ...] = ()) -> FlagWay | Refusal:
        """The way of the switch into a function, and into those that its calls may run besides."""
        if node in self._taking:
            return FlagWay(self._taking[node])
        function = self._project.reference(file, node)
        family, sites = self._together(function, seen)
        if isinstance(sites, str):
            return lost(file, node, sites)
        name = next((each for each in self._names if _is_free(each, family, sites)), None)
        if name is None:
            return lost(file, node, f"the names {', '.join(self._names)} are all taken")
        why = next(filter(None, (self._obstacle(each, sites) for each in family)), None)
        if why is not None:
            return lost(file, node, why)
        parameters = tuple(FlagParameter(each, name, self._default) for each in family)
        way = FlagWay(name, parameters=parameters)
        taking: dict[cst.CSTNode, str] = {each.node: name for each in family} if len(family) > 1 else {}
        for site in sites:
            self._taking |= taking
            before = self.reach(site.file, site.call, (*seen, node))
            self._taking = {each: known for each, known in self._taking.items() if each not in taking}
            if isinstance(before, Refusal):
                return before
            argument = NewArgument(site, len(site.call.args) - 1, name, by_keyword=True, value=before.code)
            own = () if before.code == self._default else (argument,)
            way = FlagWay(
                name,
                way.lines | before.lines,
                (*way.parameters, *before.parameters),
                (*way.arguments, *before.arguments, *own),
            )
        return way

    def _together(
        self, function: FunctionRef, seen: tuple[cst.CSTNode, ...]
    ) -> tuple[list[FunctionRef], tuple[CallSite, ...] | str]:
        """A function with those that its calls may run besides, and all calls of them; or why they are not known."""
        others = self._project.overriding(function)
        if not others:
            return [function], every_call(self._project, function, seen)
        together = with_overriding(self._project, function)
        sites = {site.call: site for found in together.values() for site in found}
        family = [*dict.fromkeys((*together, *unfilled(self._project, function)))]
        if not sites or {*family} != {function, *others}:
            return family, f"not every call is known of {function.name}() and the methods that override it"
        return family, tuple(sites.values())


def _is_free(name: str, family: Sequence[FunctionRef], sites: Sequence[CallSite]) -> bool:
    """Whether nothing has a name in the files of some functions, nor in what their `**` takes so far."""
    given = (arg.keyword.value for site in sites for arg in site.call.args if arg.keyword is not None)
    return name not in given and all(each.file.scopes.free([name]) for each in family)


def lost(file: File, node: cst.CSTNode, why: str) -> Refusal:
    """No switch comes here, for a reason."""
    hint = "give autocast and GradScaler enabled=... by hand, from an option of your own"
    return Refusal(file, node, why, hint, NO_SWITCH.code)
