"""Counts what becomes of Apex's training steps in repositories that nobody here wrote, and writes docs/apex-field.md.

    python benchmarks/apex_field.py ~/src/waveglow ~/src/UNITER ...

A step is a function, or the top of a file, that calls `amp.scale_loss` or the `backward(loss)` of an `FP16_Optimizer`;
imports of what Apex has deleted are counted, too. Python's own parser looks at the files before and after: what is left
runs on `amp_shim`. Each repository is migrated on a copy. Give the top folder of a checkout; what is in a subfolder of
the name `apex` is Apex itself.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from amp_migrate.tables.apex_names import DELETED

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/apex_field.json"
PAGE = ROOT / "docs/apex-field.md"
MIGRATE = "from amp_migrate.cli import main; main()"
_PREFIX = "kept on amp_shim instead of native AMP: "
_HEAD = """# What becomes of real Apex scripts

Made by `python benchmarks/apex_field.py FOLDER...` from checkouts; the numbers are in
`benchmarks/results/apex_field.json`. A step is a function that scales a loss by Apex. Native steps have no Apex left in
them; the others keep its calls, and get them from `amp_shim`. Of repositories that have moved on since, the commit is
their last with Apex; of Apex itself, its examples are counted.
"""


def measured(folder: Path) -> dict[str, Any]:
    """Migrate a copy of a repository, and count its steps before and after."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git", "*.ipynb"), symlinks=True)
        before, dead_before = set(steps(copy)), len(list(dead_imports(copy)))
        command = [sys.executable, "-c", MIGRATE, "--format", "json", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2):
            sys.exit(f"{folder.name}: exit code {done.returncode}: {done.stderr[-500:]}")
        findings = json.loads(done.stdout)["findings"]
        left, dead = set(steps(copy)) & before, [*dead_imports(copy)]
    told = [each["message"].removeprefix(_PREFIX) for each in findings if each["code"] == "AMP290"]
    reasons = [each.replace(f"{copy}/", "") for each in told]
    return {
        "repository": folder.name,
        "commit": _commit(folder),
        "codemod": _commit(ROOT),
        "steps": len(before),
        "native": len(before - left),
        "reasons": sorted(dict.fromkeys(reasons)) if left else [],
        "imports": dead_before,
        "imports_left": dead,
    }


def steps(folder: Path) -> Iterator[tuple[str, str]]:
    """The file and function of every step that Apex scales."""
    for name, text, tree in _files(folder):
        for function, call in _calls(tree):
            if call.func.attr == "scale_loss" or ("FP16_Optimizer(" in text and _is_wrapped(call)):
                yield name, function


def dead_imports(folder: Path) -> Iterator[str]:
    """Every import of what Apex has deleted: file, line and name.

    That of `apex` alone is one where the file asks it for such a thing.
    """
    for name, _, tree in _files(folder):
        chains = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            for full in _imported(node, chains):
                if any(full == package or full.startswith(f"{package}.") for package in DELETED):
                    yield f"{name}:{getattr(node, 'lineno', 0)} {full}"


def _imported(node: ast.AST, chains: set[str]) -> list[str]:
    if isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
        return [node.module if alias.name == "*" else f"{node.module}.{alias.name}" for alias in node.names]
    if not isinstance(node, ast.Import):
        return []
    own = [alias.asname or alias.name for alias in node.names if alias.name == "apex"]
    asked = [f"apex{chain.removeprefix(name)}" for name in own for chain in chains if chain.startswith(f"{name}.")]
    return [*(alias.name for alias in node.names), *sorted(set(asked) & set(DELETED))]


def _files(folder: Path) -> Iterator[tuple[str, str, ast.Module]]:
    """The files that may use Apex, but for those of Apex itself: name, text and tree."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        inner = path.relative_to(folder)
        if inner.parts[0] == "apex" or not ("apex" in text or "amp_shim" in text):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield inner.as_posix(), text, ast.parse(text)
            except (SyntaxError, ValueError):
                continue


def _calls(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Every call of a method, with the name of the function that it stands in."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        function, node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            function = f"{function}.{node.name}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield function, node
        pending += [(function, child) for child in ast.iter_child_nodes(node)]


def _is_wrapped(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return call.func.attr == "backward" and bool(call.args) and "optim" in name


def _commit(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """The page's text."""
    return "".join(f"{line}\n" for line in _lines([run for run in runs if run["steps"]]))


def _lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    native, all_steps = sum(run["native"] for run in runs), sum(run["steps"] for run in runs)
    yield _HEAD
    share = f"{native} native ({native / all_steps:.0%}), the others on the shim"
    codemods = " and ".join(dict.fromkeys(run["codemod"] for run in runs))
    yield f"{len(runs)} repositories, {all_steps} steps, by the codemod of commit {codemods}: {share}."
    yield ""
    left = [f"`{each}` ({run['repository']})" for run in runs for each in run["imports_left"]]
    yield f"{sum(run['imports'] for run in runs)} imports of what Apex has deleted; left: {', '.join(left) or 'none'}."
    yield ""
    yield "| repository | commit | steps | native | why the others stay on the shim |"
    yield "|---|---|---:|---:|---|"
    for run in runs:
        why = "; ".join(reason.replace("|", "\\|") for reason in run["reasons"])
        yield f"| {run['repository']} | {run['commit']} | {run['steps']} | {run['native']} | {why} |"


def main() -> None:
    """Measure, and write numbers and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="a checkout")
    options = parser.parse_args()
    runs = []
    for folder in options.folders:
        runs.append(measured(folder.absolute()))
        print("{repository:40}{native:4} of {steps} steps native".format(**runs[-1]), flush=True)
    result = {"date": date.today().isoformat(), "runs": runs}
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
