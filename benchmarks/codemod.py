"""Speed of the codemod beside its floors: a plain search of the same tree, starting LibCST, and parsing alone.

    python benchmarks/codemod.py --tree ~/src/pytorch-image-models --torchfix ~/torchfix/bin/python
    python benchmarks/codemod.py --beside ~/src/amp-migrate-of-last-week --output /tmp/beside.json

Besides the trees that are named: one script of 500 lines, what a commit hook is given (three scripts, and three files
without AMP), a growing number of copies of the fixtures, and ten thousand files without AMP. Everything is a process of
its own, start-up included, and all of them take turns in one run; TorchFix, which takes minutes, has one turn. The
table shows medians; a ratio compares with parsing the files that survive the prefilter, which no tool on LibCST can do
without. With `--beside`, the codemod of another checkout of this repository takes its turns, too: whether a change of
the code has cost time.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median

import amp_migrate
import trees
from amp_migrate.engine.find.prefilter import PARTS, WORDS
from amp_migrate.engine.workspace import Workspace

RESULTS = Path(__file__).parent / "results"
COPIES = (5, 10, 20)
# Float32, Apex and deprecated names: what the hook of `.pre-commit-hooks.yaml` that stops a commit has to look at.
COMMIT = ("fp32_resnet", "apex_o1", "cuda_amp_full")
# The words of `amp_migrate.engine.find.prefilter`, for grep.
PATTERN = "|".join([*map(bytes.decode, PARTS), *(rf"\b{word.decode()}\b" for word in WORDS), r"backward[[:blank:]]*\("])
PARSE = "import sys, libcst\nfor path in sys.stdin.read().splitlines(): libcst.parse_module(open(path, 'rb').read())"
MIGRATE = "from amp_migrate.cli import main; main()"
# The same without the proof of every result: what it costs.
UNPROVED = f"import amp_migrate.engine.migrate as engine; engine.refuted = lambda *given: {{}}; {MIGRATE}"


@dataclass(frozen=True)
class Timing:
    """One process: seconds on the clock, seconds of processor time of it and its children, peak memory in MiB."""

    seconds: float
    processor: float
    peak: float


@dataclass(frozen=True)
class Tree:
    """One tree and what was measured on it; the timings by the name of the command."""

    name: str
    files: int
    surviving_files: int
    surviving_lines: int
    timings: dict[str, list[Timing]]


def run(command: Sequence[str], text: str = "", package: Path | None = None) -> Timing:
    """Run one command to its end.

    Args:
        package: a folder that its Python looks for packages in before all others.

    Raises:
        SystemExit: it could not do its work (exit codes above 1; 1 says that something was found).
    """
    start = time.perf_counter()
    places = os.pathsep.join(filter(None, (None if package is None else str(package), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": places},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(text.encode())
        process.stdin.close()
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command[:3])}: exit code {process.returncode}: {said.decode(errors='replace')[-300:]}")
    return Timing(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(
    name: str, named: Sequence[Path], repetitions: int, torchfix: str | None = None, beside: Sequence[Path] = ()
) -> Tree:
    """Time every command on trees or files, `repetitions` times in turn; TorchFix once."""
    workspace = Workspace.open(named)
    surviving = [source for source in workspace.candidates() if source.path.suffix == ".py"]
    paths = "\n".join(str(source.path) for source in surviving)
    words = [str(each) for each in named]
    migrate = [sys.executable, "-c", MIGRATE, "--check", *words]
    commands: dict[str, tuple[list[str], str, Path | None]] = {
        "grep -rlE": (["grep", "-rlE", "--include=*.py", PATTERN, *words], "", None),
        "import libcst": ([sys.executable, "-c", "import libcst"], "", None),
        "parse what survives": ([sys.executable, "-c", PARSE], paths, None),
        "amp-migrate --check": (migrate, "", None),
        "the same without proof": ([sys.executable, "-c", UNPROVED, "--check", *words], "", None),
        **{f"the same of {other.name}": (migrate, "", other / "migrate") for other in beside},
    }
    timings: dict[str, list[Timing]] = {name: [] for name in commands}
    for _ in range(repetitions):
        for command_name, (command, text, package) in commands.items():
            timings[command_name].append(run(command, text, package))
    if torchfix is not None:
        timings["torchfix"] = [run([torchfix, "-m", "torchfix", *words])]
    lines = sum(source.text.count("\n") for source in surviving)
    return Tree(name, len(workspace.files), len(surviving), lines, timings)


def machine() -> dict[str, object]:
    """What the numbers were taken on."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": date.today().isoformat(),
        "processor": names[0] if names else platform.processor(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "libcst": version("libcst"),
    }


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def table(tree: Tree) -> str:
    """The medians of one tree, for a terminal."""
    rows = [f"{tree.name}: {tree.files} files, {tree.surviving_files} with {tree.surviving_lines} lines to parse"]
    rows.append(f"  {'':22}{'seconds':>9}{'processor':>11}{'MiB':>7}{'ratio':>8}")
    floor = median(each.processor for each in tree.timings["parse what survives"])
    for name, found in tree.timings.items():
        seconds, processor, peak = (median(getattr(each, key) for each in found) for key in Timing.__annotations__)
        rows.append(f"  {name:22}{seconds:9.2f}{processor:11.2f}{peak:7.0f}{processor / floor:8.2f}")
    return "\n".join(rows)


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, action="append", default=[], help="a folder; may be repeated")
    parser.add_argument(
        "--beside", type=Path, action="append", default=[], help="another checkout of this repository; may be repeated"
    )
    parser.add_argument("--repetitions", type=int, default=5, help="how often everything runs (default: 5)")
    parser.add_argument("--torchfix", metavar="PYTHON", help="an interpreter that has TorchFix: it checks each --tree")
    parser.add_argument("--output", type=Path, default=RESULTS / "codemod.json", help="default: %(default)s")
    options = parser.parse_args()
    # As pip leaves a package: an editable install, in a shell that writes no byte code, would compile it every time.
    for package in (Path(amp_migrate.__file__).parent, *(each / "migrate/amp_migrate" for each in options.beside)):
        compileall.compile_dir(package, quiet=1)
    measured: list[Tree] = []

    def add(name: str, *named: Path, torchfix: str | None = None) -> None:
        measured.append(measure(name, named, options.repetitions, torchfix, options.beside))
        print(table(measured[-1]), flush=True)

    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        add("one script of 500 lines", trees.one_script(made / "script", 500))
        add("a commit of three scripts", *trees.commit(made / "commit", COMMIT))
        add("a commit of three files without AMP", *trees.idle_commit(made / "idle", 3))
        for copies in COPIES:
            add(f"{copies} copies of the fixtures", trees.projects(made / f"copies{copies}", copies))
        add("10,000 files without AMP", trees.without_amp(made / "library", 10_000))
        for folder in options.tree:
            add(folder.name, folder, torchfix=options.torchfix)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "trees": [asdict(tree) for tree in measured]}
    options.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
