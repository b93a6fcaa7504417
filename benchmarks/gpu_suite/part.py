"""One part of the suite, as a process: `python -m gpu_suite.part NAME FILE [--rehearse]`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from gpu_suite.machine import machine
from gpu_suite.record import RUNNING, Record
from gpu_suite.sizes import FULL, REHEARSAL

# The module of each part; only one is imported.
MODULES = {
    "operators": "operators",
    "tests": "gpu_tests",
    "training": "training",
    "shim": "shim_cost",
    "fixtures": "fixtures",
    "doctor": "doctor",
}


def main(name: str, file: str, *mode: str) -> None:
    """Run a part; each result that it has goes to the file at once."""
    sizes = REHEARSAL if mode == ("--rehearse",) else FULL
    record = Record(Path(file))
    record.write(part=name, status=RUNNING, rehearsal=sizes is REHEARSAL, machine=machine(sizes.device))
    import_module(f"gpu_suite.{MODULES[name]}").run(sizes, lambda result: record.write(result=result))


if __name__ == "__main__":
    main(*sys.argv[1:])
