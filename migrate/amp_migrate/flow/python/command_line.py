"""What stands on a command line that `argparse` reads: its options are numbers, texts and truths, and no tensors."""

from __future__ import annotations

import ast

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Const,
    External,
    Opaque,
    Value,
    constant,
    join,
    many,
    one,
    some,
)
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame

PARSERS = "argparse."
ARGUMENTS = "args"  # by which messages know what a command line was parsed into
_DECLARED = External("argparse.Namespace")
_PARSED = "<parsed>"


def declare(frame: Frame, args: Arguments, node: ast.AST) -> None:
    """`parser.add_argument("--lr", type=float)`, of whichever parser: what its attribute may be."""
    names = [constant(each) for each in args.positional]
    dest = constant(args.keywords.get("dest", NEVER))
    known = [each for each in (dest, *names) if isinstance(each, str)]
    if known:
        name = next((each for each in known if each == dest or each.startswith("--")), known[0])
        is_given = not name.startswith("-") or constant(args.keywords.get("required", NEVER)) is True
        default = args.keywords.get("default", NEVER if is_given else NONE_VALUE)
        value = UNKNOWN if args.others else _value(frame, args.keywords, default, node)
        frame.analysis.heap.write(_DECLARED, name.lstrip("-").replace("-", "_"), value)


def _value(frame: Frame, words: dict[str, Value], default: Value, node: ast.AST) -> Value:
    action = words.get("action", NEVER)
    if action and constant(action) != "store":
        is_switch = constant(action) in ("store_true", "store_false") or "BooleanOptional" in repr(action)
        return join(TRUTHS, _like(words.get("default", NEVER))) if is_switch else UNKNOWN
    found = some("str")
    if "type" in words:
        found = frame.analysis.call(frame, words["type"], Arguments([found]), node)
        frame.is_dead = False
    if isinstance(constant(default), str):  # which is read like what is typed
        default = NEVER
    return join(found if constant(words.get("nargs", NEVER)) in (None, "?") else many(found), _like(default))


def _like(default: Value) -> Value:
    """Anything that is like a default, which a user may give instead."""
    known = (some(each.kind) if isinstance(each, Const) and each.value is not None else one(each) for each in default)
    return frozenset().union(*known)


def defaults(frame: Frame, args: Arguments) -> None:
    """`parser.set_defaults(run=train)`: anything may be among the attributes."""
    for name in args.keywords:
        frame.analysis.heap.write(_DECLARED, name, UNKNOWN)


def parsed(frame: Frame, node: ast.AST) -> Opaque:
    """What a command line is parsed into."""
    space = Opaque((frame.site(node), ARGUMENTS))
    frame.analysis.heap.write(space, _PARSED, TRUTHS)
    return space


def option(frame: Frame, space: Opaque, name: str) -> Value:
    """What an attribute of it may be: what was declared, and what was stored since; nothing where nobody knows."""
    if space.path[1:] != (ARGUMENTS,) or not frame.analysis.heap.has(space, _PARSED):
        return NEVER
    declared = frame.analysis.heap.read(_DECLARED, name, frame.task)
    stored = join(frame.read(space, name), frame.read(space, "*"))
    return join(declared, stored) if declared else NEVER
