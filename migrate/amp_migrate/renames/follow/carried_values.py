"""A class that is handed on as a value, and where it is called in the end: `amp_autocast = torch.cuda.amp.autocast`.

Whoever calls it knows the old arguments. `functools.partial` gives the new class its device, which works with keywords
and not with positional arguments, so every call of every name that the value travels under has to be seen.
"""

from __future__ import annotations

from enum import Enum, auto

import libcst as cst

from amp_migrate.analysis.exports import takers
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.renames.follow.value_uses import further, name_given, taken, uses

_PARTIAL = "functools.partial"


def partial_call(file: File, node: cst.CSTNode) -> cst.Call | None:
    """The call `functools.partial(node, ...)` that a value is the first argument of."""
    arg = file.tree.parents[node]
    call = file.tree.parents[arg]
    if isinstance(arg, cst.Arg) and isinstance(call, cst.Call) and file.names.callee(call) == _PARTIAL:
        return call if call.args[0] is arg and not arg.star else None
    return None


class Followed(Enum):
    """How many uses of the name that a value is given are known to mean the value."""

    NOT = auto()
    PARTLY = auto()
    WHOLLY = auto()


def meant_by_name(project: Project, file: File, value: cst.CSTNode, full: str, handed_on: frozenset[str]) -> Followed:
    """Whether the uses of the name that a value is given are found as uses of `full`, as in `autocast = amp.autocast`.

    Only a name that ends in the same word is looked for where `full` is.

    Args:
        handed_on: the names that other files take from this one, and whose uses there are found as well.
    """
    name = name_given(project, file, value)
    if name is None or name != full.rpartition(".")[2]:
        return Followed.NOT
    meanings = [file.names.meanings(use) for use in uses(file, name) if use is not value and not _is_source(file, use)]
    if name not in handed_on and not any(full in each for each in meanings):
        return Followed.NOT
    is_seen = name in handed_on or not takers(project, file, name)
    is_sure = is_seen and all(each == {full} for each in meanings)
    return Followed.WHOLLY if is_sure else Followed.PARTLY


def _is_source(file: File, use: cst.CSTNode) -> bool:
    """Whether a use takes the value from its module, `torch.cuda.amp.autocast`, and is not of the name given."""
    return isinstance(use, cst.Attribute) and file.names.full(use.value).startswith("torch")


def is_called_by_keyword(project: Project, file: File, value: cst.CSTNode) -> bool:
    """Whether all that is done with a value, under every name that it goes by, is to call it by keyword."""
    values: list[tuple[File, cst.CSTNode]] = [(file, value)]
    followed: set[cst.CSTNode | str] = set()
    while values:
        where, node = values.pop()
        if node in followed:
            continue
        followed.add(node)
        found = further(project, where, node)
        if found is None:
            return False
        values += found.values
        for name in found.names:
            if name not in followed:
                followed.add(name)
                values += ((other, use) for other in project.library.mentioning(name) for use in uses(other, name))
        for name in found.makers:
            if f"{name}()" in followed:
                continue
            followed.add(f"{name}()")
            seen = [(other, use) for other in project.library.mentioning(name) for use in uses(other, name)]
            if not seen:
                return False  # made for somebody who is not in sight
            for other, use in seen:
                got = taken(other, use)
                if got is None:
                    return False
                values += ((other, each) for each in got)
    return True
