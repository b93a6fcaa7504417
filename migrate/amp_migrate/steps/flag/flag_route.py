"""How a place can ask whether mixed precision is wanted: by the option itself, or by a parameter that carries it."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.arguments.command_line import Command, CommandLine
from amp_migrate.analysis.arguments.parsed_arguments import CommandLines
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.catalog.step_rules import NO_SWITCH
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.route import NewArgument
from amp_migrate.steps.scaler.callers import every_call

OPTION = "amp"
_NAMES = ("amp", "use_amp", "amp_enabled")


@dataclass(frozen=True)
class FlagParameter:
    """A function takes the flag, behind its other parameters."""

    function: FunctionRef
    name: str


@dataclass(frozen=True)
class FlagWay:
    """How the flag is written at a place, and what it takes to get it there.

    Attributes:
        code: the boolean that says whether mixed precision is wanted.
        lines: the command lines that it comes from.
    """

    code: str
    lines: frozenset[CommandLine]
    parameters: tuple[FlagParameter, ...] = ()
    arguments: tuple[NewArgument, ...] = ()


class FlagTraveller:
    """Finds the ways of a new option through a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.command_lines = CommandLines(project)

    def reach(self, file: File, at: cst.CSTNode) -> FlagWay | Refusal:
        """The way of the flag to a place."""
        return self._reach(file, at, ())

    def _reach(self, file: File, at: cst.CSTNode, seen: tuple[cst.CSTNode, ...]) -> FlagWay | Refusal:
        parsed = self.command_lines.visible(file, at, OPTION)
        if parsed is not None:
            return FlagWay(*parsed)
        function = file.tree.function(at)
        around = [a for a in file.tree.ancestors(at) if isinstance(a, cst.FunctionDef)]
        command = next((found for each in around if (found := self.command_lines.command(file, each))), None)
        if command is not None:
            return self._from_command(command)
        if function is None:
            return _lost(file, at, "no argparse, click or typer command line is read before it")
        return self._from_callers(file, function, seen)

    def _from_command(self, command: Command) -> FlagWay | Refusal:
        if command.file.scopes.free([OPTION]) is None:
            return _lost(command.file, command.function, f"`{OPTION}` is the name of something else here")
        return FlagWay(OPTION, frozenset({command}))

    def _from_callers(self, file: File, node: cst.FunctionDef, seen: tuple[cst.CSTNode, ...]) -> FlagWay | Refusal:
        function = self.project.reference(file, node)
        sites = every_call(self.project, function, seen)
        if isinstance(sites, str):
            return _lost(file, node, sites)
        name = file.scopes.free(_NAMES)
        if name is None:
            return _lost(file, node, f"the names {', '.join(_NAMES)} are all taken")
        way = FlagWay(name, frozenset(), (FlagParameter(function, name),))
        for site in sites:
            before = self._reach(site.file, site.call, (*seen, node))
            if isinstance(before, Refusal):
                return before
            argument = NewArgument(site, len(site.call.args) - 1, name, by_keyword=True, value=before.code)
            way = FlagWay(
                name,
                way.lines | before.lines,
                (*way.parameters, *before.parameters),
                (*way.arguments, *before.arguments, argument),
            )
        return way


def _lost(file: File, node: cst.CSTNode, why: str) -> Refusal:
    hint = "give autocast and GradScaler enabled=... by hand, from an option of your own"
    return Refusal(file, node, why, hint, NO_SWITCH.code)
