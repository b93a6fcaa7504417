"""The page about refusals quotes messages that the tool has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import amp_migrate
import pytest

PACKAGE = Path(amp_migrate.__file__).parent
PAGE = PACKAGE.parents[1] / "docs/refusals.md"


def quoted(page: str) -> list[str]:
    """The messages in the first column of the page's tables."""
    return [message for _, message in re.findall(r"^\| (`+)(.+?)\1 \|", page, re.M)]


def patterns() -> Iterator[str]:
    """The strings in the code of the package, as patterns: what is filled in at run time may be anything."""
    for folder in ("flow", "steps", "hazards", "renames", "prove"):
        for path in (PACKAGE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield re.escape(node.value)
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(
                        re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values
                    )


MESSAGES = tuple(re.compile(pattern) for pattern in patterns() if re.search(r"\w\W+\w", pattern))


@pytest.mark.parametrize("message", quoted(PAGE.read_text(encoding="utf-8")))
def test_a_refusal_on_the_page_is_one_of_the_tool(message: str) -> None:
    assert any(pattern.fullmatch(message) for pattern in MESSAGES)


def test_a_message_that_the_tool_has_not_is_found_out() -> None:
    page = "| `the model is too large` | why |\n"
    assert [any(pattern.fullmatch(each) for pattern in MESSAGES) for each in quoted(page)] == [False]
