"""What may have given a name its value where it is used, in all ways that statements can stand before it."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from amp_migrate.flow.answers.reaching import reaching


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\nuse(x)", [1]),
        ("x = 1\nx = 2\nuse(x)", [2]),
        ("use(x)\nx = 1", [0]),
        ("x = 1\nx = use(x)", [1]),
        ("y, (x, z) = f()\nuse(x)", [1]),
        ("x = 1\nx += 1\nuse(x)", [2]),
        ("x = 1\ndel x\nuse(x)", [2]),
        ("import x\nuse(x)", [1]),
        ("import x.y\nuse(x)", [1]),
        ("import y as x\nuse(x)", [1]),
        ("def x():\n    pass\nuse(x)", [1]),
        ("x = 1\ndef f():\n    x = 2\nuse(x)", [1]),
        ("if f(x := 1):\n    use(x)", [1]),
        ("with f() as x:\n    use(x)", [1]),
        ("with f():\n    x = 1\nuse(x)", [2]),
        ("x = 1\nif f():\n    x = 2\nuse(x)", [1, 3]),
        ("if f():\n    x = 2\nelse:\n    x = 4\nuse(x)", [2, 4]),
        ("x = 1\nif f():\n    x = 2\n    use(x)", [3]),
        ("for x in f():\n    use(x)", [1]),
        ("x = 1\nfor _ in f():\n    use(x)\n    x = 4", [1, 4]),
        ("x = 1\nfor _ in f():\n    x = 3\n    use(x)", [3]),
        ("x = 1\nwhile f():\n    x = 3\nuse(x)", [1, 3]),
        ("x = 1\nfor _ in f():\n    if g():\n        use(x)\n    with f():\n        x = 6", [1, 6]),
        ("x = 1\ntry:\n    x = 3\n    x = f()\nexcept ValueError:\n    use(x)", [1, 3, 4]),
        ("x = 1\ntry:\n    pass\nexcept ValueError as x:\n    use(x)", [2]),
        ("x = 1\nmatch f():\n    case [x]:\n        use(x)", [2]),
        ("x = 1\nmatch f():\n    case 1:\n        x = 4\nuse(x)", [1, 4]),
    ],
)
def test_the_statements_that_may_have_bound_a_name_last(text: str, lines: list[int]) -> None:
    tree = ast.parse(dedent(text))
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func) == "use")
    use = next(calls).args[0]
    assert isinstance(use, ast.Name)
    assert sorted(each.lineno if each else 0 for each in reaching(tree.body, use)) == lines
