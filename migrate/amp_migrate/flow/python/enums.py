"""Enumerations of the project: their members, and what these have."""

from __future__ import annotations

from amp_migrate.flow.domain.atoms import (
    NEVER,
    Atom,
    Class,
    Const,
    External,
    Func,
    Member,
    Value,
    Wrapped,
    const,
    join_all,
    one,
)
from amp_migrate.flow.python.classes import lineage
from amp_migrate.flow.python.frame import Frame

# Of these a member is the number or text itself, as one of a class that is derived from `str` besides.
_OF_NUMBERS_AND_TEXTS = frozenset(
    "builtins.int builtins.float builtins.str enum.IntEnum enum.StrEnum enum.IntFlag".split()
)
_VALUE, _NAME = ("value", "_value_"), ("name", "_name_")


def is_enumeration(order: list[Atom]) -> bool:
    """Whether a class that inherits from these is an enumeration."""
    return any(isinstance(each, External) and each.name.startswith("enum.") for each in order)


def as_member(order: list[Atom], kind: Class, name: str, stored: Value) -> Value:
    """What stands under a name in the body of an enumeration, as it is taken from the class."""
    if name.startswith("_") or any(isinstance(each, (Func, Wrapped, Class)) for each in stored):
        return stored
    if not any(isinstance(each, External) and each.name in _OF_NUMBERS_AND_TEXTS for each in order):
        return one(Member("member", f"{kind.code.name}.{name}", kind, name))
    return frozenset(Member(each.kind, each.value, kind, name) if isinstance(each, Const) else each for each in stored)


def members(frame: Frame, kind: Atom) -> dict[str, Value]:
    """The members of an enumeration, by name; nothing of any other class."""
    order = lineage(frame, kind) if isinstance(kind, Class) else []
    if not isinstance(kind, Class) or not is_enumeration(order):
        return {}
    names = [each for each in frame.analysis.heap.names(kind, frame.task) if each.isidentifier()]
    found = {name: as_member(order, kind, name, frame.analysis.class_cell(frame, kind, name)) for name in names}
    return {name: value for name, value in found.items() if any(isinstance(each, Member) for each in value)}


def called(frame: Frame, kind: Class, wanted: Value) -> Value:
    """The member that `Method("plain")` gives: the one of this value where it is known, else any."""
    every = members(frame, kind)
    same = [every[name] for name in every if frame.analysis.class_cell(frame, kind, name) == wanted]
    return join_all(same[:1] or every.values())


def item(frame: Frame, kind: Class, index: Value) -> Value:
    """The member that `Method["PLAIN"]` gives."""
    every = members(frame, kind)
    asked = [each.value for each in index if isinstance(each, Const)]
    is_known = len(asked) == len(index) and every.keys() >= set(asked)
    return join_all(every[each] for each in asked) if is_known else join_all(every.values())


def attribute(frame: Frame, member: Member, name: str) -> Value:
    """What a member has of its own: what it was given in the class, and its name; nothing under other names."""
    if name in _VALUE:
        return frame.analysis.class_cell(frame, member.of, member.name)
    return const(member.name) if name in _NAME else NEVER
