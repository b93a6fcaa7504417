"""What a value may be: words and tuples of words, and what is asked of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from amp_migrate.prove.code.public_names import CONTEXTS, NO_CONTEXTS
from amp_migrate.tables.apex_names import AMP

# One thing that a value may be: a word, or a tuple of a word and what goes with it.
Atom: TypeAlias = Any
Value: TypeAlias = "frozenset[Atom]"

SCALER = "scaler"
STATE = "state"  # what a scaler saves of itself
SCALE = "scale"  # the number that losses are multiplied by
CONTEXT = "context"  # a region of autocast, or none in its place
ENTERED = "entered"  # a context that gives what it was made with, scaled by Apex or as it is
FACTORY = "factory"  # what makes one when it is called
MAKER = "maker"  # what makes a scaler when it is called
HANDLE = "handle"  # of the oldest interface of Apex
FP16_OPTIMIZER = "fp16 optimizer"
NONE = "none"
OTHER = "other"

NOTHING: Value = frozenset()
OTHERS: Value = frozenset({OTHER})
_CARRIED = frozenset({SCALER, STATE, SCALE, CONTEXT, FACTORY, MAKER, HANDLE})
_DULL = frozenset({NONE, OTHER})


def is_carrier(value: Value) -> bool:
    """Whether a value has to do with precision and nothing else, whatever of all that it may be it is."""
    return any(map(_is_carried, value)) and all(each == NONE or _is_carried(each) for each in value)


def _is_carried(atom: Atom) -> bool:
    if isinstance(atom, tuple):
        if atom[0] == "items":
            return is_carrier(atom[1])
        if atom[0] == "tuple":
            return bool(atom[1]) and all(map(is_carrier, atom[1]))
        return atom[0] == "name" and (atom[1] in CONTEXTS or atom[1] == AMP)
    return atom in _CARRIED


def is_interesting(atom: Atom, constants: bool = False) -> bool:
    if isinstance(atom, tuple):
        if atom[0] == "name":
            return atom[1].startswith(("torch.amp", "apex")) or atom[1] in NO_CONTEXTS
        if atom[0] in ("tuple", "items"):
            return any(map(is_interesting, atom[1] if atom[0] == "items" else frozenset().union(*atom[1])))
        return constants if atom[0] == "constant" else atom[0] not in ("module", "class")
    return atom not in _DULL


def element(value: Value, index: int, length: int) -> Value:
    """What a target gets of a value that is taken apart."""
    found: set[Atom] = set()
    for each in value:
        if isinstance(each, tuple) and each[0] == "tuple" and len(each[1]) == length:
            found |= each[1][index]
        elif isinstance(each, tuple) and each[0] == "items":
            found |= each[1]
        elif each != NONE:
            found.add(OTHER)
    return frozenset(found)


def flat(value: Value) -> Value:
    """A value inside another: what it holds itself is not followed further than one level."""
    return frozenset(
        OTHER if isinstance(each, tuple) and each[0] in ("tuple", "items") and _depth(each) > 1 else each
        for each in value
    )


def _depth(atom: Atom) -> int:
    if not isinstance(atom, tuple) or atom[0] not in ("tuple", "items"):
        return 0
    inside = atom[1] if atom[0] == "items" else frozenset().union(*atom[1])
    return 1 + max(map(_depth, inside), default=0)
