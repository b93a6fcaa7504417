"""Form feeds, tabs behind blanks, bare carriage returns and the last comments survive, although LibCST drops some."""

from __future__ import annotations

import libcst as cst
import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.texts.layout import LayoutError, restore
from amp_migrate.settings import Settings


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("a = 1\n\x0cold = 2\nb = 3\n", "a = 1\nnew = 2\nb = 3\n"),
        ("\x0cold = 1\n\x0cdef f():\n    pass\n", "new = 1\n\x0cdef f():\n    pass\n"),
        ("a = 1\n\x0c\nold = 2\n\x0cclass A:\n    pass", "a = 1\n\x0c\nnew = 2\n\x0cclass A:\n    pass"),
        ("old = 1\ra = 2\r", "new = 1\ra = 2\r"),
        ("if a:\n    old = 2\n    \x0c    b = 3\n", "if a:\n    new = 2\n    \x0c    b = 3\n"),
        ("if a:\n    old = 2\n  \x0c \x0cb = 3\n", "if a:\n    new = 2\n  \x0c \x0cb = 3\n"),
        ("if a:\n        old = 2\n       \tb = 3\n", "if a:\n        new = 2\n       \tb = 3\n"),
        ("a = 1\r\n\x0cb = 2\r\nold = 3\r\n", "a = 1\r\n\x0cb = 2\r\nnew = 3\r\n"),
        ("if a:\n    old = 2\n\n\t\t# b\n\n\t# c\n\n", "if a:\n    new = 2\n\n\t\t# b\n\n\t# c\n\n"),
        ("if a:\n    old = 2\n    # b\n\n\t\t# c", "if a:\n    new = 2\n    # b\n\n\t\t# c"),
    ],
)
def test_lines_that_did_not_change_are_the_files_own(original: str, expected: str) -> None:
    printed = cst.parse_module(original).code
    assert restore(original, printed, printed.replace("old", "new")) == expected


def test_nothing_edited_gives_the_file_back() -> None:
    original = "a = 1\n\x0cb = 2\n"
    printed = cst.parse_module(original).code
    assert printed != original  # else there would be nothing to restore
    assert restore(original, printed, printed) == original


@pytest.mark.parametrize(
    ("original", "printed", "line"),
    [
        ("a = 1\nb = 2\n", "a = 1\n", 2),
        ("a = 1\n", "a = 1\nb = 2\n", 1),
        ("a\n\\\nb\n", "a\nb\n", 2),
        ("a\nb\n# c\n", "a\n", 2),
    ],
)
def test_a_difference_that_cannot_be_put_back_is_refused_with_its_place(original: str, printed: str, line: int) -> None:
    with pytest.raises(LayoutError) as error:
        restore(original, printed, "a = 3\n")
    assert error.value.line == line


@pytest.mark.usefixtures("toy_planner")
def test_what_the_parser_drops_is_told_by_its_place() -> None:
    text = "amp = 0\n\nold_amp = 1\n\\\namp = 2\n"
    plan = migrate_text(text, Settings(), "train.py")
    assert plan.after == text
    (finding,) = plan.findings
    assert (finding.code, finding.line) == ("AMP002", 4)
    assert finding.message.startswith("left as it was: this line would not stay what it is")
    assert "internal" not in finding.message
