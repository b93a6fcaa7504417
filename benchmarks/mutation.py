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
import math
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from amp_migrate.settings import Dtype
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.programs import program
from amp_migrate.verify.judge.programs.equality import differences, equality_check, only_rounding, rounding_allows
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.recorded.recording import LOW_DTYPES, Trace
from amp_migrate.verify.runs import kinds, prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult, environment
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target
from amp_migrate.verify.usage import UsageError
from faults.field_scripts import SCRIPTS, FieldScript
from faults.operators import Mutant, mutants
from faults.rights import KIND as RIGHT
from faults.rights import rights

_HALF = {Dtype.FP16: "float16", Dtype.BF16: "bfloat16"}  # as `--dtype` asks for it
SOON = 3  # attempts at a step after which most mutants are another program already
ALL, OFF, SAME = "all", "with mixed precision off", "the right migration's"
Key: TypeAlias = tuple[str, str, str, str, str, int, int]
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
        number: tells apart mutants of one operator in one line.
        runs: which runs were enough for the verdict.
        steps: optimizer steps of the original's run.
        parameters: of the original's optimizers.
        said: of what was missed, what its very verdict warns of, says would have been seen, and was not looked at.
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
    number: int
    runs: str
    steps: int
    parameters: int
    seconds: float
    noise: float
    suspicion: str = ""
    said: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What it is, whatever was said of it."""
        return self.script, self.arguments, self.dtype, self.kind, self.operator, self.line, self.number


class Field:
    """One script of the field: its folder, its migrations, and the runs of the original, each of which is made once."""

    def __init__(self, script: FieldScript, checkouts: Path, scratch: Path, forks: Forks) -> None:
        self.script = script
        self._scratch = scratch
        self._forks = forks
        self._count = 0
        self._known: dict[Run, RunResult] = {}
        self.folder = scratch / "checkout"
        shutil.copytree(checkouts / script.repository, self.folder, ignore=shutil.ignore_patterns(".git"))
        (self.folder / ".git").mkdir()  # a repository, whose other folders are there where a script looks for them
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
        self.pool(Target(wrapper)).make([Run(Arm.MIGRATED)])
        return frozenset(json.loads(found.read_text())) if found.exists() else frozenset()

    @property
    def steps(self) -> int:
        """Steps of the original's run, of the optimizer that makes the fewest."""
        made = Counter(step.optimizer for step in self._known[kinds.ORIGINAL].trace.steps)
        return min(made.values())

    def verify(self, target: Target, dtype: Dtype) -> Evidence:
        """The runs of a verification."""
        return self._climb(self.pool(target, dtype=dtype))

    def compare(self, target: Target, dtype: Dtype, right: Evidence) -> tuple[Evidence, str]:
        """The runs of a verification, but those that cannot change its verdict; and which were enough.

        Who is not the original's program with mixed precision off is not passed, whatever else is run. Where both
        runs of the script are those of the right migration, to the bit, so is all that follows from them.
        """
        pool = self.pool(target, dtype=dtype)
        if self._repeats():
            soon = self.pool(target, steps=SOON + 1)
            soon.make([kinds.MIGRATED_OFF])
            if self._differs(soon.results[kinds.MIGRATED_OFF]):
                return self._alone(soon.results[kinds.MIGRATED_OFF]), OFF
            pool.make([kinds.MIGRATED_OFF])
            off = pool.results[kinds.MIGRATED_OFF]
            alone = self._alone(off)
            if not off.ended_well or ((found := differences(alone)) and not only_rounding(found)):
                return alone, OFF
        pool.make([kinds.MIGRATED])
        runs = pool.results.get(kinds.MIGRATED_OFF), pool.results[kinds.MIGRATED]
        if runs[0] is not None and all(run is not None and run.ended_well for run in runs):
            same = replace(right, migrated_off=runs[0], migrated=runs[1], all=(runs[0], runs[1]))
            if same_runs(same, right):
                return same, SAME
        return self._climb(pool), ALL

    def _alone(self, off: RunResult) -> Evidence:
        """The run with mixed precision off, and nothing else."""
        original = self._known[kinds.ORIGINAL]
        return Evidence(original, off, migrated_off=off, floors=(original,), all=(off,))

    def _differs(self, soon: RunResult) -> bool:
        """Whether the first steps alone tell that a run to the end would not be the original's, but for rounding."""
        if not soon.ended_well:
            return True
        original = self._known[kinds.ORIGINAL]
        found = [
            each
            for each in program.differences(original, soon)
            if each.attempt < SOON and each.what in ("loss", "setting", "zeroing")
        ]
        if not found or any(each.size is None for each in found):
            return bool(found)
        twins = [kinds.ulp_of(kinds.ORIGINAL, number) for number in (1, 2)]
        self._make_known(twins)
        apart = [program.differences(original, self._known[twin]) for twin in twins if self._known[twin].ended_well]
        return bool(apart) and any((each.size or 0.0) > rounding_allows(apart, each) for each in found)

    def _make_known(self, runs: list[Run]) -> None:
        pool = self.pool(Target(self.original))
        pool.make(runs)
        self._known.update({run: pool.results[run] for run in runs})

    def _repeats(self) -> bool:
        """Whether the original, in float32 as it is, does the same twice, to the bit."""
        again = replace(kinds.ORIGINAL, again=1, census=False, ranges=False)
        original = self._known[kinds.ORIGINAL]
        if original.trace.uses_amp:
            return False
        self._make_known([again])
        return self._known[again].ended_well and not program.differences(original, self._known[again])

    def _climb(self, pool: Pool) -> Evidence:
        if kinds.ORIGINAL in self._known:
            pool.results[kinds.PLANT] = self._known[kinds.ORIGINAL]  # it is for what is told beside a verdict
        evidence = climb(pool, timing_pairs=0)
        self._known.update({run: result for run, result in pool.results.items() if run.arm is Arm.ORIGINAL})
        return evidence

    def pool(self, target: Target, steps: int = 0, dtype: Dtype = Dtype.AUTO) -> Pool:
        """For runs of the original, none of which is made twice, and of one migrated script."""
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
            steps=steps or self.script.steps,
            timing_steps=0,
            timeout=600,  # also where other work shares the machine
            jobs=1,
            dtype=_HALF.get(dtype, ""),
            synthetic=True,
            forked=True,
        )
        return Pool(setup, lambda result: None, dict(self._known), self._forks)

    def forget(self, evidence: Evidence) -> None:
        """Remove what the runs of a migrated script left behind."""
        for result in evidence.all:
            if result.run.arm is Arm.MIGRATED:
                shutil.rmtree(result.folder, ignore_errors=True)


