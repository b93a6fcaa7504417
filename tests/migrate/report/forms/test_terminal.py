"""What a person at a terminal sees, and a pipe does not."""

from __future__ import annotations

import io
import sys

import pytest
from amp_migrate.report.forms.terminal import print_diff, progress_bar

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n same [bold]\n-old\r\n+new :smile:\r\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stdout and stderr a terminal; to be called in the test itself, as pytest sets both anew for each."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_diff_is_coloured_and_its_text_is_not_taken_for_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    print_diff(DIFF)
    shown = terminal.getvalue()
    assert "\x1b[31m-old\x1b[0m\n" in shown
    assert "\x1b[32m+new :smile:\x1b[0m\n" in shown
    assert " same [bold]\n" in shown


def test_a_terminal_takes_no_orders_from_a_diff(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    print_diff("+\tx = '\x1b]0;owned\x07'\n-\x9b2J\n")
    shown = terminal.getvalue()
    assert "]0;owned" in shown
    assert "\x1b]" not in shown
    assert "\x9b" not in shown
    assert "\\t" not in shown


def test_a_terminal_without_colour_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    print_diff(DIFF.replace("@", ""))
    assert "\x1b[31m" not in terminal.getvalue()
    assert "-old\n" in terminal.getvalue()


def test_a_long_line_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    print_diff("+" + "x" * 500 + "\n")
    assert "x" * 500 in terminal.getvalue()


def test_a_bar_shows_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with progress_bar() as progress:
        progress(3, 12)
    assert "25%" in terminal.getvalue()


def test_work_in_one_piece_needs_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with progress_bar() as progress:
        progress(12, 12)
    assert "%" not in terminal.getvalue()


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar() as progress:
        progress(3, 12)
    assert stream.getvalue() == ""
