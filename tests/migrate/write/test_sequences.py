"""One item more, one item less: the list keeps the layout that it had."""

from __future__ import annotations

import libcst as cst
import pytest
from amp_migrate.trees import build
from amp_migrate.write.sequences import insert_after, remove_at


def call_with(code: str, index: int) -> str:
    """`code`, a call, with the argument `new` behind the one at `index`."""
    call = cst.ensure_type(cst.parse_expression(code), cst.Call)
    return build_code(
        call.with_changes(args=insert_after(call.args, index, cst.Arg(cst.Name("new")), call.whitespace_before_args))
    )


def call_without(code: str, index: int) -> str:
    call = cst.ensure_type(cst.parse_expression(code), cst.Call)
    return build_code(call.with_changes(args=remove_at(call.args, index)))


def build_code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@pytest.mark.parametrize(
    ("code", "index", "expected"),
    [
        ("f(a)", 0, "f(a, new)"),
        ("f(a, b)", 0, "f(a, new, b)"),
        ("f(a, b)", 1, "f(a, b, new)"),
        ("f(a,b)", 1, "f(a,b,new)"),
        ("f(a, b,)", 1, "f(a, b, new,)"),
        ("f(a, *rest)", 0, "f(a, new, *rest)"),
        ("f(\n    a,\n    b,\n)", 0, "f(\n    a,\n    new,\n    b,\n)"),
        ("f(\n    a,\n    b,\n)", 1, "f(\n    a,\n    b,\n    new,\n)"),
        ("f(\n    a,\n    b\n)", 0, "f(\n    a,\n    new,\n    b\n)"),
        ("f(\n    a,\n    b\n)", 1, "f(\n    a,\n    b,\n    new\n)"),
        ("f(\n    a,  # first\n    b,  # second\n)", 0, "f(\n    a,  # first\n    new,\n    b,  # second\n)"),
        ("f(\n    a,  # first\n    b,  # second\n)", 1, "f(\n    a,  # first\n    b,  # second\n    new,\n)"),
        ("f(\n    a,\n    # above\n    b,\n)", 1, "f(\n    a,\n    # above\n    b,\n    new,\n)"),
        ("f(a,\n  b)", 0, "f(a,\n  new,\n  b)"),
        ("f(a,\n  b)", 1, "f(a,\n  b,\n  new)"),
        ("f(a, b,\n  c)", 1, "f(a, b, new,\n  c)"),
        ("f(a,b,\n  c)", 1, "f(a,b,new,\n  c)"),
        ("f(a, b,  # first\n  c)", 1, "f(a, b, new,  # first\n  c)"),
        ("f(a, b,\n  c)", 2, "f(a, b,\n  c, new)"),
        ("f(a, b,\n  c, d)", 2, "f(a, b,\n  c, new, d)"),
        ("f(\n    a, b,\n    c,  # last\n)", 2, "f(\n    a, b,\n    c, new,  # last\n)"),
        ("f(\n    a, b,\n    c  # last\n)", 2, "f(\n    a, b,\n    c, new  # last\n)"),
        ("f(a,\n  b, c)", 1, "f(a,\n  b, new, c)"),
        ("f(a,\n  b, c)", 2, "f(a,\n  b, c, new)"),
    ],
)
def test_item_is_inserted_in_the_layout_of_its_neighbours(code: str, index: int, expected: str) -> None:
    assert call_with(code, index) == expected


@pytest.mark.parametrize(
    ("code", "index", "expected"),
    [
        ("f(a)", 0, "f()"),
        ("f(a, b)", 0, "f(b)"),
        ("f(a, b)", 1, "f(a)"),
        ("f(a, b, c)", 1, "f(a, c)"),
        ("f(a, b,)", 1, "f(a,)"),
        ("f(\n    a,\n    b,\n)", 0, "f(\n    b,\n)"),
        ("f(\n    a,\n    b,\n)", 1, "f(\n    a,\n)"),
        ("f(\n    a,\n    b\n)", 1, "f(\n    a\n)"),
        ("f(\n    a,  # first\n    b,  # second\n    c,\n)", 1, "f(\n    a,  # first\n    c,\n)"),
        ("f(\n    a,  # first\n    b,\n)", 1, "f(\n    a,  # first\n)"),
        ("f(\n    a,  # first\n    b\n)", 1, "f(\n    a  # first\n)"),
        ("f(\n    a,  # first\n    b)", 1, "f(\n    a)"),
    ],
)
def test_item_is_removed_and_the_last_one_ends_as_the_last_did(code: str, index: int, expected: str) -> None:
    assert call_without(code, index) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(a): ...", "def f(a, new): ..."),
        ("def f(a, b=1): ...", "def f(a, new, b=1): ..."),
        ("def f(\n    a,\n    b,\n): ...", "def f(\n    a,\n    new,\n    b,\n): ..."),
        ("def f(\n    a,  # first\n): ...", "def f(\n    a,  # first\n    new,\n): ..."),
        ("def f(\n    a\n): ...", "def f(\n    a,\n    new\n): ..."),
    ],
)
def test_parameters_keep_their_layout(code: str, expected: str) -> None:
    function = cst.ensure_type(cst.parse_statement(code), cst.FunctionDef)
    params = insert_after(function.params.params, 0, cst.Param(cst.Name("new")), function.whitespace_before_params)
    assert build_code(function.with_deep_changes(function.params, params=params)).strip() == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('{"a": 1}', '{"a": 1, "new": 2}'),
        ('{"a": 1, "b": 3}', '{"a": 1, "new": 2, "b": 3}'),
        ('{\n    "a": 1,\n}', '{\n    "a": 1,\n    "new": 2,\n}'),
        ('{\n    "a": 1,  # one\n    "b": 3,\n}', '{\n    "a": 1,  # one\n    "new": 2,\n    "b": 3,\n}'),
        ('{\n    "a": 1\n}', '{\n    "a": 1,\n    "new": 2\n}'),
    ],
)
def test_entries_of_a_dictionary_keep_their_layout(code: str, expected: str) -> None:
    display = cst.ensure_type(cst.parse_expression(code), cst.Dict)
    entry = cst.DictElement(build.expression('"new"'), build.expression("2"))
    assert (
        build_code(
            display.with_changes(elements=insert_after(display.elements, 0, entry, display.lbrace.whitespace_after))
        )
        == expected
    )