def judged(case: Case, field: Field, evidence: Evidence, runs: str, seconds: float) -> Judged:
    """What amp-verify says, and whether that is right."""
    steps = evidence.original.trace.steps
    shapes = {step.optimizer: step.shapes for step in steps if step.shapes is not None}
    mutant = case.mutant
    about: dict[str, Any] = {
        "script": field.script.name,
        "arguments": " ".join(field.script.arguments),
        "dtype": case.dtype.value,
        "kind": mutant.kind if mutant else "",
        "operator": mutant.operator if mutant else "",
        "line": mutant.line if mutant else 0,
        "number": case.number,
        "runs": runs,
        "steps": len(steps),
        "parameters": sum(math.prod(shape) for each in shapes.values() for shape in each),
        "seconds": round(seconds, 1),
        "noise": max(evidence.noise, default=0.0),
    }
    if runs == OFF:
        check = equality_check(evidence)
        return Judged(
            **about, outcome="found", verdict="", check=check.id, sentence=f"{check.title}: {check.detail}"[:300]
        )
    assessment = assess(evidence, Limits())
    passed = assessment.verdict is Verdict.PASS
    if mutant is None or mutant.kind == RIGHT:
        outcome = "right" if passed else "false alarm"
    else:
        outcome = "found" if not passed else "no effect" if runs == SAME else "missed"
    warned = (f"{each.title}: {each.detail}" for each in assessment.checks if each.status is Status.WARN)
    check = next((c.id for c in assessment.checks if c.status.value in ("fail", "vacuous", "inconclusive")), "")
    return Judged(
        **about,
        outcome=outcome,
        verdict=assessment.verdict.name,
        check=check,
        sentence=assessment.sentence.partition(" (log: ")[0][:300],
        suspicion=assessment.suspicion,
        said=(*warned, *assessment.power, *assessment.not_checked) if outcome == "missed" else (),
    )


