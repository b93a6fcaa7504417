"""Every expression and statement of Python's own tree finds the LibCST node that stands for it."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import amp_migrate
import libcst as cst
import pytest
from amp_migrate.trees.counterparts import Counterparts
from amp_migrate.trees.tree import Tree

TEXT = '''
@decorator(1)
def f(a, /, b: int = 2, *c, d=3, **e) -> None:
    """A docstring."""
    x = a if b else (c, *d)
    y = a and b and c or (a and b) and d
    x[1:2, ..., :a], x[b,], x[c] = [*a, b], {c: d, **e}, {a, b}
    del x[0], y.z
    for i, (j, *k) in enumerate(zip(a, b)):
        z = [i + j * 2 for i in a if i if j for j in b]
    else:
        w = {k: v for k, v in e.items()}
    with open(a) as f, open(b) as (g, h):
        return lambda p, q=a: (yield p) < q <= (await r)
    try:
        raise ValueError("a" "b") from None
    except (A, B) as error:
        assert not -x ** 2, f"{x!r:>{y}}"
    finally:
        f(*a, b, *c, d=1, **e)
    if (n := len(a)) > 1: n += 1; m: int = 2
    elif n:
        global s
    return (t for t in a)


class C(A, B, metaclass=M):
    import a.b as c
    while True: break
'''


def missing(text: str) -> list[str]:
    """What has no counterpart, or one of another kind; what strings and subscripts have no node for is left out."""
    parsed = ast.parse(text)
    pairs = Counterparts(Tree("a.py", cst.parse_module(text), text), parsed)
    texts = [each for each in ast.walk(parsed) if isinstance(each, ast.JoinedStr)]
    inside = {part for text in texts for part in ast.walk(text) if part is not text}
    inside |= {each.slice for each in ast.walk(parsed) if isinstance(each, ast.Subscript)} & {
        each for each in ast.walk(parsed) if isinstance(each, ast.Tuple)
    }
    return [
        f"{each.lineno}: {ast.unparse(each)}"
        for each in ast.walk(parsed)
        if isinstance(each, (ast.expr, ast.stmt)) and not isinstance(each, (ast.Starred, ast.Slice))
        if each not in inside and not is_same(each, pairs.of(each))
    ]


def is_same(node: ast.AST, other: cst.CSTNode | None) -> bool:
    if isinstance(node, ast.Name):
        return isinstance(other, cst.Name) and other.value == node.id
    if isinstance(node, ast.Attribute):
        return isinstance(other, cst.Attribute) and other.attr.value == node.attr
    if isinstance(node, ast.Call):
        return isinstance(other, cst.Call)
    return other is not None


def test_every_construct() -> None:
    assert missing(dedent(TEXT)) == []


def test_what_a_match_statement_compares_with_is_not_among_them() -> None:
    assert missing("match a:\n    case [x, 1] if x > b:\n        y = x\n    case C(z=1) | None:\n        pass\n") == [
        "2: 1",
        "4: C",
        "4: 1",
    ]


@pytest.mark.parametrize("name", ["flow/analysis.py", "trees/counterparts.py", "engine/find/discover.py"])
def test_files_of_this_project(name: str) -> None:
    assert missing((Path(amp_migrate.__file__).parent / name).read_text(encoding="utf-8")) == []


def test_trees_of_different_texts_have_no_counterparts() -> None:
    text = "a = 1\nb = 2\n"
    pairs = Counterparts(Tree("a.py", cst.parse_module(text), text), other := ast.parse("a = 1\n"))
    assert pairs.of(other.body[0]) is None


def test_what_is_filled_into_strings_is_known_from_libcst_on() -> None:
    text = 'print(f"{f(x):.2f} of {g(y)=}" f"{h(z)!r:>{w}}")\n'
    tree = Tree("a.py", cst.parse_module(text), text)
    pairs = Counterparts(tree, parsed := ast.parse(text))
    found = [pairs.back(each) for each in tree.every(cst.Call)]
    assert [ast.unparse(each) for each in found if each is not None][1:] == ["f(x)", "g(y)", "h(z)"]
    # The other way round there is nothing to be changed inside a string.
    assert [ast.unparse(each) for each in ast.walk(parsed) if isinstance(each, ast.Call) and pairs.of(each)] == [
        ast.unparse(parsed.body[0])
    ]
