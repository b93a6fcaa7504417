"""The switch of an Apex script, handed on to functions that evaluate and cannot ask for it by themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.reached import may_run_early, ways_of, ways_to
from amp_migrate.steps.apex.script.script_group import trains
from amp_migrate.steps.flag.switch_route import FlagWay, SwitchTraveller, lost
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.steps.statements.no_grad import is_no_grad

_NAMES = ("use_amp", "with_amp", "mixed_precision")
_OFF = "False"
_PLAIN_DECORATORS = ("staticmethod", "classmethod")


class SwitchHanding:
    """Finds how the switch of one script comes to functions that have no word for it.

    Args:
        switch_at: how a place asks whether mixed precision is on; None where it always is.
        among: the files of the script.
        wants: whether a place of a file may change.
    """

    def __init__(
        self,
        project: Project,
        initializes: Sequence[Initialize],
        switch_at: Callable[[File, cst.CSTNode], str | Refusal | None],
        among: Collection[File],
        wants: Callable[[File, cst.CSTNode], bool],
    ) -> None:
        self._project, self._initializes = project, initializes
        self._switch_at, self._among, self._wants = switch_at, among, wants
        self._ways = SwitchTraveller(project, self._said, _NAMES, _OFF, self._obstacle)

    def into(self, file: File, function: cst.FunctionDef) -> FlagWay | Refusal | None:
        """The way of the switch into a function; None where all that calls it computes in float32."""
        way = self._ways.from_callers(file, function)
        return None if isinstance(way, FlagWay) and not way.arguments else way

    def is_off(self, file: File, at: cst.CSTNode) -> bool:
        """Whether a place computes in float32, whatever the switch is: nothing is initialized on any way to it."""
        return self._said(file, at) == FlagWay(_OFF)

    def _said(self, file: File, at: cst.CSTNode) -> FlagWay | Refusal | None:
        ways = ways_to(self._project, self._initializes, file, at)
        if ways is None and file not in self._among:
            return lost(file, at, f"not every way to {file.tree.quote(at)} is seen")
        may_be_early = may_run_early(self._project, self._initializes, file, at)
        is_plain = [each.is_apart or (each.is_early and may_be_early) for each in ways or ()]
        if any(is_plain):
            return self._off(file, at) if all(is_plain) else None
        switch = self._switch_at(file, at)
        return None if isinstance(switch, Refusal) or may_be_early else FlagWay(switch or "True")

    def _off(self, file: File, at: cst.CSTNode) -> FlagWay | Refusal:
        """What a call passes that computes in float32: regions that others have round it would be off inside."""
        for frames in ways_of(self._project, file, at, ()) or ():
            for where, node in frames:
                if where not in self._among and trains(where):
                    is_training = any(True for _, body in bodies(where) for _ in backward_calls(body))
                    own = "trains by itself" if is_training else "has a switch of its own"
                    return lost(where, node, f"{where.name} calls it, too, and {own}")
        return FlagWay(_OFF)

    def _obstacle(self, function: FunctionRef, sites: Sequence[CallSite]) -> str | None:
        node, owner, name = function.node, function.owner, function.name
        plain = (
            is_no_grad(function.file, each.decorator) or dotted(each.decorator) in _PLAIN_DECORATORS
            for each in node.decorators
        )
        if not all(plain):
            return f"a decorator may change what {name}() takes"
        bases = () if owner is None else owner.bases
        seen = (
            dotted(each.value) == "object" or self._project.definition(function.file, each.value) is not None
            for each in bases
        )
        if not all(seen):
            return f"a class that is out of sight may call {name}()"
        if self._project.may_be_of_unseen(function):
            return f"{name}() may be called on an object whose class cannot be seen"
        if any(True for _ in self._project.possible_calls(function)):
            return f"another thing is called {name}, too"
        if name.startswith("__") and name != "__init__":
            return f"Python itself calls {name}()"
        if any(site.filled for site in sites):
            return f"{name}() is called with its object as an argument, or by a partial()"
        is_open = isinstance(node.params.star_kwarg, cst.Param) and any(
            a.star == "**" for s in sites for a in s.call.args
        )
        if is_open:
            return f"{name}() takes whatever a call passes by `**`"
        places = ((function.file, node), *((site.file, site.call) for site in sites))
        unwanted = next((file for file, place in places if not self._wants(file, place)), None)
        return None if unwanted is None else f"{unwanted.name} is to be left alone"
