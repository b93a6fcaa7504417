"""Under which conditions code runs: the tests around it, those that have left the function before, and `enabled=`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import source
from amp_migrate.steps.apex.uses.amp_tests import is_amp_or_none, is_none_without_apex
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.tables.apex_names import INITIALIZE
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.nodes import (
    Block,
    Statement,
    block_of,
    compared_with_none,
    find,
    is_constant,
    parts_of,
    statements,
    written_string,
)
from amp_migrate.trees.own_calls import named_arguments

_COMPARED = {cst.Equal: "==", cst.In: "in", cst.Is: "is"}
_NEGATED = {cst.NotEqual: "==", cst.NotIn: "in", cst.IsNot: "is"}
_QUESTIONS = (cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)
_LEAVING = (cst.Return, cst.Continue, cst.Break)  # what raises, complains
_INSTALLED = ("torch.cuda.is_available",)


@frozen
class Condition:
    """A part of a test, and whether it holds.

    Attributes:
        code: the part as code, without a `not` of any kind, and with what an object has by its own name.
        holds: whether that is true.
        node: where it stands.
    """

    code: str
    holds: bool
    node: cst.BaseExpression = field(compare=False)

    @property
    def negated(self) -> Condition:
        """That the part is otherwise."""
        return Condition(self.code, not self.holds, self.node)


def conditions(file: File, node: cst.CSTNode) -> frozenset[Condition]:
    """What is true where some code is executed, but for what is installed."""
    return _settled(file, _around(file, node))


def with_apex(file: File, node: cst.CSTNode) -> frozenset[Condition]:
    """What is true where Apex does something at a place: what its file initializes it under, too, and not at O0."""
    levels = [frozenset(_prepared(file, call)) for call in amp_calls(file, "initialize")]
    shared = frozenset.intersection(*levels) if levels else frozenset()
    return _settled(file, [*_around(file, node), *shared])


def are_apart(one: tuple[File, cst.CSTNode], other: tuple[File, cst.CSTNode]) -> bool:
    """Whether two places never both run, since one asks for what the other asks not to be, in the same words."""
    return not conditions(*other).isdisjoint(each.negated for each in conditions(*one))


def switched(file: File, node: cst.Name | cst.Attribute) -> frozenset[Condition]:
    """What is true where autocast, or a scaler, is named and does something."""
    return _settled(file, [*_around(file, node), *_enabled(file, file.tree.parents[node], node)])


def scaled(file: File, statement: Statement, scaler: cst.BaseExpression) -> frozenset[Condition]:
    """What is true where a scaler that the file makes scales a loss."""
    found = _around(file, statement)
    made = [each.value for each in object_bindings(file, scaler) if not is_constant(each.value, "None")]
    if len(made) == 1 and made[0] is not None:
        for call in find(made[0], cst.Call):
            if file.names.meanings(call.func) & GRAD_SCALER:
                found += _enabled(file, call, call.func)
    return _settled(file, found)


def implied(file: File, found: Iterable[Condition]) -> Iterator[Condition]:
    """What else is true where some conditions are: the parts of what a flag is given, with or without its `self`."""
    for each in found:
        yield each
        for part in _all(file, _written(file, each.node)) if each.holds else ():
            yield part
            yield Condition(part.code.removeprefix("self."), part.holds, part.node)


def is_fixed(file: File, test: cst.BaseExpression) -> bool:
    """Whether a test only asks what is installed: the module gives its name True and False, or it is `apex.amp`."""
    if isinstance(test, cst.Call):
        return file.names.callee(test) in _INSTALLED
    values = [each.value for each in object_bindings(file, test)]
    is_of_module = isinstance(test, cst.Name) and file.scopes.of(test).find(test.value) is file.scopes.module
    is_flag = all(is_constant(each, "True") or is_constant(each, "False") for each in values)
    return is_of_module and (is_flag or (is_amp_or_none(file, test) and is_none_without_apex(file, test)))


def reached(file: File, node: cst.CSTNode) -> frozenset[Condition]:
    """What is true where code is come to at all: nothing that would have left the function or the round has."""
    found: list[Condition] = []
    for around, inner in _blocks_around(file, node):
        for each in _before(around, inner) if isinstance(around, (cst.IndentedBlock, cst.Module)) else ():
            if isinstance(each, cst.If) and each.orelse is None and _leaves(block_of(each)):
                found += _none(file, each.test)
    return frozenset(found)


def _around(file: File, node: cst.CSTNode) -> list[Condition]:
    found = [*reached(file, node)]
    for around, inner in _blocks_around(file, node):
        if isinstance(around, (cst.If, cst.IfExp)) and inner is not around.test:
            found += _all(file, around.test) if inner is around.body else _none(file, around.test)
    return found


def _blocks_around(file: File, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """What a node stands in up to its function or class, each with the part that it stands in there."""
    inner = node
    for around in file.tree.ancestors(node):
        if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            return
        yield around, inner
        inner = around


def _before(block: Block, inner: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for each in block.body:
        if each is inner:
            return
        yield each


def _leaves(block: Block) -> bool:
    return isinstance(statements(block)[-1], _LEAVING)


def _enabled(file: File, call: cst.CSTNode, func: cst.CSTNode) -> list[Condition]:
    """What `enabled=` of a call asks for."""
    given = file.names.argument(call, "enabled") if isinstance(call, cst.Call) and call.func is func else None
    return [] if given is None else _all(file, _written(file, given))


def _prepared(file: File, call: cst.Call) -> list[Condition]:
    """What `enabled=` and `opt_level=` of `amp.initialize` ask for: `"O2" if mixed else "O0"`."""
    given = named_arguments(call, INITIALIZE) or {}
    found = _all(file, _written(file, given["enabled"])) if "enabled" in given else []
    level = given.get("opt_level")
    bindings = object_bindings(file, level) if level is not None and dotted(level) is not None else []
    level = bindings[0].value if len(bindings) == 1 else level
    if isinstance(level, cst.IfExp):
        levels = [written_string(each) for each in (level.body, level.orelse)]
        if None not in levels and (levels[0] == "O0") is not (levels[1] == "O0"):
            found += _none(file, level.test) if levels[0] == "O0" else _all(file, level.test)
    return found


def _written(file: File, value: cst.BaseExpression) -> cst.BaseExpression:
    """What a name is given, where that is a question; else the name."""
    bindings = object_bindings(file, value) if dotted(value) is not None else []
    only = bindings[0] if len(bindings) == 1 else None
    if only is None or only.kind is not BindingKind.ASSIGNMENT or not isinstance(only.value, _QUESTIONS):
        return value
    return only.value


def _all(file: File, test: cst.BaseExpression) -> list[Condition]:
    return [_condition(file, each) for each in parts_of(test)]


def _none(file: File, test: cst.BaseExpression) -> list[Condition]:
    """That a test has failed: all that by itself makes it true."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        return [*_none(file, test.left), *_none(file, test.right)]
    return [_condition(file, test).negated]


