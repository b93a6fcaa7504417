"""A user's own folder for records, for each test one."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the records of the test's runs are; beside the tree that it works on, not in it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # What a killed process wrote, the system still has: waiting for the disk matters only when the power fails.
    monkeypatch.setattr("os.fsync", lambda _: None)
    return tmp_path / "state/amp-migrate/undo"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder to work in."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder
