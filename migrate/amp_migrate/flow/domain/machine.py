"""The scaler as a state machine: what is in gradients, and what a scaler has done for each optimizer, on every way.

A `World` is one way through the code as far as it matters: the machine's state at the function's entry, the state now,
and what the tests on the way came to. Worlds are kept apart, and merged only where their states are equal, so that
`if clip: unscale_` and a later `if clip:` are seen to go together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping
from typing import Any, TypeAlias, TypeVar

from amp_migrate.flow.domain.interned import Numbered, remembered
from amp_migrate.implications import Facts as Facts

# What may be in the gradients of an optimizer's parameters, or of one tensor.
EMPTY, TRUE, SCALED, UNSCALED, MIXED, UNKNOWN = "none", "true", "scaled", "unscaled", "mixed", "unknown"
# Scaled ones of which some were divided already, with those of another optimizer that has the same parameters.
PARTLY = "partly unscaled"
# What was known on each of several ways, and differs: unlike what nobody has seen yet, nothing makes it known again but
# a `zero_grad` or an `update`.
LOST = "lost"
# What a scaler has done for an optimizer since its last update.
READY, UNSCALED_BY, STEPPED = "ready", "unscaled", "stepped"
# Under `("stepped", scaler, optimizer)`: it was the scaler that had been made at the same place before this one.
EARLIER = "earlier"
# Beside the names of a fact that no test has shown, but what a variable was given.
GIVEN = ""
# Noted on ways behind a handler that is there for what nobody sees raised.
GUESSED = ("guessed",)
# Noted on ways on which what happens from now on is not the first time.
AGAIN = ("again",)
_MOST_WAYS = 32  # from one entry
_MOST_WORLDS = 256
# Where they are more, those become one that are alike in what a scaler has done, which has nothing to do with what is
# in the gradients of a loss that nobody can read; in less of it where there are too many of those; or in nothing.
_ALIKE_IN = (("checked", "stage"), ("checked",), ())
_MOST_KINDS = 8

Key: TypeAlias = "tuple[Any, ...]"
T = TypeVar("T")


class Grad(Numbered):
    """What is in some gradients.

    Attributes:
        kind: nothing, those of a true loss, of a scaled one, scaled ones that were divided again, a sum of both.
        scaler: the scaler whose scale is in them, or was.
        spent: whether an optimizer has stepped on them; None where that, too, was lost.
        outdated: whether the scale has been updated since; of a sum, between those that it is of.
        guessed: whether it is one of several answers to what nobody can tell, as which optimizer a loss trains.
        of: then, by the leaves that each is computed from for certain, the losses that they may be of, since the latest
            update of the scale; by its place, one of which that is not known.
        earlier: and before that, as far as their leaves are known.
        clipped: whether they were clipped together with some of several scales.
    """

    __slots__ = ("clipped", "earlier", "guessed", "kind", "of", "outdated", "scaler", "spent")

    def __init__(
        self,
        kind: str,
        scaler: Any = None,
        spent: bool | None = False,
        outdated: bool = False,
        guessed: bool = False,
        of: frozenset[Any] = frozenset(),
        earlier: frozenset[Any] = frozenset(),
        clipped: bool = False,
    ) -> None:
        self.kind, self.scaler, self.spent, self.outdated, self.guessed = kind, scaler, spent, outdated, guessed
        self.of, self.earlier, self.clipped = of, earlier, clipped

    def but(
        self,
        *,
        spent: bool | None = None,
        outdated: bool | None = None,
        guessed: bool | None = None,
        of: frozenset[Any] | None = None,
        earlier: frozenset[Any] | None = None,
        clipped: bool | None = None,
    ) -> Grad:
        """These gradients, of which something else is known."""
        return Grad(
            self.kind,
            self.scaler,
            self.spent if spent is None else spent,
            self.outdated if outdated is None else outdated,
            self.guessed if guessed is None else guessed,
            self.of if of is None else of,
            self.earlier if earlier is None else earlier,
            self.clipped if clipped is None else clipped,
        )

    @property
    def aged(self) -> Grad:
        """These gradients, behind an update of the scale."""
        return self.but(
            of=frozenset(), earlier=self.earlier.union(each for each in self.of if isinstance(each, frozenset))
        )

    @property
    def is_of_an_older_scale(self) -> bool:
        """Whether gradients of before an update of the scale are in them, whichever of the losses they are of."""
        return bool(self.of) and self.of <= self.earlier

    def __repr__(self) -> str:
        return self.kind + (" spent" if self.spent else "") + (" outdated" if self.outdated else "")


UNKNOWN_GRAD = Grad(UNKNOWN)
NO_GRAD = Grad(EMPTY)
LOST_GRAD = Grad(LOST)
_LOSSES = {"grad": LOST_GRAD, "stage": LOST, "made": LOST}


def grad_key(owner: object) -> Key:
    """Where the state of the gradients of an optimizer, or of a tensor with one of its own, is kept."""
    return ("grad", owner)


def made_key(optimizer: object) -> Key:
    """Where it is kept that an optimizer was made on the way."""
    return ("made", optimizer)


class Machine(Numbered):
    """A state, by keys: `("grad", optimizer)`, `("stage", scaler, optimizer)`, `("checked", scaler)` and the like."""

    __slots__ = ("_known", "items")

    def __init__(self, items: frozenset[tuple[Key, Any]] = frozenset()) -> None:
        self.items = items
        self._known = dict(items)

    def get(self, key: Key, default: Any = None) -> Any:
        """What is known under a key."""
        return self._known.get(key, default)

    def under(self, keys: Iterable[Key], default: T) -> list[Any | T]:
        """What is known under each of some keys."""
        get = self._known.get
        return [get(key, default) for key in keys]

    def grad(self, owner: object) -> Grad | None:
        """What is in the gradients of an optimizer, or of a tensor with one of its own; None where nobody knows."""
        found: Grad | None = self._known.get(grad_key(owner))
        return found

    def but(self, changes: Mapping[Key, Any]) -> Machine:
        """This state with some keys changed; None as a value makes a key unknown."""
        known = self._known
        for key, value in changes.items():
            if known.get(key) is not value:
                return self._changed(tuple(changes.items()))
        return self

    @remembered(100_000)
    def _changed(self, changes: tuple[tuple[Key, Any], ...]) -> Machine:
        gone = [(key, self._known[key]) for key, _ in changes if key in self._known]
        return Machine(self.items.difference(gone).union(each for each in changes if each[1] is not None))

    def difference(self, other: Machine) -> dict[Key, Any]:
        """What has to be changed in this state to come to another one."""
        # Of dictionaries, sets take the hashes that are there; of their views, they ask for each anew.
        return dict.fromkeys(set(self._known).difference(other._known)) | dict(other.items - self.items)

    @remembered(100_000)
    def only(self, keys: frozenset[Key]) -> Machine:
        """What is known under these keys."""
        return Machine(frozenset(each for each in self.items if each[0] in keys))

    @remembered(100_000)
    def of_kinds(self, kinds: tuple[str, ...]) -> frozenset[tuple[Key, Any]]:
        """What is known under keys of some kinds."""
        return frozenset(each for each in self.items if each[0][0] in kinds)

    @remembered(100_000)
    def replaced(self, keys: frozenset[Key], other: Machine) -> Machine:
        """This state with what another one knows in the place of what it knows under these keys itself."""
        return Machine(other.items.union(each for each in self.items if each[0] not in keys))

    def known_behind(self, cleared: Collection[Any], updated: Collection[Any]) -> Machine:
        """What is known of some gradients, and of the scalers that have seen none since an update, among some."""
        fresh = [each for each in updated if self.get(("checked", each)) is False]
        keys = frozenset(map(grad_key, cleared))
        return self.only(keys.union((state, each) for each in fresh for state in ("checked", "fresh")))

    def losing(self, keys: Iterable[Key]) -> Machine:
        """This state with what is known under some keys lost."""
        return self.but({key: _LOSSES.get(key[0]) for key in keys})

    @property
    def keys(self) -> KeysView[Key]:
        """What something is known of."""
        return self._known.keys()

    @remembered(100_000)
    def subjects(self) -> frozenset[Any]:
        """The optimizers, scalers and tensors that something is known of."""
        return frozenset(each for key in self._known for each in key[1:2])

    @remembered(100_000)
    def made(self) -> frozenset[Any]:
        """The optimizers that were made on the way."""
        return frozenset(key[1] for key, value in self._known.items() if key[0] == "made" and value is True)

    def gradients(self) -> dict[Any, Grad]:
        """What is in the gradients of each optimizer, and of each tensor with a gradient of its own."""
        return {key[1]: value for key, value in self._known.items() if key[0] == "grad"}

    def __repr__(self) -> str:
        return ", ".join(sorted(f"{'/'.join(map(str, key))}: {value!r}" for key, value in self.items))


class World(Numbered):
    """One way to a place: see the module."""

    __slots__ = ("entry", "facts", "now")

    def __init__(self, entry: Machine, facts: Facts, now: Machine) -> None:
        self.entry, self.facts, self.now = entry, facts, now


Worlds: TypeAlias = "frozenset[World]"
EMPTY_MACHINE = Machine()
START: Worlds = frozenset({World(EMPTY_MACHINE, frozenset(), EMPTY_MACHINE)})


@remembered(10_000)
def joined(a: Worlds, b: Worlds) -> Worlds:
    """The worlds of two ways that meet."""
    return a if b <= a else b if a <= b else merged(a | b)


def merged(worlds: Iterable[World]) -> Worlds:
    """Worlds of equal states as one, with the facts that hold in each of them; and not too many."""
    by_state: dict[tuple[Machine, Machine], World] = {}
    for world in worlds:
        key = (world.entry, world.now)
        twin = by_state.get(key)
        if twin is None:
            by_state[key] = world
        elif twin.facts != world.facts:
            by_state[key] = World(world.entry, twin.facts & world.facts, world.now)
    found = frozenset(by_state.values())
    if len(found) <= _MOST_WAYS:
        return found
    by_entry: dict[Machine, set[World]] = defaultdict(set)
    for world in found:
        by_entry[world.entry].add(world)
    is_over = len(found) > _MOST_WORLDS
    return frozenset().union(
        *(few_ways(each) if is_over or len(each) > _MOST_WAYS else each for each in by_entry.values())
    )


@remembered(10_000)
def made_on_some_way(worlds: Worlds) -> frozenset[Any]:
    """The optimizers that were made on one of some ways."""
    return frozenset().union(*(each.made() for each in {world.now for world in worlds}))


def few_ways(worlds: Iterable[World]) -> Worlds:
    """The ways from each entry as few, on which only that is known which is known on all that they stand for."""
    by_entry: dict[Machine, list[World]] = defaultdict(list)
    for world in worlds:
        by_entry[world.entry].append(world)
    return frozenset(
        World(entry, alike[0].facts.intersection(*(each.facts for each in alike)), common(each.now for each in alike))
        for entry, ways in by_entry.items()
        for alike in _alike(ways, lambda world: world.now)[1]
    )


def _alike(ways: Iterable[T], state: Callable[[T], Machine], start: int = 0) -> tuple[int, list[list[T]]]:
    """Many ways in few groups, by the first of some criteria that makes few; and which that is."""
    found: dict[object, list[T]] = {}
    for criterion in range(start, len(_ALIKE_IN)):
        found = defaultdict(list)
        for each in ways:
            found[state(each).of_kinds(_ALIKE_IN[criterion])].append(each)
        if len(found) <= _MOST_KINDS:
            break
    return criterion, list(found.values())


def common(states: Iterable[Machine]) -> Machine:
    """What is known in all of some states; what differs is lost, but for whether gradients may be spent."""
    first, *others = distinct = frozenset(states)
    return _common(distinct) if others else first


@remembered(10_000)
def _common(states: frozenset[Machine]) -> Machine:
    found = Machine(frozenset.intersection(*(each.items for each in states)))
    differing = set().union(*(each._known for each in states)).difference(found._known)
    lost = found.losing(differing)
    known = [each._known for each in states]
    spent = {key: {each.get(key, UNKNOWN_GRAD).spent for each in known} for key in differing if key[0] == "grad"}
    return lost.but({key: Grad(LOST, None, *(each if len(each) == 1 else (None,))) for key, each in spent.items()})


class Ways:
    """The states that something leaves behind, be it from one entry or another: few for each entry where they are many.

    Attributes:
        states: those that are known so far, by the entry.
        version: how often one was new.
        noted: the worlds that nothing is new in, as they have been noted before.
    """

    def __init__(self) -> None:
        self.states: dict[Machine, set[Machine]] = {}
        self.noted: set[Worlds] = set()
        self.version = 0
        self._criteria: dict[Machine, int] = {}

    def add(self, entry: Machine, states: Iterable[Machine]) -> bool:
        """Note more states that are left behind from an entry; whether any of them was new."""
        known = self.states.setdefault(entry, set())
        found = known.union(states)
        if entry in self._criteria or len(found) > _MOST_WAYS:
            self._criteria[entry], alike = _alike(found, lambda state: state, self._criteria.get(entry, 0))
            found = set(map(common, alike))
        if found == known:
            return False
        self.states[entry] = found
        self.version += 1
        return True


def changed(worlds: Worlds, change: Callable[[Machine], Iterable[Machine]]) -> Worlds:
    """The worlds after something that may leave one of several states behind, which are asked for once for each."""
    states: dict[Machine, list[Machine]] = {}

    def after(now: Machine) -> Iterator[Machine]:
        known = states.get(now)
        if known is not None:
            yield from known
            return
        found = []
        for state in change(now):
            found.append(state)
            yield state
        states[now] = found

    return merged(World(each.entry, each.facts, state) for each in worlds for state in after(each.now))


@remembered(10_000)
def guessed(worlds: Worlds) -> Worlds:
    """The worlds behind a handler that is there for what nobody sees raised."""
    return changed(worlds, lambda machine: (machine.but({GUESSED: True}),))


@remembered(10_000)
def known_in_all(worlds: Worlds) -> Facts:
    """What tests have come to in each of some worlds."""
    return frozenset.intersection(*(each.facts for each in worlds)) if worlds else frozenset()


@remembered(10_000)
def assuming(worlds: Worlds, facts: Facts) -> Worlds:
    """The worlds in which some facts may hold, and which know it now."""
    opposite = {(text, not outcome) for text, outcome, _ in facts}
    known = {each.facts for each in worlds}  # many ways know the same
    both = {each: each | facts for each in known if not any((text, so) in opposite for text, so, _ in each)}
    return merged(World(each.entry, both[each.facts], each.now) for each in worlds if each.facts in both)


def following(worlds: Worlds, consequences: Callable[[Facts], Facts]) -> Worlds:
    """The worlds with what follows from what tests have come to in each."""
    more = {each.facts: consequences(each.facts) for each in worlds}
    return frozenset().union(*(assuming(frozenset({each}), more[each.facts]) for each in worlds))


def assuming_all(worlds: Worlds, facts: Facts) -> Worlds:
    """The worlds in which all of some facts hold; none where they exclude each other."""
    for each in sorted(facts, key=str):
        worlds = assuming(worlds, frozenset({each}))
    return worlds


@remembered(10_000)
def forgetting(worlds: Worlds, name: str) -> Worlds:
    """The worlds without what is known of a name, which gets a new value."""
    if not any(name in fact[2] for each in worlds for fact in each.facts):
        return worlds
    return merged(
        World(each.entry, frozenset(fact for fact in each.facts if name not in fact[2]), each.now) for each in worlds
    )
