"""The folder of a command: removed, unless somebody will want to read what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.verify.scratch import scratch
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


def test_wrong_usage_leaves_nothing_behind() -> None:
    kept: list[Path] = []
    with pytest.raises(UsageError), scratch(None) as own:
        kept.append(own.folder)
        raise UsageError("no such script")
    assert not kept[0].exists()


def test_a_fault_of_ours_is_kept_with_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[Path] = []
    with pytest.raises(KeyError), scratch(None) as own:
        kept.append(own.folder)
        raise KeyError("grads")
    assert "KeyError: 'grads'" in (kept[0] / "fault.log").read_text()
    assert f"logs and traces: {kept[0]}" in capsys.readouterr().err
    (kept[0] / "fault.log").unlink()
    kept[0].rmdir()
