"""Runs the parts one after the other, each within what is left of the time."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpu_suite.record import CUT_SHORT, DONE, NO_TIME, Record

RESULTS = Path(__file__).parents[1] / "results/gpu"
# Seconds that a part may take at most, in the order of the parts: what is quick and tells most comes first. And what a
# part needs to be worth starting.
LIMITS = {"operators": 40, "tests": 75, "training": 240, "shim": 75, "fixtures": 540, "doctor": 300}
LEAST = {"operators": 15, "tests": 20, "training": 60, "shim": 55, "fixtures": 45, "doctor": 60}


def run_part(command: Sequence[str], seconds: float) -> str:
    """Run a part for at most so many seconds; returns how it ended."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(command, stdout=sys.stderr, stderr=errors, start_new_session=True)
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return CUT_SHORT
        finally:
            _end(process)
        if code == 0:
            return DONE
        errors.seek(0)
        lines = [line.strip() for line in errors if line.strip()]
        return f"failed: {lines[-1] if lines else f'exit status {code}'}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the part: it starts processes of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_all(names: Sequence[str], folder: Path, budget: float, mode: Sequence[str]) -> bool:
    """Run the parts and say how each ended; returns whether none failed."""
    end = time.monotonic() + budget
    fine = True
    for name in names:
        record = Record(folder / f"{name}.json")
        left = end - time.monotonic()
        if left < LEAST[name] and not mode:
            # What an earlier run has measured is worth more than the word that this one has not.
            if not record.path.exists():
                record.write(part=name, status=NO_TIME)
            print(f"{name}: {NO_TIME}", flush=True)
            continue
        record.clear()
        began = time.monotonic()
        command = [sys.executable, "-m", "gpu_suite.part", name, str(record.path), *mode]
        status = run_part(command, min(left, LIMITS[name]))
        record.write(part=name, status=status, seconds=round(time.monotonic() - began, 1))
        print(f"{name}: {status}, {time.monotonic() - began:.0f} s", flush=True)
        fine = fine and not status.startswith("failed")
    return fine


def main() -> int:
    """The command: 0 where every part ran or had no time, 1 where one failed, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=LIMITS, default=list(LIMITS), help="default: all, in this order")
    parser.add_argument("--budget", type=float, default=560, metavar="SECONDS", help="for all (default: %(default)s)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where the JSON goes (default: results/gpu)")
    parser.add_argument("--rehearse", action="store_true", help="tiny, on the CPU, into --output; nothing is measured")
    options = parser.parse_args()
    if options.rehearse:
        if options.output is None or options.output.resolve() == RESULTS.resolve():
            parser.error("--rehearse needs an --output of its own: a rehearsal is no result")
    elif not _has_gpu():
        parser.error("no CUDA device here; --rehearse runs everything on the CPU")
    mode = ["--rehearse"] if options.rehearse else []
    return 0 if run_all(options.parts, options.output or RESULTS, options.budget, mode) else 1


def _has_gpu() -> bool:
    # In a process of its own, which gives the GPU back.
    command = [sys.executable, "-c", "import torch; torch.empty(1, device='cuda')"]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
