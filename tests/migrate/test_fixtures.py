"""The fixtures: the codemod writes what an expert wrote by hand, and what the expert wrote trains the same."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = sorted(script.parent.name for script in FIXTURES.glob("*/train.py"))
AMP_OFF = Path(__file__).with_name("amp_off.py")

each_fixture = pytest.mark.parametrize("name", NAMES)
each_dtype = pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16], ids=lambda dtype: dtype.value)


def expected_texts(name: str, dtype: Dtype) -> dict[str, str]:
    """The texts written by hand, by file name."""
    return {file.name: file.read_text() for file in (FIXTURES / name / "expected" / dtype.value).iterdir()}


def lay_out(folder: Path, name: str, dtype: Dtype | None = None) -> Path:
    """Copy the scripts of a fixture to a new folder: the originals or, given a dtype, the expected ones."""
    folder.mkdir()
    for script in (FIXTURES / name).glob("*.py"):
        shutil.copy(script, folder)
    if dtype is not None:
        for file, text in expected_texts(name, dtype).items():
            (folder / file).write_text(text)
    return folder


def quick_arguments(name: str) -> str:
    return (FIXTURES / name / "quick.args").read_text().strip()


@each_dtype
@each_fixture
def test_migration_gives_the_text_an_expert_wrote(name: str, dtype: Dtype, tmp_path: Path) -> None:
    outcome = migrate([lay_out(tmp_path / name, name)], Settings(dtype=dtype))
    assert {plan.source.path.name: plan.after for plan in outcome.changed} == expected_texts(name, dtype)
    assert [finding for finding in outcome.findings if finding.kind in (Kind.LEFT, Kind.ERROR)] == []


@each_dtype
@each_fixture
def test_second_run_changes_nothing(name: str, dtype: Dtype, tmp_path: Path) -> None:
    outcome = migrate([lay_out(tmp_path / name, name, dtype)], Settings(dtype=dtype))
    assert [plan.after for plan in outcome.changed] == []
    assert [finding for finding in outcome.findings if finding.kind in (Kind.LEFT, Kind.ERROR)] == []


@each_fixture
def test_readme_names_the_quick_run(name: str) -> None:
    assert f"train.py {quick_arguments(name)}` |" in (FIXTURES / "README.md").read_text()


def run_with_amp_off(jobs: list[tuple[Path, str]]) -> None:
    """Run the `train.py` of each folder with its arguments, on one core of the CPU and with mixed precision off."""
    words = [word for folder, arguments in jobs for word in (str(folder), f"{arguments} --device cpu")]
    done = subprocess.run(
        [sys.executable, str(AMP_OFF), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def losses(folder: Path) -> list[str]:
    """The losses of a run in hexadecimal, exact to the bit."""
    found: list[str] = json.loads((folder / "losses.json").read_text())
    return found


def printed(folder: Path) -> str:
    return (folder / "stdout.txt").read_text()


VARIANTS = {"original": None, "fp16": Dtype.FP16, "bf16": Dtype.BF16}
RESUMABLE = [name for name in NAMES if "--resume" in (FIXTURES / name / "train.py").read_text()]


def jobs_of(name: str, folder: Path) -> list[tuple[Path, str]]:
    """Each variant on the quick arguments; where it keeps checkpoints, also for another epoch from the original's."""
    arguments = quick_arguments(name)
    jobs = []
    for variant, dtype in VARIANTS.items():
        save = f" --save {folder / variant / 'checkpoint.pt'}" if name in RESUMABLE else ""
        jobs.append((lay_out(folder / variant, name, dtype), arguments + save))
    if name in RESUMABLE:
        words = shlex.split(arguments)
        epochs = int(words[words.index("--epochs") + 1])
        resume = f" --resume {folder / 'original' / 'checkpoint.pt'} --epochs {epochs + 1}"
        for variant, dtype in VARIANTS.items():
            jobs.append((lay_out(folder / f"{variant}-resumed", name, dtype), arguments + resume))
    return jobs


AUTOCAST_SCRIPT = """
import torch

weight = torch.full((2, 2), 1 / 3, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    product = weight @ weight
print(product.dtype)
product.sum().backward()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of all fixtures in folders `<fixture>/<variant>` and `<fixture>/<variant>-resumed`, and of others.

    In `right` and `wrong` are two migrations of a fixture, and in `autocast` a script.
    """
    top = tmp_path_factory.mktemp("runs")
    jobs = []
    for name in NAMES:
        (top / name).mkdir()
        jobs += jobs_of(name, top / name)
    for name in ("right", "wrong"):
        jobs.append((lay_out(top / name, "fp32_two_files", Dtype.FP16), "--epochs 1 --steps 3 --width 8"))
    engine = top / "wrong/engine.py"
    engine.write_text(engine.read_text().replace("        optimizer.zero_grad()\n", ""))
    (top / "autocast").mkdir()
    (top / "autocast/train.py").write_text(AUTOCAST_SCRIPT)
    jobs.append((top / "autocast", ""))
    run_with_amp_off(jobs)
    return top


@pytest.mark.slow
@each_dtype
@each_fixture
def test_with_amp_off_the_migrated_script_computes_the_same_bits(runs: Path, name: str, dtype: Dtype) -> None:
    migrated, original = runs / name / dtype.value, runs / name / "original"
    assert losses(migrated) == losses(original)
    assert printed(migrated) == printed(original)


@pytest.mark.slow
@each_dtype
@pytest.mark.parametrize("name", RESUMABLE)
def test_migrated_script_resumes_from_a_checkpoint_of_the_original(runs: Path, name: str, dtype: Dtype) -> None:
    migrated, original = runs / name / f"{dtype.value}-resumed", runs / name / "original-resumed"
    assert losses(original)[0] != losses(runs / name / "original")[0]
    assert losses(migrated) == losses(original)
    assert printed(migrated) == printed(original)


@pytest.mark.slow
@each_fixture
def test_fixture_learns_and_makes_enough_steps_to_be_verified(runs: Path, name: str) -> None:
    values = [float.fromhex(loss) for loss in losses(runs / name / "original")]
    quarter = len(values) // 4
    assert len(values) > 20
    assert sum(values[-quarter:]) < 0.95 * sum(values[:quarter])


@pytest.mark.slow
def test_a_wrong_migration_shows_in_the_losses(runs: Path) -> None:
    right, wrong = losses(runs / "right"), losses(runs / "wrong")
    assert right[0] == wrong[0]
    assert right != wrong


@pytest.mark.slow
def test_amp_off_disables_autocast(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(runs / "autocast/train.py"))
    assert capsys.readouterr().out.strip() == "torch.bfloat16"
    assert printed(runs / "autocast").strip() == "torch.float32"
