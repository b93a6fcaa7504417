"""What importing the shim leaves alone, and how its modules import one another."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import amp_shim
import pytest

PACKAGE = Path(amp_shim.__file__).parent
ROOTS = os.pathsep.join(str(PACKAGE.parents[1] / root) for root in ("shim", "migrate"))
FORBIDDEN = ("libcst", "amp_migrate", "apex")
FILES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
MODULES = sorted(name for name in FILES if not name.endswith("__"))
REACHED = f"print([name for name in {FORBIDDEN!r} if name in sys.modules])\n"
# What a patch could touch: attributes of torch, autocast kernels, import hooks, the state of this thread.
FINGERPRINT = """
import sys, torch
from multiprocessing import spawn
from torch.autograd.function import BackwardCFunction
def fingerprint():
    spaces = (torch, torch.Tensor, torch.nn.functional, torch.autograd, torch.optim.Optimizer, BackwardCFunction, spawn)
    attributes = [(n, k, id(v)) for n, s in enumerate(spaces) for k, v in sorted(vars(s).items()) if callable(v)]
    kernels = sorted(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"))
    return attributes, kernels, list(sys.meta_path), torch.is_autocast_enabled("cpu")
before = fingerprint()
"""


def python(code: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": ROOTS}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_importing_every_module_reaches_nothing_forbidden_and_patches_nothing() -> None:
    reached, same, same_after_a_patch = python(
        f"{FINGERPRINT}\nimport amp_shim, {', '.join(MODULES)}\n{REACHED}"
        "print(fingerprint() == before)\n"
        "torch.clear_autocast_cache = print\n"
        "print(fingerprint() == before)\n"
    )
    assert reached == "[]"
    assert same == "True"
    assert same_after_a_patch == "False", "this test could not fail"


@pytest.mark.parametrize("name", ["libcst", "amp_migrate"])
def test_the_wall_test_can_fail(name: str) -> None:
    assert python(f"import sys, amp_shim, {name}\n{REACHED}") == [f"[{name!r}]"]


def test_importing_the_package_alone_does_not_import_torch() -> None:
    assert python("import sys, amp_shim, amp_shim.install\nprint('torch' in sys.modules)") == ["False"]


def imported(source: str, known: Mapping[str, object]) -> Iterator[str]:
    """The modules of `known` that a text imports, wherever in it: in functions and for the type checker, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in inner if {name, node.module} & set(known))


def circle(sources: Mapping[str, str], depth: int | None = None) -> list[str]:
    """Modules that import one another in a ring, or folders at `depth` below the root; nothing if there is none.

    A package stands for its `__init__.py`, which its own modules do not import by being in it.
    """

    def place(module: str) -> str:
        return ".".join(module.split(".")[: None if depth is None else depth + 1])

    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        found = {place(name) for name in imported(source, sources) if name != "amp_shim"}
        graph.setdefault(place(module), set()).update(found - {place(module)})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return ring
    return []


@pytest.mark.parametrize("depth", [None, 1])
def test_no_module_and_no_folder_imports_itself_through_others(depth: int | None) -> None:
    assert circle({name: path.read_text(encoding="utf-8") for name, path in FILES.items()}, depth) == []


@pytest.mark.parametrize(
    ("back", "depth"),
    [
        ("from amp_shim.amp import scaler", None),
        ("if TYPE_CHECKING:\n    from amp_shim.amp.scaler import LossScaler", None),
        ("def late():\n    import amp_shim.amp.scaler", 1),
    ],
)
def test_the_circle_test_can_fail(back: str, depth: int | None) -> None:
    sources = {"amp_shim.amp.scaler": "from amp_shim.policy.lists import HALF", "amp_shim.policy.lists": ""}
    assert circle(sources, depth) == []
    assert circle({**sources, "amp_shim.policy.lists": back}, depth) != []


def test_a_folder_is_taken_in_at_one_look() -> None:
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    seen = {
        folder.name: [entry.name for entry in folder.iterdir() if not entry.name.startswith(("__", "py.typed"))]
        for folder in folders
    }
    assert {name: entries for name, entries in seen.items() if len(entries) > 14} == {}
