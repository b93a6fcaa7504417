"""The scripts that import a step: what they hand it, and whether they save and load its scaler, shows in them alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from amp_migrate.analysis.library import is_unit_test
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.imports.importers import may_import
from amp_migrate.engine.source import display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.tables.operators import AUTOCAST, LAYERS, NO_HALF_KERNEL, REFUSED

_SAVES, _LOADS = "state_dict", "load_state_dict"
_WORD = re.compile(r"\w+")
_CLASS_OR_FUNCTION = re.compile(r"^(?:[ \t]*(class)|def) (\w+)", re.MULTILINE)
_OF_SCALER = {each: re.compile(rf"scaler\w*\.{each}\(") for each in (_SAVES, _LOADS)}
_OF_OPTIMIZER = {each: re.compile(rf"opt\w*(\[.*\])?\.{each}\(", re.IGNORECASE) for each in (_SAVES, _LOADS)}
# Each costs an analysis of its own; what one of them does not show, another hardly does, unless it names it.
_MOST = 2
# What raises in a region: no reader is to find out by a run.
_RAISING = NO_HALF_KERNEL | {name for name, treatment in AUTOCAST.items() if treatment == REFUSED}
_RAISING_NAMES = frozenset(
    [each.rpartition(".")[2] for each in _RAISING] + [name for name, each in LAYERS.items() if each in _RAISING]
)


def saving_scripts(workspace: Workspace, stepping: Iterable[str], changed: Iterable[str]) -> Iterator[str]:
    """The names of files that import one with a step, and save or load optimizers, where nobody does so with a scaler.

    Args:
        workspace: the files as they were.
        stepping: the names of those with steps, in which that shows by itself.
        changed: the texts that change, as they are to be.
    """
    texts = list(changed)
    if not any("GradScaler(" in each for each in texts) or any(map(_OF_SCALER[_LOADS].search, texts)):
        return
    wanted = _LOADS if any(map(_OF_SCALER[_SAVES].search, texts)) else _SAVES
    known = {Path(name) for name in stepping}
    for project in workspace.focused(known).by_project():
        yield from islice(_in_project(project, known, wanted), _MOST)


def handing_scripts(workspace: Workspace, step: str) -> Iterator[str]:
    """The names of files that import one with a step, and may make what it is given: the model, the criterion.

    Unit tests are the last: what they make is small, and on the CPU as often as not. Of more than are looked at, those
    follow that bring something which raises in a region, and which no other has brought.
    """
    path = Path(step)
    for project in workspace.focused({path}).by_project():
        graph, importing = _importing(project, path)
        importing.sort(key=lambda each: is_unit_test(display_name(each)))
        yield from map(display_name, importing[:_MOST])
        if len(importing) > _MOST:
            naming = _Naming(project)
            brought = naming.brought(each for one in (path, *importing[:_MOST]) for each in graph.reachable(one))
            for each in importing[_MOST:]:
                own = naming.brought(graph.reachable(each))
                if not own <= brought:
                    brought |= own
                    yield display_name(each)


def further_scripts(workspace: Workspace, step: str, known: Iterable[str]) -> Iterator[str]:
    """The names of other files that import one with a step, and name what none before them names: its own networks.

    That is a class, or a function of another file. Unit tests are none of them.

    Args:
        known: the names of those that were looked at.
    """
    path, seen = Path(step), {Path(each) for each in known}
    for project in workspace.focused({path}).by_project():
        graph, importing = _importing(project, path)
        named: set[tuple[Path, str]] = set()
        for each in sorted(importing, key=lambda each: each not in seen):
            words, own = {*_WORD.findall(_text(project, each))}, set[tuple[Path, str]]()
            for one in graph.reachable(each):
                own |= {(one, name) for name in _defined(_text(project, one), with_functions=one != each) & words}
            if each not in seen and not is_unit_test(display_name(each)) and not own <= named:
                yield display_name(each)
            named |= own


def importing_scripts(workspace: Workspace, name: str) -> Iterator[str]:
    """The names of all files that import one, be it through others."""
    path = Path(name)
    for project in workspace.focused({path}).by_project():
        yield from map(display_name, _importing(project, path)[1])


def _importing(project: Workspace, path: Path) -> tuple[ImportGraph, list[Path]]:
    """What imports what, and the files that import one, be it through others."""
    graph = ImportGraph(project)
    return graph, [each for each in may_import(project, {path}) if path in graph.reachable(each)]


@lru_cache(maxsize=1_000)
def _defined(text: str, *, with_functions: bool) -> frozenset[str]:
    """The names of the classes in a text, and of its functions."""
    found = _CLASS_OR_FUNCTION.findall(text)
    return frozenset(name for is_class, name in found if is_class or with_functions)


def starting_scripts(workspace: Workspace, step: str, unless_naming: str | None = None) -> list[str]:
    """The names of the files that all programs with a step start with; none where they are more than are looked at.

    Unit tests are none of them.

    Args:
        unless_naming: a word that no file of such a program may have; else it is taken for what that says.
    """
    path = Path(step)
    known: set[Path] = set()
    for project in workspace.focused({path}).by_project():
        graph = ImportGraph(project)
        bringing = {path}
        while found := {each for each in may_import(project, bringing) if _brings(graph, each, bringing)}:
            known |= found
            bringing |= found
        known -= {brought for each in known for brought in graph.reachable(each) if brought != each}
        if unless_naming is not None and len(known) <= _MOST:
            reached = {brought for each in known for brought in graph.reachable(each)}
            naming = (each for each in reached if project.may_hold_one(each, [unless_naming]))
            if any(unless_naming in _text(project, each) for each in naming):
                return []
    return sorted(map(display_name, known)) if len(known) <= _MOST else []


def _brings(graph: ImportGraph, path: Path, known: set[Path]) -> bool:
    return not is_unit_test(display_name(path)) and not known.isdisjoint(graph.reachable(path))


class _Naming:
    """The names of what raises in a region that stand in files."""

    def __init__(self, project: Workspace) -> None:
        self._project = project
        self._known: dict[Path, frozenset[str]] = {}

    def brought(self, paths: Iterable[Path]) -> frozenset[str]:
        """Those that stand in some files."""
        return frozenset().union(*map(self._in, paths))

    def _in(self, path: Path) -> frozenset[str]:
        if path not in self._known:
            may_hold = self._project.may_hold_one(path, _RAISING_NAMES)
            self._known[path] = _RAISING_NAMES.intersection(
                _WORD.findall(_text(self._project, path) if may_hold else "")
            )
        return self._known[path]


def _text(project: Workspace, path: Path) -> str:
    source = project.file(path)
    return "" if source is None else source.text


def _in_project(workspace: Workspace, known: set[Path], wanted: str) -> Iterator[str]:
    saving = {each.path for each in workspace.mentioning(wanted) if _OF_OPTIMIZER[wanted].search(each.text)}
    if not saving:
        return
    graph = ImportGraph(workspace)
    for path in may_import(workspace, known):
        reached = graph.reachable(path)
        if not known.isdisjoint(reached) and not saving.isdisjoint(reached):
            yield display_name(path)
