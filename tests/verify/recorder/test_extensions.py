"""C++ extensions that scripts compile: once for all runs, and never in the user's folder of builds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from amp_migrate.settings import Dtype
from amp_migrate.verify.recorder.process.extensions import build_apart
from amp_migrate.verify.runs import kinds, prepare
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target

COMPILES = pytest.mark.skipif(not (shutil.which("g++") and shutil.which("ninja")), reason="wants g++ and ninja")
KERNEL = '#include "answer.h"\nextern "C" int answer() { return ANSWER; }\n'
TRAIN = """
import ctypes
from pathlib import Path
import torch
from torch import nn
from torch.utils.cpp_extension import load

load("answer", [{source}], is_python_module=False)
torch.manual_seed(0)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(2, 4).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BESIDE = 'str(Path(__file__).parent / "csrc/answer.cpp")'
RUNS = (kinds.ORIGINAL, kinds.MIGRATED, kinds.MIGRATED_OFF, kinds.oracle_of(kinds.ORIGINAL))


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often a source has been compiled; the user's builds are in `builds`."""
    log, compiler = tmp_path / "compiled", tmp_path / "c++"
    log.touch()
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *" -c "*) echo "$*" >>{log};; esac\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "builds"))
    return lambda: len(log.read_text().splitlines())


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    """A script that compiles the source that an expression names; it lies in the working folder."""

    def made(source: str) -> Path:
        script = tmp_path / "project/train.py"
        (script.parent / "csrc").mkdir(parents=True)
        (script.parent / "csrc/answer.cpp").write_text(KERNEL)
        (script.parent / "csrc/answer.h").write_text("#define ANSWER 42\n")
        script.write_text(TRAIN.replace("{source}", source))
        return script

    return made


@pytest.fixture
def pool(tmp_path: Path, make_setup: Callable[[Path, Path, Path], Setup], forks: Forks) -> Callable[[Path], Pool]:
    """Runs of a script and of what is made of it; each in a copy of the script's folder."""

    def made(script: Path) -> Pool:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        original = Target(script)
        migrated, _ = prepare.migrate(original, Dtype.FP16, scratch / "migrated")
        setup = replace(
            make_setup(script, script, scratch),
            cwd=script.parent,
            scripts={Arm.ORIGINAL: original, Arm.MIGRATED: migrated},
        )
        return Pool(setup, lambda result: None, forks=forks)

    return made


def ended_well(pool: Pool) -> None:
    pool.make(RUNS)
    assert {run.name: each.complaint for run, each in pool.results.items() if not each.ended_well} == {}


def contents(folder: Path) -> Mapping[Path, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@COMPILES
@pytest.mark.slow
@pytest.mark.parametrize("source", [BESIDE, '"csrc/answer.cpp"'], ids=["beside the script", "in the working folder"])
def test_an_extension_is_built_once_for_all_runs_and_not_where_the_user_has_it(
    source: str,
    compiled: Callable[[], int],
    project: Callable[[str], Path],
    pool: Callable[[Path], Pool],
    tmp_path: Path,
) -> None:
    ended_well(pool(project(source)))
    assert compiled() == 1
    assert contents(tmp_path / "builds") == {}


@COMPILES
@pytest.mark.slow
def test_what_the_user_has_built_is_not_built_again_and_stays_as_it_is(
    compiled: Callable[[], int],
    project: Callable[[str], Path],
    pool: Callable[[Path], Pool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch.utils.cpp_extension import load

    script = project(BESIDE)
    load("answer", [str(script.parent / "csrc/answer.cpp")], is_python_module=False)
    before = contents(tmp_path / "builds")
    ended_well(pool(script))
    assert compiled() == 1
    assert contents(tmp_path / "builds") == before


@COMPILES
@pytest.mark.slow
def test_a_run_that_changes_what_is_compiled_builds_what_it_has_made(
    compiled: Callable[[], int], project: Callable[[str], Path], pool: Callable[[Path], Pool]
) -> None:
    script = project('"csrc/answer.cpp"')
    text = script.read_text()
    script.write_text('open("csrc/answer.h", "w").write("#define ANSWER 43")\n' + text)
    ended_well(pool(script))
    assert compiled() == len(RUNS)
    assert (script.parent / "csrc/answer.h").read_text() == "#define ANSWER 42\n"


@pytest.fixture
def called(tmp_path: Path) -> tuple[ModuleType, list[dict[str, Any]]]:
    """A module with a `load` that is told of what is in the build's folder, and every call of it."""
    module, calls = ModuleType("cpp_extension"), []

    def load(name: str, sources: str | list[str], extra_include_paths: Any = None, build_directory: Any = None) -> None:
        there = sorted(each.name for each in Path(build_directory).iterdir()) if build_directory else []
        calls.append({"sources": sources, "include": extra_include_paths, "into": build_directory, "there": there})

    module.load = load  # type: ignore[attr-defined]
    module._get_build_directory = lambda name, verbose: str(tmp_path / "user" / name)  # type: ignore[attr-defined]
    return module, calls


def test_the_lock_of_a_build_that_was_ended_keeps_nobody_waiting(
    called: tuple[ModuleType, list[dict[str, Any]]], tmp_path: Path
) -> None:
    module, calls = called
    (tmp_path / "user/one").mkdir(parents=True)
    for name in ("lock", "one.so"):
        (tmp_path / "user/one" / name).touch()
    build_apart(module, str(tmp_path / "own"), {})
    module.load("one", "one.cpp")
    (Path(calls[0]["into"]) / "lock").touch()
    module.load("one", "one.cpp")
    assert [call["there"] for call in calls] == [["one.so"], ["one.so"]]
    assert calls[0]["into"] == calls[1]["into"]
    assert (tmp_path / "user/one/lock").exists()


def test_a_place_that_the_script_names_is_its_own(
    called: tuple[ModuleType, list[dict[str, Any]]], tmp_path: Path
) -> None:
    module, calls = called
    build_apart(module, str(tmp_path / "own"), {})
    module.load("one", "one.cpp", build_directory=str(tmp_path))
    assert calls[0]["into"] == str(tmp_path)
    assert calls[0]["sources"] == "one.cpp"


def test_paths_of_a_copy_are_named_as_those_copied_and_others_stay(
    called: tuple[ModuleType, list[dict[str, Any]]], tmp_path: Path
) -> None:
    module, calls = called
    users, copy = tmp_path / "project", tmp_path / "copy"
    users.mkdir()
    (users / "one.cpp").touch()
    shutil.copytree(users, copy)
    build_apart(module, str(tmp_path / "own"), {str(copy): str(users)})
    module.load("one", [copy / "one.cpp", "/elsewhere/two.cpp"], [str(copy)])
    (copy / "new.h").touch()
    module.load("one", [copy / "one.cpp"], [str(copy)])
    assert [call["sources"] for call in calls] == [
        [str(users / "one.cpp"), "/elsewhere/two.cpp"],
        [str(copy / "one.cpp")],
    ]
    assert [call["include"] for call in calls] == [[str(users)], [str(copy)]]
    assert calls[0]["into"] != calls[1]["into"]
