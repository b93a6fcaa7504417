"""Tests of PyTorch's version, and of what it has, that come out the same on every PyTorch that is written for.

Only forms that compare the way they look are read: `torch.__version__[:3] >= "1.6"` is false of PyTorch 1.13. Who asks
for a 2 in front means the PyTorch of today, not that there will be no 3.
"""

from __future__ import annotations

import re
from typing import Protocol

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind
from amp_migrate.analysis.names.reaching import VersionTests, flag_of_version, reaching
from amp_migrate.tables.signatures import FORMS, Version, forms

_PARSERS = frozenset(
    (
        "packaging.version.parse packaging.version.Version pkg_resources.packaging.version.parse "
        "pkg_resources.parse_version distutils.version.LooseVersion looseversion.LooseVersion "
        "torch.torch_version.TorchVersion "
        "mmcv.digit_version mmcv.utils.digit_version mmengine.utils.digit_version"
    ).split()
)
# What a project calls a function of its own that does the same: nobody gives these names to anything else.
_OWN_PARSERS = frozenset({"digit_version", "parse_version"})
_VERSION = "torch.__version__"
_OWN_VERSION = "TORCH_VERSION"
_TEXT = re.compile(r"(\d+)\.(\d+)((?:\.0)*)")
_MAJOR = re.compile(r"(\d)\.?")
_MODULES = ("torch.amp", "torch.cuda.amp")


class FullNames(VersionTests, Protocol):
    """What a test is read with: the file, and what its names stand for."""

    def full(self, node: cst.CSTNode) -> str:
        """The full name of what a name stands for; empty where that is not sure."""

    def callee(self, call: cst.CSTNode | None) -> str:
        """The full name of what a call calls; empty where that is not sure."""


