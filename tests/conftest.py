"""What holds for all tests."""

from __future__ import annotations

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector off what was imported: looking through PyTorch again and again takes most of a quick test."""
    gc.collect()
    gc.freeze()
