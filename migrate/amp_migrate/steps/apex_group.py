"""Which files belong to one Apex script: `initialize` in one, `scale_loss` in another, `state_dict` in a third."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import libcst as cst

from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import imported_files
from amp_migrate.analysis.project import Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex_calls import amp_calls, amp_uses
from amp_migrate.steps.apex_guards import insists
from amp_migrate.steps.apex_imports import is_in
from amp_migrate.steps.apex_initialize import Initialize
from amp_migrate.steps.apex_split import ApexSplit
from amp_migrate.steps.fp16_optimizer import wrapper_calls
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


def is_idle(project: Project, group: Group) -> bool:
    """Whether nothing of `apex.amp` is used in a group of files, nor by another file that takes it from them."""
    return not any(wrapper_calls(file) or _uses(file) or _hands_on(project, file) for file in group.files)


def _uses(file: File) -> bool:
    return any(
        not (isinstance(file.tree.parents[node], cst.AssignTarget) or insists(file, file.tree.statement(node)))
        for node in amp_uses(file)
    )


def _hands_on(project: Project, file: File) -> bool:
    return any(
        is_exported(project, file, name)
        for name, bindings in file.scopes.module.bindings.items()
        if any(is_in(each.imported, (AMP,)) or each.imported == "apex" for each in bindings)
    )


def idle_files(project: Project, files: Iterable[File]) -> frozenset[File]:
    """The files that import `apex.amp` for nothing, as do all of their script: they compute in float32."""
    groups = groups_of(project, [file for file in files if asks_apex(file)])
    return frozenset(file for group in groups if is_idle(project, group) for file in group.files)


def starts(file: File) -> bool:
    """Whether a file prepares models and optimizers for Apex."""
    return bool(wrapper_calls(file)) or any(True for _ in amp_calls(file, "initialize"))


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
