"""What a loop counts, in terms of one name."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from amp_migrate.counters import implied_in


def _said(text: str) -> list[str]:
    """What each `if` of a text says, in order, where it comes out as true."""
    tree = ast.parse(dedent(text))
    scopes = [tree, *(each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))]
    asked = [(each, scope) for scope in scopes for each in ast.walk(scope) if isinstance(each, ast.If)]
    innermost = dict(asked)
    tests = sorted(innermost, key=lambda each: each.lineno)
    return [text for each in tests for text, _, _ in sorted(implied_in(tree, innermost[each], each.test, True))]


LOOP = """
    count = {start}
    for {of}:
        if count % n == 0:
            pass
        {before}
        count += {step}
        {behind}
        if count % n == 0:
            pass
    {then}
    if count % n == 0:
        pass
"""
OWN = {"start": "0", "of": "i, x in enumerate(xs)", "step": "1", "before": "pass", "behind": "pass", "then": "pass"}


def _loop(**parts: str) -> list[str]:
    return _said(LOOP.format(**(OWN | parts)))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, ["i % n == 0", "(i + 1) % n == 0", "(i + 1) % n == 0"]),
        ({"start": "1"}, ["(i + 1) % n == 0", "(i + 2) % n == 0", "(i + 2) % n == 0"]),
        ({"of": "i, x in enumerate(xs, 1)"}, ["(i - 1) % n == 0", "i % n == 0", "i % n == 0"]),
        ({"of": "i, x in enumerate(xs, start=2)"}, ["(i - 2) % n == 0", "(i - 1) % n == 0", "(i - 1) % n == 0"]),
        ({"of": "i in range(m)"}, ["i % n == 0", "(i + 1) % n == 0", "(i + 1) % n == 0"]),
        ({"of": "i in range(3, m)"}, ["(i - 3) % n == 0", "(i - 2) % n == 0", "(i - 2) % n == 0"]),
        ({"of": "i in range(0, m, 2)", "step": "2"}, ["i % n == 0", "(i + 2) % n == 0", "(i + 2) % n == 0"]),
        ({"of": "i, (x, y) in enumerate(xs)"}, ["i % n == 0", "(i + 1) % n == 0", "(i + 1) % n == 0"]),
        ({"behind": "if late: break"}, ["i % n == 0", "late", "(i + 1) % n == 0", "(i + 1) % n == 0"]),
        ({"behind": "if late: continue"}, ["i % n == 0", "late", "(i + 1) % n == 0", "(i + 1) % n == 0"]),
        ({"before": "if late: break"}, ["i % n == 0", "late", "(i + 1) % n == 0", "count % n == 0"]),
        ({"before": "for y in x: continue"}, ["i % n == 0", "(i + 1) % n == 0", "(i + 1) % n == 0"]),
        ({"then": "count = 5"}, ["i % n == 0", "(i + 1) % n == 0", "count % n == 0"]),
        ({"then": "i = 5"}, ["i % n == 0", "(i + 1) % n == 0", "count % n == 0"]),
    ],
)
def test_a_number_that_grows_with_the_loop_is_the_loop_s_own_and_a_constant(
    parts: dict[str, str], said: list[str]
) -> None:
    assert _loop(**parts) == said


@pytest.mark.parametrize(
    "parts",
    [
        {"start": "m"},
        {"step": "m"},
        {"step": "2"},
        {"of": "x in xs"},
        {"of": "i, x in zip(numbers, xs)"},
        {"of": "i, x in enumerate(xs, m)"},
        {"of": "i in reversed(range(m))"},
        {"of": "i in range(0, m, 2)"},
        {"before": "if late: continue"},
        {"before": "if late: count += 1"},
        {"behind": "if late: count = 0"},
        {"behind": "i = len(x)"},
        {"behind": "for i in x: print(i)"},
        {"before": "def reset():\n            global count"},
    ],
)
def test_what_may_grow_otherwise_is_said_as_it_is(parts: dict[str, str]) -> None:
    assert {each for each in _loop(**parts) if each != "late"} == {"count % n == 0"}


def test_two_numbers_that_grow_alike_are_one() -> None:
    said = _said(
        """
        seen, done = 0, 3
        for x in xs:
            seen = seen + 1
            if done % n == 0 and late:
                pass
            done += 1
        if (done + 2) % n == 0:
            pass
        if seen % n == 0:
            pass
        """
    )
    assert said == ["(seen + 2) % n == 0", "late", "(seen + 5) % n == 0", "seen % n == 0"]


def test_a_progress_bar_gives_what_it_gets() -> None:
    text = LOOP.format(**(OWN | {"of": "i, x in bar(enumerate(xs))"}))
    assert set(_said(text)) == {"count % n == 0"}
    assert "count % n == 0" not in _said(dedent(text).replace("count =", "from tqdm import tqdm as bar\ncount =", 1))
