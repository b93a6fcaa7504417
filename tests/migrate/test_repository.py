from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.repository import repository


def test_a_folder_is_in_the_repository_around_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")  # as a worktree and a submodule have it
    assert repository(tmp_path / "a" / "b") == repository(tmp_path / "a") == tmp_path / "a"


def test_a_home_folder_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert repository(tmp_path / "project") is None
    monkeypatch.setenv("HOME", str(tmp_path / "project"))
    assert repository(tmp_path / "project") == tmp_path
