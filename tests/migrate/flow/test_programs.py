"""Programs that were interpreted for one question, and serve others."""

from __future__ import annotations

import pytest
from amp_migrate.flow.programs import Programs

from .conftest import Texts


def beside(statements: int) -> Texts:
    """A script that calls a function of another file, of so many statements."""
    body = "    x = x + 1\n" * statements
    return Texts({"a.py": "from b import f\n\nf(1)\n", "b.py": f"def f(x):\n{body}    return x\n"})


def test_a_part_is_interpreted_once_for_all_who_ask() -> None:
    programs, texts = Programs(), beside(3)
    found = programs.part(texts, ("a.py",), only_whole=False)
    assert programs.part(texts, ("a.py",), only_whole=False) is found
    assert programs.part(texts, ("a.py",), only_whole=True) is found
    assert programs.part(texts, ("a.py", "b.py"), only_whole=False) is not found


@pytest.mark.parametrize(
    ("statements", "only_whole", "others", "is_as_good"),
    [(3, False, (), True), (500, False, (), False), (3, True, (), False), (3, False, ("b.py",), False)],
    ids=["small", "a quarter of what it is worth", "stops where it is not whole", "with a file beside"],
)
def test_a_part_is_the_program_where_more_patience_would_have_shown_no_more(
    statements: int, only_whole: bool, others: tuple[str, ...], is_as_good: bool
) -> None:
    programs, texts = Programs(), beside(statements)
    part = programs.part(texts, ("a.py",), only_whole=only_whole)
    found = programs.of(texts, ["a.py"], others)
    assert (found is part) == is_as_good
    assert programs.of(texts, ["a.py"], others) is found


def test_few_parts_are_kept() -> None:
    programs, texts = Programs(), Texts({f"{number}.py": "x = 1\n" for number in range(9)})
    first = programs.part(texts, ("0.py",), only_whole=False)
    for number in range(9):
        programs.part(texts, (f"{number}.py",), only_whole=False)
    assert programs.part(texts, ("0.py",), only_whole=False) is not first
