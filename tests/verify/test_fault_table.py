"""The published figures are those that were measured, and good enough."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = json.loads((ROOT / "benchmarks/results/fault_detection.json").read_text(encoding="utf-8"))["cases"]


def test_faults_are_found_and_right_migrations_left_alone() -> None:
    faults = [case["verdict"] != "PASS" for case in CASES if case["fault"]]
    alarms = [case["verdict"] != "PASS" for case in CASES if not case["fault"]]
    assert len(faults) >= 30
    assert len(alarms) >= 30
    assert sum(faults) / len(faults) >= 0.95
    assert sum(alarms) / len(alarms) <= 0.01


def test_every_fault_has_a_place_in_some_script() -> None:
    faults = runpy.run_path(str(ROOT / "benchmarks/faults/faults.py"))["FAULTS"]
    assert {fault.name for fault in faults} == {case["fault"] for case in CASES} - {""}
