"""Python's trees are gone through as `ast` goes through them."""

from __future__ import annotations

import ast
from pathlib import Path

import amp_migrate
import pytest
from amp_migrate.syntax import children, nodes_in

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
