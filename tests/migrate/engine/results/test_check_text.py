"""What is not let through to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.results.check_text import Refused, check_text, unbound_names
from amp_migrate.engine.source import Source


def source(text: str, encoding: str = "utf-8") -> Source:
    return Source(Path("train.py"), "train.py", text, encoding)


def test_a_good_result_passes() -> None:
    check_text(source("import torch\nx = 1\n"), "import torch\nx = torch.ones(1)\n")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("x = 1\n", "x = (\n", "does not parse"),
        ("x = 1\n", "return 1\n", "does not compile"),
        ("x = 1\n", "x = torch.ones(1)\n", "uses torch, which nothing binds"),
        ("def f(a):\n    return a\n", "def f(a):\n    return scaler\n", "uses scaler, which nothing binds"),
        ("from a import *\n", "from a import *\nx = scaler\n", "uses scaler, which nothing binds"),
        ("try:\n    pass\nexcept A, B:\n    pass\n", "try:\n    pass\nexcept A, B:\n", "does not parse"),
    ],
)
def test_a_bad_result_is_refused(before: str, after: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_text(source(before), after)


def test_a_character_that_the_files_encoding_lacks_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be written in ascii"):
        check_text(source("# coding: ascii\n", "ascii"), "# coding: ascii\n'\u0394'\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = y\n", "x = y + y\n"),  # unbound before: the user's own business
        ("return 1\n", "return 2\n"),  # did not compile before: a snippet
        ("try:\n    pass\nexcept A, B:\n    pass\n", "try:\n    A\nexcept A, B:\n    pass\n"),  # newer syntax
    ],
)
def test_what_was_wrong_before_is_no_reason_to_refuse(before: str, after: str) -> None:
    check_text(source(before), after)


@pytest.mark.parametrize(
    ("text", "unbound"),
    [
        ("import a.b as c\nc, len, __file__\n", set()),
        ("def f():\n    global g\n    g = 1\ng\n", set()),
        ("def f(x):\n    return [y for y in x if (z := y)] + [z]\n", set()),
        ("class A:\n    b = 1\n    def f(self):\n        return b\n", {"b"}),
        ("def f():\n    inner = 1\ndef g():\n    return inner\n", {"inner"}),
        ("try:\n    import apex\nexcept ImportError as e:\n    print(e)\nfor i in range(3): apex, i\n", set()),
        ("match p:\n    case [q, *r]:\n        q, r\n", {"p"}),
        ("x: T = 1\ndel x\n", {"T"}),
    ],
)
def test_unbound_names_are_those_that_no_scope_binds(text: str, unbound: set[str]) -> None:
    assert unbound_names(text) == unbound
