"""The regions of autocast that a file opens with `with`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.settings import Dtype
from amp_migrate.tables.torch_names import AUTOCAST
from amp_migrate.trees.nodes import find, is_constant, method_of, written_string

FLOAT16 = frozenset({"torch.float16", "torch.half"})


@dataclass(frozen=True, eq=False)
class AutocastRegion:
    """A `with` that autocasts.

    Attributes:
        node: the statement.
        call: the call of autocast behind it.
        device: its device type; empty where the text does not tell.
        dtype: the full name of its dtype; empty where the text does not tell.
        becomes: the dtype that this run gives it; None where it keeps its own.
    """

    node: cst.With
    call: cst.Call
    device: str
    dtype: str
    becomes: Dtype | None = None

    @property
    def is_float16(self) -> bool:
        """Whether it may compute in float16, after this run."""
        return self.dtype in FLOAT16 if self.becomes is None else self.becomes is not Dtype.BF16

    @property
    def is_bfloat16(self) -> bool:
        """Whether it may compute in bfloat16, after this run."""
        return self.dtype == "torch.bfloat16" if self.becomes is None else self.becomes is not Dtype.FP16


def regions_in(file: File) -> Iterator[AutocastRegion]:
    """Every region of a file that is not switched off in the text, in source order."""
    for node in file.tree.every(cst.With):
        call = _autocast(file, node)
        if call is not None and not _is_off(file, call):
            yield AutocastRegion(node, call, _device(file, call), _dtype(file, call))


def region_around(file: File, regions: dict[cst.CSTNode, AutocastRegion], node: cst.CSTNode) -> AutocastRegion | None:
    """The innermost region that a node runs in; None where there is none, or it is switched off."""
    previous = node
    for ancestor in file.tree.ancestors(node):
        if type(ancestor) in (cst.FunctionDef, cst.ClassDef, cst.Lambda):
            return None
        if type(ancestor) is cst.With and previous is ancestor.body and _autocast(file, ancestor) is not None:
            return regions.get(ancestor)
        previous = ancestor
    return None


def is_switched_off(file: File, node: cst.CSTNode) -> bool:
    """Whether the innermost region or decorator around a node switches autocast off, in so many words."""
    for around in file.tree.ancestors(node):
        if isinstance(around, cst.FunctionDef):
            calls = [call for each in around.decorators for call in find(each.decorator, cst.Call)]
            return any(file.names.callee(each) in AUTOCAST and _is_off(file, each) for each in calls)
        call = _autocast(file, around) if isinstance(around, cst.With) else None
        if call is not None:
            return _is_off(file, call)
    return False


def only_switches_off(file: File) -> bool:
    """Whether a file calls autocast to switch it off alone, in so many words, and does nothing else with it."""
    calls = [each for each in file.calls if file.names.callee(each) in AUTOCAST]
    called = {each.func.attr if isinstance(each.func, cst.Attribute) else each.func for each in calls}
    imports = (node for kind in (cst.Import, cst.ImportFrom) for node in file.tree.every(kind))
    imported = {name for node in imports for name in find(node, cst.Name)}
    named = {each for each in file.tree.every(cst.Name) if each.value == "autocast"}
    return bool(calls) and all(_is_off(file, each) for each in calls) and named <= called | imported


def is_autocast(file: File, node: cst.CSTNode) -> bool:
    """Whether a statement opens a region, or a function is decorated to run in one, switched on or off."""
    if isinstance(node, cst.FunctionDef):
        names = (name for decorator in node.decorators for name in find(decorator, cst.Name))
        return any("autocast" in name.value or name.value == "custom_fwd" for name in names)
    return isinstance(node, cst.With) and _autocast(file, node) is not None


def is_left_to_callers(file: File, node: cst.CSTNode) -> bool:
    """Whether a place is in a method of a module, which has no region of its own around it.

    A constructor runs where the module is made: regions are round what it computes.
    """
    owner = file.tree.owner_class(node)
    if owner is None or method_of(owner, "forward") is None:
        return False
    constructor = method_of(owner, "__init__")
    return not any(each is constructor or is_autocast(file, each) for each in file.tree.ancestors(node))


def _autocast(file: File, node: cst.With) -> cst.Call | None:
    """The call of autocast that a `with` enters, by itself or by a name that stands for one."""
    for item in node.items:
        for value in (item.item, *_values(file, item.item)):
            for call in find(value, cst.Call):
                if file.names.callee(call) in AUTOCAST:
                    return call
    return None


def _values(file: File, item: cst.BaseExpression) -> list[cst.BaseExpression]:
    path = dotted(item)
    bindings = [] if path is None else file.scopes.of(item).lookup(path)
    return [each.value for each in bindings if each.value is not None]


def is_false(value: cst.BaseExpression | None) -> bool:
    """Whether an argument says `False`, whatever happens."""
    return is_constant(value, "False")


def _is_native(file: File, call: cst.Call) -> bool:
    return not file.names.callee(call).startswith(("torch.cuda.", "torch.cpu."))


def _is_off(file: File, call: cst.Call) -> bool:
    return is_false(file.names.argument(call, "enabled"))


def _device(file: File, call: cst.Call) -> str:
    if not _is_native(file, call):
        return file.names.callee(call).split(".")[1]
    return written_string(file.names.argument(call, "device_type")) or ""


def _dtype(file: File, call: cst.Call) -> str:
    if any(arg.star for arg in call.args):
        return ""
    value = file.names.argument(call, "dtype")
    if value is not None:
        return file.names.full(value)
    defaults = {"cuda": "torch.float16", "cpu": "torch.bfloat16"}
    return defaults.get(_device(file, call), "")
