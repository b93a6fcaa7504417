"""The walls inside the codemod: it never imports torch, and its layers import one way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import amp_migrate
import pytest

PACKAGE = Path(amp_migrate.__file__).parent
ROOTS = os.pathsep.join(str(PACKAGE.parents[1] / root) for root in ("migrate", "shim"))
# Modules of `verify/recorder` run inside the user's process, where torch is; nobody else may need it.
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if "verify" not in path.parts and path.name != "__init__.py"
)
FORBIDDEN = ("torch", "amp_shim")
CHECK = f"""
import sys
found = [name for name in {FORBIDDEN!r} if name in sys.modules]
sys.exit("reached " + " ".join(found) if found else 0)
"""

# What every reader may ask, and what it answers with.
BELOW_RULES = ("analysis", "catalog", "plan", "write", "trees", "tables", "report", "settings")
ASIDE = ("hazards", "interrupts", "pragmas", "pyproject", "repository")
# What each layer may import of this project, besides itself.
ALLOWED = {
    "trees": (),
    "tables": (),
    "path_ignores": (),
    "environment": (),
    "settings": ("path_ignores", "environment"),
    "catalog": ("tables", "settings"),
    "report": ("catalog", "settings", "__version__"),
    "implications": (),
    "counters": ("implications",),
    "flow": ("tables", "counters", "implications"),
    "prove": ("flow", "tables", "counters", "implications"),
    "pragmas": ("settings",),
    "analysis": ("trees", "tables"),
    "plan": ("trees", "report"),
    "wishes": ("plan", "trees", "pragmas", "settings"),
    "write": ("plan", "wishes", "analysis", "trees", "tables", "report", "settings"),
    "steps": (*BELOW_RULES, "flow", "wishes", "pragmas", "implications"),
    "hazards": (*BELOW_RULES, "flow", "wishes", "steps"),
    "renames": (*BELOW_RULES, "wishes", "steps"),
    "moves": (*BELOW_RULES, "flow", "wishes", "steps", "hazards", "renames"),
    "rulebook": ("catalog", "hazards", "renames"),
    "engine": (
        "moves",
        "prove",
        "flow",
        "analysis",
        "catalog",
        "plan",
        "write",
        "trees",
        "tables",
        "report",
        "settings",
        "environment",
        *ASIDE,
    ),
    "command": (
        *("settings", "pragmas", "path_ignores", "rulebook", "catalog", "report", "engine", "interrupts", "repository"),
        *("prove", "tables", "pyproject", "__version__"),
    ),
    "cli": (
        *("command", "settings", "rulebook", "report", "engine", "interrupts", "path_ignores", "repository"),
        *("environment", "__version__"),
    ),
    "verify": ("catalog", "cli", "engine", "report", "settings", "repository", "__version__"),
    "interrupts": (),
    "pyproject": (),
    "repository": (),
    "frozen": (),
    "stack": (),
    "syntax": (),
}
# What is of no layer: how data is made, how Python's own trees are gone through, and how deep calls go.
EVERYWHERE = ("frozen", "stack", "syntax")
# What a plan's readers see of those that write: how edits are made, and nothing of what becomes of them.
FOR_READERS = ("amp_migrate.write.editor",)


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": ROOTS}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def imported(source: str, depth: int = 0) -> Iterator[str]:
    """The modules of the project that a text imports, wherever in it.

    Args:
        depth: how many folders below its layer the text may say relative imports from: the recorder runs in the user's
            process, where it has no other name for itself.
    """
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level <= depth, "relative imports hide which layer is meant"
            names = [] if node.level else [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.partition(".")[0] == "amp_migrate")


def trespasses(layer: str, source: str) -> list[str]:
    """The imports of a text that its layer may not have."""
    allowed = (layer, *EVERYWHERE, *ALLOWED[layer])
    named = list(imported(source, 2 if layer == "verify" else 0))
    found = [name for name in named if name.split(".")[1] not in allowed]
    if layer in ("write", "engine"):
        return found
    writing = [name for name in named if name.split(".")[1] == "write" and not name.startswith(FOR_READERS)]
    return [*found, *(name for name in writing if name not in found)]


@pytest.mark.torch
def test_importing_every_module_of_the_codemod_leaves_torch_out() -> None:
    assert "amp_migrate.engine.planner" in MODULES
    result = python(f"import {', '.join(MODULES)}\n{CHECK}")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_torch_test_can_fail(name: str) -> None:
    result = python(f"import sys\nsys.modules[{name!r}] = sys\n{CHECK}")
    assert result.returncode == 1
    assert f"reached {name}" in result.stderr


@pytest.mark.parametrize("layer", ALLOWED)
def test_layer_imports_only_what_is_below_it(layer: str) -> None:
    single = PACKAGE / f"{layer}.py"
    files = [single] if single.exists() else sorted((PACKAGE / layer).rglob("*.py"))
    assert files
    found = {file.name: trespasses(layer, file.read_text(encoding="utf-8")) for file in files}
    assert {name: names for name, names in found.items() if names} == {}


def test_every_file_and_folder_is_a_layer() -> None:
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == set(ALLOWED)


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("trees", "from amp_migrate.settings import Settings"),
        ("tables", "import amp_migrate.analysis.files"),
        ("analysis", "def late():\n    from amp_migrate.write.editor import Editor"),
        ("plan", "from amp_migrate.analysis.files import File"),
        ("steps", "from amp_migrate.write.consume import consume"),
        ("flow", "from amp_migrate.analysis.files import File"),
        ("steps", "from amp_migrate import engine"),
        ("renames", "from amp_migrate.hazards.seen.script import Script"),
        ("engine", "from amp_migrate.steps.migrate_steps import StepMigration"),
        ("verify", "from amp_migrate.steps.migrate_steps import StepMigration"),
    ],
)
def test_the_layer_test_can_fail(layer: str, line: str) -> None:
    assert len(trespasses(layer, line)) == 1
