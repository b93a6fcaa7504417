"""The house can be read by its rooms: no circles, no name twice, every folder taken in at one look."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import amp_migrate
import pytest

PACKAGE = Path(amp_migrate.__file__).parent
# The harness has rooms of its own, held by its own tests; its recorder runs where this package is not.
CODEMOD = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "verify" not in path.relative_to(PACKAGE).parts and path.name not in ("__init__.py", "__main__.py")
}
PACKAGES = {
    ".".join(path.relative_to(PACKAGE.parent).parent.parts): path
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if "verify" not in path.relative_to(PACKAGE).parts
}
# Statements, expressions and calls of an interpreter run one another, as they stand in one another: by the analysis
# that each is given, and whose type they name. Nothing else there may go in a ring.
INTERPRETER = "amp_migrate.flow."
# What reads other trees than the planners, and is to share nothing with them, has words of its own.
APART = (INTERPRETER, "amp_migrate.prove.")
SAID_TWICE = {"tree.py"}  # a syntax tree in `trees`, a tree of folders in `engine/disk`
MOST_ENTRIES = 14


def for_types(node: ast.AST) -> bool:
    """Whether a statement is for the type checker alone."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(source: str, known: Mapping[str, object], *, types: bool = True) -> Iterator[str]:
    """The modules of `known` that a text imports, wherever in it: in functions and for the type checker, too."""
    tree = ast.parse(source)
    apart = {inner for node in tree.body if for_types(node) and not types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in apart:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else str(node.module) for name in inner)


def circle(sources: Mapping[str, str]) -> list[str]:
    """Modules that import one another in a ring; nothing if there is none."""
    graph = {
        name: {other for other in imported(text, sources, types=not name.startswith(INTERPRETER)) if other in sources}
        for name, text in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return ring
    return []


def test_no_file_imports_itself_through_others() -> None:
    texts = {name: path.read_text(encoding="utf-8") for name, path in (*CODEMOD.items(), *PACKAGES.items())}
    assert circle(texts) == []


@pytest.mark.parametrize("back", ["from a import x", "def late():\n    from a import x", "from pkg.a import x"])
def test_the_circle_test_can_fail(back: str) -> None:
    name = "pkg.a" if "pkg" in back else "a"
    assert circle({name: "from b import y", "b": ""}) == []
    assert circle({name: "from b import y", "b": back}) != []


@pytest.mark.parametrize(
    ("name", "importing", "is_ring"),
    [
        ("a", "if TYPE_CHECKING:\n    from b import y", True),
        ("amp_migrate.flow.a", "if TYPE_CHECKING:\n    from b import y", False),
        ("amp_migrate.flow.a", "def late():\n    from b import y", True),
    ],
)
def test_only_the_interpreter_may_name_types_of_what_runs_it(name: str, importing: str, is_ring: bool) -> None:
    assert bool(circle({name: importing, "b": f"from {name} import x"})) is is_ring


def named_twice() -> dict[str, list[str]]:
    """Names of files and of classes that occur more than once, with the modules that have them."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in CODEMOD.items():
        if module.startswith(APART):
            continue
        found[path.name].append(module)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_name_occurs_twice() -> None:
    twice = named_twice()
    assert {name: modules for name, modules in twice.items() if name not in SAID_TWICE} == {}
    assert set(twice) >= SAID_TWICE, "what is said once has to go from the list"


def test_every_folder_is_taken_in_at_one_look() -> None:
    entries = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            entries[path.parent.relative_to(PACKAGE)].add(path.name)
            for folder in path.relative_to(PACKAGE).parents[:-1]:
                entries[folder.parent].add(folder.name)
    entries.pop(Path())  # the rooms themselves, and what all of them share
    assert {str(folder): len(names) for folder, names in entries.items() if len(names) > MOST_ENTRIES} == {}
