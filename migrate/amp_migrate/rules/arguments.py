"""Arguments of the old calls as keywords of the new ones.

The new functions take the device first, so a positional argument of the old call would land in the wrong place:
everything but the device goes by keyword.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.rules.rule import Arguments, Context, Unsure
from amp_migrate.settings import Dtype
from amp_migrate.trees import build

_STARRED = Unsure("its arguments are starred, so nobody can tell where they would land", "write the arguments out")


def autocast(device: str) -> Arguments:
    """`autocast(enabled, dtype, cache_enabled)` of one device as `torch.amp.autocast`, its old default dtype named."""

    def convert(context: Context, args: tuple[cst.Arg, ...]) -> list[cst.Arg] | Unsure:
        named = by_keyword(args, ("enabled", "dtype", "cache_enabled"))
        if isinstance(named, Unsure):
            return named
        if any(arg.star for arg in named):  # the mapping may hold a dtype, which is written out below
            return _STARRED
        new = [build.keyword("device_type", cst.SimpleString(f'"{device}"'))]
        given = next(
            (i for i, arg in enumerate(named) if arg.keyword is not None and arg.keyword.value == "dtype"), None
        )
        if given is None:
            new.append(build.keyword("dtype", build.expression(_default_dtype(context, device))))
        elif device == "cuda" and context.dtype is not Dtype.FP16 and is_float16(context, named[given].value):
            named[given] = named[given].with_changes(value=build.expression(_default_dtype(context, device)))
        return [*new, *named]

    return convert


def _default_dtype(context: Context, device: str) -> str:
    if device == "cpu":
        return f"{context.draft.torch(context.node)}.bfloat16"
    return context.draft.dtype(context.dtype, context.node)


def is_float16(context: Context, value: cst.BaseExpression) -> bool:
    """Whether an expression says float16, and nothing that depends on the run."""
    return context.draft.file.names.full(value) in ("torch.float16", "torch.half")


def grad_scaler(device: str) -> Arguments:
    """`GradScaler(init_scale, growth_factor, ...)` with the device in front and the rest by keyword."""

    def convert(context: Context, args: tuple[cst.Arg, ...]) -> list[cst.Arg] | Unsure:
        names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
        named = by_keyword(args, names)
        if isinstance(named, Unsure):
            return named
        if device == "cuda" and context.dtype is Dtype.AUTO:
            named = _enabled_for_float16(context, named)
        return [cst.Arg(cst.SimpleString(f'"{device}"')), *named]

    return convert


def _enabled_for_float16(context: Context, named: list[cst.Arg]) -> list[cst.Arg]:
    """`enabled=` that is also false where the script runs in bfloat16."""
    dtype = context.draft.dtype(Dtype.AUTO, context.node)
    condition = f"{dtype} == {context.draft.torch(context.node)}.float16"
    for index, arg in enumerate(named):
        if arg.keyword is not None and arg.keyword.value == "enabled":
            code = context.draft.code(arg.value)
            simple = isinstance(arg.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
            both = build.expression(f"{code if simple else f'({code})'} and {condition}")
            return [*named[:index], arg.with_changes(value=both), *named[index + 1 :]]
    return [*named, build.keyword("enabled", build.expression(condition))]


def switched_off(args: Sequence[cst.Arg]) -> list[cst.Arg]:
    """Arguments that say `enabled=False`, whatever they said before."""
    others = [arg for arg in args if arg.keyword is None or arg.keyword.value != "enabled"]
    return [*others, build.keyword("enabled", cst.Name("False"))]


def with_device_type(device: str) -> Arguments:
    """Any arguments, and `device_type=` behind them."""

    def convert(context: Context, args: tuple[cst.Arg, ...]) -> list[cst.Arg] | Unsure:
        if any(arg.star for arg in args):
            return _STARRED
        return [*args, build.keyword("device_type", cst.SimpleString(f'"{device}"'))]

    return convert


def device_first(device: str) -> Arguments:
    """The device as a new first argument."""

    def convert(context: Context, args: tuple[cst.Arg, ...]) -> list[cst.Arg] | Unsure:
        return _STARRED if any(arg.star for arg in args) else [cst.Arg(cst.SimpleString(f'"{device}"')), *args]

    return convert


def device_second(device: str) -> Arguments:
    """The device between the first argument and the others."""

    def convert(context: Context, args: tuple[cst.Arg, ...]) -> list[cst.Arg] | Unsure:
        if any(arg.star for arg in args) or not args or args[0].keyword is not None:
            return _STARRED
        return [args[0], cst.Arg(cst.SimpleString(f'"{device}"')), *args[1:]]

    return convert


def by_keyword(args: Sequence[cst.Arg], names: Sequence[str]) -> list[cst.Arg] | Unsure:
    """Arguments with every positional one turned into a keyword."""
    found: list[cst.Arg] = []
    for index, arg in enumerate(args):
        if arg.star == "*" or (index >= len(names) and arg.keyword is None and not arg.star):
            return _STARRED if arg.star else Unsure("it has more arguments than the function takes", "correct the call")
        if arg.keyword is None and not arg.star:
            keyword = build.keyword(names[index], arg.value)
            found.append(arg.with_changes(keyword=keyword.keyword, equal=keyword.equal))
        else:
            found.append(arg)
    return found


def laid_out(new: Sequence[cst.Arg], old: Sequence[cst.Arg]) -> list[cst.Arg]:
    """`new` with commas in the layout of `old`: one argument a line stays one a line, a trailing comma stays."""
    if not old:
        spaced = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        return [*(arg.with_changes(comma=spaced) for arg in new[:-1]), *new[-1:]]
    own = [arg.value for arg in old]
    separator = _break(old[0].comma)
    end = old[-1]
    out: list[cst.Arg] = []
    for arg in new[:-1]:
        keeps = arg.value in own and isinstance(arg.comma, cst.Comma) and not (arg.value is end.value and _is_bare(end))
        out.append(
            arg.with_changes(comma=arg.comma if keeps else separator, whitespace_after_arg=cst.SimpleWhitespace(""))
        )
    last = new[-1]
    if (
        last.value is not end.value
    ):  # a new argument ends the call as the old last one did; comments stay where they were
        trailing = _break(end.comma) if isinstance(end.comma, cst.Comma) else end.comma
        last = last.with_changes(comma=trailing, whitespace_after_arg=end.whitespace_after_arg)
    return [*out, last]


def _is_bare(arg: cst.Arg) -> bool:
    """Whether no comment stands behind an argument."""
    space = arg.comma.whitespace_after if isinstance(arg.comma, cst.Comma) else None
    return not isinstance(space, cst.ParenthesizedWhitespace) or space.first_line.comment is None


def _break(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma:
    """A comma with the line break of another, and without its comment."""
    if not isinstance(comma, cst.Comma):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
        first = comma.whitespace_after.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
        return cst.Comma(whitespace_after=comma.whitespace_after.with_changes(first_line=first, empty_lines=[]))
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
