"""Old names that files of a project take from one another: `from compat import autocast`.

The definition becomes torch.amp's and every use of it in every file gets its device, in one go: all or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import libcst as cst

from amp_migrate.analysis.exports import takers
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.renames.change.decide_uses import Decided, Renaming, decide
from amp_migrate.renames.change.module_values import ModuleValues, module_values
from amp_migrate.renames.change.moved_imports import Moves, deprecated_items, moves_of, star_imports
from amp_migrate.renames.find.surroundings import is_only_tested
from amp_migrate.renames.find.uses import find_uses
from amp_migrate.renames.follow.name_origins import Top, is_old, sources, sources_at, users, uses_at
from amp_migrate.renames.old_modules import moves_with_module
from amp_migrate.renames.rename import Rename, Unsure
from amp_migrate.tables.star_names import OF_TORCH_AMP


@frozen
class Handed:
    """What one file has to do with it.

    Attributes:
        names: the names at its top level that others take from it, and that become torch.amp's.
        kept: its uses whose name stays valid, because what they take it from becomes torch.amp's.
        stuck: its uses that stay, because what they take it from does.
        reasons: why a name that others take from it stays.
    """

    names: frozenset[str] = frozenset()
    kept: frozenset[cst.CSTNode] = frozenset()
    stuck: dict[cst.CSTNode, Unsure] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


NOTHING = Handed()


def handed_on(files: Iterable[File], renaming: Renaming) -> dict[File, Handed]:
    """What is handed on by and to `files`; the files that change with them are in the answer, too."""
    files, project = tuple(files), renaming.project
    groups = _groups(project, files)
    reasons: dict[int, str] = {}
    is_settled = False
    while not is_settled:  # what stays in one group may keep another where it is: they may share a star import
        moving = [group for index, group in enumerate(groups) if index not in reasons]
        trials = _Trials(renaming, moving)
        is_settled = True
        for index, group in enumerate(groups):
            reason = trials.obstacle(group) if index not in reasons else None
            if reason is not None:
                reasons[index] = reason
                is_settled = False
    return _by_file(files, project, groups, reasons)


@frozen
class _Group:
    """Names that stand or fall together: one that others take, and what they call it.

    Attributes:
        tops: the names, each with the file at whose top level it is.
        uses: where they are used.
    """

    tops: tuple[Top, ...]
    uses: tuple[tuple[File, cst.CSTNode], ...]


def _groups(project: Project, files: Iterable[File]) -> list[_Group]:
    grouped: set[Top] = set()
    found: list[_Group] = []
    for file in files:
        for seed in _seeds(project, file):
            if seed in grouped:
                continue
            tops: dict[Top, None] = {}
            stack = [seed]
            while stack:
                top = stack.pop()
                if top not in tops:
                    tops[top] = None
                    stack += [*sources_at(project, *top), *users(project, *top)]
            grouped.update(tops)
            uses = dict.fromkeys(use for top in tops for use in uses_at(project, *top))
            found.append(_Group(tuple(tops), tuple(uses)))
    return found


def _seeds(project: Project, file: File) -> Iterator[Top]:
    """The names that a file hands on, or takes from others, and that stand for something old."""
    module = file.scopes.module.bindings
    names = {local for _, _, _, local in deprecated_items(file) if local in module}
    names |= {full.rpartition(".")[2] for _, full in _assigned(file)}
    if any(star_imports(file)):
        names |= {name for name in OF_TORCH_AMP if name not in module}
    yield from ((file, name) for name in sorted(names) if takers(project, file, name))
    sure, doubtful = find_uses(file)
    for use in (*sure, *doubtful):
        yield from sources(project, file, use.node)


def _assigned(file: File) -> Iterator[tuple[cst.CSTNode, str]]:
    """The old things that a file gives their own name at its top level: `autocast = torch.cuda.amp.autocast`."""
    for name, bindings in file.scopes.module.bindings.items():
        for binding in bindings:
            value = binding.value
            if isinstance(value, (cst.Name, cst.Attribute)):
                meanings = (full for full in file.names.meanings(value) if full.endswith(f".{name}"))
                yield from ((value, full) for full in meanings if is_old({full}))


class _Trials:
    """What would become of files if all that is handed on moved."""

    def __init__(self, renaming: Renaming, moving: Iterable[_Group]) -> None:
        self._renaming = renaming
        self._project = renaming.project
        self._names: dict[File, set[str]] = {}
        for group in moving:
            for file, name in group.tops:
                self._names.setdefault(file, set()).add(name)
        self._known: dict[File, tuple[Decided, ModuleValues, Moves]] = {}

    def obstacle(self, group: _Group) -> str | None:
        """Why a group cannot move; None where it can."""
        for file, use in group.uses:
            reason = self._at_use(file, use)
            if reason is not None:
                return f"{file.name}:{file.tree.position(use)[0]}: {reason}"
        for file, name in group.tops:
            if not self._project.library.sees_folder_of(file):
                return f"not all files beside {file.name} were given"
            if not self._moves(file, name):
                return f"{file.name}: {name} cannot become torch.amp's"
        return None

    def _at_use(self, file: File, use: cst.CSTNode) -> str | None:
        made, modules, _ = self._of(file)
        if use in made.removed or use in modules.moved or is_only_tested(file.tree, use):
            return None
        if file.tree.is_target(use):
            return "it is given another value"
        if use in made.refused:
            return made.refused[use].reason
        renames: dict[cst.CSTNode, Rename] = {each.node: each.rename for each in made.sure}
        if use in renames and moves_with_module(renames[use]):
            return None
        return "it is used in a way that is not understood, or that is not to be changed"

    def _moves(self, file: File, name: str) -> bool:
        """Whether everything old that a file itself takes from torch as `name` becomes torch.amp's."""
        made, modules, moves = self._of(file)
        moved = {alias for aliases in moves.moved.values() for alias in aliases}
        for statement, alias, _, local in deprecated_items(file):
            if local == name and statement not in made.removed and alias not in moved:
                return False
        for value, full in _assigned(file):
            if full.endswith(f".{name}") and value not in made.removed:
                rewrite = made.rewrites.get(value)
                if value not in modules.moved and (rewrite is None or rewrite.alias is None):
                    return False
        if name in file.scopes.module.bindings:
            return True
        return all(star in moves.named for star, _ in star_imports(file))

    def _of(self, file: File) -> tuple[Decided, ModuleValues, Moves]:
        if file not in self._known:
            names = frozenset(self._names.get(file, ()))
            made = decide(self._renaming, file, names, {})
            renamed: dict[cst.CSTNode, Rename] = {
                use.node: use.rename for use in made.sure if use.node not in made.refused
            }
            modules = module_values(file, self._project, renamed, made.removed, names)
            gone = made.removed | modules.moved.keys()
            moves = moves_of(file, self._project, renamed, gone, self._renaming.wishes, names)
            self._known[file] = made, modules, moves
        return self._known[file]


