"""The flag's own way as code: the option on the command line, and every parameter and argument that carries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import libcst as cst

from amp_migrate.analysis.command_line import Command, CommandLine
from amp_migrate.analysis.files import File
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.flag import Flags
from amp_migrate.steps.flag_way import OPTION, FlagParameter, FlagWay
from amp_migrate.steps.ways import NewArgument
from amp_migrate.steps.write_ways import write_argument
from amp_migrate.trees import build
from amp_migrate.trees.sequences import insert_after

_HELP = "mixed precision"


def write_flags(flags: Flags, draft_of: Callable[[File], Draft]) -> list[Finding]:
    """Write all that brings the flag to its places, and tell where there is an option now, and where there is none."""
    findings: list[Finding] = []
    for line in _write(flags.ways, draft_of):
        at, column = line.file.tree.position(line.place)
        message = f"option --{OPTION}/--no-{OPTION} added: it switches mixed precision"
        findings.append(Finding(line.file.name, at, column, "AMP503", Kind.MIGRATED, message))
    for lost in flags.lost:
        at, column = lost.file.tree.position(lost.node)
        message = f"no option --{OPTION} added: {lost.reason}"
        findings.append(Finding(lost.file.name, at, column, lost.code, Kind.LEFT, message, lost.hint))
    return findings


def _write(ways: Iterable[FlagWay], draft_of: Callable[[File], Draft]) -> list[CommandLine]:
    parameters: dict[cst.FunctionDef, FlagParameter] = {}
    arguments: dict[cst.Call, NewArgument] = {}
    lines: dict[CommandLine, None] = {}
    for way in ways:
        parameters.update((each.function.node, each) for each in way.parameters)
        arguments.update((each.site.call, each) for each in way.arguments)
        lines.update(dict.fromkeys(sorted(way.lines, key=lambda line: line.file.name)))
    for parameter in parameters.values():
        draft = draft_of(parameter.function.file)
        draft.edits.change(parameter.function.node.params, _with_parameter(parameter.function.node, parameter.name))
    for argument in arguments.values():
        write_argument(draft_of(argument.site.file), argument)
    for line in lines:
        _write_option(draft_of(line.file), line)
    return list(lines)


def _write_option(draft: Draft, line: CommandLine) -> None:
    if isinstance(line, Command):
        node = line.function
        if line.is_click:
            option = f'{draft.module("click", node)}.option("--{OPTION}/--no-{OPTION}", default=True, help="{_HELP}")'
            draft.edits.change(node, _with_decorator(build.expression(option)))
        default = cst.Name("True")
        draft.edits.change(node.params, _with_parameter(node, OPTION, None if line.is_click else default))
        return
    action = draft.file.spelling.local("argparse.BooleanOptionalAction", line.statement)
    action = action or f"{draft.module('argparse', line.statement)}.BooleanOptionalAction"
    code = f'{line.name}.add_argument("--{OPTION}", action={action}, default=True, help="{_HELP}")'
    draft.edits.after(line.last_option, draft.line(code))


def _with_decorator(decorator: cst.BaseExpression) -> Callable[[cst.CSTNode], cst.CSTNode]:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.FunctionDef)
        return node.with_changes(decorators=[*node.decorators, cst.Decorator(decorator)])

    return change


def _with_parameter(
    function: cst.FunctionDef, name: str, default: cst.BaseExpression | None = None
) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """A parameter behind all others, with a default where those before it leave it no choice."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Parameters)
        is_starred = not isinstance(node.star_arg, cst.MaybeSentinel)
        group = "kwonly_params" if is_starred else "params"
        before: list[cst.Param] = [*getattr(node, group)] or ([] if is_starred else [*node.posonly_params])
        last = before[-1] if before else None
        is_annotated = any(param.annotation is not None for param in (*node.params, *node.kwonly_params))
        added = cst.Param(
            cst.Name(name),
            annotation=cst.Annotation(cst.Name("bool")) if is_annotated or default is not None else None,
        )
        given = default or (cst.Name("True") if not is_starred and last is not None and last.default else None)
        if given is not None:
            space = cst.SimpleWhitespace(" " if added.annotation is not None else "")
            equal = cst.AssignEqual(space, space)
            added = added.with_changes(default=given, equal=equal)
        if not getattr(node, group):
            return node.with_changes(**{group: [added]})
        laid_out = insert_after(before, len(before) - 1, added, function.whitespace_before_params)
        return node.with_changes(**{group: laid_out})

    return change
