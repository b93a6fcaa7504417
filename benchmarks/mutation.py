"""How many mistakes in migrated scripts that nobody here wrote does `amp-verify` find?

    python benchmarks/mutation.py CHECKOUTS --output mutants.jsonl

Every script of `faults/field_scripts.py` that runs on this machine is migrated; every operator of `faults/operators.py`
is applied wherever it fits, and a sample of the mutants is verified against the script as it was. A mutant is found
where the verdict is not PASS; one whose runs are those of the right migration, to the bit, has no effect and counts
for nothing. The file grows line by line: a second call goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from amp_migrate.settings import Dtype
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.programs import program
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult, environment
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target
from amp_migrate.verify.usage import UsageError
from faults.field_scripts import SCRIPTS, FieldScript
from faults.operators import Mutant, mutants

SECONDS = 3.0  # of training that a run of the original may take
COVERED = """
import atexit, json, os, runpy, sys
target, found = os.environ["MUTATION_TARGET"], set()
def lines(frame, event, argument):
    if frame.f_code.co_filename != target:
        return None
    if event == "line":
        found.add(frame.f_lineno)
    return lines
def write():
    sys.settrace(None)
    with open(os.environ["MUTATION_LINES"], "w") as file:
        json.dump(sorted(found), file)
atexit.register(write)
sys.settrace(lines)
sys.argv[0] = target
sys.path[0] = os.path.dirname(target)
runpy.run_path(target, run_name="__main__")
"""


@dataclass(frozen=True)
class Judged:
    """What was said of one migration; `kind` and `operator` are empty where it is right.

    Attributes:
        outcome: "found", "missed", "no effect" or, of a right one, "right" or "false alarm".
        check: the check that found it.
        sentence: what the user reads.
        steps: optimizer steps of the original's run.
        parameters: of the original's optimizers.
    """

    script: str
    arguments: str
    dtype: str
    kind: str
    operator: str
    line: int
    outcome: str
    verdict: str
    check: str
    sentence: str
    suspicion: str
    steps: int
    parameters: int
    seconds: float
    noise: float

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """What it is, whatever was said of it."""
        return self.script, self.arguments, self.dtype, self.kind, self.operator, self.line


class Field:
    """One script of the field: its folder, its migrations, and the runs of the original."""

    def __init__(self, script: FieldScript, checkouts: Path, scratch: Path, forks: Forks) -> None:
        self.script = script
        self._scratch = scratch
        self._forks = forks
        self._count = 0
        self._known: dict[Run, RunResult] = {}
        self.folder = scratch / "checkout"
        shutil.copytree(checkouts / script.repository, self.folder, ignore=shutil.ignore_patterns(".git"))
        self.original = self.folder / script.path
        text = self.original.read_text(encoding="utf-8")
        for old, new in script.smaller:
            text = text.replace(old, new)
        self.original.write_text(text, encoding="utf-8")
        self.cwd = self.original.parent
        for name, content in script.files:
            (self.cwd / name).parent.mkdir(parents=True, exist_ok=True)
            (self.cwd / name).write_text(content, encoding="utf-8")

    def migrated(self, dtype: Dtype) -> Target:
        """What amp-migrate makes of the script; raises UsageError where it makes nothing."""
        return prepare.migrate(Target(self.original), dtype, self._scratch / dtype.value)[0]

    def executed(self, target: Target) -> frozenset[int]:
        """The lines of a script that a run reaches."""
        self._count += 1
        found, wrapper = self._scratch / f"lines{self._count}.json", self._scratch / "covered.py"
        wrapper.write_text(COVERED, encoding="utf-8")
        os.environ.update(MUTATION_TARGET=str(target.file), MUTATION_LINES=str(found))
        pool = self._pool(Target(wrapper), seconds=2 * SECONDS)
        pool.make([Run(Arm.MIGRATED, early=True)])
        return frozenset(json.loads(found.read_text())) if found.exists() else frozenset()

    def verify(self, target: Target) -> Evidence:
        """The runs of a verification; the original's are made once."""
        pool = self._pool(target, SECONDS)
        pool.results.update(self._known)
        evidence = climb(pool, timing_pairs=0)
        self._known.update({run: result for run, result in pool.results.items() if run.arm is Arm.ORIGINAL})
        return evidence

    def _pool(self, target: Target, seconds: float) -> Pool:
        self._count += 1
        scratch = self._scratch / f"runs{self._count}"
        setup = Setup(
            scripts={Arm.ORIGINAL: Target(self.original), Arm.MIGRATED: target},
            arguments=self.script.arguments,
            python=sys.executable,
            cwd=self.cwd,
            copy_cwd=True,
            scratch=scratch,
            shim=prepare.shim_folder(),
            device="cpu",
            steps=0,
            seconds=seconds,
            timing_steps=0,
            timeout=180,
            jobs=1,
            synthetic=True,
            forked=True,
        )
        return Pool(setup, lambda result: None, {}, self._forks)

    def forget(self, evidence: Evidence) -> None:
        """Remove what the runs of a migrated script left behind."""
        for result in evidence.all:
            if result.run.arm is Arm.MIGRATED:
                shutil.rmtree(result.folder, ignore_errors=True)


