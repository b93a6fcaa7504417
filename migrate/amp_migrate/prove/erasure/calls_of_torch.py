"""Calls of what Apex has and torch has too, in the one form by which they are compared."""

from __future__ import annotations

import ast

from amp_migrate.tables.apex_natives import NATIVES, TorchForm

_BY_OLD: dict[str, list[TorchForm]] = {}
_BY_NEW: dict[str, list[TorchForm]] = {}
for _native in NATIVES:
    _BY_OLD.setdefault(_native.old, []).append(_native)
    _BY_NEW.setdefault(_native.new, []).append(_native)
# Older names of the same function.
_OF_TODAY = {"torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_"}


def native_call(call: ast.Call, name: str, *, is_held: bool = False) -> ast.Call:
    """A call of Apex as torch's own; a call of what stands for it in torch with arguments in the same form.

    Args:
        name: the public name of what is called.
        is_held: whether a variable holds that: what is called by it takes the arguments as they are.
    """
    for native in _BY_OLD.get(name, ()):
        translated = _translated(call, native)
        if translated is not None:
            return call if is_held and native.is_value and _takes_all(call, native) else translated
    for native in _BY_NEW.get(_OF_TODAY.get(name, name), ()):
        return _in_order(call, native)
    return call


def _takes_all(call: ast.Call, native: TorchForm) -> bool:
    """Whether torch has a parameter of the same name, or place, for every argument of a call of Apex."""
    leading = native.names[: native.leading]
    return len(call.args) <= len(leading) and all(each.arg in leading for each in call.keywords)


def _translated(call: ast.Call, native: TorchForm) -> ast.Call | None:
    """A call of Apex by its table; None where it has an argument that torch does not have."""
    names = native.names
    defaults = dict(word.split("=", 1) for word in native.parameters.split() if "=" in word)
    given: dict[str, ast.expr] = {}
    for index, value in enumerate(call.args):
        if isinstance(value, ast.Starred) or index >= len(names):
            return None
        given[names[index]] = value
    for keyword in call.keywords:
        if keyword.arg not in names:
            return None
        given[keyword.arg] = keyword.value
    for parameter, wanted in native.requires.items():
        said = given.get(parameter)
        if said is None:
            if defaults.get(parameter, "") != ("" if wanted == "" else repr(wanted)):
                return None
        elif not (isinstance(said, ast.Constant) and said.value == wanted):
            return None
    leading = {str(index): given[name] for index, name in enumerate(names[: native.leading]) if name in given}
    going = {new: given[old] for old, new in native.goes.items() if old in given}
    places = {name: str(index) for index, name in enumerate(names[: native.leading])}
    told = {places.get(e.keyword, e.keyword): ast.parse(e.value, mode="eval").body for e in native.says}
    return _made(call, native, {**told, **leading, **going})


def _in_order(call: ast.Call, native: TorchForm) -> ast.Call:
    """A call of torch with its leading arguments by their places, as a translated call has them."""
    if len(call.args) > native.leading or any(isinstance(each, ast.Starred) for each in call.args):
        return call
    places = {name: str(i) for n in _BY_NEW[native.new] for i, name in enumerate(n.names[: n.leading])}
    given = {str(index): value for index, value in enumerate(call.args)}
    for keyword in call.keywords:
        if keyword.arg is None:
            return call
        given[places.get(keyword.arg, keyword.arg)] = keyword.value
    return _made(call, native, given)


def _made(call: ast.Call, native: TorchForm, given: dict[str, ast.expr]) -> ast.Call:
    # What only some versions of PyTorch are told is for their speed, or has another name in the others; and what is not
    # told beside everything lets code run that would end with an error.
    some = {each.keyword for each in native.says if each.since != (0, 0) or each.before is not None or each.unless}
    kept = [ast.keyword(name, value) for name, value in sorted(given.items()) if name not in some]
    return ast.copy_location(ast.Call(ast.Name(native.new, ast.Load()), [], kept), call)
