"""Which files belong to one Apex script: `initialize` in one, `scale_loss` in another, `state_dict` in a third."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import imported_files
from amp_migrate.analysis.project import Project
from amp_migrate.steps.apex_calls import amp_calls
from amp_migrate.steps.apex_imports import is_in
from amp_migrate.steps.apex_initialize import Initialize
from amp_migrate.steps.apex_split import ApexSplit
from amp_migrate.steps.fp16_optimizer import wrapper_calls
from amp_migrate.steps.model import Refusal
from amp_migrate.steps.read_apex import ApexStep
from amp_migrate.steps.write_shim import apex_uses
from amp_migrate.tables.apex_names import AMP, SHIM


@dataclass(eq=False)
class Group:
    """The files of one script that use `apex.amp`.

    Attributes:
        steps: those that stand in one function each.
        splits: those that are spread over several.
    """

    files: list[File] = field(default_factory=list)
    initializes: list[Initialize] = field(default_factory=list)
    steps: list[ApexStep] = field(default_factory=list)
    splits: list[ApexSplit] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def all_steps(self) -> list[ApexStep]:
        """The steps, and the parts of those that are spread."""
        return [*self.steps, *(part for split in self.splits for part in split.steps)]


def groups_of(project: Project, files: list[File]) -> list[Group]:
    """A file that initializes Apex, its helpers beside or below it, and what these import, are one script.

    Two files that both initialize are two scripts, unless one imports the other.
    """
    group_of = {file: Group([file]) for file in files}
    starting = {file for file in files if starts(file)}
    for file in files:
        related = list(imported_files(project, file))
        if file in starting:
            folder = file.name.rpartition("/")[0]
            beside = [other for other in files if other.name.startswith(f"{folder}/" if folder else "")]
            related += [other for other in beside if other not in starting]
        for other in related:
            if other in group_of and group_of[other] is not group_of[file]:
                mine, theirs = group_of[file], group_of[other]
                mine.files.extend(theirs.files)
                for moved in theirs.files:
                    group_of[moved] = mine
    return list(dict.fromkeys(group_of.values()))


def starts(file: File) -> bool:
    """Whether a file prepares models and optimizers for Apex."""
    return bool(wrapper_calls(file)) or any(True for _ in amp_calls(file, "initialize"))


def step_calls(file: File) -> list[cst.Call]:
    """The calls that prepare and take Apex's training steps."""
    return [
        *wrapper_calls(file),
        *(call for name in ("initialize", "init", "scale_loss") for call in amp_calls(file, name)),
    ]


def idle_files(project: Project, files: Iterable[File]) -> set[File]:
    """The files that import `apex.amp` for nothing: neither they nor the script they belong to use it."""
    groups = groups_of(project, [file for file in files if asks_apex(file)])
    unused = (group for group in groups if not any(map(step_calls, group.files)))
    return {file for group in unused for file in group.files if not _mentions_amp(file)}


def _mentions_amp(file: File) -> bool:
    return any(
        is_in(name, (AMP,))
        for local in ("apex", *_bound_to_amp(file))
        for node in file.uses.get(local, ())
        for name in file.names.meanings(_whole(file, node))
    )


def _whole(file: File, node: cst.CSTNode) -> cst.CSTNode:
    """The chain of attributes that a name begins: `apex.amp.initialize` of `apex`."""
    parent = file.tree.parents[node]
    return _whole(file, parent) if isinstance(parent, cst.Attribute) and parent.value is node else node


def _bound_to_amp(file: File) -> set[str]:
    bound = (item for scope in file.scopes.all() for item in scope.bindings.items())
    return {name for name, bindings in bound if any(is_in(each.imported, (AMP,)) for each in bindings)}


def uses_apex_amp(file: File) -> bool:
    """Whether a file decides about precision through `apex.amp`, which the shim may answer for by now."""
    return asks_apex(file) or any(is_in(name, (f"{SHIM}.amp",)) for name in _names(file))


def asks_apex(file: File) -> bool:
    """Whether a file imports `apex.amp`, reaches it through `import apex`, or makes an `FP16_Optimizer`."""
    names = _names(file)
    if any(is_in(name, (AMP,)) for name in names):
        return True
    return bool(wrapper_calls(file)) or ("apex" in names and any(True for _ in apex_uses(file, AMP)))


def _names(file: File) -> set[str]:
    return {b.imported for scope in file.scopes.all() for bindings in scope.bindings.values() for b in bindings}
