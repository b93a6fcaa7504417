"""What a call is given out of a dictionary that its function writes out: `train(epochs=2, **options)`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import Passed
from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import written_string


def spread(file: File, call: cst.Call, name: str, new: str) -> Passed | None:
    """What the only starred argument of a call holds under a name, in the place of that argument.

    Args:
        new: what is to be passed beside it, which must not be there yet.

    Returns:
        None where nobody can tell: something else has the dictionary, too, and may put another value into it.
    """
    starred = [index for index, each in enumerate(call.args) if each.star]
    given = call.args[starred[0]] if len(starred) == 1 else None
    entries = _entries(file, given.value) if given is not None and given.star == "**" else None
    if entries is None or new in entries:
        return None
    return Passed(cst.Arg(entries[name]), starred[0], by_keyword=True) if name in entries else Passed(None)


def _entries(file: File, given: cst.BaseExpression) -> dict[str, cst.BaseExpression] | None:
    """The values of a dictionary by its keys: one that stands there, or a variable that calls are given alone."""
    if not isinstance(given, cst.Name):
        return _written(file, given)
    scope = file.scopes.of(given)
    bindings = scope.bindings.get(given.value, [])
    made = bindings[0] if len(bindings) == 1 and isinstance(scope.node, cst.FunctionDef) else None
    is_plain = made is not None and isinstance(made.node, cst.Assign) and len(made.node.targets) == 1
    if made is None or made.value is None or not is_plain or file.tree.order[made.node] > file.tree.order[given]:
        return None
    own = (each for each in file.uses[given.value] if file.scopes.of(each).find(given.value) is scope)
    around = (file.tree.parents[each] for each in own if isinstance(each, cst.Name))
    others = (each for each in around if not (isinstance(each, cst.Arg) and each.star == "**"))
    return _written(file, made.value) if all(file.tree.parents[each] is made.node for each in others) else None


def _written(file: File, value: cst.BaseExpression) -> dict[str, cst.BaseExpression] | None:
    """The entries of a display or of a call of `dict`, each of which has a key that is written out."""
    if isinstance(value, cst.Dict):
        pairs = [each for each in value.elements if isinstance(each, cst.DictElement)]
        said = {key: each.value for each in pairs if (key := written_string(each.key)) is not None}
        return said if len(said) == len(value.elements) else None
    is_dict = isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict"
    if not isinstance(value, cst.Call) or not is_dict or file.scopes.of(value).find("dict") is not None:
        return None
    named = {each.keyword.value: each.value for each in value.args if each.keyword is not None}
    return named if len(named) == len(value.args) else None
