"""How a place can ask whether mixed precision is wanted: by the option itself, or by a parameter that carries it."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.arguments.command_line import Command
from amp_migrate.analysis.arguments.parsed_arguments import CommandLines
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.flag.switch_route import FlagWay, SwitchTraveller, lost

OPTION = "amp"
_NAMES = ("amp", "use_amp", "amp_enabled")


class FlagTraveller:
    """Finds the ways of a new option through a project."""

    def __init__(self, project: Project) -> None:
        self.command_lines = CommandLines(project)
        self._ways = SwitchTraveller(project, self._said, _NAMES)

    def reach(self, file: File, at: cst.CSTNode) -> FlagWay | Refusal:
        """The way of the flag to a place."""
        return self._ways.reach(file, at)

    def _said(self, file: File, at: cst.CSTNode) -> FlagWay | Refusal | None:
        parsed = self.command_lines.visible(file, at, OPTION)
        if parsed is not None:
            return FlagWay(*parsed)
        around = [a for a in file.tree.ancestors(at) if isinstance(a, cst.FunctionDef)]
        command = next((found for each in around if (found := self.command_lines.command(file, each))), None)
        if command is not None:
            return self._from_command(command)
        if file.tree.function(at) is None:
            return lost(file, at, "no argparse, click or typer command line is read before it")
        return None

    def _from_command(self, command: Command) -> FlagWay | Refusal:
        if command.file.scopes.free([OPTION]) is None:
            return lost(command.file, command.function, f"`{OPTION}` is the name of something else here")
        return FlagWay(OPTION, frozenset({command}))