def outcome(names: FullNames, test: cst.BaseExpression, target: Version) -> bool | None:
    """What a test says on every PyTorch from `target` on; None where that depends, or is not about PyTorch."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = outcome(names, test.expression, target)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        sides = {outcome(names, test.left, target), outcome(names, test.right, target)}
        decisive = isinstance(test.operator, cst.Or)
        return decisive if decisive in sides else None if None in sides else not decisive
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compared(names, test.left, test.comparisons[0], target)
    if isinstance(test, cst.Call):
        return True if _asks_for_what_is_there(names, test, target) else _has_major(names, test, target)
    if not isinstance(test, cst.Name):
        return None
    flag = flag_of_version(names, test)
    value = _value(names, test)
    return flag if value is test or flag is not None else outcome(names, value, target)


def _compared(
    names: FullNames, left: cst.BaseExpression, comparison: cst.ComparisonTarget, target: Version
) -> bool | None:
    right = _value(names, comparison.comparator)
    operator = comparison.operator
    if isinstance(operator, (cst.Equal, cst.NotEqual, cst.In, cst.NotIn)):
        is_other = _is_another_library(names, left, right, isinstance(operator, (cst.In, cst.NotIn)))
        return isinstance(operator, (cst.NotEqual, cst.NotIn)) if is_other else None
    is_own = _is_own_version(names, left)
    left = left if is_own else _value(names, left)
    if not isinstance(operator, (cst.GreaterThanEqual, cst.GreaterThan, cst.LessThan, cst.LessThanEqual)):
        return None
    is_turned = isinstance(operator, (cst.LessThan, cst.LessThanEqual))
    is_strict = isinstance(operator, (cst.GreaterThan, cst.LessThanEqual))
    if _is_parsed_version(names, left):
        bound = _version(names, right)
    elif _is_tuple_of_version(names, left) or is_own:
        bound = _tuple(right, longest=2)
    else:
        return None
    if bound is None or not (target > bound or (target == bound and not is_strict)):
        return None
    return not is_turned


def _value(names: FullNames, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a variable that only one assignment, further up, may have given its value holds; any other as it is."""
    if isinstance(node, cst.Name):
        bindings = reaching(names, node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGNMENT else None
        if value is not None and names.tree.order[value] < names.tree.order[node]:
            return value
    return node


def _is_version(names: FullNames, node: cst.BaseExpression) -> bool:
    """`torch.__version__`, with or without what stands behind its `+`."""
    if isinstance(node, cst.Subscript):
        call = node.value
        is_first = names.tree.code(node).replace("'", '"').replace(" ", "").endswith('.split("+")[0]')
        return (
            is_first
            and isinstance(call, cst.Call)
            and isinstance(call.func, cst.Attribute)
            and _is_version(names, call.func.value)
        )
    return names.full(_value(names, node)) == _VERSION or _is_own_version(names, node)


def _is_own_version(names: FullNames, node: cst.BaseExpression) -> bool:
    """`TORCH_VERSION`, imported: what projects that have one make of `torch.__version__`, be it a text or numbers."""
    if not isinstance(node, (cst.Name, cst.Attribute)) or names.tree.code(node).rpartition(".")[2] != _OWN_VERSION:
        return False
    bindings = names.scopes.of(node).lookup(node.value) if isinstance(node, cst.Name) else ()
    return all(binding.kind is BindingKind.IMPORT for binding in bindings)


def _is_another_library(names: FullNames, left: cst.BaseExpression, right: cst.BaseExpression, is_part: bool) -> bool:
    """`TORCH_VERSION == "parrots"`: asks for what is no PyTorch, because no number is in it."""
    text, version = (left, right) if is_part or isinstance(left, cst.SimpleString) else (right, left)
    if not isinstance(text, cst.SimpleString) or not text.raw_value.isalpha():
        return False
    return _is_version(names, version)


def _is_parsed_version(names: FullNames, node: cst.BaseExpression) -> bool:
    """`version.parse(torch.__version__)`; `torch.__version__` itself compares as a version, too."""
    text = _parsed(names, node)
    return names.full(node) == _VERSION if text is None else _is_version(names, text)


def _parsed(names: FullNames, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The text that a call makes a version of which compares as one; None for every other expression."""
    if not isinstance(node, cst.Call) or len(node.args) != 1:
        return None
    spelled = names.tree.code(node.func).rpartition(".")[2]
    return node.args[0].value if names.callee(node) in _PARSERS or spelled in _OWN_PARSERS else None


def _version(names: FullNames, node: cst.BaseExpression) -> Version | None:
    """The version that a literal, parsed or not, names; None for one that is more than major and minor."""
    node = _parsed(names, node) or node
    if isinstance(node, cst.SimpleString):
        found = _TEXT.fullmatch(node.raw_value)
        return None if found is None else (int(found[1]), int(found[2]))
    return _tuple(node, longest=3)


def _tuple(node: cst.BaseExpression, longest: int) -> Version | None:
    """`(2, 3)`, or `(2, 3, 0)` where three numbers may be compared."""
    if not isinstance(node, (cst.Tuple, cst.List)) or not 2 <= len(node.elements) <= longest:
        return None
    numbers = [each.value.value for each in node.elements if isinstance(each.value, cst.Integer)]
    if len(numbers) != len(node.elements) or numbers[2:] not in ([], ["0"]):
        return None
    return int(numbers[0]), int(numbers[1])


def _is_tuple_of_version(names: FullNames, node: cst.BaseExpression) -> bool:
    """`tuple(map(int, torch.__version__.split(".")[:2]))`, or the same as a comprehension."""
    if not isinstance(node, cst.Call) or names.tree.code(node.func) != "tuple" or len(node.args) != 1:
        return False
    inner = node.args[0].value
    numbers: cst.BaseExpression | None = None
    if isinstance(inner, cst.Call) and len(inner.args) == 2 and names.tree.code(inner.func) == "map":
        numbers = inner.args[1].value if names.tree.code(inner.args[0].value) == "int" else None
    elif isinstance(inner, (cst.GeneratorExp, cst.ListComp)) and inner.for_in.inner_for_in is None:
        loop = inner.for_in
        is_int = names.tree.code(inner.elt) == f"int({names.tree.code(loop.target)})"
        numbers = loop.iter if is_int and not loop.ifs else None
    if not isinstance(numbers, cst.Subscript) or not isinstance(numbers.value, cst.Call):
        return False
    code = names.tree.code(numbers).replace("'", '"').replace(" ", "")
    split = numbers.value.func
    return code.endswith('.split(".")[:2]') and isinstance(split, cst.Attribute) and _is_version(names, split.value)


def _has_major(names: FullNames, call: cst.Call, target: Version) -> bool | None:
    """`torch.__version__.startswith("2")`: what is written for 2.1 and newer is not for a PyTorch 1."""
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "startswith" and len(call.args) == 1):
        return None
    start = call.args[0].value
    found = _MAJOR.fullmatch(start.raw_value) if isinstance(start, cst.SimpleString) else None
    if found is None or not _is_version(names, call.func.value):
        return None
    major = int(found[1])
    return False if major < target[0] else True if major == target[0] else None


def _asks_for_what_is_there(names: FullNames, call: cst.Call, target: Version) -> bool:
    """`hasattr(torch.amp, "GradScaler")`."""
    if not isinstance(call.func, cst.Name) or call.func.value != "hasattr" or len(call.args) != 2:
        return False
    owner, name = names.full(call.args[0].value), call.args[1].value
    if not owner or not isinstance(name, cst.SimpleString):
        return False
    full = f"{owner}.{name.raw_value}"
    return full in _MODULES or (full in FORMS and bool(forms(full, target)))
