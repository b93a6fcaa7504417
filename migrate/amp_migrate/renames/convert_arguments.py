"""Arguments of the old calls as keywords of the new ones.

The new functions take the device first, so a positional argument of the old call would land in the wrong place:
everything but the device goes by keyword.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.plan.code import Code, code, plain
from amp_migrate.plan.edit import Given
from amp_migrate.renames.rename import Conversion, Unsure, UsePlace
from amp_migrate.settings import Dtype
from amp_migrate.tables.signatures import parameters

_STARRED = Unsure("its arguments are starred, so nobody can tell where they would land", "write the arguments out")


def autocast(device: str) -> Conversion:
    """`autocast(enabled, dtype, cache_enabled)` of one device as `torch.amp.autocast`, its old default dtype named."""

    def convert(context: UsePlace, args: tuple[cst.Arg, ...]) -> list[Given] | Unsure:
        named = by_keyword(args, parameters(f"torch.{device}.amp.autocast"))
        if isinstance(named, Unsure):
            return named
        if any(arg.star for arg in args):  # the mapping may hold a dtype, which is written out below
            return _STARRED
        new = [Given(keyword="device_type", value=_quoted(device))]
        given = _place(named, "dtype")
        if given is None and _is_off(context, named):
            pass  # a region that is off computes in no dtype of its own
        elif given is None:
            new.append(Given(keyword="dtype", value=_default_dtype(context, device)))
        elif device == "cuda" and context.dtype is not Dtype.FP16 and is_float16(context, _value(named[given])):
            named[given] = replace(named[given], value=_default_dtype(context, device))
        return [*new, *named]

    return convert


def _is_off(context: UsePlace, named: Sequence[Given]) -> bool:
    """Whether a region is off for good; arguments of `functools.partial` may yet be overridden."""
    if isinstance(context.editor.file.tree.parents[context.node], cst.Arg):
        return False
    switch = _place(named, "enabled")
    value = None if switch is None else _value(named[switch])
    return isinstance(value, cst.Name) and value.value == "False"


def _default_dtype(context: UsePlace, device: str) -> Code:
    if device == "cpu":
        return code("{}.bfloat16", context.editor.torch(context.node))
    return context.editor.dtype(context.dtype, context.node)


def is_float16(context: UsePlace, value: cst.BaseExpression) -> bool:
    """Whether an expression says float16, and nothing that depends on the run."""
    return context.editor.file.names.full(value) in ("torch.float16", "torch.half")


def grad_scaler(device: str) -> Conversion:
    """`GradScaler(init_scale, growth_factor, ...)` with the device in front and the rest by keyword."""

    def convert(context: UsePlace, args: tuple[cst.Arg, ...]) -> list[Given] | Unsure:
        named = by_keyword(args, parameters("torch.cuda.amp.GradScaler"))
        if isinstance(named, Unsure):
            return named
        if device == "cuda" and context.dtype is Dtype.AUTO:
            named = _enabled_for_float16(context, named)
        return [Given(value=_quoted(device)), *named]

    return convert


def _enabled_for_float16(context: UsePlace, named: list[Given]) -> list[Given]:
    """`enabled=` that is also false where the script runs in bfloat16."""
    condition = context.editor.is_float16(context.node)
    index = _place(named, "enabled")
    if index is None:
        return [*named, Given(keyword="enabled", value=condition)]
    value = _value(named[index])
    is_simple = isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    both = code("{} and {}" if is_simple else "({}) and {}", value, condition)
    return [*named[:index], replace(named[index], value=both), *named[index + 1 :]]


def switched_off(args: Sequence[Given]) -> list[Given]:
    """Arguments that say `enabled=False`, whatever they said before."""
    return [*(arg for arg in args if arg.name != "enabled"), Given(keyword="enabled", value=plain("False"))]


def with_device_type(context: UsePlace, args: tuple[cst.Arg, ...]) -> list[Given] | Unsure:
    """Any arguments, and `device_type="cuda"` behind them."""
    if any(arg.star for arg in args):
        return _STARRED
    return [*map(Given, args), Given(keyword="device_type", value=_quoted("cuda"))]


def device_first(device: str) -> Conversion:
    """The device as a new first argument."""

    def convert(context: UsePlace, args: tuple[cst.Arg, ...]) -> list[Given] | Unsure:
        return _STARRED if any(arg.star for arg in args) else [Given(value=_quoted(device)), *map(Given, args)]

    return convert


def device_second(context: UsePlace, args: tuple[cst.Arg, ...]) -> list[Given] | Unsure:
    """The device, `"cuda"`, between the first argument and the others."""
    if any(arg.star for arg in args) or not args or args[0].keyword is not None:
        return _STARRED
    first, *others = map(Given, args)
    return [first, Given(value=_quoted("cuda")), *others]


def by_keyword(args: Sequence[cst.Arg], names: Sequence[str]) -> list[Given] | Unsure:
    """Arguments with every positional one turned into a keyword."""
    found: list[Given] = []
    for index, arg in enumerate(args):
        if arg.star == "*" or (index >= len(names) and arg.keyword is None and not arg.star):
            return _STARRED if arg.star else Unsure("it has more arguments than the function takes", "correct the call")
        is_positional = arg.keyword is None and not arg.star
        new = Given(arg, names[index] if is_positional else None)
        if new.name and (new.name not in names or any(new.name == each.name for each in found)):
            said = " twice" if new.name in names else ", which the function does not take"
            return Unsure(f"it passes `{new.name}`{said}, and raises as it is", "correct the call")
        found.append(new)
    return found


def _quoted(device: str) -> Code:
    return plain(f'"{device}"')


def _place(args: Sequence[Given], name: str) -> int | None:
    return next((index for index, arg in enumerate(args) if arg.name == name), None)


def _value(arg: Given) -> cst.BaseExpression:
    assert arg.old is not None
    return arg.old.value
