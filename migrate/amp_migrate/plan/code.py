"""New code in a plan: text, the old code that goes on standing in it, and what it needs at the top of the file."""

from __future__ import annotations

from collections.abc import Iterable
from string import Formatter
from typing import TypeAlias

import libcst as cst

from amp_migrate.frozen import frozen, frozen_in_order

_FORMATTER = Formatter()


@frozen_in_order
class ImportedModule:
    """A module that has to be imported: `torch`, `functools`."""

    name: str


@frozen_in_order
class Definition:
    """A name that has to be given a value below the imports: the dtype that a script chooses once, when it starts.

    Attributes:
        value: the value as code.
    """

    name: str
    value: str


Need: TypeAlias = "ImportedModule | Definition"


@frozen
class Hole:
    """Where a piece of the old code stands in the new: as it is once everything inside it has changed.

    Attributes:
        node: the piece, an expression or a simple statement of the tree that is edited.
        bare: whether its outer parentheses go, unless they hold it together over several lines.
        moved: whether it leaves its own place, so that what is to stand there instead is none of it.
    """

    node: cst.BaseExpression | cst.BaseSmallStatement
    bare: bool = False
    moved: bool = False


@frozen
class Code:
    """An expression or a statement that is new.

    Attributes:
        parts: its text, with holes in it; where a hole needs parentheses, the writer puts them.
        needs: what has to be there for it at the top of the file.
    """

    parts: tuple[str | Hole, ...]
    needs: frozenset[Need] = frozenset()

    def __str__(self) -> str:
        """The code with the old code in its holes, as it was."""
        return "".join(part if isinstance(part, str) else source(part.node) for part in self.parts)

    @property
    def holes(self) -> tuple[Hole, ...]:
        """The pieces of old code in it."""
        return tuple(part for part in self.parts if isinstance(part, Hole))


Piece: TypeAlias = "str | Code | Hole | cst.BaseExpression"


def code(template: str, *given: Piece, **named: Piece) -> Code:
    """New code from a template, in whose fields stand texts, other new code, or nodes of the old tree.

    `code("{}.scale({loss})", "scaler", loss=Hole(node))`; a brace that is meant is doubled, as in `str.format`.
    """
    parts: list[str | Hole] = []
    needs: set[Need] = set()
    count = 0
    for text, field, _, _ in _FORMATTER.parse(template):
        parts.append(text)
        if field is None:
            continue
        if field == "":
            piece, count = given[count], count + 1
        else:
            piece = named[field]
        if isinstance(piece, Code):
            parts += piece.parts
            needs |= piece.needs
        else:
            parts.append(Hole(piece) if isinstance(piece, cst.BaseExpression) else piece)
    return Code(_joined(parts), frozenset(needs))


def plain(text: str) -> Code:
    """New code that is only text."""
    return Code((text,))


def listed(pieces: Iterable[Piece], separator: str = ", ") -> Code:
    """New code of some pieces with a separator between each two: the arguments of a call."""
    pieces = tuple(pieces)
    return code(separator.join("{}" for _ in pieces), *pieces)


def source(node: cst.CSTNode) -> str:
    """The text of a node."""
    return cst.Module([]).code_for_node(node)


def _joined(parts: Iterable[str | Hole]) -> tuple[str | Hole, ...]:
    """Parts with the texts between two holes made one, so that equal code compares equal."""
    out: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        elif part != "":
            out.append(part)
    return tuple(out)
