"""Edits of statements: what moves, what goes, and that comments, blank lines and line ends stay where they belong."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import libcst as cst
import pytest
from amp_migrate.plan.code import Code, Definition, Hole, ImportedModule, code, plain
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
    Reimport,
    Remove,
    Replace,
    SetKeyword,
    Splice,
    Substitute,
    Wrap,
)
from amp_migrate.plan.move import Move
from amp_migrate.settings import Settings
from amp_migrate.trees.nodes import STATEMENT_TYPES, Statement, walk
from amp_migrate.trees.tree import Tree
from amp_migrate.wishes import Wishes
from amp_migrate.write.apply_edits import apply
from amp_migrate.write.conflicts import PlanConflict
from amp_migrate.write.consume import consume, new_text

NEW = (NewLine(plain("new()")),)


class Sheet:
    """A text whose statements, expressions and items are named by their code."""

    def __init__(self, text: str) -> None:
        self.tree = Tree("sheet.py", cst.parse_module(dedent(text)))
        self.edits: list[Edit] = []

    def __getitem__(self, code: str) -> Statement:
        found = (node for node in walk(self.tree.module) if isinstance(node, STATEMENT_TYPES))
        return next(each for each in found if self._bare(each).startswith(code))

    def find(self, code: str) -> cst.BaseExpression:
        """The first expression that is written so."""
        expressions = (node for node in walk(self.tree.module) if isinstance(node, cst.BaseExpression))
        return next(each for each in expressions if self.tree.code(each) == code)

    def item(self, code: str) -> cst.CSTNode:
        """The argument, parameter or entry that is written so."""
        kinds = (cst.Arg, cst.Param, cst.DictElement)
        found = (node for node in walk(self.tree.module) if isinstance(node, kinds))
        return next(each for each in found if self._last(each) == code)

    def _bare(self, statement: Statement) -> str:
        if isinstance(statement, cst.BaseSmallStatement):
            return self.tree.code(statement)
        return self.tree.code(statement.with_changes(leading_lines=[]))

    def _last(self, item: cst.Arg | cst.Param | cst.DictElement) -> str:
        bare = item if isinstance(item, cst.DictElement) else item.with_changes(star=getattr(item, "star", ""))
        return self.tree.code(bare.with_changes(comma=cst.MaybeSentinel.DEFAULT))

    def edit(self, node: cst.CSTNode, change: Change, rule: str = "AMP501") -> None:
        self.edits.append(Edit(self.tree, node, change, rule))

    @property
    def result(self) -> str:
        return apply(self.tree, self.edits).code

    @property
    def settled(self) -> str:
        """The result when the one consumer has looked at the edits."""
        settled = consume([Move(tuple(self.edits))], Wishes(Settings()), {})
        return new_text(self.tree, settled.edits.get(self.tree, ()))


Step = Callable[[Sheet], None]


def before(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], Before(NEW))


def after(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], After(NEW))


def substitute(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], Substitute(NEW))


def remove(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], Substitute())


def wrap(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], Wrap(sheet["b()"], plain("w")))


def wrap_two(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], Wrap(sheet["c()"], plain("w")))


def wrap_with_tail(sheet: Sheet) -> None:
    sheet.edit(sheet["b()"], Wrap(sheet["b()"], plain("w"), NEW))


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
        (remove, "if x:\n    a()\nelse:\n    b()\nc()\n", "if x:\n    a()\nc()\n"),
        (remove, "if x:\n    a()\nelif y:\n    b()\nc()\n", "if x:\n    a()\nc()\n"),
        (remove, "if x:\n    a()\nelse:\n    if y:\n        b()\nc()\n", "if x:\n    a()\nc()\n"),
        (remove, "if x:\n    a()\nelif y():\n    b()\n", "if x:\n    a()\nelif y():\n    pass\n"),
        (remove, "if x:\n    a()\nelse:\n    # k\n    b()\n", "if x:\n    a()\nelse:\n    pass\n    # k\n"),
        (remove, "if x:\n    a()\nelse:\n    b()\n    c()\n", "if x:\n    a()\nelse:\n    c()\n"),
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
def test_one_edit(change: Step, old: str, new: str) -> None:
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
    sheet.edit(choice, Splice(live))
    sheet.edit(sheet["c()"], After(NEW))
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
    sheet.edit(sheet["if x"], Substitute())
    sheet.edit(sheet["if y"], Substitute())
    assert sheet.result == "def f():\n    # behind\n        # deeper\n    c()\n    # last\n\n    # end\ne()\n"


def test_comments_of_a_branch_stay_with_it() -> None:
    sheet = Sheet(FOOTERS)
    choice = cst.ensure_type(sheet["if x"], cst.If)
    sheet.edit(choice, Splice(cst.ensure_type(choice.body, cst.IndentedBlock)))
    assert sheet.result.startswith(
        "def f():\n    # above\n    b()\n    # within\n\n    # behind\n        # deeper\n    c()\n"
    )


def test_edits_of_one_statement_add_up() -> None:
    sheet = Sheet("a()\nb()\nc()\n")
    for step in (after, wrap, before):
        step(sheet)
    sheet.edit(sheet.find("b"), Replace(plain("d")))
    assert sheet.result == "a()\nnew()\nwith w:\n    d()\nnew()\nc()\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    a = b(\n    x,\n)\n", "    with w:\n        a = b(\n        x,\n    )\n"),
        ("    a = b(\n# c\n  x)\n", "    with w:\n        a = b(\n    # c\n      x)\n"),
        ("    a = b(\n        x,\n    )\n", "    with w:\n        a = b(\n            x,\n        )\n"),
        ("    a = b + \\\n  c\n", "    with w:\n        a = b + \\\n      c\n"),
        ("    a = b + \\\r\n  c\r\n", "    with w:\r\n        a = b + \\\r\n      c\r\n"),
        ("    a = (\n\n  b)\n", "    with w:\n        a = (\n\n      b)\n"),
        ("    if a: b(\nx)\n", "    with w:\n        if a: b(\n    x)\n"),
        ("    if a:\n        b(\nx)\n", "    with w:\n        if a:\n            b(\n    x)\n"),
        # Texts are what they were.
        ('    a = """\nb\n""" \\\n  "c"\n', '    with w:\n        a = """\nb\n""" \\\n      "c"\n'),
        ('    a = f"""{\nb}"""\n', '    with w:\n        a = f"""{\nb}"""\n'),
        ('    a = "b\\\n c"\n', '    with w:\n        a = "b\\\n c"\n'),
    ],
)
def test_what_a_statement_goes_on_in_moves_with_it(old: str, new: str) -> None:
    head = "def f():\r\n" if "\r\n" in old else "def f():\n"
    sheet = Sheet(head + old)
    statement = sheet["if" if "if" in old else "a"]
    sheet.edit(statement, Wrap(statement, plain("w")))
    assert sheet.result == head + new


def test_changes_inside_a_moved_statement_stay() -> None:
    sheet = Sheet("b(x(1))\n")
    sheet.edit(sheet.find("x(1)"), Replace(plain("y")))
    sheet.edit(sheet["b("], Wrap(sheet["b("], plain("w")))
    assert sheet.result == "with w:\n    b(y)\n"


@pytest.mark.parametrize("order", [1, -1])
def test_a_call_that_is_renamed_gets_its_argument_and_is_cast_in_any_order(order: int) -> None:
    sheet = Sheet("a = old(x(1), y)\n")
    call = sheet.find("old(x(1), y)")
    edits: list[tuple[cst.CSTNode, Change]] = [
        (call, Cast(code("{}.float()", call))),
        (sheet.find("old"), Replace(plain("new"))),
        (call, AddArgument(plain("True"), "enabled", cst.ensure_type(sheet.item("x(1)"), cst.Arg))),
        (sheet.item("y"), SetKeyword("z")),
        (sheet.find("x"), Replace(plain("w"))),
    ]
    for node, change in edits[::order]:
        sheet.edit(node, change)
    assert sheet.result == "a = new(w(1), enabled=True, z=y).float()\n"


def test_no_edits_change_nothing() -> None:
    text = "a(); b()\n\nif x: c()  # c\n\n\n# end"
    sheet = Sheet(text)
    assert sheet.result == text


def test_a_block_that_loses_its_first_statement_begins_below_its_header() -> None:
    sheet = Sheet("try:\n    b()\n\n    # why\n\n    c()\nexcept E:\n    b()\n\n    d()\n")
    sheet.edit(sheet["b()"], Substitute())
    assert sheet.result == "try:\n    # why\n\n    c()\nexcept E:\n    b()\n\n    d()\n"


def test_blank_lines_at_the_top_of_a_block_stay() -> None:
    sheet = Sheet("def f():\n\n    b()\n    c()\n")
    sheet.edit(sheet["b()"], Substitute())
    assert sheet.result == "def f():\n\n    c()\n"


FLOAT_IF = "({x}.float() if {x}.is_floating_point() else {x})"


@pytest.mark.parametrize(
    ("old", "place", "template", "new"),
    [
        ("a = x\n", "x", "{x}.float()", "a = x.float()\n"),
        ("a = x + y\n", "x + y", "{x}.float()", "a = (x + y).float()\n"),
        ("a = (x + y)\n", "(x + y)", "{x}.float()", "a = (x + y).float()\n"),
        ("a = -x\n", "-x", "{x} * s", "a = (-x) * s\n"),
        ("a = 1.0\n", "1.0", "{x} * s", "a = 1.0 * s\n"),
        ("a = x == y\n", "x == y", "{x} and z", "a = x == y and z\n"),
        ("a = x or y\n", "x or y", "{x} and z", "a = (x or y) and z\n"),
        ("a = x, y\n", "x, y", "f({x})", "a = f((x, y))\n"),
        ("a = x\n", "x", FLOAT_IF, "a = (x.float() if x.is_floating_point() else x)\n"),
        ("a = x.y\n", "x", "p or q", "a = (p or q).y\n"),
        ("a = not x\n", "x", "p or q", "a = not (p or q)\n"),
        ("a = (p if x + y else q)\n", "(p if x + y else q)", "{x}", "a = (p if x + y else q)\n"),
        ("a = [x, y]\n", "x", "p if q else r", "a = [p if q else r, y]\n"),
        ("a += x\n", "x", "p if q else r", "a += p if q else r\n"),
        ("a = b[x]\n", "x", "p if q else r", "a = b[p if q else r]\n"),
        ("a = x + y\n", "x", "p if q else r", "a = (p if q else r) + y\n"),
        ("a = x if y else z\n", "x", "p if q else r", "a = (p if q else r) if y else z\n"),
        ("a = x if y else z\n", "y", "p if q else r", "a = x if (p if q else r) else z\n"),
        ("a = [y for y in x]\n", "x", "p if q else r", "a = [y for y in (p if q else r)]\n"),
        ("a = [x for y in z]\n", "x", "p if q else r", "a = [p if q else r for y in z]\n"),
        ("a = [*x]\n", "x", "p if q else r", "a = [*(p if q else r)]\n"),
        ("a = {**x}\n", "x", "p if q else r", "a = {**(p if q else r)}\n"),
    ],
)
def test_old_code_in_new_has_parentheses_where_it_needs_them(old: str, place: str, template: str, new: str) -> None:
    sheet = Sheet(old)
    node = sheet.find(place)
    sheet.edit(node, Replace(code(template, x=node)))
    assert sheet.result == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f((x + y)).z()\n", "a = x + y\nf(a).z()\n"),
        ("f(x).z()\n", "a = x\nf(a).z()\n"),
        ("f((x +\n   y)).z()\n", "a = (x +\n   y)\nf(a).z()\n"),
    ],
)
def test_code_that_moves_leaves_what_stands_in_its_place_behind(old: str, new: str) -> None:
    sheet = Sheet(old)
    value = sheet.tree.every(cst.Call)[-1].args[0].value
    sheet.edit(sheet["f("], Before((NewLine(code("a = {}", Hole(value, bare=True, moved=True))),)))
    sheet.edit(value, Replace(plain("a")))
    assert sheet.settled == new


def test_what_changes_in_code_that_moves_goes_with_it() -> None:
    sheet = Sheet("f(g(x))\n")
    sheet.edit(sheet["f("], Before((NewLine(code("a = {}", Hole(sheet.find("g(x)"), moved=True))),)))
    sheet.edit(sheet.find("g(x)"), Replace(plain("a")))
    sheet.edit(sheet.find("x"), Cast(code("{}.float()", sheet.find("x"))))
    assert sheet.settled == "a = g(x.float())\nf(a)\n"


def test_old_code_may_stand_in_front_of_its_place() -> None:
    sheet = Sheet("step(optimizer[0], closure)\n")
    sheet.edit(sheet.find("step"), Replace(code("{}.step", sheet.find("optimizer[0]"))))
    sheet.edit(sheet.item("optimizer[0]"), Remove())
    sheet.edit(sheet.find("0"), Replace(plain("1")))
    assert sheet.settled == "optimizer[1].step(closure)\n"


@pytest.mark.parametrize(
    ("old", "given", "new"),
    [
        ("f(x, y)\n", ("a=1", "b=y"), "f(a=1, b=y)\n"),
        ("f(\n    x,  # x\n    y,\n)\n", ("a=1", "p=x", "q=y"), "f(\n    a=1,\n    p=x,  # x\n    q=y,\n)\n"),
        ("f(x)\n", ("x", "a=1"), "f(x, a=1)\n"),
        ("f()\n", ("a=1", "b=2"), "f(a=1, b=2)\n"),
    ],
)
def test_new_arguments_are_laid_out_as_the_old_were(old: str, given: tuple[str, ...], new: str) -> None:
    sheet = Sheet(old)
    call = sheet.tree.every(cst.Call)[0]
    known = {sheet.tree.code(arg.value): arg for arg in call.args}
    arguments = []
    for each in given:
        keyword, _, value = each.rpartition("=")
        arguments.append(Given(known.get(value), keyword or None, None if value in known else plain(value)))
    sheet.edit(call, NewArguments(tuple(arguments)))
    assert sheet.result == new


def test_a_generator_gets_brackets_of_its_own_beside_a_new_argument() -> None:
    sheet = Sheet("f(x for x in y)\n")
    call = sheet.tree.every(cst.Call)[0]
    sheet.edit(call, AddArgument(plain("True"), "enabled", call.args[0]))
    assert sheet.result == "f((x for x in y), enabled=True)\n"


def test_items_go_and_come() -> None:
    sheet = Sheet("f(a, b=1, c=2)\nd = {'x': 1, 'y': 2}\n\n@deco\ndef g(p, q: int = 1, *, r=2): pass\n")
    sheet.edit(sheet.item("b=1"), Remove())
    sheet.edit(sheet.tree.every(cst.Call)[0], AddArgument(plain("0"), first=True))
    entry = cst.ensure_type(sheet.item("'x': 1"), cst.DictElement)
    sheet.edit(sheet.tree.every(cst.Dict)[0], AddEntry("'z'", plain("3"), entry))
    function = sheet.tree.every(cst.FunctionDef)[0]
    sheet.edit(function, AddDecorator(plain("new()")))
    after = cst.ensure_type(sheet.item("q: int = 1"), cst.Param)
    sheet.edit(function, AddParameter("s", after, plain("Scaler"), plain("None")))
    sheet.edit(function, AddParameter("amp", None, None, plain("True")))
    assert sheet.result == (
        "f(0, a, c=2)\nd = {'x': 1, 'z': 3, 'y': 2}\n\n@deco\n@new()\n"
        "def g(p, q: int = 1, s: Scaler = None, *, r=2, amp=True): pass\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@gone\n@deco\ndef f(): pass\n", "@deco\ndef f(): pass\n"),
        ("# above\n@gone\ndef f(): pass\n", "# above\ndef f(): pass\n"),
        ("@deco\n# of it\n@gone\ndef f(): pass\n", "@deco\n# of it\ndef f(): pass\n"),
        ("@deco\n# of it\n@gone\n@other\ndef f(): pass\n", "@deco\n# of it\n@other\ndef f(): pass\n"),
    ],
)
def test_decorator_goes_and_comments_stay(old: str, new: str) -> None:
    sheet = Sheet(old)
    (function,) = sheet.tree.every(cst.FunctionDef)
    gone = next(each for each in function.decorators if sheet.tree.code(each.decorator) == "gone")
    sheet.edit(function, DropDecorator(gone))
    assert sheet.result == new


def test_context_of_a_with_goes() -> None:
    sheet = Sheet("with a() as x, b() as y:\n    f(x)\nwith c(), d(): pass\n")
    first, second = sheet.tree.every(cst.With)
    sheet.edit(first.items[1], Remove())
    sheet.edit(second.items[0], Remove())
    assert sheet.result == "with a() as x:\n    f(x)\nwith d(): pass\n"


@pytest.mark.parametrize(
    ("old", "dropped", "new"),
    [
        ("if a: x()\nelif b: y()\nelse: z()\n", "b", "if a: x()\nelse: z()\n"),
        ("if a: x()\nelif b: y()\n", "b", "if a: x()\n"),
        ("# c\nif a: x()\nelif b: y()\n", "a", "# c\nif b: y()\n"),
        ("if a: x()\nelse: z()\n", "a", "z()\n"),
        ("if a: x()\nw()\n", "a", "w()\n"),
        ("if a: x()\nelif b: y()\nelse: z()\n", "ab", "z()\n"),
        ("if a: x()\nelif b: y()\nelif c: z()\n", "ab", "if c: z()\n"),
    ],
)
def test_a_branch_goes_and_what_follows_takes_its_place(old: str, dropped: str, new: str) -> None:
    sheet = Sheet(old)
    for node in sheet.tree.every(cst.If):
        if sheet.tree.code(node.test) in dropped:
            sheet.edit(node, DropBranch())
    assert sheet.settled == new


@pytest.mark.parametrize(
    ("old", "kept", "module", "new"),
    [
        ("from m import a, b\n", "a", None, "from m import a\n"),
        ("from m import (a, b,)\n", "ab", "n", "from n import (a, b,)\n"),
        ("from m import (\n    a,\n    b,\n)\n", "a", None, "from m import (\n    a,\n)\n"),
        ("from m import (\n    a,\n    b\n)\n", "a", "n", "from n import (\n    a\n)\n"),
        ("import a, b  # c\n", "a", None, "import a  # c\n"),
    ],
)
def test_an_import_keeps_its_layout(old: str, kept: str, module: str | None, new: str) -> None:
    sheet = Sheet(old)
    node = sheet.tree.every(cst.Import, cst.ImportFrom)[0]
    assert not isinstance(node.names, cst.ImportStar)
    items = tuple(Imported(alias) for alias in node.names if sheet.tree.code(alias.name) in kept)
    sheet.edit(node, Reimport(items, module))
    assert sheet.result == new


def test_a_comment_stands_above() -> None:
    sheet = Sheet("# a\nif x:\n    b()\n")
    sheet.edit(sheet["if x"], Annotate("# c"))
    assert sheet.result.endswith("# c\nif x:\n    b()\n")


TOPS = {
    "": "import torch\nx = 1\n",
    "import torch.nn as nn\n": "import torch\nimport torch.nn as nn\nx = 1\n",
    '"""Doc."""\n': '"""Doc."""\nimport torch\nx = 1\n',
    "from __future__ import division\n": "from __future__ import division\nimport torch\nx = 1\n",
    "import os\n": "import os\nimport torch\nx = 1\n",
}


@pytest.mark.parametrize("top", TOPS)
def test_what_new_code_needs_is_imported_once(top: str) -> None:
    sheet = Sheet(top + "x = 0\n")
    needs = frozenset({ImportedModule("torch")})
    sheet.edit(sheet.find("0"), Replace(Code(("1",), needs)))
    sheet.edit(sheet["x = "], After((NewLine(Code(("y",), needs)),)))
    assert sheet.settled == TOPS[top] + "y\n"


def test_a_definition_stands_below_the_imports() -> None:
    sheet = Sheet("import torch\n\nx = 0\n")
    sheet.edit(sheet.find("0"), Replace(Code(("d",), frozenset({Definition("d", "1"), ImportedModule("functools")}))))
    assert sheet.settled == "import functools\nimport torch\n\nd = 1\n\nx = d\n"


def test_what_removed_code_needs_is_not_imported() -> None:
    sheet = Sheet("if x:\n    y = 0\nz = 1\n")
    sheet.edit(sheet.find("0"), Replace(Code(("torch",), frozenset({ImportedModule("torch")}))))
    sheet.edit(sheet["if x"], Substitute())
    assert sheet.settled == "z = 1\n"


def test_what_changes_in_a_piece_of_a_piece_stays() -> None:
    sheet = Sheet("f(g(x), x)\n")
    inner = sheet.find("g(x)")
    sheet.edit(sheet.find("f(g(x), x)"), Replace(code("h({})", inner)))
    sheet.edit(inner, Cast(code("{}.float()", inner)))
    for x in sheet.tree.every(cst.Name):
        if x.value == "x":
            sheet.edit(x, Replace(Code(("y",), frozenset({ImportedModule(f"m{sheet.tree.order[x]}")}))))
    made = sheet.settled
    assert made.endswith("h(g(y).float())\n")
    assert made.count("import") == 1


def test_equal_edits_are_one_and_of_several_casts_the_first_is_made() -> None:
    sheet = Sheet("a = x\n")
    x = sheet.find("x")
    for template in ("{}.float()", "{}.float()", "{}.to(y.dtype)"):
        sheet.edit(x, Cast(code(template, x)))
    assert sheet.settled == "a = x.float()\n"


def test_a_parameter_that_two_rules_want_is_one() -> None:
    sheet = Sheet("def f(x): pass\n")
    for rule in ("AMP501", "AMP201"):
        sheet.edit(sheet.tree.module.body[0], AddParameter("scaler"), rule)
    assert sheet.settled == "def f(x, scaler): pass\n"


@pytest.mark.parametrize("order", [1, -1])
def test_a_statement_that_others_take_the_place_of_is_not_removed(order: int) -> None:
    sheet = Sheet("a()\nb()\n")
    for step in (substitute, remove)[::order]:
        step(sheet)
    assert sheet.settled == "a()\nnew()\n"


def test_edits_that_want_different_things_are_refused() -> None:
    sheet = Sheet("a = x\n")
    sheet.edit(sheet.find("x"), Replace(plain("y")), "AMP101")
    sheet.edit(sheet.find("x"), Replace(plain("z")), "AMP501")
    with pytest.raises(PlanConflict, match=r"AMP101 and AMP501 want different things at sheet\.py:1"):
        _ = sheet.settled