def same_runs(evidence: Evidence, right: Evidence) -> bool:
    """Whether a mutant's runs are those of the right migration, to the bit, with mixed precision on and off."""
    pairs = ((right.migrated, evidence.migrated), (right.migrated_off, evidence.migrated_off))
    for ours, theirs in pairs:
        if ours is None or theirs is None or program.differences(ours, theirs):
            return False
        if _in_half(ours.trace) != _in_half(theirs.trace):
            return False
    return True


def _in_half(trace: Trace) -> tuple[object, ...]:
    """What mixed precision does in a run, beside its losses: loss scales, zeros in gradients, its share of the work."""
    work = [(each.attempt, each.work(), each.work(LOW_DTYPES)) for each in trace.counted]
    return trace.scales, work, [step.zeros for step in trace.steps], [each.scale for each in trace.backwards]


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
    chance.shuffle(rows)  # so that the first few of every script are not of the same kinds
    for number in range(max(map(len, rows), default=0)):
        for row in rows:
            if number < len(row) and len(chosen) < most:
                chosen.append(row[number])
    return chosen


@dataclass(frozen=True)
class Case:
    """One migration to be verified: the right one where `mutant` is None; `number` tells apart those of one line."""

    dtype: Dtype
    target: Target
    mutant: Mutant | None
    number: int = 0


class Script:
    """The cases of one script, some in each round: what is there when time is up is of all scripts and operators."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.rights: dict[Dtype, Evidence] = {}
        self._targets: dict[Dtype, Target | None] = {}
        self._begun: set[Dtype] = set()
        self._left: dict[tuple[Dtype, bool], list[Case]] = {}

    def round(self, number: int) -> Iterator[Case]:
        """The cases of a round."""
        first, second, third = Dtype.FP16, Dtype.BF16, Dtype.AUTO
        plan: list[tuple[Dtype, int, int]] = [
            (first, 4, 0), (first, 3, 2), (second, 3, 1), (third, 0, 0), (first, 4, 1), (second, 2, 1),
        ]  # fmt: skip
        dtype, wrong, right = plan[number] if number < len(plan) else ((first, second)[number % 2], 4, 0)
        if dtype not in self._targets:
            try:
                self._targets[dtype] = self.field.migrated(dtype)
            except UsageError as error:
                print(f"-- {self.field.script.name} {dtype.value}: {error}".splitlines()[0], flush=True)
                self._targets[dtype] = None
        target = self._targets[dtype]
        if target is not None and dtype not in self.rights and dtype not in self._begun:
            self._begun.add(dtype)
            yield Case(dtype, target, None)
        if dtype in self.rights and (wrong or right):
            if (dtype, True) not in self._left:
                self._sample(dtype)
            for wanted, count in ((False, wrong), (True, right)):
                left = self._left[dtype, wanted]
                for case in left[:count]:
                    assert case.mutant is not None
                    case.target.file.write_text(case.mutant.text, encoding="utf-8")
                    yield case
                del left[:count]

    def _sample(self, dtype: Dtype) -> None:
        target = self._targets[dtype]
        assert target is not None  # one that was verified
        text = target.file.read_text(encoding="utf-8")
        executed = self.field.executed(target)
        seed = f"{self.field.script.name}{self.field.script.arguments}{dtype.value}"
        found = [each for each in mutants(text, executed, self.field.steps) if _parses(each)]
        right = [*rights(text)]
        random.Random(seed).shuffle(right)
        for wanted, chosen in ((False, sample(found, 400, seed)), (True, right)):
            seen: Counter[tuple[str, str, int]] = Counter()
            cases = self._left[dtype, wanted] = []
            for mutant in chosen:
                place = (mutant.kind, mutant.operator, mutant.line)
                cases.append(Case(dtype, target, mutant, seen[place]))
                seen[place] += 1


def _parses(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.text)
    except SyntaxError:
        return False
    return True


def main() -> None:
    """Verify what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="scripts whose name contains one of these, by commas")
    parser.add_argument("--kind", default="", help="mutants of this kind")
    parser.add_argument("--rounds", type=int, default=20, help="of some cases of each script")
    parser.add_argument("--minutes", type=float, default=0.0, help="after which no further case is begun")
    parser.add_argument("--again", type=Path, help="only what this file has as missed or as a false alarm")
    parser.add_argument("--keep", type=Path, help="a folder for the texts of what was missed, and of false alarms")
    options = parser.parse_args()
    done: set[Key] = {each.key for each in read(options.output)} if options.output.exists() else set()
    forks = Forks(sys.executable, 1, environment(os.environ, threads=1))
    measure = Measure(options, done, forks)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        give_terminal(Path(folder))
        measure.all_rounds(Path(folder))
    forks.close()
    print(dict(measure.counts))


