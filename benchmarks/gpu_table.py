"""Writes docs/gpu.md, its picture, and what README.md says of it, from what gpu.sh measured.

python benchmarks/gpu_table.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

from amp_migrate.report.rules.marks import between
from gpu_suite.arms import COMPARED, MIGRATED, PLAIN
from gpu_suite.bounds import told_apart
from gpu_suite.figures import LEARNT, Figure, Value, figures, same_losses, shortfalls, value_of
from gpu_suite.operators import disagreements
from gpu_suite.plot import bars
from gpu_suite.sizes import FULL

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/gpu"
PARTS = (
    *("training", "training-slow-host", "training-kernels", "accuracy", "programs", "examples", "operators", "table"),
    *("shim", "recording", "doctor", "tune", "tests"),
)
NOTHING = "not measured yet"
PICTURE = ROOT / "docs/gpu-training.svg"
_COLUMNS = ("", "ms per step", "against float32", "against hand-written", "peak MiB", "memory", "loss")
Results = Mapping[str, Mapping[str, Any]]

_HEAD = """# On a GPU

Made by `benchmarks/gpu_table.py` from `benchmarks/results/gpu/`, which `benchmarks/gpu.sh` measures on a machine with
PyTorch and one GPU, part by part: `--parts` names some, `--budget` says how many seconds there are, and each part
keeps what it has when its time is up. `benchmarks/gpu.sh --rehearse --output DIR` runs all of it on a CPU in small, to
see that it works.
"""
_TRAINING = """
## Training

The plain scripts in `benchmarks/gpu_suite/scripts/` in float32, with TF32 switched on, as `amp-migrate` writes them
when the suite runs, and with native mixed precision written by hand; TF32 is off but where it is named. Each trains for
the same number of steps from the same seeds. Times are medians of a run without its first ten steps; a value after ±
is half of the 95 % interval over the seeds, and stands only where there were two or more. Ratios are taken within a
seed. Pictures are scikit-learn's handwritten digits, enlarged; text is Python's documentation. The shim runs the same
training as it is written for Apex. The hand-written scripts clear the gradients before the forward pass, as PyTorch's
examples do, and the plain ones behind it, where those of the last step take memory until then. A loss of NaN is what
SGD's fused kernels make of a first step that the scaler skips ([AMP637](rules.md#amp637)).
"""
_SLOW_HOST = """
### Where the processor is slower

The same trainings on another machine of that kind, the same day. A step whose kernels take less time than it takes to
launch them waits for the processor, and half precision cannot make it shorter: only what computes for long gains as
much as above.
"""
_KERNELS = """
### What the GPU itself takes

