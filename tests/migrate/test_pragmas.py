"""Comments that leave a line or a file alone."""

from __future__ import annotations

import pytest
from amp_migrate.pragmas import read_pragmas


def ignored_lines(text: str, code: str = "AMP501") -> list[int]:
    pragmas = read_pragmas(text)
    return [line for line in range(1, text.count("\n") + 2) if pragmas.ignores(code, line)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a()\nb()  # amp-migrate: ignore[AMP501]\nc()\n", [2]),
        ("a()\nb()  # amp-migrate: ignore\nc()\n", [2]),
        ("a()\nb()  # because\t# amp-migrate:ignore[AMP101, AMP501]\n", [2]),
        ("b()  # amp-migrate: ignore[AMP5]\n", [1]),
        ("b()  # amp-migrate: ignore[AMP502]\n", []),
        ("b()  # amp-migrate: ignore[]\n", []),
        ("b()  # amp-migrate: ignored\n", []),
        ("b(\n    1,  # amp-migrate: ignore\n)\nc()\n", [1, 2, 3]),
        ("b(\n    1,\n)  # amp-migrate: ignore\nc()\n", [1, 2, 3]),
        ("# amp-migrate: ignore\nb()\nc()\n", [2]),
        ("if x:\n    # amp-migrate: ignore[AMP501]\n    # why\n\n    b(\n    )\nc()\n", [5, 6]),
        ("with x:  # amp-migrate: ignore\n    b()\n", [1]),
        ("x = '# amp-migrate: ignore'\n", []),
        ("x = '''\n# amp-migrate: ignore\n'''\n", []),
        ("b()  # amp-migrate: ignore", [1]),
        ("b()  # amp-migrate: ignore\r\nc()\r\n", [1]),
    ],
)
def test_a_pragma_covers_the_statement_that_it_stands_at(text: str, lines: list[int]) -> None:
    assert ignored_lines(text) == lines


def test_each_code_is_ignored_only_where_it_is_named() -> None:
    text = "a()  # amp-migrate: ignore[AMP101]\nb()  # amp-migrate: ignore[AMP501]\n"
    assert (ignored_lines(text, "AMP101"), ignored_lines(text, "AMP501")) == ([1], [2])


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("# amp-migrate: skip-file\nx = 1\n", True),
        ("x = 1\n\n# amp-migrate: skip-file (vendored)\n", True),
        ("x = '# amp-migrate: skip-file'\n", False),
        ("# amp-migrate: skip-files\n", False),
    ],
)
def test_a_file_can_ask_to_be_skipped(text: str, skipped: bool) -> None:
    assert read_pragmas(text).skips_file is skipped


def test_a_text_without_pragmas_is_not_tokenized() -> None:
    assert read_pragmas("x = (  # never closed\n").ignored == {}
