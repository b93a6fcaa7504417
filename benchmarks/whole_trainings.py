"""How often do five seeds see a learning rate that is off by half after the first of five epochs, and nothing else?

    python benchmarks/whole_trainings.py --output benchmarks/results/whole_trainings.jsonl

Each script of `faults/scripts/`, made five times as long, and some fixtures are migrated. The right migration and one
whose learning rate is halved after a fifth of its steps are trained to the end as `amp-verify run --seeds 5` does, and
only what the whole trainings say is counted: with mixed precision off the two programs are compared besides, which sees
such a change at once. The file grows line by line: a second call goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.settings import Dtype
from amp_migrate.verify.experiments.ladder import train_whole
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.programs.told import told_alike
from amp_migrate.verify.judge.statistics.convergence import DEFAULT, converged, judged
from amp_migrate.verify.judge.statistics.course import course
from amp_migrate.verify.recorded.metrics import ON_THE_WAY
from amp_migrate.verify.runs import kinds, prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult, environment
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target
from faults.operators import mutants

HERE = Path(__file__).parent
EPOCHS = 5
SEEDS = 5
FAULT = "learning rate halved after"
FIXTURES = (
    ("fp32_gan", ("--epochs", "5", "--steps", "24", "--batch-size", "32", "--width", "32")),
    ("fp32_wgan_gp", ("--epochs", "5", "--steps", "12")),
    (
        "fp32_char_transformer",
        tuple(
            "--epochs 5 --steps 48 --accumulation 2 --batch-size 8 --context 16 --width 16 --depth 1 --heads 2".split()
        ),
    ),
)


@dataclass(frozen=True)
class Case:
    """A script, how it is run, and how many optimizer steps an epoch has."""

    name: str
    file: Path
    arguments: tuple[str, ...]


def cases(folder: Path) -> Iterator[Case]:
    """Every script, in a folder of its own."""
    for script in sorted((HERE / "faults" / "scripts").glob("*.py")):
        file = folder / script.stem / "train.py"
        file.parent.mkdir()
        text = script.read_text(encoding="utf-8")
        for old, new in (("range(24", f"range({EPOCHS} * 24"), ("range(6)", "range(30)"), ("range(3)", "range(15)")):
            text = text.replace(old, new)
        file.write_text(
            text.replace("CosineAnnealingLR(optimizer, 24)", f"CosineAnnealingLR(optimizer, {EPOCHS} * 24)")
        )
        yield Case(script.stem, file, ())
    for name, arguments in FIXTURES:
        shutil.copytree(HERE.parent / "fixtures" / name, folder / name, ignore=shutil.ignore_patterns("expected"))
        yield Case(name, folder / name / "train.py", arguments)


def trained(case: Case, target: Target, known: dict[Run, RunResult], scratch: Path, forks: Forks) -> Evidence:
    """The whole trainings of one migrated script. `known` holds the original's runs, and gets them."""
    setup = Setup(
        scripts={Arm.ORIGINAL: Target(case.file), Arm.MIGRATED: target},
        arguments=case.arguments,
        python=sys.executable,
        cwd=case.file.parent,
        copy_cwd=True,
        scratch=scratch,
        shim=prepare.shim_folder(),
        device="cpu",
        steps=kinds.STEPS,
        timing_steps=0,
        timeout=600,
        jobs=1,
        forked=True,
    )
    pool = Pool(setup, lambda result: None, dict(known), forks)
    pool.make((kinds.ORIGINAL, kinds.MIGRATED))
    evidence = Evidence(pool.results[kinds.ORIGINAL], pool.results[kinds.MIGRATED])
    evidence = train_whole(pool, evidence, SEEDS, DEFAULT)
    known.update({run: result for run, result in pool.results.items() if run.arm is Arm.ORIGINAL})
    return evidence


def planted(text: str, steps: int) -> str:
    """The same with the learning rate halved after a fifth of the steps."""
    everywhere = frozenset(range(1, text.count("\n") + 2))
    # The operators change something after 40 % of the steps that they are told of.
    late = (each for each in mutants(text, everywhere, round(steps / EPOCHS / 0.4)) if each.operator == f"{FAULT} 40%")
    return next(late).text


def told(evidence: Evidence) -> tuple[str, Sequence[dict[str, object]]]:
    """What the whole trainings say, over all metrics, and the numbers behind it."""
    found = converged(evidence.whole, evidence.rounded, DEFAULT)
    along = course(evidence.whole, evidence.rounded, DEFAULT), told_alike(evidence.whole, evidence.rounded)
    statuses = [one.status for one in (*found, *along) if one is not None]
    for status in (Status.FAIL, Status.INCONCLUSIVE):
        if status in statuses:
            break
    else:
        status = Status.PASS
    return status.value, [
        {
            "metric": one.metric.name,
            "n": one.n,
            "original": one.original,
            "difference": one.difference,
            "half": one.half,
            "passes": one.passes,
            "fails": one.fails,
            "beyond": one.beyond,
        }
        for one in (*found, *(judged(each, evidence.whole, evidence.rounded, DEFAULT) for each in ON_THE_WAY))
    ]


def main() -> None:
    """Train what is not in the file yet, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="scripts whose name contains this")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(row["script"], row["dtype"], row["fault"]) for row in rows}
    forks = Forks(sys.executable, 1, environment(os.environ, threads=1))
    with tempfile.TemporaryDirectory(prefix="whole-") as folder:
        for case in cases(Path(folder)):
            known: dict[Run, RunResult] = {}
            for dtype in (Dtype.FP16, Dtype.BF16) if options.only in case.name else ():
                scratch = case.file.parent.with_name(f"{case.name}-{dtype.value}")
                target, _ = prepare.migrate(Target(case.file), dtype, scratch / "migrated")
                right = target.file.read_text(encoding="utf-8")
                for fault in (False, True):
                    if (case.name, dtype.value, fault) in done:
                        continue
                    whole = known.get(Run(Arm.ORIGINAL, whole=True))
                    if fault and whole is None:
                        continue  # the right one says how many steps there are
                    target.file.write_text(planted(right, len(whole.trace.steps)) if fault and whole else right)
                    began = time.monotonic()
                    evidence = trained(case, target, known, scratch, forks)
                    answer, numbers = told(evidence)
                    row = {
                        "script": case.name,
                        "dtype": dtype.value,
                        "fault": fault,
                        "answer": answer,
                        "seeds": len(evidence.whole),
                        "steps": len(evidence.whole[0][0].trace.steps),
                        "seconds": round(time.monotonic() - began),
                        "metrics": numbers,
                    }
                    rows.append(row)
                    with open(options.output, "a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                    print(case.name, dtype.value, "fault" if fault else "right", answer, row["seeds"], flush=True)
                target.file.write_text(right)
    forks.close()
    counts = Counter(("fault" if row["fault"] else "right", row["answer"]) for row in rows)
    for (kind, answer), count in sorted(counts.items()):
        print(f"{kind}: {answer} {count}")


if __name__ == "__main__":
    main()
