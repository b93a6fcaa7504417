"""The page about refusals quotes messages that the tool has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import amp_migrate
import pytest

PACKAGE = Path(amp_migrate.__file__).parent
PAGE = PACKAGE.parents[1] / "docs/refusals.md"


def quoted(page: str) -> list[str]:
    """The messages in the first column of the page's tables."""
    return [message for _, message in re.findall(r"^\| (`+)(.+?)\1 \|", page, re.M)]


class Messages:
    """The strings in the code of the package; what is filled in at run time may be anything."""

    def __init__(self) -> None:
        self.whole: set[str] = set()
        filled = set()
        for folder in ("flow", "steps", "hazards", "renames", "prove"):
            for path in (PACKAGE / folder).rglob("*.py"):
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        self.whole.add(node.value)
                    elif isinstance(node, ast.JoinedStr):
                        filled.add("".join(map(_pattern, node.values)))
        self.filled = [re.compile(pattern) for pattern in filled if re.search(r"\w\W+\w", pattern)]

    def has(self, message: str) -> bool:
        """Whether a message may be one of them."""
        return message in self.whole or any(pattern.fullmatch(message) for pattern in self.filled)


def _pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"


@pytest.fixture(scope="module")
def messages() -> Messages:
    """Read once, and only by who runs these tests: everybody who runs tests collects them."""
    return Messages()


@pytest.mark.parametrize("message", quoted(PAGE.read_text(encoding="utf-8")))
def test_a_refusal_on_the_page_is_one_of_the_tool(message: str, messages: Messages) -> None:
    assert messages.has(message)


def test_a_message_that_the_tool_has_not_is_found_out(messages: Messages) -> None:
    page = "| `the model is too large` | why |\n"
    assert [messages.has(each) for each in quoted(page)] == [False]
