"""Which rules are wanted."""

from __future__ import annotations

import pytest
from amp_migrate.settings import Settings


@pytest.mark.parametrize(
    ("select", "ignore", "wanted"),
    [
        ((), (), "AMP101 AMP102 AMP501"),
        (("AMP1",), (), "AMP101 AMP102"),
        (("AMP101", "AMP501"), (), "AMP101 AMP501"),
        ((), ("AMP1",), "AMP501"),
        (("AMP1",), ("AMP101",), "AMP102"),
        (("AMP101",), ("AMP1",), "AMP101"),
        (("AMP101",), ("AMP101",), ""),
        (("AMP",), ("AMP5",), "AMP101 AMP102"),
        ((), ("AMP",), ""),
    ],
)
def test_the_more_exact_code_decides(select: tuple[str, ...], ignore: tuple[str, ...], wanted: str) -> None:
    settings = Settings(select=select, ignore=ignore)
    assert [code for code in ("AMP101", "AMP102", "AMP501") if settings.applies(code)] == wanted.split()
