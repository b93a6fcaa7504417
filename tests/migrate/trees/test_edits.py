"""Edits of statements: what moves, what goes, and that comments, blank lines and line ends stay where they belong."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import libcst as cst
import pytest
from amp_migrate.trees import build
from amp_migrate.trees.edits import Edits, apply
from amp_migrate.trees.nodes import STATEMENT_TYPES, Line, Statement, walk
from amp_migrate.trees.tree import Tree


class Sheet:
    """A text whose statements are named by their code: `sheet["a()"]`."""

    def __init__(self, text: str) -> None:
        self.tree = Tree("sheet.py", cst.parse_module(text))
        self.edits = Edits()

    def __getitem__(self, code: str) -> Statement:
        found = (node for node in walk(self.tree.module) if isinstance(node, STATEMENT_TYPES))
        return next(each for each in found if self._bare(each).startswith(code))

    def _bare(self, statement: Statement) -> str:
        if isinstance(statement, cst.BaseSmallStatement):
            return self.tree.code(statement)
        return self.tree.code(statement.with_changes(leading_lines=[]))

    def line(self, code: str) -> Line:
        return build.line(code, self.tree.module)

    @property
    def result(self) -> str:
        return apply(self.tree, self.edits).code


Change = Callable[[Sheet], None]


def before(sheet: Sheet) -> None:
    sheet.edits.before(sheet["b()"], sheet.line("new()"))


def after(sheet: Sheet) -> None:
    sheet.edits.after(sheet["b()"], sheet.line("new()"))


def substitute(sheet: Sheet) -> None:
    sheet.edits.substitute(sheet["b()"], sheet.line("new()"))


def remove(sheet: Sheet) -> None:
    sheet.edits.substitute(sheet["b()"])


def wrap(sheet: Sheet) -> None:
    sheet.edits.wrap(sheet["b()"], sheet["b()"], build.with_header("w"))


def wrap_two(sheet: Sheet) -> None:
    sheet.edits.wrap(sheet["b()"], sheet["c()"], build.with_header("w"))


def wrap_with_tail(sheet: Sheet) -> None:
    sheet.edits.wrap(sheet["b()"], sheet["b()"], build.with_header("w"), (sheet.line("new()"),))


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (before, "a()\nb()\n", "a()\nnew()\nb()\n"),
        (before, "a()\n\n# b\nb()\n", "a()\n\n# b\nnew()\nb()\n"),
        (before, "if x: b()\n", "if x:\n    new()\n    b()\n"),
        (before, "a(); b(); c()\n", "a()\nnew()\nb()\nc()\n"),
        (after, "b()\nc()\n", "b()\nnew()\nc()\n"),
        (after, "b()  # b\n\nc()\n", "b()  # b\nnew()\n\nc()\n"),
        (after, "if x:\n    b()\n    # last\nc()\n", "if x:\n    b()\n    new()\n    # last\nc()\n"),
        (after, "if x: a(); b()  # both\n", "if x:  # both\n    a()\n    b()\n    new()\n"),
        (after, "a(); b()  # both\nc()\n", "a()\nb()  # both\nnew()\nc()\n"),
        (substitute, "a()\nb()\nc()\n", "a()\nnew()\nc()\n"),
        (substitute, "a()\n\n# b\nb()\nc()\n", "a()\n\n# b\nnew()\nc()\n"),
        (substitute, "a(); b()\n", "a()\nnew()\n"),
        (remove, "a()\nb()\nc()\n", "a()\nc()\n"),
        (remove, "a()\n# b\nb()\nc()\n", "a()\n# b\nc()\n"),
        (remove, "a(); b(); c()\n", "a()\nc()\n"),
        (remove, "def f():\n    b()\n", "def f():\n    pass\n"),
        (remove, "def f(): b()\n", "def f():\n    pass\n"),
        (remove, "try:\n    b()\nfinally:\n    c()\n", "try:\n    pass\nfinally:\n    c()\n"),
        (remove, "if x:\n    b()\nelse:\n    c()\n", "if x:\n    pass\nelse:\n    c()\n"),
        (remove, "a()\nif x:\n    b()\nc()\n", "a()\nc()\n"),
        (remove, "a()\nif is_main() and x.get(1):\n    b()\nc()\n", "a()\nc()\n"),
        (remove, "a()\nif x.advance():\n    b()\nc()\n", "a()\nif x.advance():\n    pass\nc()\n"),
        (remove, "if (n := f) > 1:\n    b()\nc(n)\n", "if (n := f) > 1:\n    pass\nc(n)\n"),
        (wrap, "a()\nb()\nc()\n", "a()\nwith w:\n    b()\nc()\n"),
        (wrap, "a()\n\n# b\nb()  # behind\nc()\n", "a()\n\n# b\nwith w:\n    b()  # behind\nc()\n"),
        (wrap, "if x: b()\n", "if x:\n    with w:\n        b()\n"),
        (wrap, "a(); b(); c()\n", "a()\nwith w:\n    b()\nc()\n"),
        (wrap_two, "b()\n\n# c\nc()\nd()\n", "with w:\n    b()\n\n    # c\n    c()\nd()\n"),
        (wrap_two, "b(); c(); d()\n", "with w:\n    b()\n    c()\nd()\n"),
        (wrap_two, "if x:\n\tb()\n\tc()\n", "if x:\n\twith w:\n\t\tb()\n\t\tc()\n"),
        (wrap_two, "b()\r\nc()\r\n", "with w:\r\n    b()\r\n    c()\r\n"),
        (wrap_two, "b()\nc()", "with w:\n    b()\n    c()"),
        (wrap_with_tail, "b()\nc()\n", "with w:\n    b()\n    new()\nc()\n"),
        (before, "a()\nb()", "a()\nnew()\nb()"),
        (before, "a()\r\nb()\r\n", "a()\r\nnew()\r\nb()\r\n"),
    ],
)
def test_one_edit(change: Change, old: str, new: str) -> None:
    sheet = Sheet(old)
    change(sheet)
    assert sheet.result == new


def test_splice_puts_a_branch_in_the_place_of_its_choice() -> None:
    sheet = Sheet(
        dedent(
            """\
            a()
            # choice
            if x:
                b()
            else:
                # live
                c()
                d()
            e()
            """
        )
    )
    choice = cst.ensure_type(sheet["if x"], cst.If)
    live = cst.ensure_type(cst.ensure_type(choice.orelse, cst.Else).body, cst.IndentedBlock)
    sheet.edits.splice(choice, live)
    sheet.edits.after(sheet["c()"], sheet.line("new()"))
    assert sheet.result == "a()\n# choice\n# live\nc()\nnew()\nd()\ne()\n"


FOOTERS = """\
def f():
    if x:
        # above
        b()
        # within

    # behind
        # deeper
    c()
    if y:
        if z:
            d()
        # inside
    # last

    # end
