"""One part of the suite, as a process: `python -m gpu_suite.part NAME FILE ASKED`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from operator import itemgetter
from pathlib import Path

from gpu_suite.machine import machine
from gpu_suite.record import RUNNING, Record
from gpu_suite.sizes import FULL, REHEARSAL

# The function of each part, by its module: only one is imported.
FUNCTIONS = {
    "operators": "operators:run",
    "table": "flow_table:run",
    "tests": "gpu_tests:run",
    "accuracy": "accuracy:run",
    "programs": "programs:run",
    "examples": "examples:run",
    "training": "training:run",
    "shim": "ratios:shim",
    "recording": "ratios:recording",
    "doctor": "bounds:run",
    "tune": "bounds:tune",
}


def main(name: str, file: str, asked: str) -> None:
    """Run a part; each result that it has goes to the file at once.

    Args:
        name: the part.
        file: its JSON.
        asked: as JSON, the device of a rehearsal (empty where it counts), and what else is not as in the sizes.
    """
    rehearsal, changes = itemgetter("rehearsal", "changes")(json.loads(asked))
    sizes = replace(REHEARSAL, device=rehearsal) if rehearsal else FULL
    record = Record(Path(file))
    record.write(part=name, status=RUNNING, rehearsal=bool(rehearsal), machine=machine(sizes.device))
    module, _, function = FUNCTIONS[name].partition(":")
    part = getattr(import_module(f"gpu_suite.{module}"), function)
    part(replace(sizes, **changes), lambda result: record.write(result=result))


if __name__ == "__main__":
    main(*sys.argv[1:])
