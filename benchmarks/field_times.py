"""What a verification costs, beside running both scripts once: CPU seconds, so that the machine may be busy.

    python benchmarks/field_times.py CHECKOUTS --output results/field_times.json

The scripts are those of `faults/field_scripts.py`. Running both once is taken from runs that record nothing but a stamp
per step, each in an interpreter of its own, as who has them starts them: without a GPU the scripts cannot run without
what stands in for one. A verification is all that it takes, its own process and the one that imports torch for the runs
included. Both are told without that as well: what the runs take that are forked once torch is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import mutation
from amp_migrate.settings import Dtype
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import environment
from amp_migrate.verify.usage import UsageError
from faults.field_scripts import SCRIPTS

TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure one script after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="scripts whose name contains one of these, separated by commas")
    parser.add_argument("--steps", type=int, default=150, help="of each optimizer, at which a run ends")
    options = parser.parse_args()
    rows = []
    for script in SCRIPTS:
        if not any(name in script.name for name in options.only.split(",")):
            continue
        forks = Forks(sys.executable, 1, environment(os.environ, threads=1))
        with tempfile.TemporaryDirectory(prefix="times-") as folder:
            field = mutation.Field(replace(script, steps=options.steps), options.checkouts, Path(folder), forks)
            try:
                began = time.process_time()
                target = field.migrated(Dtype.FP16)
                migrating = time.process_time() - began
            except UsageError as error:
                print(f"-- {script.name}: {error}".splitlines()[0], flush=True)
                forks.close()
                continue
            both = kinds.timing(kinds.ORIGINAL, 0), kinds.timing(kinds.MIGRATED, 0)
            pool = field.pool(target)
            pool.setup = replace(pool.setup, timing_steps=options.steps)
            # As many jobs as cores, so that each has one thread: threads that wait for one another burn time.
            fresh = Pool(replace(pool.setup, forked=False, jobs=os.cpu_count() or 1), lambda result: None)
            began = _spent()
            for run in both:
                fresh.make((run,))
            once, before = _spent() - began, _children()
            pool.make(both)
            once_forked = _children() - before
            forks.close()
            pool = field.pool(target)
            began = _spent()
            pool.forks = Forks(sys.executable, 1, environment(os.environ, threads=1))
            evidence = climb(pool, timing_pairs=0)
            forked = _children()
            pool.forks.close()
            spent = _spent() - began
        if not evidence.migrated.ended_well:
            print(f"-- {script.name}: {evidence.migrated.complaint}", flush=True)
            continue
        row = {
            "script": script.name,
            "steps": len(evidence.original.trace.steps),
            "once": round(once, 2),
            "verification": round(spent, 2),
            "once forked": round(once_forked, 2),
            "verification forked": round(forked, 2),
            "migrating": round(migrating, 2),
            "runs": len(evidence.all),
        }
        print(f"{spent / once:.2f} times, {forked / once_forked:.2f} forked: {row}", flush=True)
        rows.append(row)
        options.output.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


def _spent() -> float:
    """CPU seconds of this process, and of all below it that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _children() -> float:
    """CPU seconds of all runs that servers below this process have made and seen end."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), (int(fields[13]) + int(fields[14])) / TICKS)
    total, wanted = 0.0, [os.getpid()]
    while wanted:
        parent = wanted.pop()
        for pid, (above, spent) in parents.items():
            if above == parent:
                wanted.append(pid)
                total += spent
    return total


if __name__ == "__main__":
    main()
