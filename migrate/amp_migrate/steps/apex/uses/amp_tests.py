"""Tests of whether `apex.amp` is there: `use_amp = amp is not None and args.amp`.

It may be None without Apex, and then the answer is known; or None where the script is told to do without, and then the
test asks for the script's switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.steps.apex.uses.apex_calls import amp_name
from amp_migrate.steps.apex.uses.apex_guards import insists
from amp_migrate.tables.apex_names import AMP, API, AS_REGISTERED
from amp_migrate.trees.nodes import compared_with_none, find, is_constant, written_string

_NAMES = API.union({"init"}, AS_REGISTERED, (each.removeprefix("register_") for each in AS_REGISTERED))


@dataclass(frozen=True)
class AmpTest:
    """One such test.

    Attributes:
        name: what stands for `apex.amp` in it.
        node: the whole test.
        answer: what it gives where Apex is there.
        is_switch: whether the script decides by itself that it is not there.
    """

    name: cst.Name | cst.Attribute
    node: cst.BaseExpression
    answer: bool
    is_switch: bool


def amp_tests(file: File) -> Iterator[AmpTest]:
    """The tests of a file, but for statements that only insist on Apex."""
    for name in file.uses.get("amp", ()):
        if not is_amp_or_none(file, name) or insists(file, file.tree.statement(name)):
            continue
        is_switch = not is_none_without_apex(file, name)
        test = _test(file, name, is_switch=is_switch)
        decided = _decided_by(file, name)
        is_of_version = test is not None and isinstance(test.node, cst.Call) and "initialize" not in decided
        if decided & API and not is_switch and not is_of_version and not (test is not None and _is_one_of(file, test)):
            continue
        if test is not None:
            yield test


def without_amp_tests(file: File, condition: cst.BaseExpression) -> cst.BaseExpression:
    """A condition without each `amp is not None`, or `amp` alone, that asks for Apex beside another question."""
    if not isinstance(condition, cst.BooleanOperation) or not isinstance(condition.operator, cst.And):
        return condition
    left, right = condition.left, condition.right
    for side, other in ((left, right), (right, left)):
        asked, is_there = compared_with_none(side) or (side, True)
        is_name = isinstance(asked, (cst.Name, cst.Attribute)) and asked in file.uses.get("amp", ())
        if is_there and is_name and is_amp_or_none(file, asked) and is_none_without_apex(file, asked):
            return without_amp_tests(file, other)
    sides = [without_amp_tests(file, each) for each in (left, right)]
    return condition if sides == [left, right] else condition.with_changes(left=sides[0], right=sides[1])


def _is_one_of(file: File, test: AmpTest) -> bool:
    """Whether a test is one of several that have to be true, so that another one is the script's switch."""
    around = file.tree.parents[test.node]
    return test.answer and isinstance(around, cst.BooleanOperation) and without_amp_tests(file, around) is not around


def _test(file: File, name: cst.Name | cst.Attribute, *, is_switch: bool) -> AmpTest | None:
    parent = file.tree.parents[name]
    asked = compared_with_none(parent)
    if isinstance(parent, cst.Comparison) and asked is not None and asked[0] is name:
        return AmpTest(name, parent, answer=asked[1], is_switch=is_switch)
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        return AmpTest(name, parent, answer=False, is_switch=is_switch)
    asking = file.tree.parents[parent] if isinstance(parent, cst.Arg) else None
    if isinstance(asking, cst.Call) and dotted(asking.func) == "hasattr" and len(asking.args) == 2:
        wanted = written_string(asking.args[1].value)
        is_known = asking.args[0] is parent and wanted in _NAMES
        return AmpTest(name, asking, answer=True, is_switch=is_switch) if is_known else None
    return AmpTest(name, name, answer=True, is_switch=is_switch) if _is_only_asked(file, name) else None


def _is_only_asked(file: File, node: cst.BaseExpression) -> bool:
    """Whether only the truth of a value decides, and the value goes nowhere."""
    parent = file.tree.parents[node]
    if isinstance(parent, cst.BooleanOperation):
        return (parent.left is node and isinstance(parent.operator, cst.And)) or _is_only_asked(file, parent)
    return isinstance(parent, (cst.If, cst.IfExp)) and parent.test is node


def _decided_by(file: File, name: cst.Name | cst.Attribute) -> set[str | None]:
    """Which of Apex's own calls stand in an `if` that a name stands in the test of: it is a part of the switch."""
    inside: cst.CSTNode = name
    for each in file.tree.ancestors(name):
        if isinstance(each, cst.If) and inside is each.test:
            return {amp_name(file, call.func) for call in find(each, cst.Call)}
        inside = each
    return set()


def is_amp_or_none(file: File, name: cst.BaseExpression) -> bool:
    """Whether something is `apex.amp` or None."""
    if isinstance(name, cst.Attribute) and not (dotted(name) or "").startswith("self."):
        return AMP in file.names.meanings(name) and not object_bindings(file, name)
    bound = object_bindings(file, name)
    values = (AMP in file.names.meanings(each.value) for each in bound if each.value is not None)
    is_amp = AMP in file.names.meanings(name) or any(values)
    return is_amp and all(_gives_amp_or_none(file, each) for each in bound)


def _gives_amp_or_none(file: File, binding: Binding) -> bool:
    if binding.kind is BindingKind.IMPORT:
        return AMP in file.names.brought(binding)
    if binding.kind is BindingKind.PARAMETER:
        return binding.node in file.names.given
    return binding.value is not None and (
        is_constant(binding.value, "None") or AMP in file.names.meanings(binding.value)
    )


def is_none_without_apex(file: File, name: cst.BaseExpression) -> bool:
    """Whether something is `apex.amp` wherever Apex is there: only a missing Apex makes it something else."""
    return all(_is_there_for_apex(file, each) for each in object_bindings(file, name))


def _is_there_for_apex(file: File, binding: Binding) -> bool:
    around = file.tree.ancestors(binding.node)
    if binding.kind is BindingKind.IMPORT:
        return not any(isinstance(each, (cst.If, cst.For, cst.While, cst.ExceptHandler)) for each in around)
    guard = next((each for each in around if isinstance(each, cst.ExceptHandler)), None)
    return guard is not None and is_constant(binding.value, "None")
