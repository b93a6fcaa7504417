"""Runs the codemod over repositories that nobody here wrote, and checks everything that it would write.

    python benchmarks/field.py ~/src/examples ~/src/yolov5 ...

For every repository and every `--dtype`, on a copy: the run must end well, every file that it changes must compile, and
a second run must change nothing. How many training steps were moved is counted twice: as the report says, and by a look
at the `backward()` calls before and after, which knows nothing of the codemod. The repositories stay as they are.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results/field.json"
DTYPES = ("fp16", "bf16", "auto")
MIGRATE = "from amp_migrate.cli import main; main()"
# What differs from place to place in one reason: names, numbers, code.
_DETAILS = re.compile(r" \(step at .*\)$|`[^`]*`|'[^']*'|^.*\)(?= is (?:part|not))|[\w.]+(?= brings)")
_STEP_LEFT = ("AMP590", "AMP591")


@dataclass(frozen=True)
class Run:
    """One repository in one dtype.

    Attributes:
        files: how many Python files there are.
        changed: how many of them change.
        crashes: files that made the codemod fail, and a run that ended otherwise than well.
        broken: changed files that do not compile.
        unstable: files that a second run would change.
        plain: `backward()` calls before the run that no scaler has a part in.
        scaled: those with a scaler after it, as far as they are new.
        codes: how many findings there are of each rule and kind.
        reasons: why steps were left, each with how often.
    """

    repository: str
    commit: str
    dtype: str
    files: int
    changed: int
    crashes: list[str]
    broken: list[str]
    unstable: list[str]
    plain: int
    scaled: int
    codes: dict[str, int]
    reasons: dict[str, int]


def run(folder: Path, dtype: str) -> Run:
    """Migrate a copy of a repository, and look at what came of it."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / folder.name
        shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        plain, scaled = _backwards(copy)
        code, report = _migrate(copy, "--dtype", dtype)
        changed = [Path(path) for path in report["changed"]]
        crashes = [each["message"] for each in report["findings"] if each["message"].startswith("internal")]
        if code not in (0, 2):
            crashes.append(f"exit code {code}")
        again = _migrate(copy, "--dtype", dtype, "--check")[1]
        return Run(
            folder.name,
            _commit(folder),
            dtype,
            report["summary"]["files"],
            len(changed),
            crashes,
            [path.relative_to(copy).as_posix() for path in changed if not _compiles(path)],
            [Path(path).relative_to(copy).as_posix() for path in again["changed"]],
            plain,
            _backwards(copy)[1] - scaled,
            dict(Counter(f"{each['code']} {each['kind']}" for each in report["findings"])),
            dict(Counter(_reason(each["message"]) for each in report["findings"] if each["code"] in _STEP_LEFT)),
        )


def _migrate(folder: Path, *options: str) -> tuple[int, Mapping[str, Any]]:
    command = [sys.executable, "-c", MIGRATE, "--format", "json", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{folder.name}: exit code {done.returncode}: {done.stderr[-500:]}")
    return done.returncode, json.loads(done.stdout)


def _backwards(folder: Path) -> tuple[int, int]:
    """How many `backward()` calls there are without and with a scaler, in the files that Python can parse."""
    counts = Counter(_is_scaled(call) for path in folder.rglob("*.py") for call in _backward_calls(path))
    return counts[False], counts[True]


def _backward_calls(path: Path) -> Iterator[ast.expr]:
    """What `backward()` is called on."""
    tree = _parsed(path)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            yield node.func.value


def _is_scaled(receiver: ast.expr) -> bool:
    return isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute) and receiver.func.attr == "scale"


def _parsed(path: Path) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(path.read_bytes()) if path.is_file() else None
        except (SyntaxError, ValueError, RecursionError):
            return None


def _compiles(path: Path) -> bool:
    return path.suffix != ".py" or _parsed(path) is not None


def _commit(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _reason(message: str) -> str:
    """A reason without what is particular to its place."""
    return _DETAILS.sub("...", message.removeprefix("step left as it was: ")).strip()


def _line(found: Run) -> str:
    faults = len(found.crashes) + len(found.broken) + len(found.unstable)
    scaled = f"{found.scaled:4} of {found.plain} backward() scaled"
    return f"{found.repository:40}{found.dtype:6}{found.changed:5} changed, {scaled}, {faults} faults"


def main() -> None:
    """Run, print a line for each, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="a checkout")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="only this one; may be repeated")
    parser.add_argument("--output", type=Path, default=RESULT, help="default: %(default)s")
    options = parser.parse_args()
    runs: list[Run] = []
    for folder in options.folders:
        for dtype in options.dtype or DTYPES:
            found = run(folder.absolute(), dtype)
            runs.append(found)
            print(_line(found), flush=True)
    result = {
        "date": date.today().isoformat(),
        "version": version("amp-migrate"),
        "runs": [asdict(each) for each in runs],
    }
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.exit(any(each.crashes or each.broken or each.unstable for each in runs))


if __name__ == "__main__":
    main()
