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
        dtypes = [arg for arg in named if arg.keyword is not None and arg.keyword.value == "dtype"]
        others = [arg for arg in named if arg not in dtypes]
        dtype = dtypes[0] if dtypes else build.keyword("dtype", build.expression(_default_dtype(context, device)))
        if dtypes and device == "cuda" and context.dtype is not Dtype.FP16 and is_float16(context, dtype.value):
            dtype = dtype.with_changes(value=build.expression(_default_dtype(context, device)))
        return [build.keyword("device_type", cst.SimpleString(f'"{device}"')), dtype, *others]

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
    enabled = [arg for arg in named if arg.keyword is not None and arg.keyword.value == "enabled"]
    if enabled:
        code = context.draft.code(enabled[0].value)
        simple = isinstance(enabled[0].value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        condition = f"{code if simple else f'({code})'} and {condition}"
    return [*(arg for arg in named if arg not in enabled), build.keyword("enabled", build.expression(condition))]


def switched_off(args: list[cst.Arg]) -> list[cst.Arg]:
    """Arguments that say `enabled=False`, whatever they said before."""
    others = [arg for arg in args if arg.keyword is None or arg.keyword.value != "enabled"]
    if others:
        others[-1] = others[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
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
    if not new:
        return []
    comma = old[0].comma if old and isinstance(old[0].comma, cst.Comma) else cst.Comma(cst.SimpleWhitespace(""))
    if isinstance(comma.whitespace_after, cst.SimpleWhitespace):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    elif isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
        first = comma.whitespace_after.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
        comma = cst.Comma(whitespace_after=comma.whitespace_after.with_changes(first_line=first, empty_lines=[]))
    out: list[cst.Arg] = []
    for index, arg in enumerate(new):
        if index + 1 < len(new):
            own = arg.comma if isinstance(arg.comma, cst.Comma) and arg in old else comma
            out.append(arg.with_changes(comma=own, whitespace_after_arg=cst.SimpleWhitespace("")))
        else:
            last = old[-1] if old else arg
            out.append(arg.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg))
    return out
