"""Which files stand or fall together."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.imports.imports_of_text import imported_modules
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
        ("import a; from b import c  # d\n", ("a", "b", "b.c")),
        (
            "try: import a\nexcept ImportError: from .b import (\n    c as d,  # (not e)\n    f,\n)\n",
            ("a", ".b", ".b.c", ".b.f"),
        ),
        ("from a \\\n    import b, \\\n    c\n# the end \\\nimport d\n", ("a", "a.b", "a.c", "d")),
        ("from.a import(b)\nfrom . a import b as c\n", (".a", ".a.b")),
        ("important = important_from\n", ()),
    ],
)
def test_imported_modules_are_those_of_every_import_statement(text: str, names: tuple[str, ...]) -> None:
    assert imported_modules(text) == names


def test_no_import_statement_of_the_standard_library_is_missed() -> None:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert _parsed_imports(text) <= set(imported_modules(text)), path


def _parsed_imports(text: str) -> set[str]:
    """What Python's own parser finds."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            separator = "" if base.endswith(".") else "."
            found |= {base, *(base + separator + alias.name for alias in node.names)}
    return found


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
    assert {path.stem for path in graph.reachable(files["main"].path)} == {"main", "engine", "helper"}
    assert {path.stem for path in graph.reachable(files["lone"].path)} == {"lone"}


def test_a_file_is_brought_in_by_so_many_imports_and_no_fewer(tmp_path: Path) -> None:
    workspace, files = project(tmp_path)
    graph = ImportGraph(workspace)
    assert {path.stem for path in graph.within(files["main"].path, 1)} == {"engine"}
    assert {path.stem for path in graph.within(files["main"].path, 2)} == {"engine", "helper"}
    assert graph.within(files["lone"].path, 3) == frozenset()


def test_groups_hold_what_reaches_each_other_even_through_files_outside(tmp_path: Path) -> None:
    workspace, files = project(tmp_path)
    chosen = [files[name] for name in ("main", "lone", "helper", "other", "shared")]
    groups = ImportGraph(workspace).groups(chosen)
    assert sorted(sorted(source.path.stem for source in group) for group in groups) == [
        ["helper", "main"],
        ["lone"],
        ["other", "shared"],
    ]


def test_a_package_hands_on_what_it_imports_and_a_module_does_not(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("from .steps import train\n")
    (tmp_path / "pkg/steps.py").write_text("from . import helper\n")
    (tmp_path / "pkg/helper.py").write_text("")
    (tmp_path / "main.py").write_text("from pkg import train\n")
    workspace = Workspace.open([tmp_path])
    script = workspace.file(tmp_path / "main.py")
    assert script is not None
    assert {path.stem for path in ImportGraph(workspace).brought(script.path)} == {"__init__", "steps"}
