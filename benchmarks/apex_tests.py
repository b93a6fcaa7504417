"""Apex's own tests on the shim: those of the tree from before NVIDIA deleted `apex.amp`.

    git clone https://github.com/NVIDIA/apex && git -C apex checkout cb65b8ed^
    pip install expecttest onnx onnxscript
    python benchmarks/apex_tests.py apex

Nothing of the checkout is changed, and nothing is fetched. There is no GPU: the CPU stands in for one. Every file runs
in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from apex_on_cpu import stand_in
from shim_machine import RESULTS, machine

SUITES = ("run_amp", "run_fp16util", "run_optimizers", "run_mlp", "run_fused_layer_norm")

# Parts of the names of tests that a CPU cannot stand in for, and why.
OUT_OF_REACH = {
    "test_performance_half": "times kernels of a GPU",
    "testLargeTensor": "needs 60 GB on a GPU",
    "batch_size_65536_contiguous_False": "needs tensors of 6 GB",
    "test_compile_": "compiles for a GPU",
}


@dataclass(frozen=True)
class Outcome:
    """One test: `passed`, `failed` or `skipped`, after how long, and the last line of what it said."""

    test: str
    outcome: str
    seconds: float
    said: str


class _Seen(unittest.TestResult):
    """Keeps an outcome for every test, and ends one that takes too long."""

    def __init__(self, file: str, limit: int) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self._file = file
        self._limit = limit
        self._start = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._start = time.perf_counter()
        signal.alarm(self._limit)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._add(test, "passed", "")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._add(test, "skipped", reason)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._add(test, "failed", f"{err[0].__name__}: {err[1]}")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.addError(test, err)

    def _add(self, test: unittest.TestCase, outcome: str, said: str) -> None:
        name = test.id().partition(".")[2]
        lines = [line for line in said.strip().splitlines() if line] or [""]
        seconds = round(time.perf_counter() - self._start, 1)
        self.outcomes.append(Outcome(f"{self._file}::{name}", outcome, seconds, lines[0][:200]))


def run_file(path: Path, limit: int) -> list[Outcome]:
    """The tests of one file, in this process, on the shim."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"not done after {limit} s")

    signal.signal(signal.SIGALRM, too_long)
    stand_in()
    from amp_shim.install import install

    install()
    _leave_streams_alone()
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.parent))
    seen = _Seen(f"{path.parent.name}/{path.name}", limit)
    torch.manual_seed(0)
    suite = unittest.defaultTestLoader.loadTestsFromName(path.stem)
    unittest.TestSuite(_within_reach(suite)).run(seen)
    return seen.outcomes


def _within_reach(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _within_reach(each)
            continue
        why = next((reason for part, reason in OUT_OF_REACH.items() if part in each.id()), None)
        if why is not None:
            setattr(each, each.id().rpartition(".")[2], partial(each.skipTest, why))
        yield each


def _leave_streams_alone() -> None:
    """PyTorch's own test cases open streams and count memory, for which there has to be a driver."""
    from torch.testing._internal.common_device_type import CUDATestBase

    CUDATestBase._do_cuda_non_default_stream = False
    CUDATestBase._do_cuda_memory_leak_check = False


def run(folder: Path, only: str, limit: int) -> Iterator[list[Outcome]]:
    """The tests of each file of the suites whose path contains `only`."""
    for suite in SUITES:
        for path in sorted((folder / "tests" / "L0" / suite).glob("test_*.py")):
            if only in str(path):
                yield _in_a_process(path, folder, limit)


def _in_a_process(path: Path, folder: Path, limit: int) -> list[Outcome]:
    command = [sys.executable, __file__, str(folder), "--file", str(path), "--limit", str(limit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return [Outcome(**each) for each in json.loads(result.stdout.splitlines()[-1])]
    except (ValueError, IndexError):
        lines = result.stderr.strip().splitlines() or ["no output"]
        return [Outcome(f"{path.parent.name}/{path.name}", "failed", 0.0, lines[-1][:200])]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print, and write the result; with `--file`, run that file and print its outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkout of NVIDIA/apex that has apex/amp")
    parser.add_argument("--only", default="", help="files whose path contains this; others keep their results")
    parser.add_argument("--limit", type=int, default=900, help="seconds for one test (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="default: results/apex-tests.json beside this file")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not (options.folder / "apex" / "amp" / "__init__.py").is_file():
        parser.error(f"{options.folder} has no apex/amp; check out a commit from before May 2025, such as cb65b8ed^")
    torch.set_num_threads(1)
    if options.file:
        print(json.dumps([asdict(each) for each in run_file(options.file.resolve(), options.limit)]))
        return
    output = options.output or RESULTS / "apex-tests.json"
    before = json.loads(output.read_text())["tests"] if options.only and output.exists() else []
    tests = {each["test"]: each for each in before if options.only not in each["test"]}
    for found in run(options.folder, options.only, options.limit):
        for each in found:
            tests[each.test] = asdict(each)
            print(f"{each.outcome:8}{each.seconds:7.1f}  {each.test}  {each.said}", flush=True)
        result = {"machine": machine("cpu"), "tests": [tests[name] for name in sorted(tests)]}
        output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
