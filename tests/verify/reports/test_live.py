"""What a terminal shows while scripts run, and a pipe does not."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.reports.live import Live
from amp_migrate.verify.runs import kinds

MakeEvidence = Callable[..., Evidence]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal; to be called in the test itself, as pytest sets it anew for each."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def wait_for(terminal: Terminal, text: str) -> None:
    """Raises TimeoutError where the text does not come; the clock decides nothing else."""
    for _ in range(600):
        if text in terminal.text:
            return
        time.sleep(0.05)
    raise TimeoutError(text)


def test_a_run_is_shown_with_the_steps_that_it_has_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with Live().running(kinds.ORIGINAL, tmp_path, 20):
        wait_for(terminal, "original starting")
        (tmp_path / "rank-0.steps").write_bytes(b"." * 7)
        (tmp_path / "rank-1.steps").write_bytes(b"." * 6)
        wait_for(terminal, "original step 7 of 20")
    shown = terminal.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_a_run_to_the_script_s_own_end_has_no_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    (tmp_path / "rank-0.steps").write_bytes(b"...")
    with Live().running(kinds.MIGRATED, tmp_path, 0):
        wait_for(terminal, "migrated step 3")
    assert "step 3 of" not in terminal.text


def test_what_has_ended_stands_above_what_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_evidence: MakeEvidence
) -> None:
    terminal = as_terminal(monkeypatch)

    def interrupted() -> None:
        live = Live()
        with live.running(kinds.MIGRATED, tmp_path, 20):
            with live.running(kinds.ORIGINAL, tmp_path, 20):
                pass
            live.ended(make_evidence().original)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "original: 20 steps\n" in terminal.text
    shown = terminal.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_a_pipe_gets_a_line_for_what_has_ended(
    tmp_path: Path, make_evidence: MakeEvidence, capsys: pytest.CaptureFixture[str]
) -> None:
    live = Live()
    with live.running(kinds.ORIGINAL, tmp_path, 20):
        live.ended(make_evidence().original)
    assert capsys.readouterr().err == "   1.5 s  original: 20 steps\n"
