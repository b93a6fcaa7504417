"""The flag's own way as code: the option on the command line, and every parameter and argument that carries it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field

import libcst as cst

from amp_migrate.analysis.arguments.command_line import Command, CommandLine
from amp_migrate.catalog.step_rules import NO_SWITCH, SWITCH_ADDED
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code, code, plain
from amp_migrate.plan.edit import AddDecorator, AddParameter, Edit
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings
from amp_migrate.steps.flag.decide_flag import Flags
from amp_migrate.steps.flag.flag_route import OPTION
from amp_migrate.steps.flag.switch_route import FlagWay
from amp_migrate.steps.write.write_route import write_argument
from amp_migrate.trees.tree import Tree
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

RULE = SWITCH_ADDED.code
_HELP = "mixed precision"


@frozen
class WrittenFlags:
    """A new option with all that brings it to its places.

    Attributes:
        conditions: the condition of each region and scaler that has one, by the statement that it stands at.
        move: the edits, and where there is an option now and where there is none.
    """

    conditions: Mapping[cst.CSTNode, Code] = field(default_factory=dict)
    move: Move = field(default_factory=Move)


def write_flags(flags: Flags, settings: Settings, wishes: Wishes) -> WrittenFlags:
    """All that brings the flag to its places; nothing, where a part of the way is to be left alone."""
    lines: dict[CommandLine, None] = {}
    for way in flags.ways:
        lines.update(dict.fromkeys(sorted(way.lines, key=lambda line: line.file.name)))
    edits = [*write_flag_ways(flags.ways, settings, RULE)]
    edits += (edit for line in lines for edit in _option(Editor(line.file, settings, RULE), line))
    lost = [_lost(each.file.tree, each.node, each.reason, each.code, each.hint) for each in flags.lost]
    unwanted = wishes.unwanted(edits)
    if unwanted is not None:
        lost += (
            _lost(line.file.tree, line.place, unwanted.seen_from(line.file.tree), NO_SWITCH.code) for line in lines
        )
        return WrittenFlags(move=Move((), tuple(lost)))
    message = f"option --{OPTION}/--no-{OPTION} added: it switches mixed precision"
    added = [Finding.at(line.file.tree, line.place, RULE, Kind.MIGRATED, message) for line in lines]
    conditions = {node: plain(each) for node, each in flags.conditions.items()}
    return WrittenFlags(conditions, Move(tuple(edits), (*added, *lost)))


def write_flag_ways(ways: Collection[FlagWay], settings: Settings, rule: str) -> Iterator[Edit]:
    """The edits of the parameters and arguments that carry a flag."""
    parameters = {each.function.node: each for way in ways for each in way.parameters}
    arguments = {each.site.call: each for way in ways for each in way.arguments}
    for each in parameters.values():
        yield _parameter(Editor(each.function.file, settings, rule), each.function.node, each.name, each.default)
    for argument in arguments.values():
        yield write_argument(Editor(argument.site.file, settings, rule), argument)


def _lost(tree: Tree, node: cst.CSTNode, reason: str, code: str, hint: str = "") -> Finding:
    return Finding.at(tree, node, code, Kind.LEFT, f"no option --{OPTION} added: {reason}", hint)


def _option(editor: Editor, line: CommandLine) -> Iterator[Edit]:
    if isinstance(line, Command):
        node = line.function
        if line.is_click:
            click = editor.module("click", node)
            option = code('{}.option("--{o}/--no-{o}", default=True, help="{}")', click, _HELP, o=OPTION)
            yield editor.edit(node, AddDecorator(option))
        yield _parameter(editor, node, OPTION, None if line.is_click else "True", is_annotated=not line.is_click)
        return
    local = editor.file.spelling.local("argparse.BooleanOptionalAction", line.statement)
    argparse = editor.module("argparse", line.statement)
    action = code("{}.BooleanOptionalAction", argparse) if local is None else plain(local)
    new = code('{}.add_argument("--{}", action={}, default=True, help="{}")', line.name, OPTION, action, _HELP)
    yield editor.after(line.last_option, new)


def _parameter(
    editor: Editor, function: cst.FunctionDef, name: str, default: str | None = None, *, is_annotated: bool = False
) -> Edit:
    """A parameter behind all others, with a default where those before it leave it no choice."""
    params = function.params
    is_starred = not isinstance(params.star_arg, cst.MaybeSentinel)
    before = params.kwonly_params if is_starred else (*params.posonly_params, *params.params)
    has_default = not is_starred and bool(before) and before[-1].default is not None
    is_annotated = is_annotated or any(p.annotation is not None for p in (*params.params, *params.kwonly_params))
    given = default or ("True" if has_default else None)
    annotation = plain("bool") if is_annotated else None
    return editor.edit(function, AddParameter(name, None, annotation, None if given is None else plain(given)))