def judged(
    field: Field, dtype: str, evidence: Evidence, seconds: float, mutant: Mutant | None, right: Evidence
) -> Judged:
    """What amp-verify says, and whether that is right."""
    assessment = assess(evidence, Limits())
    passed = assessment.verdict is Verdict.PASS
    if mutant is None:
        outcome = "right" if passed else "false alarm"
    else:
        outcome = "found" if not passed else "no effect" if same_runs(evidence, right) else "missed"
    check = next((c.id for c in assessment.checks if c.status.value in ("fail", "vacuous", "inconclusive")), "")
    shapes = {step.optimizer: step.shapes for step in evidence.original.trace.steps if step.shapes is not None}
    sizes = (size_of(shape) for each in shapes.values() for shape in each)
    return Judged(
        script=field.script.name,
        arguments=" ".join(field.script.arguments),
        dtype=dtype,
        kind=mutant.kind if mutant else "",
        operator=mutant.operator if mutant else "",
        line=mutant.line if mutant else 0,
        outcome=outcome,
        verdict=assessment.verdict.name,
        check=check,
        sentence=assessment.sentence.partition(" (log: ")[0][:300],
        suspicion=assessment.suspicion,
        steps=len(evidence.original.trace.steps),
        parameters=sum(sizes),
        seconds=round(seconds, 1),
        noise=max(evidence.noise, default=0.0),
    )