def give_terminal(folder: Path) -> None:
    """Let scripts that ask `stty` for the size of their terminal have one."""
    command = folder / "bin/stty"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho 24 80\n", encoding="utf-8")
    command.chmod(0o755)
    os.environ["PATH"] = f"{command.parent}{os.pathsep}{os.environ.get('PATH', '')}"


def read(path: Path) -> list[Judged]:
    """What was written of a measurement."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Judged(**{**line, "said": tuple(line["said"])}) for line in lines]


class Measure:
    """The whole measurement."""

    def __init__(self, options: argparse.Namespace, done: set[Key], forks: Forks) -> None:
        self._options = options
        self._done = done
        self._again: set[Key] | None = None
        if options.again is not None:
            self._again = {each.key for each in read(options.again) if each.outcome in ("missed", "false alarm")}
        self._forks = forks
        self._end = time.monotonic() + 60 * options.minutes if options.minutes else math.inf
        self.counts: Counter[str] = Counter()

    def all_rounds(self, scratch: Path) -> None:
        """Some cases of each script, and again, until there are no more or time is up."""
        scripts: dict[int, Script] = {}
        for number, script in enumerate(SCRIPTS):
            name = (script.name, " ".join(script.arguments))
            wanted = self._again is None or any(key[:2] == name for key in self._again)
            if wanted and any(each in script.name for each in self._options.only.split(",")):
                folder = scratch / str(number)
                folder.mkdir()
                scripts[number] = Script(Field(script, self._options.checkouts, folder, self._forks))
        for turn in range(self._options.rounds):
            for number in [*scripts]:
                try:
                    self._round(scripts[number], turn)
                except (OSError, ValueError) as error:
                    print(f"-- {scripts[number].field.script.name}: {type(error).__name__}: {error}"[:300], flush=True)
                    del scripts[number]
                if time.monotonic() > self._end:
                    return

    def _round(self, script: Script, turn: int) -> None:
        for case in script.round(turn):
            mutant, right = case.mutant, script.rights.get(case.dtype)
            name = (script.field.script.name, " ".join(script.field.script.arguments), case.dtype.value)
            key = (*name, mutant.kind, mutant.operator, mutant.line, case.number) if mutant else (*name, "", "", 0, 0)
            unwanted = self._again is not None and key not in self._again
            if mutant is not None and (key in self._done or unwanted or self._options.kind not in ("", mutant.kind)):
                continue
            began = time.monotonic()
            if right is None:
                evidence, runs = script.field.verify(case.target, case.dtype), ALL
                if not evidence.original.ended_well:
                    raise ValueError(f"the original: {evidence.original.complaint}")
            else:
                evidence, runs = script.field.compare(case.target, case.dtype, right)
            found = judged(case, script.field, evidence, runs, time.monotonic() - began)
            self._tell(found, key not in self._done)
            if mutant is None and found.outcome == "right":
                script.rights[case.dtype] = evidence
            elif mutant is not None:
                script.field.forget(evidence)
            if found.outcome in ("missed", "false alarm") and self._options.keep:
                self._keep(script, case)
            if time.monotonic() > self._end:
                return

    def _tell(self, found: Judged, new: bool) -> None:
        self.counts[found.outcome] += 1
        if new:
            with open(self._options.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        what = f"{found.script} {found.dtype} {found.operator} :{found.line}"
        print(f"{found.outcome:11} {found.seconds:5.1f} {what} {found.check} {found.sentence[:120]}", flush=True)

    def _keep(self, script: Script, case: Case) -> None:
        folder: Path = self._options.keep
        folder.mkdir(parents=True, exist_ok=True)
        mutant = case.mutant
        what = f"{mutant.operator}-{mutant.line}-{case.number}" if mutant else "right"
        name = "-".join((*script.field.script.name.split("/")[-2:], case.dtype.value, what))
        shutil.copy(case.target.file, folder / (re.sub(r"[^\w.=+-]", "_", name) + ".py"))


if __name__ == "__main__":
    main()
