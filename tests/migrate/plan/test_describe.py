"""An edit in one line: the place, the rule, what stood there and what is to stand there."""

from __future__ import annotations

import libcst as cst
import pytest
from amp_migrate.plan.code import Code, Definition, ImportedModule, code, plain
from amp_migrate.plan.describe import described
from amp_migrate.plan.edit import (
    AddArgument,
    AddDecorator,
    AddEntry,
    AddParameter,
    After,
    Annotate,
    Before,
    Cast,
    Change,
    DropBranch,
    DropDecorator,
    Edit,
    Given,
    Imported,
    NewArguments,
    NewLine,
    Recomment,
    Reimport,
    Remove,
    Replace,
    SetKeyword,
    Splice,
    Substitute,
    Wrap,
)
from amp_migrate.trees.nodes import block_of
from amp_migrate.trees.tree import Tree

TEXT = """\
from apex import amp, optimizers
def f(x):
    if x:
        y = g(x, 1)  # type: T
    else:
        y = {"x": 1}
    return y
"""
TREE = Tree("a.py", cst.parse_module(TEXT), TEXT)
IMPORT = TREE.every(cst.ImportFrom)[0]
FUNCTION = TREE.every(cst.FunctionDef)[0]
CHOICE = TREE.every(cst.If)[0]
CALL = TREE.every(cst.Call)[0]
DICT = TREE.every(cst.Dict)[0]
ASSIGN = TREE.every(cst.Assign)[0]
ENTRY = cst.ensure_type(DICT.elements[0], cst.DictElement)
assert not isinstance(IMPORT.names, cst.ImportStar)
COMMENT = cst.ensure_type(TREE.parents[ASSIGN], cst.SimpleStatementLine).trailing_whitespace.comment
assert COMMENT is not None
LINES = (NewLine(plain("a()")), NewLine(plain("if b:"), (plain("c()"),)))


@pytest.mark.parametrize(
    ("node", "change", "words"),
    [
        (CALL, Replace(plain("h()")), "4:13: AMP501 replace: g(x, 1) -> h()"),
        (CALL, Cast(code("{}.float()", CALL)), "4:13: AMP501 cast: g(x, 1) -> g(x, 1).float()"),
        (CALL, NewArguments((Given(CALL.args[0], "x"), Given(keyword="z", value=plain("2")))),
         "4:13: AMP501 arguments of g(x, 1) -> (x=x, z=2)"),
        (CALL, AddArgument(plain("2"), "z"), "4:13: AMP501 argument of g(x, 1): z=2"),
        (CALL, AddArgument(plain("2")), "4:13: AMP501 argument of g(x, 1): 2"),
        (CALL.args[1], SetKeyword("z"), "4:18: AMP501 by keyword: 1 -> z="),
        (CALL.args[1], Remove(), "4:18: AMP501 remove: 1"),
        (FUNCTION, AddParameter("z", None, plain("bool"), plain("True")),
         "2:1: AMP501 parameter of def f(x): z: bool = True"),
        (FUNCTION, AddParameter("z"), "2:1: AMP501 parameter of def f(x): z"),
        (FUNCTION, AddDecorator(plain("d()")), "2:1: AMP501 decorator of def f(x): @d()"),
        (FUNCTION, DropDecorator(cst.Decorator(cst.Name("d"))), "2:1: AMP501 drop decorator of def f(x): @d"),
        (DICT, AddEntry('"z"', plain("2"), ENTRY), '6:13: AMP501 entry of {"x": 1}: "z": 2'),
        (ASSIGN, Before(LINES), "4:9: AMP501 before y = g(x, 1): a(); if b: c()"),
        (ASSIGN, After(LINES[:1]), "4:9: AMP501 after y = g(x, 1): a()"),
        (ASSIGN, Substitute(LINES[:1]), "4:9: AMP501 replace: y = g(x, 1) -> a()"),
        (ASSIGN, Substitute(), "4:9: AMP501 remove: y = g(x, 1)"),
        (CHOICE, Splice(block_of(CHOICE)), "3:5: AMP501 unfold: if x -> its block at line 4"),
        (CHOICE, DropBranch(), "3:5: AMP501 drop branch: if x"),
        (CHOICE, Wrap(CHOICE, plain("w()"), LINES[:1]), "3:5: AMP501 wrap: lines 3 to 3 into with w(), and a()"),
        (CHOICE, Annotate("# why"), "3:5: AMP501 comment above if x: # why"),
        (TREE.parents[ASSIGN], Recomment(COMMENT, plain("# type: U")), "4:9: AMP501 comment: # type: T -> # type: U"),
        (IMPORT, Reimport((Imported(IMPORT.names[0]),), "amp_shim"),
         "1:1: AMP501 import: from apex import amp, optimizers -> amp from amp_shim"),
        (IMPORT, Reimport((Imported(IMPORT.names[0], "b", "c"),)),
         "1:1: AMP501 import: from apex import amp, optimizers -> b as c"),
        (CALL, Replace(Code(("t.d",), frozenset({ImportedModule("torch"), Definition("d", "1")}))),
         "4:13: AMP501 replace: g(x, 1) -> t.d (needs d = ..., import torch)"),
    ],
)  # fmt: skip
def test_an_edit_in_words(node: cst.CSTNode, change: Change, words: str) -> None:
    assert described(Edit(TREE, node, change, "AMP501")) == f"a.py:{words}"


def test_edits_that_say_the_same_are_equal() -> None:
    one, other = (Edit(TREE, CALL, Cast(code("{x}.float()", x=CALL)), "AMP501") for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != Edit(TREE, CALL, Cast(code("{x}.float()", x=CALL)), "AMP631")