def size_of(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def same_runs(evidence: Evidence, right: Evidence) -> bool:
    """Whether a mutant's runs are those of the right migration, to the bit, with mixed precision on and off."""
    pairs = ((right.migrated, evidence.migrated), (right.migrated_off, evidence.migrated_off))
    for ours, theirs in pairs:
        if ours is None or theirs is None or program.differences(ours, theirs):
            return False
        a, b = ours.trace, theirs.trace
        if (a.scales, a.counted, [s.zeros for s in a.steps], [x.scale for x in a.backwards]) != (
            b.scales,
            b.counted,
            [s.zeros for s in b.steps],
            [x.scale for x in b.backwards],
        ):
            return False
    return True


def sample(found: list[Mutant], most: int, seed: str) -> list[Mutant]:
    """As many mutants of each kind and operator as of the others, as far as there are."""
    chance = random.Random(seed)
    by_kind: dict[str, dict[str, list[Mutant]]] = {}
    for mutant in found:
        by_kind.setdefault(mutant.kind, {}).setdefault(mutant.operator, []).append(mutant)
    chosen: list[Mutant] = []
    rows = []
    for operators in by_kind.values():
        lists = [chance.sample(each, len(each)) for each in operators.values()]
        chance.shuffle(lists)
        rows.append(
            [mutant for number in range(max(map(len, lists))) for each in lists for mutant in each[number : number + 1]]
        )
    for number in range(max(map(len, rows), default=0)):
        for row in rows:
            if number < len(row) and len(chosen) < most:
                chosen.append(row[number])
    return chosen


def cases(field: Field, dtype: Dtype, most: int) -> Iterator[tuple[Mutant | None, Target]]:
    """The right migration, and then its mutants."""
    target = field.migrated(dtype)
    yield None, target
    if most == 0:
        return
    text = target.file.read_text(encoding="utf-8")
    executed = field.executed(target)
    steps = len(next(iter(field._known.values())).trace.steps)
    found = []
    for mutant in mutants(text, executed, steps):
        try:
            ast.parse(mutant.text)
        except SyntaxError:
            continue
        found.append(mutant)
    for mutant in sample(found, most, f"{field.script.name}{field.script.arguments}{dtype.value}"):
        target.file.write_text(mutant.text, encoding="utf-8")
        yield mutant, target
    target.file.write_text(text, encoding="utf-8")


def main() -> None:
    """Verify what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="scripts whose name contains this")
    parser.add_argument("--kind", default="", help="mutants of this kind")
    parser.add_argument("--most", type=int, default=24, help="mutants of each script and format")
    parser.add_argument("--dtypes", default="fp16,bf16")
    parser.add_argument("--keep-missed", type=Path, help="a folder for the texts of mutants that were missed")
    options = parser.parse_args()
    done = set()
    if options.output.exists():
        done = {Judged(**json.loads(line)).key for line in options.output.read_text().splitlines()}
    forks = Forks(sys.executable, 1, environment(os.environ, threads=1))
    counts: Counter[str] = Counter()
    for script in SCRIPTS:
        if options.only not in script.name:
            continue
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            for dtype in map(Dtype, options.dtypes.split(",")):
                scratch = Path(folder) / dtype.value
                scratch.mkdir()
                try:
                    _script(Field(script, options.checkouts, scratch, forks), dtype, options, done, counts)
                except UsageError as error:
                    print(f"-- {script.name} {dtype.value}: {str(error).splitlines()[0]}", flush=True)
                except (OSError, ValueError) as error:
                    print(f"-- {script.name} {dtype.value}: {type(error).__name__}: {error}", flush=True)
    forks.close()
    print(dict(counts))


def _script(field: Field, dtype: Dtype, options: argparse.Namespace, done: set[object], counts: Counter[str]) -> None:
    right: Evidence | None = None
    for mutant, target in cases(field, dtype, options.most):
        if mutant is not None and options.kind and mutant.kind != options.kind:
            continue
        key = (field.script.name, " ".join(field.script.arguments), dtype.value)
        key += (mutant.kind, mutant.operator, mutant.line) if mutant else ("", "", 0)  # type: ignore[assignment]
        if mutant is not None and key in done:
            continue
        began = time.monotonic()
        evidence = field.verify(target)
        if right is None:
            right = evidence
            if not evidence.original.ended_well:
                print(f"-- {field.script.name}: the original: {evidence.original.complaint}", flush=True)
                return
        found = judged(field, dtype.value, evidence, time.monotonic() - began, mutant, right)
        counts[found.outcome] += 1
        if key not in done:
            with open(options.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        what = f"{found.script} {found.dtype} {found.operator} :{found.line}"
        print(f"{found.outcome:11} {what} {found.check} {found.sentence[:120]}", flush=True)
        if mutant is None:
            if found.outcome != "right":
                return
            continue
        if found.outcome == "missed" and options.keep_missed:
            options.keep_missed.mkdir(parents=True, exist_ok=True)
            name = f"{field.original.stem}-{dtype.value}-{mutant.operator}-{mutant.line}".replace("/", "_").replace(
                " ", "_"
            )
            (options.keep_missed / f"{name}.py").write_text(mutant.text, encoding="utf-8")
        field.forget(evidence)


if __name__ == "__main__":
    main()
