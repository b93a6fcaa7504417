"""Where an Apex script kept single functions out of mixed precision: `float_function` and `disable_casts`.

`half_function`, `promote_function` and functions registered by name have no native form: torch switches autocast off
inside a function whose inputs it casts to float16, and the weights in there are float32.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.read_apex import amp_name
from amp_migrate.trees import build

# What can be written natively, and since when.
_SINCE = {"disable_casts": (1, 12), "float_function": (2, 4)}


def is_native(file: File, node: cst.Name | cst.Attribute, target_torch: tuple[int, int]) -> bool:
    """Whether one use of a name of `apex.amp` is a call or a decorator that torch has a form of."""
    name = amp_name(file, node) or ""
    if name not in _SINCE or target_torch < _SINCE[name]:
        return False
    parent = file.tree.parents[node]
    if name == "disable_casts":
        is_called = isinstance(parent, cst.Call) and parent.func is node and not parent.args
        return is_called and isinstance(file.tree.parents[parent], cst.WithItem)
    return isinstance(parent, cst.Decorator) or (
        isinstance(parent, cst.Call) and parent.func is node and [arg.keyword for arg in parent.args] == [None]
    )


def write_functions(draft: Draft) -> None:
    """Write every use in a file as torch's own."""
    for node in _uses(draft.file):
        parent = draft.file.tree.parents[node]
        device = f'device_type="{draft.settings.device_type}"'
        if amp_name(draft.file, node) == "disable_casts":
            draft.edits.replace(parent, build.expression(f"{draft.amp('autocast', node)}({device}, enabled=False)"))
            continue
        options = f"{device}, cast_inputs={draft.torch(node)}.float32"
        name = draft.amp("custom_fwd", node)
        if isinstance(parent, cst.Call):
            draft.edits.replace(parent, build.expression(f"{name}({draft.code(parent.args[0].value)}, {options})"))
        else:
            draft.edits.replace(node, build.expression(f"{name}({options})"))


def float_functions(file: File) -> list[cst.Name | cst.Attribute]:
    """The uses of `float_function`, inside which Apex went on casting and torch does not."""
    return [node for node in _uses(file) if amp_name(file, node) == "float_function"]


def _uses(file: File) -> Iterator[cst.Name | cst.Attribute]:
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
