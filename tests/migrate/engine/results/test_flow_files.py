"""The analysis of values reads the files of a workspace, as its imports name them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from amp_migrate.engine.results.flow_files import FlowFiles
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import show


def test_values_are_followed_through_the_packages_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "train.py": "from pkg.model import build\nfrom lib import missing\nx = build()\n",
        "pkg/__init__.py": "",
        "pkg/model.py": "from .parts import part\n\n\ndef build():\n    return part()\n",
        "pkg/parts.py": "def part():\n    return 'made'\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    analysis = Analysis(FlowFiles(Workspace.open([Path()])), ["train.py"]).run()
    found = {ast.unparse(node): show(value) for node, value in analysis.values.items() if isinstance(node, ast.Name)}
    assert found["x"] == "'made'"
    assert set(analysis.modules) == {"train.py", "pkg/model.py", "pkg/parts.py"}
