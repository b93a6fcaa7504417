"""A plugin of pytest for `make quick`: one test in so many of each file, and none that needs what is not installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

_NOT_HERE = ("slow", "torch", "gpu")
_OWN = ("amp_migrate", "amp_shim")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How short the look is."""
    parser.addoption("--one-in", type=int, default=24, metavar="N", help="of each file, run one test in N")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first test of each file, and every so manieth after it; none that trains, or starts torch."""
    seen: Counter[Path] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        if all(item.get_closest_marker(name) is None for name in _NOT_HERE):
            (left if seen[item.path] % config.option.one_in else kept).append(item)
            seen[item.path] += 1
        else:
            left.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip what cannot be imported for want of a package. One of this project that is missing is a failure as ever."""
    report = yield
    call = getattr(report, "call", None)
    error = call.excinfo.value if call is not None and call.excinfo is not None else None
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    if report.failed and error is not None and (error.name or "").split(".")[0] not in ("", *_OWN):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {error.name} is not installed")
    return report
