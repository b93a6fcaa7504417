"""What stands around a written part of a page is kept, and a page without its marks is not written over."""

from __future__ import annotations

import pytest
from amp_migrate.report.rules.marks import between

PAGE = "# Page\n<!-- a -->\nold\n<!-- /a -->\nmiddle\n<!-- b -->\n<!-- /b -->\nend\n"


def test_only_what_is_between_the_marks_is_replaced() -> None:
    assert between(PAGE, "a", "new\nlines\n") == PAGE.replace("old\n", "new\nlines\n")
    assert between(PAGE, "b", "more\n") == PAGE.replace("<!-- /b -->", "more\n<!-- /b -->")
    assert between(between(PAGE, "a", "new\n"), "a", "old\n") == PAGE


@pytest.mark.parametrize(
    "page", ["", "<!-- a -->\nold\n", "<!-- /a -->\n<!-- a -->\n", PAGE + PAGE], ids=["none", "open", "turned", "twice"]
)
def test_a_page_without_its_marks_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match="needs the marks <!-- a --> and <!-- /a -->"):
        between(page, "a", "new\n")
