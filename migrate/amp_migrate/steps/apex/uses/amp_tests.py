"""Tests of whether `apex.amp` is there: `use_amp = amp is not None and args.amp`.

It may be None without Apex, and then the answer is known; or None where the script is told to do without, and then the
test asks for the script's switch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.uses.apex_guards import insists
from amp_migrate.steps.apex.uses.import_flags import says_apex_is_there
from amp_migrate.tables.apex_names import AMP, API, AS_REGISTERED
from amp_migrate.trees.nodes import block_of, compared_with_none, find, is_constant, nested_statements, written_string

_NAMES = API.union({"init"}, AS_REGISTERED, (each.removeprefix("register_") for each in AS_REGISTERED))

# What a question is where that is known: its truth, another question, or itself.
Answer: TypeAlias = "Callable[[cst.BaseExpression], cst.BaseExpression | bool]"


@frozen
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
        if test is not None:
            yield test if is_switch else _whole(file, test)


def flag_tests(file: File, kept: Collection[cst.Call]) -> Iterator[AmpTest]:
    """The tests of whether Apex could be imported round what only saves or restores its state.

    Native AMP is there without it, and so is its scale: elsewhere such a flag stays for what it says of Apex.

    Args:
        kept: the calls that save and restore.
    """
    found: dict[cst.CSTNode, AmpTest] = {}
    for call in kept:
        inner: cst.CSTNode = call
        for around in file.tree.ancestors(call):
            if isinstance(around, cst.FunctionDef):
                break
            is_own = isinstance(around, cst.If) and around.orelse is None and _only_keeps(around, kept)
            is_own = is_own and file.tree.statement(around) is around
            if (is_own or isinstance(around, cst.IfExp)) and isinstance(around, (cst.If, cst.IfExp)):
                names = find(around.test, cst.Name) if around.body is inner else ()
                for name in (each for each in names if says_apex_is_there(file, each) and _is_only_asked(file, each)):
                    test = _whole(file, AmpTest(name, name, answer=True, is_switch=False))
                    found.setdefault(test.node, test)
            inner = around
    yield from found.values()


def _only_keeps(holder: cst.If, kept: Collection[cst.Call]) -> bool:
    """Whether an `if` does nothing else than some calls."""
    return all(
        isinstance(each, cst.If) or any(call in kept for call in find(each, cst.Call))
        for each in nested_statements(block_of(holder))
    )


def settled(file: File, test: cst.BaseExpression) -> cst.BaseExpression | bool:
    """A test as it is where Apex is there: its truth, or what is left of it to ask."""
    return answered_by(test, partial(_answer, file))


def answered_by(test: cst.BaseExpression, answer: Answer) -> cst.BaseExpression | bool:
    """A test whose questions, with what joins them taken apart, have answers: its truth, or what is left to ask."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = answered_by(test.expression, answer)
        if isinstance(inner, bool):
            return not inner
        return test if inner is test.expression else test.with_changes(expression=inner)
    if isinstance(test, cst.BooleanOperation):
        decides = isinstance(test.operator, cst.Or)
        sides = [answered_by(each, answer) for each in (test.left, test.right)]
        asked = [each for each in sides if not isinstance(each, bool)]
        if decides in sides or not asked:
            return decides if decides in sides else not decides
        if len(asked) == 1:
            is_bare = isinstance(asked[0], (cst.BooleanOperation, cst.UnaryOperation, cst.IfExp)) and not asked[0].lpar
            return asked[0].with_changes(lpar=test.lpar, rpar=test.rpar) if is_bare else asked[0]
        return test if asked == [test.left, test.right] else test.with_changes(left=asked[0], right=asked[1])
    return answer(test)


def _answer(file: File, test: cst.BaseExpression) -> cst.BaseExpression | bool:
    value, is_there = compared_with_none(test) or (test, True)
    is_name = isinstance(value, (cst.Name, cst.Attribute)) and value in file.uses.get("amp", ())
    is_amp = is_name and is_amp_or_none(file, value) and is_none_without_apex(file, value)
    return is_there if is_amp or says_apex_is_there(file, test) else test


def without_amp_tests(file: File, condition: cst.BaseExpression) -> cst.BaseExpression:
    """A condition without what asks for Apex beside another question."""
    rest = settled(file, condition)
    return condition if isinstance(rest, bool) else rest


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
    if isinstance(asking, cst.Call) and is_truth(asking):
        return AmpTest(name, asking, answer=True, is_switch=is_switch)
    return AmpTest(name, name, answer=True, is_switch=is_switch) if _is_only_asked(file, name) else None


def is_truth(node: cst.CSTNode) -> bool:
    """Whether an expression is `bool(...)` of something."""
    return isinstance(node, cst.Call) and dotted(node.func) == "bool" and len(node.args) == 1


def _whole(file: File, test: AmpTest) -> AmpTest:
    """The longest test that one of them decides: `not (amp is not None)`, `fast or amp is not None`."""
    parent = file.tree.parents[test.node]
    if isinstance(parent, cst.BooleanOperation):
        is_free = _is_only_asked(file, parent) and not any(find(parent, cst.Call))
    else:
        is_free = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    if not is_free or not isinstance(parent, cst.BaseExpression):
        return test
    answer = settled(file, parent)
    return _whole(file, replace(test, node=parent, answer=answer)) if isinstance(answer, bool) else test


def _is_only_asked(file: File, node: cst.BaseExpression) -> bool:
    """Whether only the truth of a value decides, and the value goes nowhere."""
    parent = file.tree.parents[node]
    if isinstance(parent, cst.BooleanOperation):
        return (parent.left is node and isinstance(parent.operator, cst.And)) or _is_only_asked(file, parent)
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Not)
    return isinstance(parent, (cst.If, cst.IfExp, cst.While, cst.Assert)) and parent.test is node


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