def compared_with_truth(file: File, test: cst.BaseExpression) -> tuple[cst.BaseExpression, bool] | None:
    """What a test compares with True or False, and what that has to be; None for any other test.

    What is `apex.amp` or None is true where it is not None.
    """
    asked = compared_with_none(test)
    if asked is not None and is_amp_or_none(file, asked[0]):
        return asked
    other = test.comparisons[0] if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
    if other is None or type(other.operator) not in (cst.Is, cst.Equal, cst.IsNot, cst.NotEqual):
        return None
    is_negated = type(other.operator) in _NEGATED
    truth = next((each for each in (True, False) if is_constant(other.comparator, str(each))), None)
    return None if truth is None else (cst.ensure_type(test, cst.Comparison).left, truth is not is_negated)


def meant(file: File, node: cst.BaseExpression) -> str:
    """An expression as code, with what an object has by its name: `self.params.amp` behind `params = self.params`."""
    said = _code(node)
    for name in {each.value for each in find(node, cst.Name)}:
        given = file.scopes.of(node).lookup(name)
        value = given[0].value if len(given) == 1 and given[0].kind is BindingKind.ASSIGNMENT else None
        path = None if value is None else dotted(value)
        if path is not None and path.startswith("self."):
            said = re.sub(rf"(?<![\w.]){name}\b", path, said)
    return said


def _condition(file: File, test: cst.BaseExpression) -> Condition:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _condition(file, test.expression).negated
    if (compared := compared_with_truth(file, test)) is not None:
        inner = _condition(file, compared[0])
        return inner if compared[1] else inner.negated
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        kind, other = type(test.comparisons[0].operator), test.comparisons[0].comparator
        word = _COMPARED.get(kind, _NEGATED.get(kind))
        if word is not None:
            return Condition(f"{meant(file, test.left)} {word} {meant(file, other)}", kind not in _NEGATED, test)
    return Condition(meant(file, test), True, test)


def _code(node: cst.BaseExpression) -> str:
    bare = node.with_changes(lpar=(), rpar=()) if isinstance(node, (cst.BooleanOperation, cst.Comparison)) else node
    return source(bare)


def _settled(file: File, found: Iterable[Condition]) -> frozenset[Condition]:
    """Conditions without those that say nothing; of what is not all true, the part that is not, where it is known."""
    known = set(found)
    for each in [each for each in known if not each.holds and isinstance(each.node, cst.BooleanOperation)]:
        parts = [_condition(file, part) for part in parts_of(each.node)]
        open_parts = [part for part in parts if part not in known and not is_fixed(file, part.node)]
        if any(part.negated in known for part in parts):
            known.discard(each)
        elif len(open_parts) == 1 and len(parts) > 1:
            known.discard(each)
            known.add(open_parts[0].negated)
    return frozenset(each for each in known if each.code not in ("True", "False"))
