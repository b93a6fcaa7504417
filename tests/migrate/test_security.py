"""What SECURITY.md promises."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import amp_migrate
import pytest

PACKAGES = Path(amp_migrate.__file__).parent
STEP = """
import torch
from torch import nn
import helper
from pkg import thing

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for x in thing.data:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
# Whoever runs or imports one of these leaves a file behind.
TRAP = "import pathlib\npathlib.Path(__file__ + '.ran').touch()\nraise SystemExit('ran code of the tree')\n"
TRAPS = """
torch.py click.py libcst/__init__.py rich.py pathspec.py platformdirs.py json.py helper.py pkg/__init__.py pkg/thing.py
sitecustomize.py usercustomize.py conftest.py setup.py amp_migrate.py amp_shim.py tomllib.py tomli.py _init_paths.py
""".split()
# What the process does, as Python tells those who listen: files that are opened for writing, changed or removed; code
# that is run; programs and connections.
RECORDER = f"""
import json, os, sys
sys.path[:0] = {[str(PACKAGES.parent), str(PACKAGES.parents[1] / "shim")]!r}
done = []

CHANGES = "os.rename os.remove os.mkdir os.link os.symlink os.chmod os.chown os.truncate os.rmdir".split()
PROGRAMS = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "socket.bind", "urllib.")

def listen(event, args):
    # What is open already is there under its name.
    if event == "open" or event in CHANGES:
        name = "" if isinstance(args[0], int) else os.fsdecode(args[0])
        writes = (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if event == "open" else True
        if name and writes:
            done.append([event, name])
    elif event == "exec" and getattr(args[0], "co_filename", "").startswith(os.getcwd()):
        done.append([event, args[0].co_filename])
    elif event.startswith(PROGRAMS):
        done.append([event, str(args)])

sys.addaudithook(listen)
from amp_migrate.__main__ import main
try:
    main()
finally:
    sys.stdout.flush()
    print("DONE", json.dumps(done), file=sys.stderr)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository that would like its code to be run."""
    tree = tmp_path / "tree"
    for name in TRAPS:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(TRAP)
    (tree / "train.py").write_text(STEP)
    notebook = {"cells": [{"cell_type": "code", "source": STEP + "!touch ran\n"}], "metadata": {}, "nbformat": 4}
    (tree / "train.ipynb").write_text(json.dumps(notebook))
    (tree / "pyproject.toml").write_text(
        '[build-system]\nbuild-backend = "setup"\nbackend-path = ["."]\n[tool.amp-migrate]\ndtype = "fp16"\n'
    )
    (tree / ".git/hooks").mkdir(parents=True)
    (tree / ".git/config").write_text("[core]\n\tfsmonitor = touch ran\n\thooksPath = .git/hooks\n")
    (tree / ".gitattributes").write_text("* filter=x\n")
    return tree


def done_by(tree: Path, *args: str) -> list[list[str]]:
    """What a command does to the world, besides reading it."""
    program = tree.parent / "bin/amp-migrate"
    program.parent.mkdir(exist_ok=True)
    program.write_text(RECORDER)
    environment = {**os.environ, "XDG_STATE_HOME": str(tree.parent / "state"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, str(program), *args], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode in (0, 1), ran.stderr
    done: list[list[str]] = json.loads(ran.stderr.rpartition("DONE ")[2])
    return done


@pytest.mark.parametrize(
    "args", [["."], ["--check", "."], ["--diff", "."], [".", "-o", "out"], ["train.py"]], ids=" ".join
)
def test_no_code_of_the_tree_is_run_and_nothing_is_written_but_what_is_named(tree: Path, args: list[str]) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    done = done_by(tree, *args, "--workers", "1")
    assert {event for event, _ in done} <= {"open", "os.rename", "os.remove", "os.mkdir"}
    after = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert not [path for path in after if path.name.endswith(".ran") or path.name == "ran"]
    changed = {path.relative_to(tree).as_posix() for path in before if after[path] != before[path]}
    made = {path.relative_to(tree).parts[0] for path in after.keys() - before.keys()}
    if args == ["."]:
        assert (changed, made) == ({"train.py", "train.ipynb"}, set())
    elif args == ["train.py"]:
        assert (changed, made) == ({"train.py"}, set())
    else:
        assert (changed, made) == (set(), {"out"} if "out" in args else set())
    if "--check" in args or "--diff" in args:
        assert done == []
    names = {name for _, name in done}
    temporary = {name for name in names if re.fullmatch(r"\.[0-9a-f]{16}-\d+\.amp-migrate(\.old)?", name)}
    records = {name for name in names if name in ("lock", "undo", "amp-migrate") or name[:6].isdigit()}
    state = {name for name in names if name.startswith(str(tree.parent / "state"))}
    copies = {name for name in names if "out" in args and not name.startswith("/")}
    assert names - temporary - records - state - copies == set()


def test_the_harness_unpickles_nothing_itself() -> None:
    """It maps where the script's own `torch.load` puts tensors; of its own it reads JSON and text."""
    found = []
    for path in sorted((PACKAGES / "verify").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                found += [
                    (path.name, name) for name in names if name in ("pickle", "marshal", "shelve", "dill", "joblib")
                ]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
                found.append((path.name, ast.unparse(node.func)))
    assert found == []


def test_nothing_of_ours_uses_the_network() -> None:
    found = []
    for path in sorted([*PACKAGES.rglob("*.py"), *(PACKAGES.parents[1] / "shim").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                tops = {name.partition(".")[0] for name in names}
                found += [
                    (path.name, top) for top in tops & {"urllib", "http", "requests", "ftplib", "httpx", "aiohttp"}
                ]
    assert found == [("sarif.py", "urllib")]  # to quote paths
