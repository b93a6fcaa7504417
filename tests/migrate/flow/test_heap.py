"""Answers to questions about what attributes hold: kept as long as they hold, for everybody who has asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amp_migrate.flow.domain.atoms import NEVER, Atom, External, Value, const, join_all, one
from amp_migrate.flow.domain.heap import Heap
from amp_migrate.flow.domain.state import Cell

NET, LAYER, OTHER = External("net"), External("layer"), External("other")


class Asked:
    """A heap, who has to look again, and how often it was asked what an object holds, and what that holds."""

    def __init__(self) -> None:
        self.outdated: list[Any] = []
        self.heap = Heap(self.outdated.append)
        self.times = 0
        self.heap.write(NET, "layer", one(LAYER))
        self.heap.write(LAYER, "size", const(1))

    def held(self, reader: str, owner: Atom = NET, known: Mapping[Cell, Value] | None = None) -> Value:
        """All that is in an object, and in what it holds."""
        return self.heap.kept(("held", owner), reader, known or {}, lambda: self._held(reader, owner))

    def _held(self, reader: str, owner: Atom) -> Value:
        self.times += 1
        own = join_all(self.heap.read(owner, each, reader) for each in self.heap.names(owner, reader))
        return own.union(*(self.held(reader, each) for each in own if isinstance(each, External)))


def test_a_question_is_answered_once_for_all_who_ask() -> None:
    asked = Asked()
    assert asked.held("a") == asked.held("b") == asked.held("a") == one(LAYER) | const(1)
    assert asked.times == 2  # of the net, and of its layer


def test_everybody_looks_again_who_got_an_answer_that_holds_no_more() -> None:
    asked = Asked()
    for reader in ("a", "b"):
        asked.held(reader)
    asked.heap.write(LAYER, "size", const("any"))
    assert {*asked.outdated} == {"a", "b"}
    assert asked.held("a") == one(LAYER) | const(1) | const("any")
    asked.outdated.clear()
    asked.heap.write(LAYER, "bias", const("new"))  # a name that was not there
    assert {*asked.outdated} == {"a", "b"}
    assert const("new") <= asked.held("b")


def test_what_has_nothing_to_do_with_an_answer_leaves_it_as_it_is() -> None:
    asked = Asked()
    asked.held("a")
    asked.heap.write(OTHER, "size", const(2))
    asked.heap.write(LAYER, "size", const(1))
    asked.held("a")
    assert asked.times == 2
    assert not asked.outdated


def test_of_two_answers_only_the_one_is_asked_for_again_that_follows_from_what_has_changed() -> None:
    asked = Asked()
    asked.held("a")
    asked.heap.write(NET, "name", const("net"))
    asked.held("a")
    assert asked.times == 3  # of the net alone


def test_an_answer_is_no_answer_where_more_is_known_than_everywhere() -> None:
    asked = Asked()
    asked.held("a")
    known: dict[Cell, Value] = {(LAYER, "size"): const(1)}
    for _ in range(2):
        asked.held("a", known=known)
    assert asked.times == 4  # of the net, and then of a layer of which nothing better is known

    def known_better() -> Value:
        asked.times += 1
        asked.heap.holds_only_here()
        return NEVER

    for _ in range(2):
        asked.heap.kept("here", "a", {}, lambda: asked.heap.kept("in it", "a", {}, known_better))
    assert asked.times == 6


def test_what_follows_from_an_answer_that_was_asked_for_where_more_is_known_is_asked_for_again() -> None:
    asked = Asked()
    asked.held("a", LAYER)
    assert asked.held("a", known={(LAYER, "size"): const(1)}) == one(LAYER) | const(1)
    asked.heap.kept("outer", "a", {}, lambda: asked.held("a", LAYER, {(LAYER, "size"): const(1)}))
    asked.heap.write(LAYER, "size", const("any"))
    assert asked.heap.kept("outer", "a", {}, lambda: asked.held("a", LAYER)) == const(1) | const("any")
    assert asked.held("a") == one(LAYER) | const(1) | const("any")


def test_what_grows_while_it_is_asked_for_is_asked_for_again() -> None:
    asked = Asked()

    def growing() -> Value:
        found = asked.heap.read(NET, "layer", "a")
        asked.heap.write(NET, "layer", one(OTHER))
        return found

    assert asked.heap.kept("growing", "a", {}, growing) == one(LAYER)
    assert asked.heap.kept("growing", "a", {}, growing) == one(LAYER) | one(OTHER)


def test_what_somebody_else_reads_meanwhile_is_not_what_an_answer_follows_from() -> None:
    asked = Asked()

    def running_something() -> Value:
        asked.heap.read(OTHER, "size", "b")
        return asked.heap.read(LAYER, "size", "a")

    for _ in range(2):
        asked.heap.kept("running", "a", {}, running_something)
        asked.heap.write(OTHER, "size", const(2))
    assert asked.outdated == ["b"]


class Reader:
    """Somebody who counts how often he is noted, or looked for among those who are."""

    def __init__(self) -> None:
        self.times = 0

    def __hash__(self) -> int:
        self.times += 1
        return id(self)


def test_who_asks_again_is_noted_only_with_what_is_new() -> None:
    asked = Asked()
    owners = [External(f"net{each}") for each in range(10)]
    for owner in owners:
        for cell in range(20):
            asked.heap.write(owner, f"at{cell}", const("given"))

    def whole(reader: Any) -> Value:
        return asked.heap.kept("whole", reader, {}, lambda: join_all(asked.held(reader, each) for each in owners))

    first, second = Reader(), Reader()
    whole(first)
    whole(second)
    asked.heap.write(owners[0], "at0", const("more"))
    before = second.times
    whole(first)
    assert const("more") <= whole(second)
    assert 20 < second.times - before < 80  # of two hundred cells
    asked.outdated.clear()
    asked.heap.write(owners[5], "at5", const("more"))
    assert len(asked.outdated) == 2


def test_what_is_taken_for_one_again_and_again_stays_so() -> None:
    asked = Asked()
    many = frozenset(External(f"part{number}") for number in range(60))
    for _ in range(8):
        asked.heap.write(LAYER, "parts", many)  # more than are told apart
        asked.heap.write(LAYER, "parts", one(OTHER))  # beside what nobody knows
    asked.outdated.clear()
    asked.heap.read(LAYER, "parts", "a")
    for value in (many, one(OTHER), many):
        assert not asked.heap.write(LAYER, "parts", value)
    assert asked.outdated == []
