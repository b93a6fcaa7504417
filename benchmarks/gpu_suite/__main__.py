"""Runs the parts, each within what is left of the time: first what may share the GPU, then what is timed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_suite.record import CUT_SHORT, DONE, NO_TIME, Record

RESULTS = Path(__file__).parents[1] / "results/gpu"
# Seconds that a part may take at most, where others wait for it. Those of the first line share the GPU and the
# processors, because no time is measured in them; the others follow one by one, what tells most first.
TOGETHER = {"operators": 60, "table": 60, "tests": 150, "accuracy": 200, "programs": 200, "examples": 220}
ALONE = {"training": 260, "doctor": 90, "shim": 50, "recording": 35, "tune": 150}
# What a part needs to be worth starting.
LEAST = {"operators": 15, "table": 15, "tests": 20, "accuracy": 45, "programs": 45, "examples": 60}
LEAST |= {"training": 60, "shim": 40, "recording": 15, "doctor": 40, "tune": 60}
# What answers for one script at a time, and can go on where an earlier run was cut off.
RESUMED = {"programs", "examples", "doctor", "tune"}
LIMITS = {**TOGETHER, **ALONE}


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


@dataclass(frozen=True)
class Suite:
    """Where the results go, and until when there is time.

    Attributes:
        end: on the monotonic clock.
        rehearsal: the device of a rehearsal; empty where it counts.
        go_on: what has a result keeps it.
        changes: of the sizes.
    """

    folder: Path
    end: float
    rehearsal: str = ""
    go_on: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)

    def run(self, names: Sequence[str]) -> bool:
        """Run the parts and say how each ended; returns whether none failed."""
        together = [name for name in names if name in TOGETHER]
        alone = [name for name in names if name in ALONE]
        with ThreadPoolExecutor(max(1, len(together))) as pool:
            fine = list(pool.map(lambda name: self.run_one(name, last=not alone), together))
        return all([*fine, *(self.run_one(name, last=name == alone[-1]) for name in alone)])

    def run_one(self, name: str, *, last: bool) -> bool:
        """Run a part, or say that there is no time; returns whether it did not fail.

        Args:
            last: none waits for it, so that it may take all the time that is left.
        """
        record = Record(self.folder / f"{name}.json")
        left = self.end - time.monotonic()
        if left < LEAST[name] and not self.rehearsal:
            # What an earlier run has measured is worth more than the word that this one has not.
            if not record.path.exists():
                record.write(part=name, status=NO_TIME)
            print(f"{name}: {NO_TIME}", flush=True)
            return True
        known = record.read().get("result") if self.go_on and name in RESUMED else None
        record.clear()
        if known is not None:
            record.write(result=known)
        began = time.monotonic()
        asked = json.dumps({"rehearsal": self.rehearsal, "changes": {**self.changes, "known": known}})
        command = [sys.executable, "-m", "gpu_suite.part", name, str(record.path), asked]
        # A rehearsal is for seeing that all of it works, on a machine that may be slow.
        status = run_part(command, left if self.rehearsal or last else min(left, LIMITS[name]))
        record.write(part=name, status=status, seconds=round(time.monotonic() - began, 1))
        print(f"{name}: {status}, {time.monotonic() - began:.0f} s", flush=True)
        return not status.startswith("failed")


def main() -> int:
    """The command: 0 where every part ran or had no time, 1 where one failed, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=LIMITS, default=list(LIMITS), help="default: all, in this order")
    words = f"{', '.join(sorted(RESUMED))}: only what has no result yet"
    parser.add_argument("--go-on", action="store_true", help=words)
    parser.add_argument("--budget", type=float, default=560, metavar="SECONDS", help="for all (default: %(default)s)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where the JSON goes (default: results/gpu)")
    parser.add_argument("--programs", nargs="+", default=[], metavar="DIR", help="folders with further train.py")
    parser.add_argument("--examples", metavar="DIR", help="a checkout of github.com/pytorch/examples")
    parser.add_argument("--examples-commit", metavar="HASH", help="of a checkout without its history")
    where = "in small, into --output, by default on the CPU"
    parser.add_argument("--rehearse", nargs="?", const="cpu", choices=["cpu", "cuda"], help=where)
    options = parser.parse_args()
    if options.rehearse:
        if options.output is None or options.output.resolve() == RESULTS.resolve():
            parser.error("--rehearse needs an --output of its own: a rehearsal is no result")
    elif not _has_gpu():
        parser.error("no CUDA device here; --rehearse runs everything on the CPU")
    changes: dict[str, Any] = {"more_programs": [str(Path(folder).resolve()) for folder in options.programs]}
    if options.examples:
        changes["examples"] = str(Path(options.examples).resolve())
        changes["examples_options"] = ["--commit", options.examples_commit] if options.examples_commit else []
    end = time.monotonic() + options.budget
    suite = Suite(options.output or RESULTS, end, options.rehearse or "", options.go_on, changes)
    return 0 if suite.run(options.parts) else 1


def _has_gpu() -> bool:
    # In a process of its own, which gives the GPU back.
    command = [sys.executable, "-c", "import torch; torch.empty(1, device='cuda')"]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
