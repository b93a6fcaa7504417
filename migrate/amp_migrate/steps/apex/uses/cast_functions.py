"""Where an Apex script said what single functions compute in: `float_function`, `disable_casts`, registered names.

A function of torch that is registered for what autocast does with it anyway needs no registration. `half_function`,
`promote_function` and other registered names have no native form: torch switches autocast off inside a function whose
inputs it casts to float16, and the weights in there are float32.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.uses.apex_calls import amp_name
from amp_migrate.tables.apex_names import AS_REGISTERED
from amp_migrate.trees.nodes import Statement

# What can be written natively, and since when.
_SINCE = {"disable_casts": (1, 12), "float_function": (2, 4)}
_MODULES = ("torch", "torch.nn.functional", "torch.Tensor")


def is_native(file: File, node: cst.Name | cst.Attribute, target_torch: tuple[int, int]) -> bool:
    """Whether one use of a name of `apex.amp` is a call or a decorator that torch has a form of."""
    name = amp_name(file, node) or ""
    parent = file.tree.parents[node]
    if name in AS_REGISTERED:
        return is_needless(file, file.tree.statement(node))
    if name not in _SINCE or target_torch < _SINCE[name]:
        return False
    if name == "disable_casts":
        is_called = isinstance(parent, cst.Call) and parent.func is node and not parent.args
        return is_called and isinstance(file.tree.parents[parent], cst.WithItem)
    return isinstance(parent, cst.Decorator) or (
        isinstance(parent, cst.Call) and parent.func is node and [arg.keyword for arg in parent.args] == [None]
    )


def is_needless(file: File, statement: Statement) -> bool:
    """Whether a statement registers a function of torch for what autocast does with it anyway."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or len(call.args) != 2 or any(arg.star or arg.keyword for arg in call.args):
        return False
    module, name = (arg.value for arg in call.args)
    return (
        file.names.full(module) in _MODULES
        and isinstance(name, cst.SimpleString)
        and name.evaluated_value in AS_REGISTERED.get(amp_name(file, call.func) or "", ())
    )


def float_functions(file: File) -> list[cst.Name | cst.Attribute]:
    """The uses of `float_function`, inside which Apex went on casting and torch does not."""
    return [node for node in cast_uses(file) if amp_name(file, node) == "float_function"]


def cast_uses(file: File) -> Iterator[cst.Name | cst.Attribute]:
    local = {
        name
        for scope in file.scopes.all()
        for name, bindings in scope.bindings.items()
        if any(binding.imported.rpartition(".")[2] in _SINCE for binding in bindings)
    }
    for word in sorted({*_SINCE, *local}):
        for node in file.uses.get(word, ()):
            if amp_name(file, node) in _SINCE:
                yield node