e()
"""


def test_comments_behind_what_is_removed_stay() -> None:
    sheet = Sheet(FOOTERS)
    sheet.edits.substitute(sheet["if x"])
    sheet.edits.substitute(sheet["if y"])
    assert sheet.result == "def f():\n    # behind\n        # deeper\n    c()\n    # last\n\n    # end\ne()\n"


def test_comments_of_a_branch_stay_with_it() -> None:
    sheet = Sheet(FOOTERS)
    choice = cst.ensure_type(sheet["if x"], cst.If)
    sheet.edits.splice(choice, cst.ensure_type(choice.body, cst.IndentedBlock))
    assert sheet.result.startswith(
        "def f():\n    # above\n    b()\n    # within\n\n    # behind\n        # deeper\n    c()\n"
    )


def test_edits_of_one_statement_add_up() -> None:
    sheet = Sheet("a()\nb()\nc()\n")
    before(sheet)
    wrap(sheet)
    after(sheet)
    sheet.edits.change(sheet["b()"], lambda node: node)
    assert sheet.result == "a()\nnew()\nwith w:\n    b()\nnew()\nc()\n"


def test_changes_inside_a_moved_statement_stay() -> None:
    sheet = Sheet("b(x(1))\n")
    call = cst.ensure_type(cst.ensure_type(sheet["b("], cst.Expr).value, cst.Call)
    sheet.edits.replace(call.args[0].value, build.expression("y"))
    sheet.edits.wrap(sheet["b("], sheet["b("], build.with_header("w"))
    assert sheet.result == "with w:\n    b(y)\n"


def test_inner_changes_come_before_outer_ones() -> None:
    sheet = Sheet("b(x(1))\n")
    outer = cst.ensure_type(cst.ensure_type(sheet["b("], cst.Expr).value, cst.Call)
    inner = cst.ensure_type(outer.args[0].value, cst.Call)
    sheet.edits.change(outer, lambda node: node.with_changes(func=cst.Name("c")))
    sheet.edits.change(inner, lambda node: node.with_changes(func=cst.Name("y")))
    assert sheet.result == "c(y(1))\n"


def test_statement_inside_a_removed_one_is_gone() -> None:
    sheet = Sheet("if x:\n    b()\nc()\n")
    sheet.edits.substitute(sheet["if x"])
    assert sheet.edits.is_gone(sheet.tree, sheet["b()"])
    assert not sheet.edits.is_gone(sheet.tree, sheet["c()"])


def test_no_edits_change_nothing() -> None:
    text = "a(); b()\n\nif x: c()  # c\n\n\n# end"
    sheet = Sheet(text)
    assert not sheet.edits
    assert sheet.result == text


def test_a_block_that_loses_its_first_statement_begins_below_its_header() -> None:
    sheet = Sheet("try:\n    b()\n\n    # why\n\n    c()\nexcept E:\n    b()\n\n    d()\n")
    sheet.edits.substitute(sheet["b()"])
    assert sheet.result == "try:\n    # why\n\n    c()\nexcept E:\n    b()\n\n    d()\n"


def test_blank_lines_at_the_top_of_a_block_stay() -> None:
    sheet = Sheet("def f():\n\n    b()\n    c()\n")
    sheet.edits.substitute(sheet["b()"])
    assert sheet.result == "def f():\n\n    c()\n"
