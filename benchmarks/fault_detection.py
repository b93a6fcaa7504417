"""Does `amp-verify` find what is wrong with a migration, and leave alone what is right?

    python benchmarks/fault_detection.py

Right migrations are those that amp-migrate writes of `faults/scripts/`, and the expected texts of the fixtures; faults
are planted in the former. Everything runs on the CPU that stands in for a GPU. A fault is found where the verdict is
not PASS; a right migration raises a false alarm where it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from amp_migrate.settings import Dtype
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.runs import kinds, prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult, environment
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target
from codemod import RESULTS, machine
from faults.faults import FAULTS

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
DTYPES = ("fp16", "bf16", "auto")
IN_FLOAT32 = ("apex_o0",)  # fixtures whose scripts ask for float32: that nothing ran in half is right to say
# Right as well: the scale starts so high that its first steps are skipped.
HIGH_SCALE = ('GradScaler("cuda")', 'GradScaler("cuda", init_scale=2.0**24)')


@dataclass(frozen=True)
class Case:
    """A migrated script to judge; `fault` is empty where the migration is right."""

    original: Path
    name: str
    fault: str
    migrated: Path
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """What `amp-verify` said of a case."""

    script: str
    name: str
    fault: str
    verdict: str
    sentence: str
    suspicion: str
    seconds: float

    @property
    def right(self) -> bool:
        """The verdict is what it should be."""
        return (self.verdict == Verdict.PASS.name) == (self.fault == "")


def cases(folder: Path) -> Iterator[Case]:
    """Every case, its migrated script written below `folder`."""
    for original in sorted((HERE / "faults" / "scripts").glob("*.py")):
        for dtype in DTYPES:
            migrated = prepare.migrate(Target(original), Dtype(dtype), folder / original.stem / dtype)[0].file
            yield Case(original, dtype, "", migrated)
            if dtype == "fp16":
                yield from _edited(original, migrated)
    for fixture in sorted(path.parent for path in FIXTURES.glob("*/quick.args")):
        if fixture.name in IN_FLOAT32:
            continue
        arguments = tuple((fixture / "quick.args").read_text().split())
        for expected in sorted((fixture / "expected").iterdir()):
            there = folder / fixture.name / expected.name
            shutil.copytree(fixture, there, ignore=shutil.ignore_patterns("expected"))
            shutil.copytree(expected, there, dirs_exist_ok=True)
            yield Case(fixture / "train.py", f"{fixture.name} {expected.name}", "", there / "train.py", arguments)


def _edited(original: Path, right: Path) -> Iterator[Case]:
    text = right.read_text(encoding="utf-8")
    texts = {("fp16, high scale", ""): text.replace(*HIGH_SCALE)}
    texts |= {(fault.name, fault.name): planted for fault in FAULTS if (planted := fault.plant(text)) is not None}
    for (name, fault), changed in texts.items():
        path = right.parent / f"{name.replace(' ', '_').replace(',', '')}.py"
        path.write_text(changed, encoding="utf-8")
        yield Case(original, name, fault, path)


class Judge:
    """Verifies cases; the runs of an original are made once for all its cases."""

    def __init__(self, scratch: Path, forks: Forks) -> None:
        self._scratch = scratch
        self._forks = forks
        self._known: dict[tuple[Path, tuple[str, ...]], dict[Run, RunResult]] = {}
        self._count = 0

    def __call__(self, case: Case) -> Judged:
        began = time.monotonic()
        known = self._known.setdefault((case.original, case.arguments), {})
        pool = Pool(self._setup(case), lambda result: None, dict(known), self._forks)
        evidence = climb(pool, timing_pairs=0)
        known.update({run: result for run, result in pool.results.items() if run.arm is Arm.ORIGINAL})
        assessment = assess(evidence, Limits())
        return Judged(
            case.original.stem if case.original.name != "train.py" else case.original.parent.name,
            case.name,
            case.fault,
            assessment.verdict.name,
            assessment.sentence.partition(" (log: ")[0],
            assessment.suspicion,
            round(time.monotonic() - began, 2),
        )

    def _setup(self, case: Case) -> Setup:
        self._count += 1
        return Setup(
            scripts={Arm.ORIGINAL: Target(case.original), Arm.MIGRATED: Target(case.migrated)},
            arguments=case.arguments,
            python=sys.executable,
            cwd=self._scratch / "cwd",
            copy_cwd=True,
            scratch=self._scratch / str(self._count),
            shim=prepare.shim_folder(),
            device="cpu",
            steps=kinds.STEPS,
            timing_steps=0,
            timeout=120,
            jobs=2,
            forked=True,
        )


def main() -> None:
    """Judge every case, print what was judged wrongly, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose script or fault contains this")
    parser.add_argument("--output", type=Path, default=RESULTS / "fault_detection.json", help="default: %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "cwd").mkdir()
        forks = Forks(sys.executable, 2, environment(os.environ, threads=1))
        judge = Judge(scratch, forks)
        judged = []
        for case in cases(scratch / "migrated"):
            if options.only in f"{case.original} {case.name}":
                judged.append(judge(case))
                found = judged[-1]
                mark = "" if found.right else "WRONG "
                print(f"{mark}{found.script}: {found.name}: {found.verdict}: {found.sentence}", flush=True)
        forks.close()
    faults = [each for each in judged if each.fault]
    rights = [each for each in judged if not each.fault]
    print(f"{sum(each.right for each in faults)} of {len(faults)} faults found")
    print(f"{sum(not each.right for each in rights)} false alarms in {len(rights)} right migrations")
    if not options.only:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        result = {"machine": machine(), "cases": [asdict(each) for each in judged]}
        options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
