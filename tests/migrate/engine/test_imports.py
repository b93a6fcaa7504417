"""Which files stand or fall together."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.imports import ImportGraph, imported_modules
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a, b.c as d\n", ("a", "b.c")),
        ("from a.b import c, d\n", ("a.b", "a.b.c", "a.b.d")),
        ("from . import c\n", (".", ".c")),
        ("from ..a import c\n", ("..a", "..a.c")),
        ("def f():\n    try:\n        import a\n    except ImportError:\n        pass\n", ("a",)),
        ("from a import *\n", ("a", "a.*")),
        ("import (\n", ()),
    ],
)
def test_imported_modules_are_those_of_every_import_statement(text: str, names: tuple[str, ...]) -> None:
    assert imported_modules(text) == names


def project(root: Path) -> tuple[Workspace, dict[str, Source]]:
    texts = {
        "main": "from engine import train\n",
        "engine": "import helper\n",
        "helper": "import main  # a circle\n",
        "other": "import shared\n",
        "lone": "import torch\n",
        "shared": "",
    }
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    workspace = Workspace.open([root])
    return workspace, {path.stem: source for path in workspace.files if (source := workspace.file(path))}


def test_a_file_reaches_what_it_imports_through_others(tmp_path: Path) -> None:
    workspace, files = project(tmp_path)
    graph = ImportGraph(workspace)
    assert {path.stem for path in graph.reachable(files["main"])} == {"main", "engine", "helper"}
    assert {path.stem for path in graph.reachable(files["lone"])} == {"lone"}


def test_groups_hold_what_reaches_each_other_even_through_files_outside(tmp_path: Path) -> None:
    workspace, files = project(tmp_path)
    chosen = [files[name] for name in ("main", "lone", "helper", "other", "shared")]
    groups = ImportGraph(workspace).groups(chosen)
    assert sorted(sorted(source.path.stem for source in group) for group in groups) == [
        ["helper", "main"],
        ["lone"],
        ["other", "shared"],
    ]
