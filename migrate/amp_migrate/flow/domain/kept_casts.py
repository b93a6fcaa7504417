"""Casts of weights that autocast keeps, and which of them may be of one weight that is taken from a list."""

from __future__ import annotations

from typing import NamedTuple

from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import Facts
from amp_migrate.flow.source import Code
from amp_migrate.frozen import frozen


class Portion(NamedTuple):
    """A part of a list, as the text of a function has it: `layers[lower:upper]`.

    Attributes:
        lower, upper: the bounds, with nothing for no bound; None where the text says another number at other times.
        start: the variable that it begins at, where that says one number as long as the part is taken.
    """

    code: Code
    of: str
    lower: str | None
    upper: str | None
    start: str = ""

    def excludes(self, other: Portion, behind_other: frozenset[str]) -> bool:
        """Whether nothing in one of two parts is in the other, where variables are known to be behind the other."""
        is_one_list = (self.code, self.of) == (other.code, other.of)
        is_behind = self.start in behind_other or _ends_at(other.upper, self.lower)
        return is_one_list and (is_behind or _ends_at(self.upper, other.lower))

    def ends_before(self, number: str, facts: Facts) -> bool:
        """Whether it ends at a number, as the text has it, or before, as the number or tests say."""
        if not self.upper:
            return False
        said = {text for text, outcome, _ in facts if outcome}
        ends_before = {f"{self.upper} {less} {number}" for less in ("<", "<=")}
        begins_behind = {f"{number} {more} {self.upper}" for more in (">", ">=")}
        return _ends_at(self.upper, number) or not said.isdisjoint(ends_before | begins_behind)


def _ends_at(upper: str | None, lower: str | None) -> bool:
    """Whether a part with an upper bound ends where one with a lower bound begins, or before."""
    if upper and lower and upper.isdigit() and lower.isdigit():
        return int(upper) <= int(lower)
    return bool(upper) and upper == lower


class KeptCast(NamedTuple):
    """The cast of a leaf.

    Attributes:
        leaf: of what.
        code: the function that has kept it, itself or by what it calls.
        portion: the part of a list that its owner is in, where that is known.
        facts: what tests of that function have come to on every way on which it was kept.
        behind: the variables of that function that have been given a number behind that part of a list since.
    """

    leaf: Atom
    code: Code
    portion: Portion | None = None
    facts: Facts = frozenset()
    behind: frozenset[str] = frozenset()

    def may_serve(self, code: Code, portion: Portion | None, facts: Facts) -> bool:
        """Whether it may be there in a function for an element of a part of a list, on a way where tests say facts."""
        is_other_element = portion and self.portion and portion.excludes(self.portion, self.behind)
        opposite = {(text, not outcome) for text, outcome, _ in facts}
        is_other_way = self.code is code and any((text, outcome) in opposite for text, outcome, _ in self.facts)
        return not (is_other_element or is_other_way)

    def forgetting(self, name: str) -> KeptCast:
        """The same, without what is known of a name, which gets a new value."""
        known = frozenset(each for each in self.facts if name not in each[2])
        is_same = known == self.facts and name not in self.behind
        return self if is_same else self._replace(facts=known, behind=self.behind - {name})


@frozen
class Turn:
    """What takes the elements of a list one after the other, each of them once.

    Attributes:
        owners: what has the weights in them.
        portion: the part of the list that they are.
    """

    owners: frozenset[Atom]
    portion: Portion | None = None