def _by_file(
    files: Iterable[File], project: Project, groups: Iterable[_Group], reasons: dict[int, str]
) -> dict[File, Handed]:
    names: dict[File, set[str]] = {}
    kept: dict[File, set[cst.CSTNode]] = {}
    stuck: dict[File, dict[cst.CSTNode, Unsure]] = {}
    told: dict[File, dict[str, str]] = {}
    for index, group in enumerate(groups):
        for file, name in group.tops:
            if index in reasons:
                told.setdefault(file, {})[name] = reasons[index]
            else:
                names.setdefault(file, set()).add(name)
        for file, node in group.uses:
            if index not in reasons:
                kept.setdefault(file, set()).add(node)
    for file in files:
        for use in find_uses(file)[0]:
            if use.node not in kept.get(file, ()):
                for source, _ in sources(project, file, use.node):
                    stuck.setdefault(file, {})[use.node] = _stays(source)
    return {
        file: Handed(
            frozenset(names.get(file, ())), frozenset(kept.get(file, ())), stuck.get(file, {}), told.get(file, {})
        )
        for file in dict.fromkeys((*files, *names, *kept))
    }


def _stays(source: File) -> Unsure:
    return Unsure(
        f"it comes from {source.name}, where it stays as it is",
        "import it from torch.amp here, with the arguments that it takes",
    )
