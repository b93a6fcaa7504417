"""Tests of whether `apex.amp` is there, where it is None without Apex: `use_amp = amp is not None and args.amp`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.files import File
from amp_migrate.plan.edit import Edit
from amp_migrate.steps.apex.uses.apex_calls import amp_name
from amp_migrate.steps.apex.uses.apex_guards import answered, insists
from amp_migrate.tables.apex_names import AMP, API
from amp_migrate.trees.nodes import block_of, find, is_constant
from amp_migrate.write.editor import Editor


@dataclass(frozen=True)
class AmpTest:
    """One such test.

    Attributes:
        name: what stands for `apex.amp` in it.
        node: the whole test.
        answer: what it gives where Apex is there.
    """

    name: cst.Name
    node: cst.BaseExpression
    answer: bool


def amp_tests(file: File) -> Iterator[AmpTest]:
    """The tests of a file, but for statements that only insist on Apex."""
    for name in file.uses.get("amp", ()):
        if not isinstance(name, cst.Name) or AMP not in file.names.meanings(name):
            continue
        if insists(file, file.tree.statement(name)) or not _is_none_without_apex(file, name):
            continue
        if _decides_about_apex(file, name):
            continue
        test = _test(file, name)
        if test is not None:
            yield test


def write_answer(editor: Editor, test: AmpTest) -> Edit:
    """The edit that gives a test its answer; of an `if` that asks nothing else, what runs then stays."""
    around = editor.file.tree.parents[test.node]
    if isinstance(around, cst.If) and around.test is test.node and editor.file.tree.statement(around) is around:
        if test.answer:
            return editor.splice(around, block_of(around))
        if around.orelse is None:
            return editor.remove(around)
        if isinstance(around.orelse, cst.Else):
            return editor.splice(around, block_of(around.orelse))
    return answered(editor, test.node, answer=test.answer)


def _test(file: File, name: cst.Name) -> AmpTest | None:
    parent = file.tree.parents[name]
    if isinstance(parent, cst.Comparison) and parent.left is name and len(parent.comparisons) == 1:
        compared = parent.comparisons[0]
        if is_constant(compared.comparator, "None") and isinstance(
            compared.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)
        ):
            return AmpTest(name, parent, answer=isinstance(compared.operator, (cst.IsNot, cst.NotEqual)))
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        return AmpTest(name, parent, answer=False)
    is_asked = (
        parent.left is name and isinstance(parent.operator, cst.And)
        if isinstance(parent, cst.BooleanOperation)
        else isinstance(parent, (cst.If, cst.IfExp)) and parent.test is name
    )
    return AmpTest(name, name, answer=True) if is_asked else None


def _decides_about_apex(file: File, name: cst.Name) -> bool:
    """Whether a name stands in the test of an `if` that Apex's own calls stand in: it is a part of the switch."""
    inside: cst.CSTNode = name
    for each in file.tree.ancestors(name):
        if isinstance(each, cst.If) and inside is each.test:
            return any(amp_name(file, call.func) in API for call in find(each, cst.Call))
        inside = each
    return False


def _is_none_without_apex(file: File, name: cst.Name) -> bool:
    """Whether a name is `apex.amp` wherever Apex is there: only a missing Apex makes it something else."""
    return all(_is_there_for_apex(file, each) for each in file.scopes.of(name).lookup(name.value))


def _is_there_for_apex(file: File, binding: Binding) -> bool:
    around = file.tree.ancestors(binding.node)
    if binding.kind is BindingKind.IMPORT:
        return not any(isinstance(each, (cst.If, cst.For, cst.While, cst.ExceptHandler)) for each in around)
    guard = next((each for each in around if isinstance(each, cst.ExceptHandler)), None)
    return guard is not None and is_constant(binding.value, "None")
