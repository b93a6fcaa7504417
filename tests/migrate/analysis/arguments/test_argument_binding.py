"""Which argument reaches which parameter."""

from __future__ import annotations

import libcst as cst
import pytest
from amp_migrate.analysis.arguments.argument_binding import fits, parameter, passed


def reached(signature: str, call: str, name: str, *, bound: bool = False) -> str | int | None:
    """The text of the argument that reaches a parameter, 0 where it is left to its default, None in doubt."""
    function = cst.ensure_type(cst.parse_statement(f"def f({signature}): ..."), cst.FunctionDef)
    given = passed(function, cst.ensure_type(cst.parse_expression(call), cst.Call), name, bound=bound)
    if given is None:
        return None
    return 0 if given.argument is None else cst.Module([]).code_for_node(given.argument.value)


@pytest.mark.parametrize(
    ("signature", "call", "name", "argument"),
    [
        ("a, b", "f(1, 2)", "b", "2"),
        ("a, b", "f(b=1, a=2)", "b", "1"),
        ("a, /, b", "f(1, 2)", "a", "1"),
        ("a, *, b", "f(1, b=2)", "b", "2"),
        ("a, *rest, b=1", "f(1, 2, 3, b=4)", "b", "4"),
        ("a, b=1", "f(1)", "b", 0),
        ("a, *, b=1", "f(1, 2)", "b", 0),
        ("a, b=1", "f(1, *rest)", "a", "1"),
        ("a, b=1", "f(*rest, b=2)", "b", "2"),
        ("a, b=1", "f(1, *rest)", "b", None),
        ("a, b=1", "f(*rest)", "a", None),
        ("a, b=1", "f(1, **options)", "b", None),
        ("a, b=1", "f(1, 2, **options)", "b", "2"),
    ],
)
def test_argument_reaches_its_parameter(signature: str, call: str, name: str, argument: str | int | None) -> None:
    assert reached(signature, call, name) == argument


def test_object_fills_the_first_parameter_of_a_method() -> None:
    assert reached("self, a, b", "x.f(1, 2)", "a", bound=True) == "1"
    assert reached("self, a, b", "T.f(x, 1, 2)", "a") == "1"


def test_only_named_parameters_can_be_asked_for() -> None:
    function = cst.ensure_type(cst.parse_statement("def f(a, /, b, *c, d, **e): ..."), cst.FunctionDef)
    assert [name for name in "abcdefg" if parameter(function, name) is not None] == ["a", "b", "d"]


@pytest.mark.parametrize(
    ("signature", "call", "is_taken"),
    [
        ("a, b=1", "f(1)", True),
        ("a, b=1", "f(1, b=2)", True),
        ("a, *, b", "f(1, b=2)", True),
        ("a, *rest, **options", "f(1, 2, x=3)", True),
        ("a, b, c", "f(*rest)", True),
        ("a, b, c", "f(1, **options)", True),
        ("a, b=1", "f()", False),
        ("a, b=1", "f(1, 2, 3)", False),
        ("a, *, b", "f(1)", False),
        ("a, /", "f(a=1)", False),
        ("a", "f(1, x=2)", False),
        ("a", "f(1, 2, *rest)", False),
        ("a", "f(1, x=2, **options)", False),
    ],
)
def test_call_fits_what_python_lets_it_call(signature: str, call: str, is_taken: bool) -> None:
    function = cst.ensure_type(cst.parse_statement(f"def f({signature}): ..."), cst.FunctionDef)
    assert fits(function, cst.ensure_type(cst.parse_expression(call), cst.Call), bound=False) is is_taken


def test_call_of_a_method_leaves_out_the_object() -> None:
    function = cst.ensure_type(cst.parse_statement("def f(self, a): ..."), cst.FunctionDef)
    call = cst.ensure_type(cst.parse_expression("x.f(1)"), cst.Call)
    assert fits(function, call, bound=True)
    assert not fits(function, call, bound=False)
