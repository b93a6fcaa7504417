"""Writes docs/gpu.md, its picture, and what README.md says of it, from what gpu.sh measured.

python benchmarks/gpu_table.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from amp_migrate.report.rules.marks import between
from gpu_suite.arms import MIGRATED, PLAIN
from gpu_suite.figures import LEARNT, Figure, figures, shortfalls
from gpu_suite.operators import disagreements
from gpu_suite.plot import bars

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/gpu"
PARTS = ("training", "doctor", "fixtures", "operators", "shim", "tests")
NOTHING = "not measured yet"
PICTURE = ROOT / "docs/gpu-training.svg"
_COLUMNS = ("", "ms per step", "against float32", "against hand-written", "peak MiB", "memory", "loss")
Results = Mapping[str, Mapping[str, Any]]

_HEAD = """# On a GPU

Made by `benchmarks/gpu_table.py` from `benchmarks/results/gpu/`, which `benchmarks/gpu.sh` measures: one command, under
ten minutes, on a machine with PyTorch and one GPU. `benchmarks/gpu.sh --rehearse --output DIR` runs all of it on a CPU
in small, to see that it works.
"""
_TRAINING = """
## Training

The plain scripts in `benchmarks/gpu_suite/scripts/` in float32, with TF32 switched on, as `amp-migrate` writes them
when the suite runs, and with native mixed precision written by hand; TF32 is off but where it is named. Each trains for
the same number of steps from the same seeds. Times are medians of a run without its first ten steps; a value after ±
is half of the 95 % interval over the seeds. Ratios are taken within a seed. Pictures are scikit-learn's handwritten
digits, enlarged; text is Python's documentation.
"""


def read(folder: Path) -> Results:
    """What each part has measured; a rehearsal has measured nothing."""
    found = {name: folder / f"{name}.json" for name in PARTS}
    parts = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items() if path.exists()}
    return {name: part for name, part in parts.items() if not part.get("rehearsal") and "result" in part}


def generated(results: Results) -> Mapping[Path, str]:
    """What each file with text from the measurement should hold."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {
        ROOT / "docs/gpu.md": "".join(f"{line}\n" for line in _page(results)),
        ROOT / "README.md": between(readme, "gpu", "".join(f"{line}\n" for line in _summary(results))),
    }
    if "training" in results:
        pages[PICTURE] = bars(figures(results["training"]["result"]))
    return pages


def _page(results: Results) -> Iterator[str]:
    yield _HEAD.rstrip("\n")
    sections = {
        "training": (_TRAINING.rstrip("\n"), _training),
        "doctor": ("\n## What keeps the migrated trainings from being faster", _doctor),
        "fixtures": ("\n## The fixtures through `amp-verify run`, in float16", _fixtures),
        "operators": ("\n## Autocast's op lists, on the GPU and on the CPU that stands in for it", _operators),
        "shim": ("\n## The shim beside a hand-written loop", _shim),
        "tests": ("\n## Tests that need a GPU", _tests),
    }
    for name, (head, body) in sections.items():
        yield from _section(results.get(name), head, body)


def _section(part: Mapping[str, Any] | None, head: str, body: Callable[[Any], Iterator[str]]) -> Iterator[str]:
    yield head
    yield ""
    if part is None:
        yield f"{NOTHING.capitalize()}."
        return
    yield f"{_machine(part['machine'])}{'' if part['status'] == 'done' else '; ' + part['status']}."
    yield ""
    yield from body(part["result"])


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['date']}, {machine['gpu']}, driver {machine['driver']}, torch {machine['torch']}"


def _rows(columns: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * (len(columns) - 1)
    for row in rows:
        yield "| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |"


def _training(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    found = figures(rows)
    yield "![How much faster than float32 each way to train is](gpu-training.svg)"
    for workload in dict.fromkeys(each.workload for each in found):
        yield ""
        yield f"### {workload}"
        yield ""
        told = (name for row in rows if row["workload"] == workload for name in LEARNT if name in row)
        learnt = next(told, LEARNT[0])
        yield from _rows((*_COLUMNS, learnt, "seeds"), (_cells(each) for each in found if each.workload == workload))
    short = shortfalls(rows)
    yield ""
    yield f"Wanted of the migrated float16 scripts, and missed: {len(short)}."
    if short:
        yield ""
        yield from (f"- {each}" for each in short)


def _cells(figure: Figure) -> tuple[object, ...]:
    if figure.ms is None:
        return (figure.arm, figure.error, *[None] * 6, 0)
    memory = None if figure.memory is None else f"{figure.memory:.2f}"
    peak = None if figure.peak is None else f"{figure.peak:,.0f}"
    return (
        *(figure.arm, figure.ms, figure.speedup, figure.by_hand, peak, memory, figure.loss, figure.learnt),
        figure.seeds,
    )


def _doctor(found: Mapping[str, list[str]]) -> Iterator[str]:
    yield from _rows(("training", "`amp-verify doctor`"), ((name, "; ".join(told)) for name, told in found.items()))


def _fixtures(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    def cells(name: str, told: Mapping[str, Any]) -> tuple[object, ...]:
        speed, memory = told.get("speed"), told.get("memory")
        return (
            name,
            told["verdict"],
            f"{speed['ratio']:.2f}" if speed else None,
            f"{speed['migrated_ms']:.2f}" if speed else None,
            f"{memory['ratio']:.2f}" if memory else None,
        )

    columns = ("fixture", "verdict", "times as fast", "ms per step", "memory")
    yield from _rows(columns, (cells(name, told) for name, told in found.items()))


def _operators(found: Mapping[str, Any]) -> Iterator[str]:
    wrong = disagreements(found["cases"])
    yield f"{found['operators']} operators, {len(found['cases'])} calls, {len(wrong)} disagreements."
    if wrong:
        yield ""
        columns = ("operator", "region", "given", "device", "stand_in")
        yield from _rows(columns, (tuple(case[name] for name in columns) for case in wrong))


def _shim(ratios: list[Mapping[str, Any]]) -> Iterator[str]:
    columns = ("training", "arm", "ms per step", "ratio to native", "quartiles")
    yield from _rows(
        columns,
        (
            (
                *(each["workload"], each["arm"], f"{each['milliseconds']:.2f}", f"{each['ratio']:.3f}"),
                f"{each['quartiles'][0]:.3f} to {each['quartiles'][1]:.3f}",
            )
            for each in ratios
        ),
    )


def _tests(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['passed']} passed, {len(found['failed'])} failed, {found['skipped']} skipped."
    yield from (f"- {each['test']}: {each['message']}" for each in found["failed"])


def _summary(results: Results) -> Iterator[str]:
    columns = ("training", "float32, ms", "migrated, ms", "times as fast", "against hand-written", "memory")
    if "training" not in results:
        yield f"What a migration gains on a GPU is [{NOTHING}](docs/gpu.md)."
        return
    yield "On a GPU (migrated: float16; [all figures](docs/gpu.md)):"
    yield ""
    found = figures(results["training"]["result"])
    plain = {each.workload: each for each in found if each.arm == PLAIN}
    yield from _rows(
        columns,
        (
            (each.workload, plain[each.workload].ms, *_cells(each)[1:4], _cells(each)[5])
            for each in found
            if each.arm == MIGRATED
        ),
    )
    yield ""
    yield f"{_machine(results['training']['machine'])}."


def main() -> None:
    """Write the files."""
    for path, text in generated(read(RESULTS)).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
