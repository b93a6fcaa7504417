"""The oldest PyTorch that a project's requirements name is the target, unless something else is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.command.declared_torch import declared_packages, declared_torch, lowest, newest, target_for
from amp_migrate.settings import DEFAULT_TORCH, NEWEST_TORCH, OLDEST_TORCH
from click.testing import CliRunner

SCRIPT = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"


@pytest.mark.parametrize(
    ("versions", "version"),
    [
        (">=1.7", (1, 7)),
        (">= 1.7, <2", (1, 7)),
        ("<2,>=1.7.1", (1, 7)),
        ("==1.13.1+cu117", (1, 13)),
        ("===2.1.0", (2, 1)),
        ("==2.*", (2, 0)),
        ("~=2.1", (2, 1)),
        (">1.5", (1, 5)),
        (">=2", (2, 0)),
        ("^1.9", (1, 9)),
        ("^1.7 || ^2.0", (1, 7)),
        (">=1.8 <3", (1, 8)),
        ("=1.10=py3.9_cuda11.3", (1, 10)),
        ("=1.10.*", (1, 10)),
        (">=1.8,>=2.1", (2, 1)),
        ("<2", None),
        ("!=1.8", None),
        ("<2 || >=2.1", None),
    ],
)
def test_the_oldest_version_of_a_specification(versions: str, version: tuple[int, int] | None) -> None:
    assert lowest(versions) == version


@pytest.mark.parametrize(
    ("versions", "version"),
    [
        ("<2", (1, 13)),
        ("<2.0.0", (1, 13)),
        (">=1.0, <1.9", (1, 8)),
        ("<2.0.1", (2, 0)),
        ("<=2.1", (2, 1)),
        ("^1.0", (1, 13)),
        ("~=1.4", (1, 13)),
        ("~=1.4.0", (1, 4)),
        ("~1.4", (1, 4)),
        ("==1.*", (1, 13)),
        ("==1.10.*", (1, 10)),
        ("<1.8 || ^1.4", (1, 13)),
        ("^1.0,<1.11", (1, 10)),
        (">=1.7", None),
        ("!=1.8", None),
        ("<2 || >=2.1", None),
    ],
)
def test_the_newest_version_of_a_specification(versions: str, version: tuple[int, int] | None) -> None:
    assert newest(versions) == version


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("requirements.txt", "numpy\ntorch>=1.13  # and torchvision\n", (1, 13)),
        ("requirements.txt", "torch==2.1.2+cu121 ; sys_platform == 'linux'\n", (2, 1)),
        ("requirements.txt", "torch\ntorchvision>=0.9\npytorch-lightning>=1.5\n", None),
        ("requirements.txt", "torch @ https://example.org/torch-2.1-py3.whl\n-r more.txt\n", None),
        ("requirements-dev.txt", "torch~=2.2\n", (2, 2)),
        ("requirements/base.txt", "torch[opt] >= 2.0\n", (2, 0)),
        ("pyproject.toml", '[project]\ndependencies = ["torch>=1.12,<3", "x"]\n', (1, 12)),
        ("pyproject.toml", '[project.optional-dependencies]\ntrain = ["torch (>=2.4)"]\n', (2, 4)),
        ("pyproject.toml", '[dependency-groups]\ndev = [{include-group = "a"}, "torch>=2.5"]\n', (2, 5)),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.13"\n', (1, 13)),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "2.1.0"\n', (2, 1)),
        (
            "pyproject.toml",
            '[tool.poetry.group.ml.dependencies]\ntorch = {version = ">=2.2"}\n',
            (2, 2),
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = [{version = ">=2.3"}, {version = "^2.1"}]\n', (2, 1)),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "*"\n', None),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.12; python_version<'3.12'\n", (1, 12)),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['torch>=2.0', 'x'])\n", (2, 0)),
        ("setup.py", "DEEP = '''\nnumpy\ntorch>=2.1\n'''\nsetup(extras_require={'a': DEEP.split()})\n", (2, 1)),
        ("environment.yml", "dependencies:\n  - python=3.8\n  - pytorch=1.13\n  - pytorch-cuda=11.7\n", (1, 13)),
        ("environment.yaml", 'dependencies:\n  - "pytorch::pytorch>=2.0"\n', (2, 0)),
        ("environment-gpu.yml", "dependencies:\n  - pip:\n    - torch==2.2.0\n", (2, 2)),
        ("envs/environment.yaml", "dependencies:\n  - pytorch=1.13.1\n", (1, 13)),
        ("environments/gpu.yml", "dependencies:\n  - pytorch=2.1\n", (2, 1)),
        ("conda/base.yml", "dependencies:\n  - pytorch>=2.2\n", (2, 2)),
        ("gpu_env.yaml", "name: gpu\ndependencies:\n  - pip:\n      - torch==2.0.1+cu118\n", (2, 0)),
        ("train.yaml", "model: net\nextra:\n  - torch==2.0.1\n", None),
        ("configs/base.yml", "dependencies:\n  - pytorch>=2.2\n", None),
        ("setup.py", "setup(install_requires=['torch>=2.0'\n", None),
        ("pyproject.toml", "[project\n", None),
        ("setup.cfg", "torch>=2.0\n", None),
    ],
)
def test_what_each_kind_of_file_declares(name: str, text: str, version: tuple[int, int] | None, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    found = declared_torch(tmp_path)
    assert (None if found is None else found.version) == version


def test_of_several_files_the_lowest_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.1\n")
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch>=1.13'])\n")
    found = declared_torch(tmp_path)
    assert found is not None
    assert (found.file.name, found.text) == ("setup.py", "torch>=1.13")


def test_the_nearest_folder_up_to_the_repository_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.1\n")
    inner = tmp_path / "repository/pkg/sub"
    inner.mkdir(parents=True)
    assert declared_torch(inner) is None  # a folder above says nothing about one that is in no repository
    (tmp_path / "repository/.git").mkdir()
    assert declared_torch(inner) is None
    (tmp_path / "repository/setup.cfg").write_text("[options]\ninstall_requires = torch>=1.13\n")
    found = declared_torch(inner)
    assert found is not None
    assert found.version == (1, 13)


@pytest.mark.parametrize(
    ("asked", "target", "said"),
    [
        ("torch>=2.1", (2, 1), "is the target: requirements.txt asks for torch>=2.1; --target-torch takes another"),
        (
            "torch>=1.7",
            OLDEST_TORCH,
            "torch>=1.7, which has to be raised to that; --target-torch takes another",
        ),
        ("torch<2", (1, 13), "is the target: requirements.txt asks for torch<2"),
        ("torch>=1.4,<2", (1, 13), "asks for torch>=1.4,<2"),
        ("torch>=1.4,<3", DEFAULT_TORCH, "has to be raised"),
        ("torch==1.4", DEFAULT_TORCH, "has no mixed precision of its own and has to be raised"),
        ("torch>=99.1", NEWEST_TORCH, "asks for torch>=99.1"),
        ("torch", DEFAULT_TORCH, ""),
    ],
)
def test_what_is_declared_becomes_the_target_as_far_as_it_can(
    asked: str, target: tuple[int, int], said: str, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{asked}\n")
    found = target_for(tmp_path)
    assert found[0] == target
    assert said in found[1]
    assert bool(said) == bool(found[1])


def test_a_run_writes_for_what_the_project_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> str:
        Path("train.py").write_text(SCRIPT)
        result = CliRunner().invoke(command, [*words, "train.py"])
        assert result.exit_code == 0, result.output
        return result.stdout

    monkeypatch.chdir(tmp_path)
    Path("requirements.txt").write_text("torch>=2.1\n")
    shown = run()
    assert Path("train.py").read_text() == SCRIPT
    assert "PyTorch 2.1 is the target: requirements.txt asks for torch>=2.1; --target-torch takes another." in shown
    assert json.loads(run("--format", "json"))["target"] == {"torch": "2.1", "said": shown.splitlines()[-1][:-1]}
    assert "is the target" not in run("--target-torch", "2.3")
    assert "torch.amp.GradScaler" in Path("train.py").read_text()
    Path("pyproject.toml").write_text('[tool.amp-migrate]\ntarget-torch = "2.4"\n')
    assert "is the target" not in run()
    assert "torch.amp.GradScaler" in Path("train.py").read_text()


def test_the_nearest_requirement_above_a_file_decides_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = ["train.py", "libs/old/old/train.py", "libs/ancient/train.py", "libs/plain/train.py", "libs/new/train.py"]
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(SCRIPT)
    Path("libs/old/pyproject.toml").write_text('[tool.poetry.dependencies]\ntorch = "^1.0"\n')
    Path("libs/ancient/requirements.txt").write_text("torch==1.4\n")  # has no mixed precision: it must be raised
    Path("libs/new/requirements.txt").write_text("torch>=2.4\n")
    result = CliRunner().invoke(command, ["--workers", "1", "."])
    assert result.exit_code == 0, result.output
    assert [file for file in files if Path(file).read_text() == SCRIPT] == ["libs/old/old/train.py"]
    assert "folders have their own target: 1.13 by torch^1.0 in libs/old/pyproject.toml, 2.4 by" in result.output
    raised = "libs/ancient/requirements.txt asks for torch==1.4, which has no mixed precision of its own"
    assert f"2.4 by torch>=2.4 in libs/new/requirements.txt; {raised} and has to be raised.\n" in result.output
    result = CliRunner().invoke(command, ["--target-torch", "2.3", "libs/old"])
    assert "torch.amp.GradScaler" in Path(files[1]).read_text()


@pytest.mark.parametrize("of_all", ["", "torch==1.12\n"])
def test_a_folder_whose_requirement_has_to_be_raised_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_all: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").mkdir()
    Path("old/train.py").write_text(SCRIPT)
    Path("old/requirements.txt").write_text("torch==1.8.0\n")
    Path("requirements.txt").write_text(of_all)
    result = CliRunner().invoke(command, ["."])
    own = "folders have their own target: 1.12 by torch==1.8.0 in old/requirements.txt"
    assert f"{own} (which has to be raised to that).\n" in result.output


def test_files_that_are_planned_together_are_written_for_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib").mkdir()
    Path("lib/requirements.txt").write_text("torch<2\n")
    Path("lib/made.py").write_text(SCRIPT)
    user = "from lib.made import scaler\n\n\ndef step(loss):\n    scaler.scale(loss).backward()\n"
    Path("train.py").write_text(user + "\n\nother = torch.cuda.amp.GradScaler()\n".join(["import torch\n", ""]))
    assert CliRunner().invoke(command, ["."]).exit_code == 0
    assert "torch.amp.GradScaler(" not in Path("train.py").read_text() + Path("lib/made.py").read_text()


def test_what_a_nested_requirement_does_not_have_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib").mkdir()
    Path("lib/requirements.txt").write_text("torch==2.1\n")
    Path("lib/train.py").write_text(SCRIPT)
    result = CliRunner().invoke(command, ["--keep-float32", "Loss", "."])
    assert result.exit_code == 2
    assert "came with PyTorch 2.4 (torch==2.1 is asked for" in result.output


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dgl==0.6.1\n", ((0, 6), (0, 6))),
        ("dgl-cu110<0.9\n", (None, (0, 8))),
        ("dgl_gpu==0.6.1\n", ((0, 6), (0, 6))),
        ("dgl-cpu==0.4.3\n", ((0, 4), (0, 4))),
        ("dgl-cuda11.0==0.7.2\n", ((0, 7), (0, 7))),
        ("dgl-cu110==0.6.1\ndgl>=0.9\n", ((0, 6), None)),
        ("dgl>=1.0\n", ((1, 0), None)),
        ("dgl\n", None),
        ("dglgo==0.0.2\n", None),
        ("dgl-utils==0.1\n", None),
    ],
)
def test_the_versions_of_packages_that_need_one(
    text: str, found: tuple[tuple[int, int] | None, tuple[int, int] | None] | None, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch==1.9\n{text}")
    assert declared_packages(tmp_path) == ({} if found is None else {"dgl": found})


@pytest.mark.parametrize("name", ["dgl", "dgl-cu110"])
def test_poetry_says_them_too(name: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.poetry.dependencies]\n{name} = "0.6.1"\n')
    assert declared_packages(tmp_path) == {"dgl": ((0, 6), (0, 6))}


def test_what_asks_for_several_packages_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("torch==2.1\ndgl==0.6\n")
    read: list[Path] = []
    original = Path.read_text

    def read_text(path: Path, encoding: str) -> str:
        read.append(path)
        return original(path, encoding)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert target_for(tmp_path)[0] == (2, 1)
    assert declared_packages(tmp_path) == {"dgl": ((0, 6), (0, 6))}
    assert read == [file]
    file.write_text("torch==2.2\ndgl==0.9.1\n")
    assert target_for(tmp_path)[0] == (2, 2)
    assert declared_packages(tmp_path) == {"dgl": ((0, 9), (0, 9))}
