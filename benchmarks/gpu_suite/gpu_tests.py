"""The tests that are marked `gpu`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gpu_suite.sizes import Sizes

ROOT = Path(__file__).parents[2]
FOLDER = "tests/gpu"


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """How many passed, failed and were skipped, and which failed; in a rehearsal all are skipped.

    Raises:
        RuntimeError: there is not one test to run, or pytest itself failed.
    """
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.xml"
        options = ["-m", "gpu", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, FOLDER],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(f"pytest: exit status {done.returncode}: {done.stdout.strip()[-300:]}")
        save(counted(report.read_text(encoding="utf-8")))


def counted(report: str) -> dict[str, Any]:
    """What a JUnit report says."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    return {
        "passed": len(cases) - len(failed) - len(skipped),
        "skipped": len(skipped),
        "failed": [{"test": case.get("name", ""), "message": _message(case)} for case in failed],
    }


def _message(case: ElementTree.Element) -> str:
    fault = case.find("failure")
    fault = case.find("error") if fault is None else fault
    return "" if fault is None else fault.get("message", "")[:300]
