"""A notebook that installs a package by itself does not run the one beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.notebooks.installs import installed, names_of
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

ENGINE = """\
import torch


def train_one_epoch(model, loader, optimizer):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CALL = """\
import torch
from my_pkg.engine import train_one_epoch

model = torch.nn.Linear(3, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_one_epoch(model, loader, optimizer)
"""


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("!pip install timm\n", {"timm"}),
        ("  ! pip3 install -q -U 'My_Pkg[all]>=1.0' torch\n", {"my-pkg", "torch"}),
        ("%pip install \\\n    timm==0.9\n", {"timm"}),
        ("!python -m pip install git+https://host.org/o/My.Pkg.git@v1#egg=x\n", {"my-pkg"}),
        ("%%bash\nuv pip install timm && echo done\n", {"timm"}),
        ("!pip install -r requirements.txt -e . --index-url https://host.org/timm ./timm .\n", set()),
        ("!git clone https://host.org/o/timm\n%cd timm\n!pip uninstall timm\n", set()),
        ("x = 'pip install timm'  # pip install timm\n", set()),
    ],
)
def test_what_a_notebook_installs_from_elsewhere(cell: str, names: set[str]) -> None:
    assert installed(["x = 1", cell]) == names


def test_a_package_is_installed_by_its_own_name_by_the_declared_one_or_by_that_of_its_repository(
    tmp_path: Path,
) -> None:
    top = tmp_path / "My.Repo"
    inner = top / "notebooks"
    inner.mkdir(parents=True)
    (top / ".git").mkdir()
    (top / "pyproject.toml").write_text('[project]\nname = "the_package"\n')
    (top / "setup.py").write_text("setup(\n    name='old-name',\n)\n")
    assert names_of("my_pkg", inner) == {"my-pkg", "my-repo", "the-package", "old-name"}


def lay_out(folder: Path, install: str) -> None:
    (folder / "my_pkg").mkdir()
    (folder / "my_pkg/__init__.py").touch()
    (folder / "my_pkg/engine.py").write_text(ENGINE)
    (folder / "train.py").write_text(CALL)
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in (install, CALL)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "demo.ipynb").write_text(json.dumps(notebook, indent=1))


@pytest.mark.parametrize(
    ("install", "is_apart"),
    [("!pip install my-pkg", True), ("!pip install -e .", False), ("!pip install other", False)],
)
def test_calls_of_what_is_installed_stay_and_the_rest_moves(install: str, is_apart: bool, tmp_path: Path) -> None:
    lay_out(tmp_path, install)
    outcome = migrate([tmp_path], Settings())
    changed = {plan.source.path.name for plan in outcome.changed}
    assert changed == {"engine.py", "train.py", *([] if is_apart else ["demo.ipynb"])}
    of_demo = (finding for finding in outcome.findings if finding.path.endswith("demo.ipynb"))
    told = [finding.message for finding in of_demo if finding.kind is Kind.LEFT]
    expected = "what it does with my_pkg left as it was: it installs my_pkg, and not what changes here"
    assert told == ([expected] if is_apart else [])


def test_a_notebook_is_not_told_of_what_it_does_not_call(tmp_path: Path) -> None:
    lay_out(tmp_path, "!pip install my-pkg")
    assert migrate([tmp_path], Settings(ignore=("AMP501",))).findings == ()
    assert migrate([tmp_path], Settings(Dtype.BF16, ignore=("AMP590",))).problems == ()
