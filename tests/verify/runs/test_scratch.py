"""The folder of a command: removed, unless somebody will want to read what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.usage import UsageError


def test_a_temporary_folder_is_removed_unless_it_is_to_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with scratch(None) as own:
        (own.folder / "log").touch()
    assert not own.folder.exists()
    assert capsys.readouterr().err == ""
    with scratch(None) as own:
        own.keep = True
    assert own.folder.exists()
    assert capsys.readouterr().err == f"logs and traces: {own.folder}\n"
    own.folder.rmdir()


def test_a_folder_that_was_asked_for_stays(tmp_path: Path) -> None:
    wanted = tmp_path / "work"
    with pytest.raises(UsageError, match="no such script"), scratch(str(wanted)):
        raise UsageError("no such script")
    assert wanted.exists()


def left_by(error: Exception) -> Path:
    """The folder of a command that this error ends."""
    made = scratch(None)
    own = made.__enter__()
    assert not made.__exit__(type(error), error, error.__traceback__)  # which goes on
    return own.folder


def test_wrong_usage_leaves_nothing_behind() -> None:
    assert not left_by(UsageError("no such script")).exists()


def test_a_fault_of_ours_is_kept_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    kept = left_by(KeyError("grads"))
    assert "KeyError: 'grads'" in (kept / "fault.log").read_text()
    assert f"logs and traces: {kept}" in capsys.readouterr().err
    (kept / "fault.log").unlink()
    kept.rmdir()
