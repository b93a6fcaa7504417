"""Scripts that are named as modules: where they lie, and that they run as `python -m` runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.settings import Dtype
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target, target
from amp_migrate.verify.usage import UsageError

Files = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Writes files into a new working folder."""
    monkeypatch.chdir(tmp_path)

    def written(**texts: str) -> None:
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return written


def test_a_script_is_run_by_its_file(write: Files, tmp_path: Path) -> None:
    write(train="")
    assert target("train.py", sys.executable, module=False) == Target(tmp_path / "train.py")


def test_a_module_is_found_from_the_working_folder_and_nothing_of_it_is_imported(write: Files, tmp_path: Path) -> None:
    write(pkg__sub__train="raise SystemExit")
    (tmp_path / "pkg" / "__init__.py").write_text("raise SystemExit")
    found = target("pkg.sub.train", sys.executable, module=True)
    assert found == Target(tmp_path / "pkg/sub/train.py", "pkg.sub.train", tmp_path)
    assert found.words == ("-m", "pkg.sub.train")


def test_a_package_is_run_by_its_main_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__main__.py").touch()
    assert target("pkg", sys.executable, module=True) == Target(tmp_path / "pkg/__main__.py", "pkg", tmp_path)


def test_a_module_elsewhere_is_found_as_the_interpreter_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src/pkg").mkdir(parents=True)
    (tmp_path / "src/pkg/train.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))
    assert target("pkg.train", sys.executable, module=True).root == tmp_path / "src"


@pytest.mark.parametrize("name", ["no_such_module", "pkg.no_such_module", "pkg", "math", "train.py"])
def test_a_module_that_cannot_be_run_is_a_usage_error(write: Files, name: str) -> None:
    write(pkg__train="", train="")
    with pytest.raises(UsageError, match=f"-m {name}: no such module"):
        target(name, sys.executable, module=True)


ENGINE = """
def train(model, x, optimizer):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRAIN = """
import sys
import torch
import helper
from .engine import train

if __name__ == "__main__":
    print(sys.argv, __spec__.name, helper.__file__)
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train(model, torch.ones(2, 4).cuda(), optimizer)
"""


@pytest.mark.slow
@pytest.mark.parametrize("forked", [True, False])
def test_a_module_and_its_migration_run_as_the_interpreter_would_run_them(
    write: Files, tmp_path: Path, forks: Forks, forked: bool
) -> None:
    write(pkg__engine="import torch\n" + ENGINE, pkg__train=TRAIN, helper="")
    original = target("pkg.train", sys.executable, module=True)
    migrated, _ = prepare.migrate(original, Dtype.BF16, tmp_path.with_name(f"{tmp_path.name}-migrated"))
    setup = Setup(
        scripts={Arm.ORIGINAL: original, Arm.MIGRATED: migrated},
        arguments=("--lr", "1"),
        python=sys.executable,
        cwd=tmp_path,
        copy_cwd=True,
        scratch=tmp_path.with_name(f"{tmp_path.name}-scratch"),
        shim=prepare.shim_folder(),
        device="cpu",
        steps=20,
        timing_steps=0,
        timeout=120,
        jobs=2,
        forked=forked,
    )
    pool = Pool(setup, lambda result: None, forks=forks if forked else None)
    runs = {arm: Run(arm, census=True) for arm in Arm}
    pool.make(runs.values())
    for arm, dtype in ((Arm.ORIGINAL, "float32"), (Arm.MIGRATED, "bfloat16")):
        result = pool.results[runs[arm]]
        assert result.returncode == 0, result.complaint
        assert ("linear", dtype, 3) in result.trace.census
        there = setup.scripts[arm]
        printed = (result.folder / "stdout.log").read_text().splitlines()[0]
        assert printed == f"{[str(there.file), '--lr', '1']} pkg.train {there.root}{os.sep}helper.py"


def test_an_interpreter_that_fails_finds_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\nexit 3\n")
    failing.chmod(0o755)
    with pytest.raises(UsageError, match="-m pkg: no such module"):
        target("pkg", str(failing), module=True)


def test_a_notebook_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "nb.ipynb").write_text("{}")
    with pytest.raises(UsageError, match="a notebook is not run; `jupyter nbconvert"):
        target(str(tmp_path / "nb.ipynb"), sys.executable, module=False)
