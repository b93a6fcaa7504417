"""The one model of everything the tool says about a place in a file."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from posixpath import dirname, isabs, relpath
from typing import Any, Protocol

from amp_migrate.frozen import frozen_in_order


class Kind(str, Enum):
    """What became of the place a finding speaks of."""

    MIGRATED = "migrated"  # rewritten; the message says to what
    LEFT = "left"  # stayed as it was; the message says why, the hint what to write by hand
    NOTE = "note"  # rewritten, and something about the result needs a reader's eye
    HAZARD = "hazard"  # AMP that is used wrongly, left as it was; the hint says what to write by hand
    ERROR = "error"  # the file could not be read or parsed; nothing in it was touched


class Placing(Protocol):
    """What knows where its nodes stand: the tree of a file."""

    name: str

    def position(self, node: Any, /) -> tuple[int, int]:
        """The 1-based line and column where a node starts."""


@frozen_in_order
class Finding:
    """One sentence about one place.

    Findings order by (path, line, column, code), which is the order every report prints them in.

    Attributes:
        path: the file as the user named it, with forward slashes.
        line: 1-based line in the text as it was before the migration; 0 where no line applies.
        column: 1-based column, counted in characters; 0 where no column applies.
        code: the rule's code, `AMP101` and so on; `AMP001` for a file that cannot be read or parsed.
        kind: what became of the place.
        message: the fact, in one line without a full stop.
        hint: the next step, in one line; empty where there is none.
        is_of_others: whether it speaks of other code than that of the place, of a package or of what nobody can read:
            what else there is to say of the place is not said by it.
    """

    path: str
    line: int
    column: int
    code: str
    kind: Kind
    message: str
    hint: str = ""
    is_of_others: bool = field(default=False, compare=False, repr=False)

    @classmethod
    def at(
        cls,
        tree: Placing,
        node: object,
        code: str,
        kind: Kind,
        message: str,
        hint: str = "",
        *,
        is_of_others: bool = False,
    ) -> Finding:
        """What is said about a node of a tree."""
        line, column = tree.position(node)
        return cls(tree.name, line, column, code, kind, message, hint, is_of_others)


def seen_from(path: str, other: str) -> str:
    """A file as what is said of another one names it: a path from the root tells who reads it nothing."""
    return relpath(path, dirname(other)) if isabs(path) and isabs(other) else path
