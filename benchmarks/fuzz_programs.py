"""Random training programs, migrated and run: with precision off to the bit, with it on with the same training.

    python benchmarks/fuzz_programs.py --programs 5000 --keep    # hours; writes the figures of docs/random-programs.md
    python benchmarks/fuzz_programs.py --minutes 10              # as many as come to their end in that time
    python benchmarks/fuzz_programs.py --first 17 --programs 1 --show    # one of them, before and after
    python benchmarks/fuzz_programs.py --first 17 --programs 1 --reduce

Each program is made of its number. It is run as it is, and what amp-migrate makes of it twice: with autocast and the
scaler switched off, where every number printed and every weight must be the same to the bit; and in float16 on the CPU,
which stands in for a GPU, with a live scaler, where it may raise nothing that the program did not, and the gradients of
every optimizer step and every number printed must be those of float32 within rounding.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from amp_migrate.settings import Dtype, Settings
from random_programs.execute import SCALE
from random_programs.generate import generate
from random_programs.judge import Judged, judge
from random_programs.reduce import kind, reduced

HERE = Path(__file__).parent
RESULTS = HERE / "results/random_programs.json"
PAGE = HERE.parent / "docs/random-programs.md"


@dataclass(frozen=True)
class Told:
    """One program that says something: what came of it, by its number."""

    number: int
    files: Mapping[str, str]
    judged: Judged


def told(number: int, settings: Settings) -> Told | None:
    """What came of the program of a number; None where there is none."""
    program = generate(number)
    if program is None:
        return None
    files = dict(program.files)
    return Told(number, files, judge(files, settings))


def all_told(numbers: Iterable[int], settings: Settings, workers: int) -> Iterator[Told | None]:
    """What came of each program, in order; each is run in processes of its own."""
    work = functools.partial(told, settings=settings)
    if workers == 1:
        yield from map(work, numbers)
        return
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        yield from pool.map(work, numbers, chunksize=8)


def main(words: list[str] | None = None) -> int:
    """1 where a program came out wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--numbers", type=int, nargs="*", help="these and no others")
    parser.add_argument("--dtype", choices=["fp16", "bf16"], default="fp16")
    parser.add_argument("--prove", action="store_true", help="migrate with --prove; a refusal is not wrong")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--show", action="store_true", help="print the programs that came out wrong")
    parser.add_argument("--reduce", action="store_true", help="print them as short as they can be")
    parser.add_argument("--keep", action="store_true", help="write the figures, and the page that tells them")
    asked = parser.parse_args(words)
    numbers = sorted(asked.numbers or ()) or range(asked.first, asked.first + asked.programs)
    settings = Settings(Dtype(asked.dtype), prove=asked.prove)
    counts: collections.Counter[str] = collections.Counter()
    wrong: dict[str, str] = {}
    began = time.monotonic()
    last = min(numbers)
    for number, each in zip(numbers, all_told(numbers, settings, asked.workers), strict=True):
        if time.monotonic() - began > 60 * asked.minutes:
            break
        last = number
        if each is None or each.judged.unfit:
            counts["unfit"] += 1
            continue
        judged = each.judged
        counts["programs"] += 1
        counts["changed"] += bool(judged.after)
        counts["runs"] += judged.runs
        counts["unknown"] += len(judged.unknown)
        if judged.told and judged.wrong and not judged.errors:
            counts["told"] += 1
        elif judged.wrong or judged.errors:
            counts["wrong"] += 1
            said = "; ".join([*(f"{key.value}: {text}" for key, text in judged.wrong.items()), *judged.errors])
            wrong[str(each.number)] = kind(judged)
            print(f"{each.number}: {said}", flush=True)
            if asked.reduce:
                _print(reduced(each.files, lambda files: judge(files, settings)))
            elif asked.show:
                _print(each.files)
                _print(judged.after)
    figures = {
        "made": str(date.today()),
        "commit": _commit(),
        "dtype": asked.dtype,
        "prove": asked.prove,
        "first": min(numbers),
        "last": last,
        **{name: counts[name] for name in ("programs", "changed", "runs", "unknown", "told", "wrong", "unfit")},
        "minutes": round((time.monotonic() - began) / 60, 1),
        "kinds": dict(collections.Counter(wrong.values()).most_common()),
        "numbers": wrong,
    }
    print(json.dumps({**figures, "numbers": sorted(map(int, wrong))}, indent=1))
    if asked.keep:
        RESULTS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(figures), encoding="utf-8")
    return 1 if wrong else 0


def _commit() -> str:
    """The latest that changed the codemod."""
    words = ["git", "log", "-1", "--format=%h", "--", "../migrate/amp_migrate"]
    return subprocess.check_output(words, cwd=HERE, text=True).strip()


def page(figures: Mapping[str, Any]) -> str:
    """docs/random-programs.md."""
    kinds = "".join(f"| {name} | {times} |\n" for name, times in figures["kinds"].items())
    table = f"\n| what differs | programs |\n|---|---|\n{kinds}" if kinds else ""
    rows = "".join(f"| {name} | {value} |\n" for name, value in _rows(figures))
    return f"""# Random programs

Whether a migration is right should not hang on how a script is written. So programs are made up at random: the parts of
a training loop that people write (models, losses, optimizers that share parameters, accumulation, clipping, gradients
that are read or changed, hooks, schedulers, checkpoints, weights updated by hand), put together, then changed in ways
that leave them programs: steps under conditions, in `try`, taken twice, left early, moved into functions with
arguments, defaults or closures; and given the shape of a function, a class, a generator, a coroutine or several files.
They are odder than what people write, because that is where a faulty rule shows.

Each is run as it is. What `amp-migrate` makes of it is run twice on the CPU:

- **with autocast and the scaler off**: every line printed and every weight must be the same to the bit;
- **in float16 with a live scaler** (a scale of {SCALE:g}): no exception that the program did not raise, the same
  optimizer steps, and at each of them gradients, and numbers printed, within rounding of those of float32. A gradient
  that is still scaled is a thousand times off.

A program that raises an error of its own, or whose course a change of its weights in the third digit alters, says
nothing and does not count.

| | |
|---|---|
{rows}{table}
`python benchmarks/fuzz_programs.py --programs 5000 --keep` repeats it; `--first N --programs 1 --reduce` shows one
program as short as it can be. A fixed small part runs with the tests, and what was found is a case there.
"""


def _rows(figures: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "measured", f"{figures['made']}, at commit `{figures['commit']}`, `--dtype {figures['dtype']}`"
    yield "programs", f"{figures['programs']} (numbers {figures['first']} to {figures['last']})"
    yield "changed by the migration", figures["changed"]
    yield "runs compared", figures["runs"]
    yield "trained otherwise, as a finding (AMP504) said", figures["told"]
    yield "**came out wrong**", f"**{figures['wrong']}**"


def _print(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        print(f"# {name}\n{text}")


if __name__ == "__main__":
    sys.exit(main())