The same trainings once more, with the time that a step's kernels take on the GPU and how many there are, read by
PyTorch's profiler in three steps of the warm-up. Neither depends on the processor, which was a slow one here, too.
Kernels that run side by side count each (the LSTM's in float32).
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
    sections: dict[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
        "training": (_TRAINING.rstrip("\n"), partial(_training, kernels=_kernel_rows(results))),
        "training-slow-host": (_SLOW_HOST.rstrip("\n"), _slow_host),
        "training-kernels": (_KERNELS.rstrip("\n"), _kernels),
        "accuracy": ("\n## What is learnt in whole trainings", _accuracy),
        "programs": ("\n## Programs through `amp-verify run`, in float16", _programs),
        "examples": ("\n## PyTorch's examples through `amp-verify run`, in float16", _examples),
        "operators": ("\n## Autocast's op lists, on the GPU and on the CPU that stands in for it", _operators),
        "table": ("\n## The flow analysis' table of operators", _table),
        "shim": ("\n## The shim beside a hand-written loop", _shim),
        "recording": ("\n## What recording costs a step", _recording),
        "doctor": ("\n## What `amp-verify doctor` says limits a script", _doctor),
        "tune": ("\n## What `amp-verify tune` finds faster", _tune),
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
    if note := part.get("note"):
        yield from wrap(note, 120)
        yield ""
    yield from body(part["result"])


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine['date']}, {machine['gpu']}, driver {machine['driver']}, torch {machine['torch']}"


def _rows(columns: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * (len(columns) - 1)
    for row in rows:
        yield "| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |"


def _kernel_rows(results: Results) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = results["training-kernels"]["result"] if "training-kernels" in results else []
    return rows


def _training(rows: list[Mapping[str, Any]], kernels: list[Mapping[str, Any]]) -> Iterator[str]:
    found = figures(rows)
    yield "![How much faster than float32 each way to train is](gpu-training.svg)"
    for workload in dict.fromkeys(each.workload for each in found):
        yield ""
        yield f"### {workload}"
        yield ""
        told = (name for row in rows if row["workload"] == workload for name in LEARNT if name in row)
        learnt = next(told, LEARNT[0])
        yield from _rows((*_COLUMNS, learnt, "seeds"), (_cells(each) for each in found if each.workload == workload))
    same, both = same_losses(rows)
    yield ""
    yield f"Of {both} trainings, migrated and hand-written to float16, {same} end in the same loss to the bit."
    short = shortfalls(rows, kernels)
    yield ""
    yield f"Wanted of the migrated float16 scripts, and missed: {len(short)}."
    if short:
        yield ""
        yield from (f"- {each}" for each in short)


def _slow_host(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    shown = {arm.name for arm in COMPARED}
    yield from _rows(
        ("", "", *_COLUMNS[1:4], "seeds"),
        ((each.workload, *_cells(each)[:4], each.seeds) for each in figures(rows) if each.arm in shown),
    )


def _kernels(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    columns = ("", "", "GPU ms per step", "kernels", "against float32", "against hand-written", "ms per step")
    yield from _rows(
        columns,
        (
            (
                *(each.workload, each.arm, each.gpu_ms, f"{each.kernels:.0f}", each.gpu_speedup, each.gpu_by_hand),
                each.ms,
            )
            for each in figures(rows)
            if each.kernels is not None
        ),
    )


def _side_by_side(figure: Figure) -> bool:
    """Whether a step's kernels take longer, one by one, than the step."""
    return figure.gpu_ms is not None and figure.ms is not None and figure.gpu_ms.mean > figure.ms.mean


def _cells(figure: Figure) -> tuple[object, ...]:
    if figure.ms is None:
        return (figure.arm, figure.error, *[None] * 6, 0)
    memory = None if figure.memory is None else f"{figure.memory:.2f}"
    peak = None if figure.peak is None else f"{figure.peak:,.0f}"
    return (
        *(figure.arm, figure.ms, figure.speedup, figure.by_hand, peak, memory, figure.loss, figure.learnt),
        figure.seeds,
    )


def _accuracy(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    steps = FULL.whole.options[-1]
    yield f"{rows[0]['workload']}, {steps} steps with a cosine schedule, on 297 pictures that it has not seen."
    yield ""
    arms = dict.fromkeys(row["arm"] for row in rows)
    found = {
        arm: {row["seed"]: row["accuracy"] for row in rows if row["arm"] == arm and "accuracy" in row} for arm in arms
    }
    plain = found[PLAIN]

    def cells(arm: str) -> tuple[object, ...]:
        mine = found[arm]
        apart = [mine[seed] - plain[seed] for seed in mine if seed in plain]
        differs = None if arm == PLAIN else value_of(apart)
        return arm, value_of(list(mine.values())), differs, len(mine)

    yield from _rows(("", "accuracy", "against float32, seed by seed", "seeds"), (cells(arm) for arm in arms))


def _learnt(rows: list[Mapping[str, Any]], arm: str) -> Value:
    return value_of([row["accuracy"] for row in rows if row["arm"] == arm and "accuracy" in row])


def _programs(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "The fixtures, programs whose faults only a GPU shows, and these as one writes them who does not know that."
    yield ""
    yield from _rows(
        ("program", "verdict", ""), ((name, told["verdict"], _shortened(told)) for name, told in sorted(found.items()))
    )


def _shortened(told: Mapping[str, Any]) -> str:
    """The verdict's first words, where it is no PASS."""
    if told["verdict"] == "PASS":
        return ""
    said = told["sentence"].partition(" (log: ")[0].partition(". ")[0]
    return f"{said[:160].replace('|', ' ')}"


def _examples(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"github.com/pytorch/examples at {found['commit']}."
    yield ""
    rows = ((each["script"], each["arguments"], each["verdict"], _shortened(each)) for each in found["verified"])
    yield from _rows(("script", "arguments", "verdict", ""), rows)


def _table(found: Mapping[str, Any]) -> Iterator[str]:
    wrong, kernels = found["wrong"], found["kernels"]
    yield (
        f"{found['samples']} calls, within autocast and without, in four combinations of precisions: {len(wrong)} of "
        f"{found['calls']} came out otherwise than the table said when this was measured, and {len(kernels)} operators "
        "had a kernel for half precision that it denied. What is listed was mended then, and is held by a test."
    )
    if wrong:
        yield ""
        rows = (("inside" if each["region"] else "outside", each["given"], f"`{each['said']}`") for each in wrong)
        yield from _rows(("region", "given", "came out, and was said"), rows)
    if kernels:
        yield ""
        yield from (f"- `{each}` has a kernel" for each in kernels)


def _recording(ratios: list[Mapping[str, Any]]) -> Iterator[str]:
    def cells(each: Mapping[str, Any]) -> tuple[object, ...]:
        low, high = each["quartiles"]
        return each["recorder"], f"{each['milliseconds']:.2f}", f"{each['ratio']:.3f}", f"{low:.3f} to {high:.3f}"

    yield from _rows(("recorder", "ms per step", "ratio to the step alone", "quartiles"), map(cells, ratios))


def _doctor(found: Mapping[str, Any]) -> Iterator[str]:
    yield "One script, made to be bound by its data, by launches, or by what it computes, and migrated to float16."
    yield ""
    right = told_apart(found)

    def cells(bound: str, told: Mapping[str, Any]) -> tuple[object, ...]:
        causes = "; ".join(f"{cause}: {evidence}" for cause, evidence in told["limits"].items())
        return bound, "yes" if right[bound] else "no", causes

    yield from _rows(("bound by", "told", "limits"), (cells(*each) for each in found.items()))


def _tune(found: Mapping[str, Any]) -> Iterator[str]:
    def cells(bound: str, way: Mapping[str, Any]) -> tuple[object, ...]:
        speed = way["speed"]
        if speed is None:
            return bound, way["name"], way["failure"], None
        return bound, way["name"], f"{speed['ratio']:.2f}", f"{speed['low']:.2f} to {speed['high']:.2f}"

    rows = (cells(bound, way) for bound, told in found.items() for way in told["ways"])
    yield from _rows(("bound by", "way", "times as fast", "95 % interval"), rows)


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
    slower = [results[name]["result"] for name in ("training-slow-host", "training-kernels") if name in results]
    if slower:
        migrated = [each for rows in slower for each in figures(rows) if each.arm == MIGRATED]
        gains = [each.speedup.mean for each in migrated if each.speedup]
        least, most = min(gains), max(gains)
        yield f"Small steps wait for the processor: where it was slower, {least:.2f} to {most:.2f} times as fast."
        if on_gpu := [each for each in migrated if each.gpu_speedup and each.gpu_by_hand]:
            # What ran side by side, as the LSTM's kernels in float32, would be counted twice.
            side_by_side = {each.workload for rows in slower for each in figures(rows) if _side_by_side(each)}
            times = [each.gpu_speedup.mean for each in on_gpu if each.gpu_speedup and each.workload not in side_by_side]
            apart = max(abs(each.gpu_by_hand.mean - 1) for each in on_gpu if each.gpu_by_hand)
            yield f"The GPU's work takes {min(times):.1f} to {max(times):.1f} times less time, on a slow machine too."
            yield f"It takes as long as that of the hand-written script, within {apart:.1%}."
    if "accuracy" in results:
        before, after = (_learnt(results["accuracy"]["result"], arm) for arm in (PLAIN, MIGRATED))
        whole, seeds = FULL.whole.name, FULL.whole_seeds
        yield f"{whole}, trained to its end with {seeds} seeds: accuracy {before} in float32, {after} migrated."


def main() -> None:
    """Write the files."""
    for path, text in generated(read(RESULTS)).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
