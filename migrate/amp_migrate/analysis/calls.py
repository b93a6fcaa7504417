"""Which argument of a call reaches which parameter, by Python's binding rules."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst


@dataclass(frozen=True)
class Passed:
    """What a call passes for one parameter.

    Attributes:
        argument: the argument; None where the call leaves the parameter to its default.
        index: the argument's place in `call.args`; -1 where there is none.
        by_keyword: whether it is passed as `name=value`.
    """

    argument: cst.Arg | None
    index: int = -1
    by_keyword: bool = False


def positional_names(function: cst.FunctionDef) -> tuple[str, ...]:
    """The names of the parameters that can be passed by position, `self` included."""
    params = function.params
    return tuple(p.name.value for p in (*params.posonly_params, *params.params))


def parameter(function: cst.FunctionDef, name: str) -> cst.Param | None:
    """The parameter called `name`, however it can be passed; None for `*args`, `**kwargs` and strangers."""
    params = function.params
    return next(
        (p for p in (*params.posonly_params, *params.params, *params.kwonly_params) if p.name.value == name), None
    )


def passed(function: cst.FunctionDef, call: cst.Call, name: str, *, bound: bool) -> Passed | None:
    """What `call` passes for the parameter `name` of `function`.

    Args:
        bound: whether the first parameter is filled by the object that the method is called on.

    Returns:
        None where a starred argument may or may not reach the parameter: nobody can tell from the text.
    """
    names = positional_names(function)[1 if bound else 0 :]
    position = names.index(name) if name in names else None
    starred = False
    for index, argument in enumerate(call.args):
        if argument.star:
            starred = True
        elif argument.keyword is not None:
            if argument.keyword.value == name:
                return Passed(argument, index, by_keyword=True)
        elif index == position and not starred:
            return Passed(argument, index)
    return None if starred else Passed(None)
