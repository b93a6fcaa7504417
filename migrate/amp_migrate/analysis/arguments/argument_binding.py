"""Which argument of a call reaches which parameter, by Python's binding rules."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature

import libcst as cst

from amp_migrate.frozen import frozen


@frozen
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


def single_parameters(function: cst.FunctionDef) -> tuple[cst.Param, ...]:
    """The parameters that one argument goes into, however it is passed: all but `*args` and `**kwargs`."""
    params = function.params
    return (*params.posonly_params, *params.params, *params.kwonly_params)


def parameter(function: cst.FunctionDef, name: str) -> cst.Param | None:
    """The parameter called `name`, however it can be passed; None for `*args`, `**kwargs` and strangers."""
    return next((each for each in single_parameters(function) if each.name.value == name), None)


def passed(function: cst.FunctionDef, call: cst.Call, name: str, *, bound: int) -> Passed | None:
    """What `call` passes for the parameter `name` of `function`.

    Args:
        bound: how many of the first parameters are filled: one by the object that a method is called on.

    Returns:
        None where a starred argument may or may not reach the parameter: nobody can tell from the text.
    """
    names = positional_names(function)[bound:]
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


def fits(function: cst.FunctionDef, call: cst.Call, *, bound: int) -> bool:
    """Whether Python lets `call` call `function`; what is starred may hold whatever is missing.

    Args:
        bound: how many of the first parameters are filled: one by the object that a method is called on.
    """
    signature = Signature([*_parameters(function.params)][bound:])
    positional = [each for each in call.args if not each.star and each.keyword is None]
    keywords = [each.keyword.value for each in call.args if each.keyword is not None]
    is_open = any(each.star for each in call.args)
    try:
        # Only what is written out can be wrong.
        (signature.bind_partial if is_open else signature.bind)(*positional, **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


def _parameters(params: cst.Parameters) -> Iterator[Parameter]:
    groups = (
        (params.posonly_params, Parameter.POSITIONAL_ONLY),
        (params.params, Parameter.POSITIONAL_OR_KEYWORD),
        ((params.star_arg,), Parameter.VAR_POSITIONAL),
        (params.kwonly_params, Parameter.KEYWORD_ONLY),
        ((params.star_kwarg,), Parameter.VAR_KEYWORD),
    )
    for group, kind in groups:
        for each in group:
            if isinstance(each, cst.Param):
                yield Parameter(
                    each.name.value, kind, default=Parameter.empty if each.default is None else each.default
                )
