"""Classes and functions that only the branches of Apex use: `loss_scaler = ApexScaler()`.

Once those branches are gone, nobody runs what stands in them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.trees.nodes import walk

Definition: TypeAlias = "cst.ClassDef | cst.FunctionDef"
_NAMING = (cst.ImportAlias, cst.AsName, cst.ImportFrom)  # what is imported runs only where it is used


def idle_holder(project: Project, file: File, use: cst.CSTNode, dead: Collection[cst.CSTNode]) -> Definition | None:
    """The definition of the module that a use stands in, where only dead code names that; None for any other use."""
    around = [each for each in file.tree.ancestors(use) if isinstance(each, (cst.ClassDef, cst.FunctionDef))]
    holder = around[-1] if around else None
    if holder is None or file.tree.owner_class(holder) is not None:
        return None
    name, own = holder.name.value, set(walk(holder))
    for other in project.library.mentioning(name):
        for node in other.uses.get(name, ()):
            if node not in own and node not in dead and not isinstance(other.tree.parents[node], _NAMING):
                return None
        if any(name in str(each.evaluated_value).split() for each in other.tree.every(cst.SimpleString)):
            return None  # a class that is found by its name, or given to whoever asks the module for all
    return holder
