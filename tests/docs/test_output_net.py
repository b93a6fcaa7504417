"""The net of outputs lets what is the same through, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NET = ROOT / "benchmarks/output_net.py"
# What the net needs of a codemod, with its behaviour in the environment: what it writes and says, or how it fails.
CODEMOD = """
import json, os, pathlib, sys


def main():
    mode = os.environ.get("MODE", "")
    while mode == "slow":
        pass
    if mode == "broken":
        raise RuntimeError("no report today")
    here, tree = pathlib.Path("."), pathlib.Path(sys.argv[sys.argv.index("--output") + 1])
    files = sorted(here.rglob("*.py"))
    changed = [path for path in files if "old" in path.read_text() and mode != "idle"]
    for path in files:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(path.read_text().replace("old", os.environ.get("NEW", "new")))
    findings = [
        {"path": str(path), "line": 1, "column": None, "code": "AMP101", "kind": "migrated", "hint": None,
         "message": os.environ.get("MESSAGE", "is new")}
        for path in changed
    ]
    report = {"changed": [*map(str, changed)], "findings": findings, "summary": {"files": len(files)}}
    print(json.dumps(report))
"""


def net(*arguments: object, package: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tool, on a codemod of the test's own if `package` says where it is."""
    if package is not None:
        (package / "amp_migrate").mkdir(parents=True, exist_ok=True)
        (package / "amp_migrate/__init__.py").touch()
        (package / "amp_migrate/cli.py").write_text(CODEMOD, encoding="utf-8")
    path = os.pathsep.join([*([] if package is None else [str(package)]), *sys.path])
    return subprocess.run(
        [sys.executable, str(NET), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def checkout(folder: Path) -> Path:
    folder.mkdir()
    (folder / "train.py").write_text("first = 1\nx = old\n", encoding="utf-8")
    (folder / "model.py").write_text("y = 1\n", encoding="utf-8")
    return folder


def outputs(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["outputs"]


@pytest.mark.torch
def test_the_codemod_is_the_same_as_itself_and_leaves_the_checkout_alone(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "fixtures/fp32_two_files", tmp_path / "two")
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    file, keep = tmp_path / "net.json", tmp_path / "keep"
    done = net("record", folder, "--exclude", "/expected/", "--out", file, "--keep", keep)
    assert done.returncode == 0, done.stderr
    assert {each["dtype"]: sorted(each["written"]) for each in outputs(file)} == {
        "fp16": ["engine.py", "train.py"],
        "bf16": ["engine.py"],
        "auto": ["engine.py", "train.py"],
    }
    written = keep / "two/fp16/written/train.py"
    assert written.read_bytes() == (folder / "expected/fp16/train.py").read_bytes()
    assert "AMP501" in (keep / "two/fp16/said.json").read_text(encoding="utf-8")
    done = net("compare", file, folder, "--keep", keep)
    assert done.returncode == 0, done.stdout
    assert "0 differ, 0 not compared" in done.stdout
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before


def test_other_bytes_are_named_and_shown(tmp_path: Path) -> None:
    folder, file, keep, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "keep", tmp_path / "code"
    net("record", folder, "--dtype", "fp16", "--out", file, "--keep", keep, package=package)
    done = net("compare", file, folder, "--dtype", "fp16", "--keep", keep, package=package, NEW="newer")
    assert done.returncode == 1
    assert "a fp16: train.py: is changed otherwise\n" in done.stdout
    assert "findings" not in done.stdout
    assert "    -x = new\n    +x = newer\n" in done.stdout
    assert "1 differ" in done.stdout


def test_a_file_that_is_no_longer_changed_is_shown_beside_its_original(tmp_path: Path) -> None:
    folder, file, keep, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "keep", tmp_path / "code"
    net("record", folder, "--dtype", "fp16", "--out", file, "--keep", keep, package=package)
    done = net("compare", file, folder, "--dtype", "fp16", "--keep", keep, package=package, MODE="idle")
    assert done.returncode == 1
    assert "a fp16: train.py: was changed, is not now\na fp16: train.py: other findings\n" in done.stdout
    assert "    -x = new\n    +x = old\n" in done.stdout
    assert "    -1:0: AMP101 migrated: is new\n" in done.stdout


def test_other_findings_alone_are_a_difference(tmp_path: Path) -> None:
    folder, file, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "code"
    net("record", folder, "--dtype", "bf16", "--out", file, package=package)
    done = net("compare", file, folder, "--dtype", "bf16", package=package, MESSAGE="is quite new")
    assert done.returncode == 1
    assert done.stdout.startswith("a bf16: train.py: other findings\n1 runs of ")


def test_another_source_is_not_compared(tmp_path: Path) -> None:
    folder, file, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "code"
    net("record", folder, "--dtype", "fp16", "--out", file, package=package)
    (folder / "model.py").write_text("y = 2\n", encoding="utf-8")
    done = net("compare", file, folder, "--dtype", "fp16", package=package)
    assert done.returncode == 1
    assert "a fp16: not compared: its files are not those of the net" in done.stdout


def test_a_run_over_the_limit_or_without_a_report_is_told_and_not_compared(tmp_path: Path) -> None:
    folder, file, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "code"
    net("record", folder, "--dtype", "fp16", "--out", file, package=package)
    arguments = ("compare", file, folder, "--dtype", "fp16", "--limit", "1")
    slow = net(*arguments, package=package, MODE="slow")
    assert slow.returncode == 1
    assert "a fp16: not compared: took longer than 1 s of processor time\n" in slow.stdout
    broken = net(*arguments, package=package, MODE="broken")
    assert broken.returncode == 1
    assert "a fp16: not compared: ended with 2: RuntimeError: no report today\n" in broken.stdout
    # What was skipped when the net was made is not run again.
    net("record", folder, "--dtype", "fp16", "--limit", "1", "--out", file, package=package, MODE="slow")
    assert [each["skipped"] for each in outputs(file)] == ["took longer than 1 s of processor time"]
    again = net(*arguments, package=package)
    assert again.returncode == 0
    assert "a fp16: not compared: took longer than 1 s of processor time when it was recorded\n0 runs" in again.stdout


def test_what_a_second_run_would_change_is_shown(tmp_path: Path) -> None:
    folder, file, keep, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "keep", tmp_path / "code"
    arguments = ("--dtype", "fp16", "--keep", keep)
    net("record", folder, *arguments, "--out", file, package=package)
    done = net("again", folder, *arguments, package=package)
    assert done.returncode == 0, done.stderr
    assert "0 change again, 0 did not end" in done.stdout
    assert (keep / "a/fp16/again.json").read_text(encoding="utf-8") == "[]\n"
    net("record", folder, *arguments, "--out", file, package=package, NEW="older")
    done = net("again", folder, *arguments, package=package, NEW="oldest")
    assert done.returncode == 1
    assert done.stdout.startswith("a fp16: train.py: is changed again\n")
    assert "    -x = older\n    +x = oldester\n" in done.stdout
    assert "x = old\n" in (folder / "train.py").read_text(encoding="utf-8")


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    folder, file, package = checkout(tmp_path / "a"), tmp_path / "net.json", tmp_path / "code"
    (tmp_path / "b").mkdir()
    twin = checkout(tmp_path / "b" / "a")
    net("record", folder, "--dtype", "fp16", "--out", file, package=package)
    for arguments, said in (
        (("compare", tmp_path / "none.json", folder), "No such file or directory; `record` writes a net"),
        (("compare", folder / "train.py", folder), "is not a net; `record` writes one"),
        (("compare", file, tmp_path / "b"), "does not have b; record it first"),
        (("record", file, "--out", file), "is not a folder; name the top of a checkout"),
        (("record", folder, twin, "--out", file), "have one name; rename one of them"),
    ):
        done = net(*arguments, package=package)
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
