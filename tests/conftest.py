"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Keep what runs leave for `--undo` out of the home of whoever tests, and the collector off what is imported."""
    state = tempfile.TemporaryDirectory(prefix="amp-migrate-tests-")
    config.add_cleanup(state.cleanup)
    os.environ["XDG_STATE_HOME"] = state.name
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector off what was imported: looking through PyTorch again and again takes most of a quick test.

    Nor is it to look, whenever a run has ended, through all that the run has made and still holds: the next run begins
    with a collection of it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000)
    gc.enable()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """The test's own folder, alone: each run of a verification links to what stands beside its script's."""
    folder = tmp_path / "alone"
    folder.mkdir()
    return folder
