"""Python's trees are gone through as `ast` goes through them."""

from __future__ import annotations

import ast
from pathlib import Path

import amp_migrate
import pytest
from amp_migrate.syntax import children, keeps_arguments, nodes_in

SYNTAX = """
match x:
    case {"a": 1, **rest} | [A(b=2), *_]:
        global y
        print(f"{x!r:>{3}}", *rest, k=lambda a, /, *, b=-1: not a and b)
async def f(a: int = 2, *args, **kwargs) -> None:
    async with a as b, c: del b[1:2], c
    return [await x async for x in y if x < 2 < 3]
"""
LEFT_OUT = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


@pytest.mark.parametrize("text", [SYNTAX, Path(amp_migrate.__file__).with_name("cli.py").read_text(encoding="utf-8")])
def test_nodes_come_in_the_order_of_ast_without_operators_and_contexts(text: str) -> None:
    tree = ast.parse(text)
    every = [*ast.walk(tree)]
    assert any(isinstance(each, LEFT_OUT) for each in every)
    assert [*nodes_in(tree)] == [each for each in every if not isinstance(each, LEFT_OUT)]
    for node in every:
        assert children(node) == [each for each in ast.iter_child_nodes(node) if not isinstance(each, LEFT_OUT)]


HANDING_ON = """
def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        start = time.time()
        result = function(*args, **kwargs)
        print(function.__name__, time.time() - start)
        return result
    return inner
"""


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        ("", "", True),
        ("result = function(*args, **kwargs)", "return function(*args, **kwargs)", False),  # and another result
        ("        return result\n", "", False),
        ("return result", "return result, start", False),
        ("return result", "result = 0\n        return result", False),
        ("return result", "result += 0\n        return result", False),
        ("return result", "if start: return function(*args, **kwargs)\n        return result", False),
        ("return inner", "return function", False),
        ("return inner", "return cached(inner)", False),
        ("    return inner", "    inner = function\n    return inner", False),
        ("(function)\n    def", "(function)\n    @cached\n    def", False),
        ("(function):\n", "(function, times=1):\n", False),
        ("def timed", "@decorator\ndef timed", False),
        ("inner(*args", "inner(model, *args", False),
        ("function(*args, **kwargs)", "function(args[0], *args, **kwargs)", False),
        ("function(*args, **kwargs)", "function(*args)", False),
        ("start = time.time()", "start = args[0]", False),
        ("start = time.time()", "args = args[1:]", False),
        ("start = time.time()", "start = args = ()", False),
        ("start = time.time()", "import args", False),
        ("start = time.time()", "function = print", False),
        ("start = time.time()", "kwargs.clear()", False),
        ("start = time.time()", "start = lambda args: 0", False),
        ("print(function.__name__,", "print(function.__code__,", False),
    ],
)
def test_a_decorator_keeps_arguments_that_it_hands_on_untouched(old: str, new: str, is_kept: bool) -> None:
    assert old in HANDING_ON
    assert keeps_arguments(ast.parse(HANDING_ON.replace(old, new) if old else HANDING_ON).body[0]) is is_kept


@pytest.mark.parametrize(
    "text",
    [
        "def quiet(f):\n    'Says nothing.'\n    def inner(*a, **k):\n        return f(*a, **k)\n    return inner",
        "def quiet(f):\n    def inner(*a, **k):\n        with region:\n            return f(*a, **k)\n    return inner",
    ],
)
def test_a_decorator_may_return_what_it_runs_at_once(text: str) -> None:
    assert keeps_arguments(ast.parse(text).body[0])


@pytest.mark.parametrize(
    "text", ["class A: ...", "async def quiet(f): ...", "def quiet(f): ...", "def quiet(f): return f"]
)
def test_what_makes_no_function_of_another_keeps_nothing(text: str) -> None:
    assert not keeps_arguments(ast.parse(text).body[0])
