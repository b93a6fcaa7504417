"""What code that nobody has read gives to an object: `self.optimizer` and `self.scaler` of a library's own Trainer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.tables.apex_names import SCALE_LOSS
from amp_migrate.trees.own_calls import named_arguments

_PREPARING = ("initialize", "init")


def prepared_unread(project: Project, files: Sequence[File]) -> Iterator[Refusal]:
    """The steps on optimizers that a library prepares for Apex, if a script has nothing of its own that does.

    The library imports Apex by itself: the shim in the place of the script's import would not know of it.
    """
    if any(True for file in files for name in _PREPARING for _ in amp_calls(file, name)):
        return
    for file in files:
        for call in amp_calls(file, "scale_loss"):
            optimizer = (named_arguments(call, SCALE_LOSS) or {}).get("optimizers")
            if isinstance(optimizer, cst.Attribute) and is_unread(project, file, optimizer):
                reason = f"what prepares {file.tree.code(optimizer)} for Apex is a library's, and could not be read"
                hint = "leave the scaling to the native AMP of that library, and drop what is there for Apex"
                yield Refusal(file, call, reason, hint)


def is_unread(project: Project, file: File, attribute: cst.Attribute) -> bool:
    """Whether an attribute of `self` has its value from a base class that nobody has read: nothing else gives it one.

    Neither the class does, nor one that it derives from or that derives from it, nor who has its objects.
    """
    path, word = file.tree.code(attribute), attribute.attr.value
    owner = file.tree.owner_class(attribute) if path == f"self.{word}" else None
    if owner is None or object_bindings(file, attribute):
        return False
    if not any(project.unseen_bases(file, owner)):
        return False
    family = (*project.lineage(file, owner), *project.derived(file, owner))
    if any(True for where, each in family for _ in where.attribute_bindings(each, path)):
        return False
    uses = ((where, use) for where in project.library.mentioning(word) for use in where.uses.get(word, ()))
    return not any(
        isinstance(where.tree.parents[use], (cst.AssignTarget, cst.AnnAssign)) and where.tree.code(use) != path
        for where, use in uses
        if isinstance(use, cst.Attribute)
    )
