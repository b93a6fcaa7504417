"""Optimizers, scalers, and what is in the gradients: what each call does to every way that leads to it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Any, TypeAlias

from amp_migrate.flow.domain import machine as states
from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    STATE,
    UNKNOWN,
    Atom,
    Class,
    Const,
    External,
    Native,
    Obj,
    Opaque,
    Part,
    Share,
    Some,
    Tup,
    Value,
    const,
    constant,
    join,
    one,
    reads_of,
    some,
    tensors_in,
    tup,
    units_of,
    whole_of,
)
from amp_migrate.flow.domain.interned import remembered
from amp_migrate.flow.domain.machine import (
    AGAIN,
    EARLIER,
    EMPTY,
    LOST,
    LOST_GRAD,
    MIXED,
    NO_GRAD,
    PARTLY,
    READY,
    SCALED,
    STEPPED,
    TRUE,
    UNKNOWN_GRAD,
    UNSCALED,
    Grad,
    Key,
    Machine,
    World,
    Worlds,
    assuming_all,
    changed,
    grad_key,
    made_key,
    made_on_some_way,
    merged,
)
from amp_migrate.flow.domain.tensor import (
    A_GRADIENT,
    ANY_UNIT,
    BUFFER,
    CONTEST,
    CUT,
    FLOWS,
    HALVED,
    NO_LEAF,
    NORMALIZED,
    NOTHING,
    OF_OVERFLOW,
    OTHER,
    PURE,
    ROUGH,
    SCALAR,
    SHAPED,
    SOME_TENSOR,
    UNKNOWN_UNITS,
    Leaves,
    Tensor,
    Unit,
    Units,
    made,
    multiplied,
    settled,
    sure_of_either,
)
from amp_migrate.flow.events import A_RUNNING_BUFFER, WHERE_NOT_FINITE, WITHOUT_LIMIT, Act, Event
from amp_migrate.flow.python import attributes, classes, command_line, containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import unread
from amp_migrate.flow.source import Code, Site
from amp_migrate.flow.task import Task, with_callers
from amp_migrate.implications import implied
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import is_optimizer_name

REGISTRY = External("<optimizers>")
_ANYWHERE = "anywhere"
_SWITCHED = "switched"
_UNREAD = "unread"
_OF_NOBODY = "of nobody"
PARAMETERS = "<parameters>"
ENABLED = "<enabled>"
MADE_OF = "<made of>"  # the tensor that a leaf was before it got a gradient of its own
_LIMITING_WEIGHTS = frozenset("clamp clip clamp_min clamp_max renorm copy".split())
# What may be inherited from without being a tensor, or something that gives any one by one.
_BASES_OF_NONE = frozenset(("abc.ABC", "builtins.object", "torch.nn.Module", "typing.Protocol"))
_ADDED, _KEPT = "added to a parameter", "kept as a gradient"
_MOST_UNSURE = 4  # that may get a gradient or not, each by itself: of more, it is lost

# A variable, which of the function's runs of statements, and the calls that the function is run by.
_List: TypeAlias = "tuple[Code, str, int, tuple[Site, ...]]"


class Registry:
    """The optimizers and scalers that have been seen, where, and with which parameters."""

    def __init__(self) -> None:
        self.optimizers: dict[Atom, frozenset[Atom] | None] = {}
        self.unread: dict[Atom, frozenset[Atom]] = {}  # what is made of parameters, by a class that nobody knows
        self.whole: dict[Atom, None] = {}  # the optimizers that were given all parameters of a module
        self.lists: dict[Atom, _List | None] = {}  # which one each was given, of those that stay as they are
        self.switched: set[Atom] = set()  # the leaves that somebody tells whether they get gradients
        self.parts: dict[Atom, set[frozenset[Atom]]] = {}  # those of each module that an optimizer may have been given
        self.wrapping: dict[Atom, None] = {}  # those that have the parameters of another
        self.scalers: dict[Atom, None] = {}
        self.homes: dict[Atom, dict[Code, Value]] = {}  # and for which objects the methods of a class know each there
        self.shares: dict[Site, set[Share]] = {}  # what the calls of code that nobody has read have given of others
        self._sharing: dict[Atom, tuple[Atom, ...]] = {}
        self._with_twins: dict[Atom, frozenset[Atom]] = {}
        self._standing_in: dict[Atom, frozenset[Atom]] = {}
        self._twins: dict[Obj, frozenset[Atom]] = {}

    def forget_sharing(self) -> None:
        """To be called where an optimizer is new, or has more parameters."""
        self._sharing.clear()
        self._with_twins.clear()
        self._standing_in.clear()
        self._twins.clear()

    def standing_in(self, optimizer: Atom) -> frozenset[Atom]:
        """The other optimizers that may have all parameters of one."""
        if optimizer not in self._standing_in:
            others = (each for each in self.optimizers if each is not optimizer)
            self._standing_in[optimizer] = frozenset(e for e in others if self.may_have_all_of(e, optimizer))
        return self._standing_in[optimizer]

    def twins(self, optimizer: Obj) -> frozenset[Atom]:
        """The other optimizers that are made in the same place, on behalf of other calls, of what these make there."""
        if optimizer not in self._twins:
            own = self.optimizers.get(optimizer)  # none of what a step is called on and is no optimizer itself
            others = (e for e in self.optimizers if isinstance(e, Obj) and e.site == optimizer.site)
            self._twins[optimizer] = frozenset(
                each for each in others if each is not optimizer and _may_have_all(self.with_twins(each), own)
            )
        return self._twins[optimizer]

    def with_twins(self, optimizer: Atom) -> frozenset[Atom] | None:
        """Its parameters, and what is in their place where another call has made them and an optimizer of its own.

        Of what two calls make, one is there on each way: whoever depends on either depends on that.
        """
        own = self.optimizers[optimizer]
        if not own or not isinstance(optimizer, Obj):
            return own
        if optimizer not in self._with_twins:
            sites = {each.owner.site for each in own if isinstance(each, Part) and isinstance(each.owner, Obj)}
            others = (
                leaf
                for other, leaves in self.optimizers.items()
                if isinstance(other, Obj) and other is not optimizer and other.site == optimizer.site
                for leaf in leaves or ()
                if isinstance(leaf, Part) and isinstance(leaf.owner, Obj) and leaf.owner.site in sites
            )
            self._with_twins[optimizer] = own.union(others)
        return self._with_twins[optimizer]

    def sharing(self, optimizer: Atom) -> tuple[Atom, ...]:
        """The other optimizers that surely have a parameter of one."""
        if optimizer not in self._sharing:
            self._sharing[optimizer] = self._find_sharing(optimizer)
        return self._sharing[optimizer]

    def _find_sharing(self, optimizer: Atom) -> tuple[Atom, ...]:
        others = [each for each in self.optimizers if each is not optimizer]
        return tuple(each for each in others if self.has_all_of(optimizer, each) or self.has_all_of(each, optimizer))

    def has_all_of(self, optimizer: Atom, other: Atom) -> bool:
        """Whether an optimizer surely has all parameters of another."""
        mine, theirs = self.optimizers.get(optimizer), self.optimizers.get(other)
        if not self.wrapping.keys().isdisjoint((optimizer, other)):
            return bool(mine) and mine == theirs
        given = self.lists.get(optimizer)
        if given is not None and given == self.lists.get(other):
            return True
        return optimizer in self.whole and self.may_have_all_of(optimizer, other)

    def may_have_all_of(self, optimizer: Atom, other: Atom) -> bool:
        """Whether an optimizer has parameters of each module that another is known to have some of."""
        return _may_have_all(self.optimizers.get(optimizer), self.optimizers.get(other))


def _may_have_all(mine: frozenset[Atom] | None, theirs: frozenset[Atom] | None) -> bool:
    return bool(mine and theirs) and all(overlap(mine, frozenset({each})) for each in theirs or ())


# Which optimizers a place is about

UNKNOWN_PARAMETERS = whole_of(Opaque())


def note_optimizer(frame: Frame, optimizer: Atom, leaves: frozenset[Atom] | None = None) -> None:
    """Note that something is an optimizer; `leaves` are its parameters, None where nobody knows them."""
    registry = frame.analysis.pytorch.registry
    known = registry.optimizers.get(optimizer)
    after = leaves if known is None else known | (leaves or NOTHING)
    is_new = optimizer not in registry.optimizers or after != known
    registry.optimizers[optimizer] = after
    if is_new:
        registry.forget_sharing()
    _note_home(frame, optimizer, is_new)


def note_made_unread(frame: Frame, optimizer: Opaque, shares: frozenset[Share]) -> None:
    """Note the parameters of an optimizer that code has made which nobody has read: those of modules that it was given.

    What else it was given, of which nobody knows anything, says how: `build_optimizer(cfg, model)`. Which of several
    that one call gives has which of them, nobody knows.
    """
    if optimizer.path[1:] == ("()",):
        leaves = NOTHING.union(*map(_leaves_of_shares(frame), shares)) - {UNKNOWN_PARAMETERS}
        note_optimizer(frame, optimizer, leaves or None)


def note_scaler(frame: Frame, scaler: Atom) -> None:
    """Note that something is a scaler."""
    registry = frame.analysis.pytorch.registry
    is_new = scaler not in registry.scalers
    registry.scalers[scaler] = None
    if is_new:
        frame.analysis.heap.signal(REGISTRY, _ANYWHERE)
    _note_home(frame, scaler, is_new)


def _note_home(frame: Frame, atom: Atom, is_new: bool) -> None:
    homes = frame.analysis.pytorch.registry.homes.setdefault(atom, {})
    home = _home(frame.code)
    before = homes.get(home, NEVER)
    owners = join(before, _running_for([frame.task]).get(home, UNKNOWN))
    if owners != before or is_new:
        homes[home] = owners
        # Who has asked for the optimizers of a place before has to ask again.
        for each in homes:
            frame.analysis.heap.signal(REGISTRY, _label(each))


@remembered(10_000)
def _home(code: Code) -> Code:
    """The class of a method, for which all methods of the class know the same objects; else the function."""
    while code.parent is not None and isinstance(code.node, (ast.Lambda,)):
        code = code.parent
    parent = code.parent
    return parent if parent is not None and isinstance(parent.node, ast.ClassDef) else code


@remembered(10_000)
def _label(code: Code) -> str:
    return f"{code.file}:{code.site.line}:{code.site.column}"


def relevant(frame: Frame, kind: Mapping[Atom, object]) -> list[Atom]:
    """The optimizers, or scalers, that the code at hand may be about."""
    analysis = frame.analysis
    seen = [*with_callers((frame.task,))]
    homes = {_home(frame.code), *(_home(task.code) for task in seen)}
    for home in homes:
        analysis.heap.read(REGISTRY, _label(home), frame.task)
    if not kind:
        return []
    known: set[object] = set().union(*(world.now.subjects() for world in frame.now.worlds))
    places = analysis.pytorch.registry.homes
    is_any_owned = any(
        isinstance(each, Opaque) and each.path and isinstance(each.path[0], (Obj, Site)) for each in kind
    )
    running_for = _running_for(seen) if is_any_owned else {}
    return [
        each
        for each in kind
        if each in known
        or any(
            _is_owned_here(frame, each, running_for.get(home, UNKNOWN), known_for)
            for home, known_for in places.get(each, {}).items()
            if home in homes
        )
    ]


def _running_for(tasks: Iterable[Task]) -> dict[Code, Value]:
    """For which objects the methods of each class run; unknown ones, too, where something else runs at its home."""
    found: dict[Code, Value] = {}
    for task in tasks:
        home = _home(task.code)
        parameters = [] if task.code.parent is not home or task.code.is_static_as else task.code.parameters
        owner = task.given.get(parameters[0].arg, UNKNOWN) if parameters else UNKNOWN
        found[home] = join(found.get(home, NEVER), owner)
    return found


def _is_owned_here(frame: Frame, part: Atom, owners: Value, known_for: Value) -> bool:
    """Whether something may be of the objects for which code runs.

    What one of them got that nobody knows, no other has; what one was given is another's where that has it, too.

    Args:
        known_for: the objects whose methods have it in their hands.
    """
    root = part.path[0] if isinstance(part, Opaque) and part.path else None
    if not _are_made_in_sight(owners):
        return True
    if not isinstance(root, Site) or not _are_made_in_sight(known_for):
        return not isinstance(root, Obj) or root in owners
    return not owners.isdisjoint(known_for) or any(part in value for each in owners for value in _held(frame, each))


def _are_made_in_sight(owners: Value) -> bool:
    return all(isinstance(each, Obj) and isinstance(each.made_of, Class) for each in owners)


def _held(frame: Frame, owner: Atom | Tensor) -> Iterator[Value]:
    """What an object has as its attributes."""
    if isinstance(owner, Obj):
        yield from (frame.read(owner, name) for name in frame.analysis.heap.names(owner, frame.task))


@remembered(50_000)
def overlap(parameters: frozenset[Atom] | None, leaves: frozenset[Atom]) -> bool | None:
    """Whether some leaves are parameters of an optimizer; None where nobody can tell."""
    if not leaves:
        return False
    if parameters is None:
        return None
    known, own = _by_owner(parameters), _by_owner(leaves)
    for owner, names in own.items():
        if owner is not None and owner in known and (known[owner] & names or "*" in known[owner] | names):
            return True
    unknown = [[each for each in side if each is None or isinstance(each, Opaque)] for side in (known, own)]
    for a in unknown[0]:
        for b in unknown[1]:
            if a is not None and b is not None and _is_within(a, b):
                return True
    sides = ((unknown[0], leaves), (unknown[1], parameters))
    shares = [(share, other) for owners, other in sides for share in map(_share, owners)]
    if any(share is not None and are_of(share.of - {UNKNOWN_PARAMETERS}, other) for share, other in shares):
        return True
    # What is a share of other parameters than these is none of them.
    is_open = any(share is None or overlap(share.of, other) is not False for share, other in shares)
    return None if parameters and is_open else False


def _share(owner: Atom | None) -> Share | None:
    """The share of parameters that an owner of leaves stands for."""
    return owner.path[0] if isinstance(owner, Opaque) and owner.path and isinstance(owner.path[0], Share) else None


def behind(leaves: frozenset[Atom], shares: Set[Share]) -> frozenset[Atom]:
    """Leaves of which none has to do with some shares: for one that does, what it is of stands."""

    @functools.cache
    def behind_one(leaf: Atom) -> frozenset[Atom]:
        share = _share(leaf.owner) if isinstance(leaf, Part) else None
        if share is None:
            return frozenset({leaf})
        found = behind_all(share.of)
        return found if found != share.of or share.origin in shares else frozenset({leaf})

    def behind_all(leaves: frozenset[Atom]) -> frozenset[Atom]:
        return NOTHING.union(*map(behind_one, leaves))

    return behind_all(leaves) if shares else leaves


def _by_owner(leaves: frozenset[Atom]) -> dict[Atom | None, set[str]]:
    """The names of leaves by their owner; under None what has none."""
    found: dict[Atom | None, set[str]] = {}
    for each in leaves:
        owner, name = (each.owner, each.name) if isinstance(each, Part) else (None, "")
        found.setdefault(owner, set()).add(name)
    return found


def _is_within(a: Atom, b: Atom) -> bool:
    """Whether one of two unknown things is taken from the other."""
    assert isinstance(a, Opaque)
    assert isinstance(b, Opaque)
    short, long = sorted((a.path, b.path), key=len)
    return bool(short) and long[: len(short)] == short


def holders(frame: Frame, leaves: frozenset[Atom], surely: frozenset[Atom] | None = None) -> dict[Atom, bool | None]:
    """The optimizers whose parameters some leaves are, and whether they surely are: None for one that may be.

    Where nobody can tell for any of them, all are taken to be meant: see `is_guess`.
    """
    registry = frame.analysis.pytorch.registry
    known = relevant(frame, registry.optimizers)
    answers = {each: overlap(registry.optimizers[each], leaves) for each in known}
    if None in answers.values() and (rest := leaves - (apart := _made_apart(frame, leaves))) and apart:
        unsure = [
            each for each, answer in answers.items() if answer is None and _is_in_sight(registry.optimizers[each])
        ]
        answers.update({each: False for each in unsure if overlap(registry.optimizers[each], rest) is False})
    found: dict[Atom, bool | None] = {}
    for each, answer in answers.items():
        if answer is False:
            continue
        # What is computed from none of them has no `backward()` that does not raise.
        is_sure = surely is None or gets_one(registry.with_twins(each), surely | {leaves})
        found[each] = answer if is_sure else None
    if not any(answers.values()):
        return dict.fromkeys(found, True)
    return found


def _is_in_sight(parameters: frozenset[Atom] | None) -> bool:
    """Whether all of some parameters are known, each by what it is made of."""
    return bool(parameters) and all(isinstance(getattr(each, "owner", None), Obj) for each in parameters or ())


def _made_apart(frame: Frame, leaves: Leaves) -> Leaves:
    """The leaves of what other packages have made of nothing, where none of these gets at parameters in sight."""
    pytorch = frame.analysis.pytorch
    owners = ((leaf, leaf.owner) for leaf in leaves if isinstance(leaf, Part) and isinstance(leaf.owner, Opaque))
    found = frozenset(leaf for leaf, owner in owners if owner.made_at in pytorch.called and not owner.shares)
    events = (each for each in frame.analysis.events.values() if found and each.act is Act.HANDED_ON)
    is_any = any(
        isinstance(each, Tensor) or each in pytorch.registry.optimizers or pytorch.leaves_of(frame, each)
        for event in events
        for each in event.subject
    )
    return NOTHING if is_any else found


def gets_one(parameters: frozenset[Atom] | None, surely: Leaves) -> bool:
    """Whether an optimizer has one of the leaves that a loss depends on, whichever of those in each set it is."""
    sets = [each for each in surely if isinstance(each, frozenset)]
    one_by_one = surely.difference(sets)
    return bool(overlap(parameters, one_by_one)) or any(
        all(overlap(parameters, frozenset({leaf})) for leaf in each) for each in sets
    )


def _are_told_apart(registry: Registry, optimizer: Atom, reach: Leaves, surely: Leaves) -> bool:
    """Whether it is known of a loss that it is computed from an optimizer's parameters on some ways, and not on others.

    It is not where somebody sees neither all parameters nor what the loss is computed from, or knows no more than that
    it is one of several things that optimizers have: where the loss is of none of them, it is there for nothing else.
    """
    parameters = registry.optimizers.get(optimizer)
    seen = (parameters or NOTHING) | (reach - surely)
    choices = (each for each in surely if isinstance(each, frozenset) and not _is_of_nobody(registry, each))
    is_one_of_them = any(overlap(parameters, each - {NO_LEAF}) is not False for each in choices)
    return bool(parameters) and not is_one_of_them and all(isinstance(getattr(e, "owner", None), Obj) for e in seen)


def _is_of_nobody(registry: Registry, choice: frozenset[Atom]) -> bool:
    """Whether one of several leaves is a tensor by itself that no optimizer can have."""
    return any(
        all(overlap(parameters, frozenset({leaf})) is False for parameters in registry.optimizers.values())
        for leaf in standalone_leaves(choice)
    )


def is_guess(frame: Frame, optimizers: Iterable[Atom], leaves: frozenset[Atom]) -> bool:
    """Whether some leaves are taken to be parameters of several optimizers because nobody can tell."""
    found = [overlap(frame.analysis.pytorch.registry.optimizers[each], leaves) for each in optimizers]
    return len(found) > 1 and not any(found)


def standalone_leaves(leaves: Iterable[Atom]) -> list[Part]:
    """The leaves that are tensors by themselves, and no parameters of modules."""
    return [
        each
        for each in leaves
        if isinstance(each, Part) and isinstance(each.owner, Obj) and each.owner.external == "torch.Tensor"
    ]


# Changes of the state


def _change(frame: Frame, keys: Iterable[Key], change: Callable[[Machine], Iterable[Machine]]) -> None:
    frame.task.touched.update(keys)
    frame.task.touched.add(AGAIN)
    frame.now.worlds = changed(frame.now.worlds, change)


def there(worlds: Worlds, optimizers: Sequence[Atom]) -> Callable[[Machine], list[Atom]]:
    """Those of some optimizers that one variable may hold, or one parameter may have, which are there on a way.

    Where one of two branches makes it, the other's is not; what is made on none of the ways, somebody else has made.
    """
    made = made_on_some_way(worlds)
    keys = [(each, made_key(each) if each in made else None) for each in optimizers]
    return lambda machine: [each for each, key in keys if key is None or machine.get(key)]


def new_leaf(frame: Frame, leaf: Atom) -> None:
    """A tensor gets a gradient of its own from now on: it has none yet."""
    _change(frame, [grad_key(leaf)], lambda machine: (machine.but({grad_key(leaf): NO_GRAD}),))


def stage(machine: Machine, scaler: Atom, optimizer: Atom) -> str | None:
    """What a scaler has done for an optimizer since its last update; None where nobody knows."""
    known: str | None = machine.get(("stage", scaler, optimizer))
    if known is None and (machine.get(("fresh", scaler)) or machine.get(("fresh", optimizer))):
        return READY
    return known


def _accumulated(old: Grad, new: Grad) -> Grad:
    """What is in gradients once those of another loss are added."""
    if old.clipped:
        return _accumulated(old.but(clipped=False), new).but(clipped=True)
    if old.kind in (EMPTY, states.UNKNOWN):
        return new
    of = old.of | new.of
    if old.kind in (MIXED, PARTLY, LOST):
        return old.but(of=of)
    guessed = old.guessed or new.guessed
    if old.kind == new.kind and old.scaler is new.scaler and not old.outdated:
        return new.but(spent=old.spent, guessed=guessed, of=of, earlier=old.earlier)
    if old.kind in (TRUE, UNSCALED) and new.kind == TRUE:
        return new.but(guessed=guessed)
    is_of_two_scales = old.kind == new.kind and old.scaler is new.scaler
    return Grad(MIXED, new.scaler or old.scaler, False, is_of_two_scales, guessed, of, old.earlier)


def backward_all(frame: Frame, losses: Value, gradients: Value | None, node: ast.AST) -> None:
    """`torch.autograd.backward(losses, gradients)`: each loss adds its gradients to those of the ones before it."""
    is_one_by_one = gradients in (None, NONE_VALUE) and len(losses) == 1 and all(map(_holds_others, losses))
    items, rest = containers.sequence(frame, losses, node) if is_one_by_one else ([], NEVER)
    for each in [losses] if rest or not items else items:
        backward(frame, each, gradients, node)


def backward(frame: Frame, loss: Value, gradient: Value | None, node: ast.AST) -> None:
    """`loss.backward(gradient)`: for every leaf that the loss depends on a gradient, with the scale of both.

    It may be a list of losses.
    """
    analysis = frame.analysis
    loss = losses_in(frame, loss)
    tensors = list(tensors_in(loss)) or [SOME_TENSOR]
    units = _from_gradient(frame, NOTHING.union(*(each.units for each in tensors)), gradient or NEVER, node)
    ways = settled(tensors[0], frame.code) if len(tensors) == 1 else []
    reached = [(facts, _reached([each])) for facts, each in ways if len(ways) > 1]
    reach, surely = _reached(tensors)
    if not reach:
        reach = surely = frozenset({UNKNOWN_PARAMETERS})
    optimizers = holders(frame, reach, surely)
    event = analysis.event(frame, Act.BACKWARD, node, subject=loss, optimizer=frozenset(optimizers), leaves=reach)
    is_new = not units <= event.units
    event.units = event.units | units
    if is_new and not optimizers:
        analysis.heap.signal(REGISTRY, _OF_NOBODY)
    kinds = [_kind(each) for each in units]
    scalers = frozenset(each.scaler for each in kinds if each.scaler is not None)
    event.scaler = join(event.scaler, scalers)
    _note_low_weights(frame, reach, scalers, node)
    _gauge_loss(frame, tensors, node)
    if any(each.tags & CONTEST and each.tags & HALVED for each in tensors):
        analysis.event(frame, Act.RISK, node, why=WITHOUT_LIMIT, leaves=reach)
    for site in NOTHING.union(*(each.unread for each in tensors)):
        analysis.event(frame, Act.UNREAD_LOSS, node, site=site, why=analysis.pytorch.called[site])
    are_told_apart = functools.cache(lambda atom: _are_told_apart(frame.analysis.pytorch.registry, atom, reach, surely))

    def change_of(
        targets: Mapping[Atom, bool | None], is_any: bool, own: frozenset[Any]
    ) -> Callable[[Machine], Iterator[Machine]]:
        is_apart = sum(not answer for answer in targets.values()) <= _MOST_UNSURE
        keys = [grad_key(each) for each in targets]

        @functools.cache
        def options(kind: Grad, atom: Atom, old: Grad) -> list[Grad]:
            is_guessed = is_any or not targets[atom]
            of = own if is_guessed or isinstance(atom, Opaque) else NOTHING
            new = _accumulated(old, kind.but(guessed=is_guessed, of=of))
            # Of a loss that is computed from these parameters on some ways, there are ways with no gradient.
            kept = old.but(guessed=old.guessed or not are_told_apart(atom))
            return [new] if targets[atom] or new is kept else [new, kept] if is_apart else [LOST_GRAD]

        def change(machine: Machine) -> Iterator[Machine]:
            for kind in kinds:
                grads = [options(kind, atom, machine.grad(atom) or UNKNOWN_GRAD) for atom in targets]
                for chosen in product(*grads):
                    yield machine.but(dict(zip(keys, chosen, strict=True)))

        return change

    worlds: list[World] = []
    frame.task.touched.add(AGAIN)
    for facts, leaves in reached or [(NOTHING, (reach, surely))]:
        targets, is_any = _targets(frame, *leaves)
        is_any |= len(kinds) > 1
        frame.task.touched.update(map(grad_key, targets))
        own = frozenset({leaves[0] if leaves[0] <= leaves[1] else event.site})
        worlds += changed(assuming_all(frame.now.worlds, facts), change_of(targets, is_any, own))
    frame.now.worlds = merged(worlds)
    _clear_graph(frame)


def losses_in(frame: Frame, value: Value) -> Value:
    """The losses in what is one, or holds several."""
    return frozenset(each for each in all_in(frame, value) if not _holds_others(each))


def _holds_others(atom: Atom | Tensor) -> bool:
    is_made = isinstance(atom, Obj) and atom.made_of in (containers.LIST, containers.SET, containers.DICT)
    return is_made or isinstance(atom, Tup)


def _from_gradient(frame: Frame, units: Units, gradient: Value, node: ast.AST) -> Units:
    """The scale in what goes backward: that of a loss, and that of the gradient which a backward pass goes on from."""
    held = frozenset(each for each in all_in(frame, gradient) if isinstance(each, (Tensor, Some, Opaque)))
    if not held:
        return units
    given = units_of(held)
    is_seen = not any(isinstance(each, Opaque) for each in held)
    scalers = frozenset(unit[0] for unit in units if unit is not None and isinstance(unit[0], Atom))
    if scalers and not (is_seen and given == PURE):
        is_sure = is_seen and not given & UNKNOWN_UNITS
        frame.analysis.event(frame, Act.SCALED_AGAIN, node, scaler=scalers, is_sure=is_sure)
    return multiplied(units, given)


def _gauge_loss(frame: Frame, tensors: Iterable[Tensor], node: ast.AST) -> None:
    """Note that a loss goes backward which was made of scaled gradients, beside the scale that it was multiplied by."""
    reads = NOTHING.union(*(tensor.reads for tensor in tensors if any(map(_is_scaled_twice, tensor.units))))
    if reads:
        scaled = [units for site in reads for units in [frame.analysis.pytorch.gradients_read.get(site, PURE)]]
        scalers = frozenset(unit[0] for units in scaled for unit in units if unit and unit != ANY_UNIT)
        is_sure = all(None not in units and ANY_UNIT not in units for units in scaled)
        if scalers:
            why = "a loss is made of it"
            frame.analysis.event(frame, Act.GAUGE, node, sources=reads, why=why, scaler=scalers, is_sure=is_sure)


def _is_scaled_twice(unit: Unit) -> bool:
    return unit is not None and (unit == ANY_UNIT or unit[1] > 1)


def _note_low_weights(frame: Frame, reach: Leaves, scalers: Value, node: ast.AST) -> None:
    """Note that weights in half precision get a gradient: a scaler raises at it, autocast is for float32 weights."""
    pytorch = frame.analysis.pytorch
    given = pytorch.registry.optimizers.values()
    for leaf in reach:
        low = pytorch.with_low_weights(frame, leaf.owner) if isinstance(leaf, Part) else []
        # What nobody looks into may be no module, unless an optimizer has its weights.
        of_optimizers = (overlap(each, frozenset({whole_of(owner)})) for owner in low for each in given)
        if any(isinstance(owner, Obj) for owner in low) or any(of_optimizers):
            why = "a model's weights were cast"
            frame.analysis.event(
                frame, Act.LOW_LEAF, node, subject=frozenset(low), why=why, scaler=scalers, leaves=frozenset({leaf})
            )


def _reached(tensors: Sequence[Tensor]) -> tuple[Leaves, Leaves]:
    """The leaves that one of some tensors may depend on, and those that each of them does."""
    reach = NOTHING.union(*(each.reach | each.leaf for each in tensors))
    surely = tensors[0].sure_leaves
    for each in tensors[1:]:
        surely = sure_of_either(surely, each.surely)
    return reach, surely


def _targets(frame: Frame, reach: Leaves, surely: Leaves) -> tuple[dict[Atom, bool | None], bool]:
    """The optimizers and single tensors that get a gradient for some leaves, None for one that may; see `is_guess`."""
    optimizers = holders(frame, reach, surely)
    registered = frame.analysis.pytorch.registry.optimizers
    owned = [
        leaf
        for leaf in standalone_leaves(reach)
        if not any(answer for each, answer in optimizers.items() if overlap(registered[each], frozenset({leaf})))
    ]
    return {**optimizers, **{leaf: leaf in surely or None for leaf in owned}}, is_guess(frame, optimizers, reach)


def _clear_graph(frame: Frame) -> None:
    frame.may_raise()


def _kind(unit: Unit) -> Grad:
    if unit is None:
        return Grad(TRUE)
    scaler, power = unit
    if scaler == "?":
        return UNKNOWN_GRAD
    return Grad(SCALED, scaler) if power == 1 else Grad(MIXED, scaler)


def units_of_grad(grad: Grad) -> Units:
    """The loss scale in gradients that are in a state."""
    if grad.kind == SCALED:
        return frozenset({(grad.scaler, 1)})
    if grad.kind == MIXED and grad.scaler is not None:
        return frozenset({(grad.scaler, 1), (grad.scaler, 2)})  # to divide it by the scale does not make it true
    if grad.kind in (MIXED, PARTLY):
        return frozenset({ANY_UNIT})
    return UNKNOWN_UNITS if grad.kind in (states.UNKNOWN, LOST) else PURE


def states_of(frame: Frame, leaves: frozenset[Atom]) -> tuple[Units, list[Key]]:
    """The loss scale in the gradients of some leaves, over all ways, and where that is kept."""
    found = holders(frame, leaves)
    registry = frame.analysis.pytorch.registry
    sure = [each for each in found if overlap(registry.optimizers[each], leaves)]
    # They are of no other then, but for one of unknown parameters, as what an unread function makes of an optimizer.
    is_known = all(registry.optimizers[each] is not None for each in found)
    if is_known and are_of(leaves, NOTHING.union(*(registry.optimizers[each] or NOTHING for each in sure))):
        found = dict.fromkeys(sure, True)
    keys = [grad_key(each) for each in found]
    # What nobody knows may be any that has a gradient here.
    may_be_any = UNKNOWN_PARAMETERS in leaves
    with_gradients = {leaf: None for world in frame.now.worlds for leaf in world.now.gradients()}
    apart = [leaf for leaf in standalone_leaves(with_gradients) if may_be_any or leaf in leaves]
    if apart and not is_known:
        # Those that an optimizer of a class which nobody knows was given are in the state of what that has.
        frame.analysis.heap.read(REGISTRY, _UNREAD, frame.task)
        given = NOTHING.union(*(registry.unread.get(each, NOTHING) for each in found))
        apart = [leaf for leaf in apart if leaf not in given]
    keys += map(grad_key, apart)
    are_there = there(frame.now.worlds, sure)
    grads: set[Grad] = set()  # on many ways and of many optimizers, few different ones
    for now in {world.now for world in frame.now.worlds}:
        made = now.made()
        # One that was made on this way, with all its parameters, answers for one that another branch made: the way
        # through that may be still to come.
        answering = [e for e in are_there(now) if e in made or made.isdisjoint(registry.standing_in(e))]
        not_made = {grad_key(each) for each in sure}.difference(map(grad_key, answering))
        grads.update(now.under((key for key in keys if key not in not_made) if not_made else keys, UNKNOWN_GRAD))
    frame.task.touched.update(map(made_key, sure))
    frame.task.touched.update(keys)
    frame.task.touched.add(AGAIN)
    units = NOTHING.union(*map(units_of_grad, grads)) if keys else _units_of_nobody(frame, leaves)
    return units or PURE, keys


def _units_of_nobody(frame: Frame, leaves: Leaves) -> Units:
    """The loss scale in gradients that no optimizer has, which nothing unscales: that of the losses, whenever."""
    frame.analysis.heap.read(REGISTRY, _OF_NOBODY, frame.task)
    backwards = (each for each in frame.analysis.events.values() if each.act is Act.BACKWARD and not each.optimizer)
    return NOTHING.union(*(each.units for each in backwards if overlap(each.leaves, leaves)))


def are_of(leaves: Leaves, parameters: frozenset[Atom]) -> bool:
    """Whether each of some leaves is known to be one of some parameters as a whole, or a part of it."""
    return bool(leaves) and (leaves <= parameters or all(_is_of(leaf, parameters) for leaf in leaves))


def _is_of(leaf: Atom, parameters: frozenset[Atom]) -> bool:
    if leaf in parameters or not isinstance(leaf, Part):
        return leaf in parameters
    share = _share(leaf.owner)
    is_of_it = share is not None and are_of(share.of - {UNKNOWN_PARAMETERS}, parameters)
    return is_of_it or any(isinstance(each, Part) and is_part_of(leaf, each) for each in parameters)


def is_part_of(leaf: Part, whole: Part) -> bool:
    """Whether a leaf is known to be one of those of a module, or of a part of it."""
    if isinstance(leaf.owner, Opaque) and isinstance(whole.owner, Opaque):
        return bool(whole.owner.path) and leaf.owner.path[: len(whole.owner.path)] == whole.owner.path
    return leaf.owner is whole.owner and whole.name in ("*", leaf.name)


def read(frame: Frame, tensor: Tensor, node: ast.AST) -> Value:
    """`p.grad`: a gradient, with the scale that is in it here.

    What is no leaf as far as anybody sees has been made one out of sight, or nobody would ask for its gradient.
    """
    leaves = tensor.leaf or frozenset({UNKNOWN_PARAMETERS})
    units, keys = states_of(frame, leaves)
    frame.analysis.event(frame, Act.READ, node, leaves=leaves, optimizer=frozenset(key[1] for key in keys))
    frame.analysis.pytorch.gradients_read[frame.site(node)] = units
    gradient = Tensor(
        tensor.precision,
        tensor.rank,
        tensor.place,
        A_GRADIENT,
        1,
        NOTHING,
        NOTHING,
        NOTHING,
        NOTHING,
        units,
        frozenset({frame.site(node)}),
        NOTHING,
    )
    return join(NONE_VALUE, one(gradient))


def measured(frame: Frame, parameters: Value, limit: Value, node: ast.AST, why: str) -> Units:
    """Gradients are clipped or measured by a function of PyTorch's; the event's scaler is that of a scaled limit.

    What it gives is their norm, with the scale that is in them.
    """
    leaves = leaves_of(frame, parameters)
    units, keys = states_of(frame, leaves)
    optimizers = frozenset(key[1] for key in keys)
    scalers = frozenset(each[0] for each in units_of(limit) if each is not None and isinstance(each[0], Atom))
    frame.analysis.event(frame, Act.CLIP, node, leaves=leaves, optimizer=optimizers, scaler=scalers, why=why)

    def change(machine: Machine) -> Iterable[Machine]:
        grads = {key: old for key in keys if (old := machine.get(key, UNKNOWN_GRAD)).kind != EMPTY}
        is_of_several = any(old.kind == MIXED for old in grads.values())
        yield machine.but({key: old.but(clipped=True) for key, old in grads.items()} if is_of_several else {})

    _change(frame, keys, change)
    return units


def leaves_of(frame: Frame, value: Value) -> frozenset[Atom]:
    """The leaves in something that holds parameters: a sequence, groups in dictionaries, one tensor."""
    found: set[Atom] = set()
    for atom in all_in(frame, value, "['params']"):
        if isinstance(atom, Tensor):
            found |= atom.leaf
        elif isinstance(atom, Opaque):
            path = atom.path[:-1] if atom.path[-1:] in (("[]",), ("()",)) else atom.path
            found |= frozenset(shares_of(frame, atom)) or {whole_of(Opaque(path))}
    return frozenset(found)


def shares_of(frame: Frame, unknown: Opaque) -> Iterator[Atom]:
    """The parameters in something unknown that a call gave which is about modules or leaves."""
    leaves_of_share = _leaves_of_shares(frame)
    for share in unknown.shares:
        leaves = leaves_of_share(share)
        if leaves - {UNKNOWN_PARAMETERS}:
            yield part_of(Share(share.call, leaves))


def part_of(share: Share) -> Part:
    """Some parameters, as one leaf."""
    return whole_of(Opaque((share,)))


@remembered(10_000)
def parts_of(shares: frozenset[Share]) -> frozenset[Atom]:
    """Several of these, each as one leaf."""
    return frozenset(map(part_of, shares))


def _leaves_of_shares(frame: Frame) -> Callable[[Share], frozenset[Atom]]:
    """What shares are of, down to leaves; it is asked for where parameters matter, as it depends on all of a module.

    What has many parts is of the same shares on many ways: each is looked at once.
    """
    leaves_of_module = functools.cache(functools.partial(frame.analysis.pytorch.leaves_of, frame))

    @functools.cache
    def leaves_of_share(share: Share) -> frozenset[Atom]:
        found: set[Atom] = set()
        for each in share.of:
            inner = _share(each.owner) if isinstance(each, Part) else None
            if inner is not None:
                leaves = leaves_of_share(inner)
                found.add(part_of(Share(inner.call, leaves)) if leaves - {UNKNOWN_PARAMETERS} else UNKNOWN_PARAMETERS)
            else:
                found |= {each} if isinstance(each, Part) else leaves_of_module(each)
        return frozenset(found)

    return leaves_of_share


def all_in(frame: Frame, value: Value, key: str = "") -> Value:
    """What a value may be, and all that it may hold; of a dictionary only what is under a key, where it has that."""
    found: dict[Atom | Tensor, None] = {}
    stack: list[tuple[Value, int]] = [(value, 0)]
    while stack:
        current, depth = stack.pop()
        for atom in current:
            if atom in found:
                continue
            found[atom] = None
            if isinstance(atom, Tup) and depth < 5:
                stack += [(item, depth + 1) for item in (*atom.items, atom.rest or NEVER)]
            elif isinstance(atom, Obj) and atom.made_of in (containers.LIST, containers.SET):
                stack.append((containers.contents(frame, atom), depth + 1))
            elif containers.is_dict(atom):
                inside = frame.read(atom, key) if key else NEVER
                stack.append((inside or containers.contents(frame, atom), depth + 1))
    return frozenset(found)


def note_size(frame: Frame, value: Value) -> None:
    """Note that nobody sees whether the size of what was read of gradients matters, if a scale may be in it."""
    _note_size_of(frame, all_in(frame, value))


def _note_size_of(frame: Frame, held: Value) -> None:
    if units_of(held) != PURE:
        frame.analysis.pytorch.sized |= reads_of(held)


def gauge(frame: Frame, value: Value, node: ast.AST, why: str) -> None:
    """Something is made of a value, or of what it holds, that shows its size: an event where a scale may be in it."""
    held = all_in(frame, value)
    reads = reads_of(held)
    if not reads:
        return
    _note_size_of(frame, held)
    units = units_of(held)
    if ANY_UNIT in units:  # of what a scale went into in some way
        units = units.union(*(frame.analysis.pytorch.gradients_read.get(site, PURE) for site in reads))
    scalers = frozenset(each[0] for each in units if each is not None and isinstance(each[0], Atom))
    if scalers:
        known = [each.units for each in held if isinstance(each, (Tensor, Some)) and each.reads]
        is_sure = bool(known) and not any(unit in (None, ANY_UNIT) for units in known for unit in units)
        is_sure |= why in (_ADDED, _KEPT) and are_of_hooks(frame.analysis.events, reads)
        frame.analysis.event(frame, Act.GAUGE, node, sources=reads, why=why, scaler=scalers, is_sure=is_sure)


def are_of_hooks(events: Mapping[Any, Event], reads: frozenset[Site]) -> bool:
    """Whether some of what was read of gradients is what a hook was given: nothing divides that by the scale."""
    return bool(reads) and any(each.act is Act.HOOK and each.site in reads for each in events.values())


def histogram(frame: Frame, value: Value, limits: Value | None, node: ast.AST) -> None:
    """A histogram is made of a value, which raises at infinities where it is not told its limits."""
    if limits in (None, NONE_VALUE) and (reads := reads_of(all_in(frame, value))):
        frame.analysis.event(frame, Act.HISTOGRAM, node, sources=reads)


def stored(frame: Frame, tensor: Tensor, name: str, value: Value, node: ast.AST) -> None:
    """`p.grad = x`, `p.grad.data = x`, `p.grad.copy_(x)`: what is put into a gradient has to be of its scale."""
    if name == "data":
        frame.analysis.pytorch.limited |= tensor.leaf
        overwritten(frame, tensor)
    note_size(frame, value)
    if name == "grad" and tensor.leaf:
        _replaced(frame, tensor.leaf, [value], node)
    elif name != "grad":
        replaced(frame, tensor, [value], node)
    if not reads_of(value) or not (tensor.leaf if name == "grad" else tensor.reads):
        return
    kinds = {EMPTY}
    if name == "grad":
        _, keys = states_of(frame, tensor.leaf)
        kinds = {world.now.get(key, UNKNOWN_GRAD).kind for world in frame.now.worlds for key in keys}
    elif tensor.units == PURE:
        kinds = {TRUE}
    units = [each for each in units_of(value) if each is not None]
    if not are_of_hooks(frame.analysis.events, reads_of(value)):
        units = [each for each in units if each != ANY_UNIT]
    if any(power != 1 for _, power in units) or (units and kinds & {TRUE, UNSCALED}):
        gauge(frame, value, node, _KEPT)


def changed_in_place(frame: Frame, tensor: Tensor, name: str, args: Arguments, node: ast.AST) -> None:
    """A tensor is changed: a gradient by a number, or a parameter by a gradient."""
    replaced(frame, tensor, args.positional, node, name)
    overwritten(frame, tensor)
    if name in _LIMITING_WEIGHTS:
        frame.analysis.pytorch.limited |= tensor.leaf
    if tensor.reads and (name == "zero" or (name == "fill" and constant(args.get(0, "value") or NEVER) == 0)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            cleared(frame, _leaves_read(frame, tensor), node.func.value, node)
        return
    for value in args.positional:
        note_size(frame, value)
        if reads_of(value) and not tensor.reads:
            gauge(frame, value, node, _ADDED)
    for value in args.positional:
        updated(frame, tensor, value, node)
    if name == "copy" and args.positional and reads_of(args.positional[0]):
        stored(frame, tensor, name, args.positional[0], node)
    elif tensor.reads and name in ("clamp", "clip", "copy", "add"):
        gauge(frame, one(tensor), node, "changed by a number")


def replaced(frame: Frame, gradient: Tensor, by: Iterable[Value], node: ast.AST, name: str = "") -> None:
    """Elements of what may be a gradient itself get another value, by an operator that is named or by an index."""
    if gradient.tags & A_GRADIENT:
        leaves = _leaves_read(frame, gradient)
        _replaced(frame, leaves, [one(gradient.but(tags=OF_OVERFLOW))] if name == "nan_to_num" else by, node)


def _leaves_read(frame: Frame, gradient: Tensor) -> frozenset[Atom]:
    """The leaves whose gradients one may be."""
    read = (each for each in frame.analysis.events.values() if each.act is Act.READ)
    return NOTHING.union(*(each.leaves for each in read if each.site in gradient.reads))


def cleared(frame: Frame, leaves: frozenset[Atom], gradient: ast.AST, node: ast.AST, *, is_gone: bool = False) -> None:
    """The gradients of some leaves are set to nothing one by one: `p.grad = None`, `p.grad.data.zero_()`.

    Args:
        is_gone: whether there are none then, and not zeros.
    """
    while isinstance(gradient, ast.Attribute) and gradient.attr == "data":
        gradient = gradient.value
    if isinstance(gradient, ast.Attribute) and gradient.attr == "grad":
        is_sure = not _is_for_some(frame.code, gradient, node)
        clear_leaves(frame, leaves, node, only_spent=not is_gone, is_sure=is_sure)
        frame.analysis.pytorch.cleared[node] = (ast.unparse(gradient), leaves, is_gone)


def cleared_together(frame: Frame, gradients: Value, node: ast.AST) -> None:
    """All gradients of a list may be set to zero at once: `torch._foreach_zero_(grads)`."""
    for each in tensors_in(all_in(frame, gradients)):
        clear_leaves(frame, _leaves_read(frame, each), node, only_spent=True, is_sure=False)


def _is_for_some(code: Code, gradient: ast.Attribute, node: ast.AST) -> bool:
    """Whether a loop over parameters does something with the gradient of those alone that pass a test."""
    name = gradient.value.id if isinstance(gradient.value, ast.Name) else ""
    asked = {f"{name}.grad", f"{name}.requires_grad"}  # of what fails these there is nothing to clear
    for loop in nodes_in(code.node) if name else ():
        if isinstance(loop, ast.For) and any(each is node for each in nodes_in(loop)):
            targets = {each.id for each in nodes_in(loop.target) if isinstance(each, ast.Name)}
            for test in nodes_in(loop) if name in targets else ():
                inside = list(nodes_in(test)) if isinstance(test, ast.If) else []
                decides = any(each is node or isinstance(each, (ast.Continue, ast.Break)) for each in inside)
                if decides and not {text for text, _, _ in implied(test.test, True)} & asked:  # type: ignore[attr-defined]
                    return True
    return False


def clear_where_none(frame: Frame, test: ast.expr, body: Iterable[ast.stmt]) -> None:
    """What a branch clears where there is a gradient is clear where there is none: `if p.grad is not None:`."""
    known = frame.analysis.pytorch.cleared
    missing = {text for text, outcome, _ in implied(test, False) if not outcome} if known else ()
    for node in (inner for each in body for inner in nodes_in(each) if inner in known) if missing else ():
        text, leaves, is_gone = known[node]
        if text in missing:
            clear_leaves(frame, leaves, node, only_spent=not is_gone)


def _replaced(frame: Frame, leaves: frozenset[Atom], by: Iterable[Value], node: ast.AST) -> None:
    """The gradients of some leaves get another value, which may go by whether they were finite."""
    held = (each for value in by for each in tensors_in(all_in(frame, value)))
    why = WHERE_NOT_FINITE if any(each.tags & OF_OVERFLOW for each in held) else ""
    _, keys = states_of(frame, leaves)
    optimizers = frozenset(key[1] for key in keys)
    frame.analysis.event(frame, Act.REPLACED, node, leaves=leaves, optimizer=optimizers, why=why)


def overwritten(frame: Frame, tensor: Tensor) -> None:
    """What stands in a tensor is something else from now on: of a buffer that matters, behind its making."""
    if tensor.tags & BUFFER and frame.code.name != "__init__":
        frame.analysis.pytorch.stored |= tensor.born


def updated(frame: Frame, old: Tensor, value: Value, node: ast.AST) -> None:
    """A tensor becomes another, or gets something more: a buffer keeps what overflows in a product for good."""
    for each in tensors_in(value) if old.tags & BUFFER else ():
        if each.tags & ROUGH:
            frame.analysis.event(frame, Act.RISK, node, tensor=each, why=A_RUNNING_BUFFER)


def register(
    frame: Frame,
    owner: Atom | Tensor,
    name: str,
    args: Arguments,
    node: ast.AST,
    leaves: Leaves | None = None,
) -> Value:
    """A hook gets gradients whenever there are some: while they are scaled. One of a module gets them in tuples.

    One that runs once they are accumulated gets the parameter, and finds them there.
    """
    analysis = frame.analysis
    tensor = owner if isinstance(owner, Tensor) else SOME_TENSOR
    every = analysis.pytorch.registry.scalers
    analysis.heap.read(REGISTRY, _ANYWHERE, frame.task)  # a scaler may be made later, and elsewhere
    scalers = [each for each in relevant(frame, every) or every if not is_off(frame, each)]
    units: Units = frozenset((each, 1) for each in scalers) or PURE
    analysis.pytorch.gradients_read[frame.site(node)] = units
    gradient = SOME_TENSOR.but(units=units, reads=frozenset({frame.site(node)}), precision=tensor.precision)
    analysis.event(frame, Act.HOOK, node, leaves=tensor.leaf if leaves is None else leaves)
    given = [one(gradient)]
    if "backward" in name:  # of a module
        given = [one(owner), *[tup(given)] * (1 if "pre" in name else 2)]
    before = frame.now.worlds
    if name == "register_post_accumulate_grad_hook":
        given = [one(owner)]
        _accumulate(frame, tensor.leaf or frozenset({UNKNOWN_PARAMETERS}), scalers)
    # What nobody knows would be called as what this is a call of, and be registered again.
    hooks = (args.get(0, "hook") or NEVER) - UNKNOWN
    given_back = analysis.call(frame, hooks, Arguments(given), node) if hooks else UNKNOWN
    frame.is_dead = False
    frame.now.worlds = before  # it runs later
    if name != "register_post_accumulate_grad_hook":
        _put_in_place(frame, given_back, frozenset(scalers), node)
    return UNKNOWN


def _put_in_place(frame: Frame, value: Value, scalers: frozenset[Atom], node: ast.AST) -> None:
    """What a hook gives takes the place of the gradient that it got, and is divided by the scale that this had."""
    own = frozenset((scaler, 1) for scaler in scalers)
    held = (each for each in all_in(frame, value) if isinstance(each, (Tensor, Some)) and each.reads)
    others = frozenset(each for each in held if each.units.isdisjoint(own) or not each.units <= own | PURE)
    if scalers and others:
        is_sure, sources = units_of(others).isdisjoint({*own, ANY_UNIT}), reads_of(others)
        frame.analysis.event(frame, Act.GAUGE, node, sources=sources, why=_KEPT, scaler=scalers, is_sure=is_sure)


def _accumulate(frame: Frame, leaves: frozenset[Atom], scalers: Sequence[Atom]) -> None:
    """Go on as in the middle of a backward pass, where some leaves have got gradients of a loss that is scaled."""
    targets = [*holders(frame, leaves), *standalone_leaves(leaves)]
    kinds = [Grad(SCALED, each) for each in scalers] or [Grad(TRUE)]
    _change(
        frame,
        map(grad_key, targets),
        lambda machine: (machine.but(dict.fromkeys(map(grad_key, targets), kind)) for kind in kinds),
    )


# Optimizers


def make_optimizer(frame: Frame, optimizer: Obj, args: Arguments, node: ast.AST) -> None:
    """An optimizer is made of parameters."""
    given = args.get(0, "params")
    leaves = None if given is None else leaves_of(frame, given)
    owner, is_filtered = parameters_of(node.args[0]) if isinstance(node, ast.Call) and node.args else (None, False)
    is_whole = owner is not None and not (is_filtered and _are_switched(frame, leaves or NOTHING))
    if owner is not None:
        owners = frame.analysis.values.get(owner, NEVER)
        parts = (frame.analysis.pytorch.leaves_of(frame, each) for each in owners if isinstance(each, (Obj, Opaque)))
        frame.analysis.pytorch.registry.parts.setdefault(optimizer, set()).update(parts)
    _note_whole(frame, optimizer, is_whole)
    _note_list(frame, [optimizer], node)
    # PyTorch makes no optimizer of an empty list: where no parameter is seen, nobody knows which they are.
    if not leaves or any(
        isinstance(each, Part) and isinstance(each.owner, Opaque) and not each.owner.path for each in leaves
    ):
        leaves = None
    if given is not None:
        frame.write(optimizer, PARAMETERS, given)
    note_optimizer(frame, optimizer, leaves)
    for leaf in leaves or NOTHING:
        made_of = frame.read(leaf.owner, MADE_OF) if isinstance(leaf, Part) and isinstance(leaf.owner, Obj) else NEVER
        for tensor in tensors_in(made_of):
            if tensor.may_be_low and tensor.regions:
                frame.analysis.event(frame, Act.LOW_LEAF, node, tensor=tensor, leaves=frozenset({leaf}))
    frame.analysis.event(frame, Act.OPTIMIZER_MADE, node, optimizer=one(optimizer), leaves=leaves or NOTHING)
    if optimizer not in frame.analysis.plural:
        gone = [("stepped", scaler, optimizer) for scaler in frame.analysis.pytorch.registry.scalers]
        made: dict[Key, object] = {("fresh", optimizer): True, made_key(optimizer): True}
        changes = {grad_key(optimizer): NO_GRAD, **made, **dict.fromkeys(gone)}
        _change(frame, changes, lambda machine: (machine.but(changes),))


def _note_list(frame: Frame, optimizers: Iterable[Atom], node: ast.AST) -> None:
    """Note which list some optimizer is made of: another one that is made of it has the same parameters.

    Unless it was handed to a function of the program in between, which may put others into it.
    """
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    handed = _handed_alone(frame.code).get(given.id) if isinstance(given, ast.Name) else None
    registry, callees = frame.analysis.pytorch.registry, frame.analysis.callees
    is_kept = handed is not None and all(
        code.name == "__init__" for each in handed if each is not node for code in callees.get(each, ())
    )
    run = None if frame.depth else _run_of(frame.code, node) if frame.task.is_many else 0
    known: _List | None = None
    if isinstance(given, ast.Name) and is_kept and run is not None:
        known = (frame.code, given.id, run, frame.context_of_objects)
    for each in optimizers:
        if registry.lists.get(each) != known:
            registry.lists[each] = known
            registry.forget_sharing()


def _run_of(code: Code, node: ast.AST) -> int | None:
    """Which run of a function's statements gives a value to a variable: those of one are done together in each call."""
    ends = 0
    for each in code.body:
        if isinstance(each, ast.Assign) and each.value is node:
            return ends
        ends += any(isinstance(part, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) for part in nodes_in(each))
    return None


@remembered(50_000)
def _handed_alone(code: Code) -> Mapping[str, list[ast.Call]]:
    """The variables of a function that are bound once, and of which nothing is made but arguments of these calls."""
    nodes = [*nodes_in(code.node)]
    handed = {each: call for call in nodes if isinstance(call, ast.Call) for each in call.args}
    found: dict[str, list[ast.Call]] = {name: [] for name in code.bound - code.bound_anew}
    for each in (each for each in nodes if isinstance(each, ast.Name) and each.id in found):
        if each in handed:
            found[each.id].append(handed[each])
        elif not isinstance(each.ctx, ast.Store):
            del found[each.id]
    return found


def groups_of(frame: Frame, optimizer: Obj) -> Value:
    """The `param_groups` of an optimizer, which are its own, whoever asks for them."""
    group = Obj(optimizer.site, optimizer.context, containers.DICT)
    frame.write(group, "['params']", frame.read(optimizer, PARAMETERS), strong=False)
    frame.write(group, "['lr']", some("float"), strong=False)
    return one(Tup((), one(group)))


def parameters_of(node: ast.expr) -> tuple[ast.expr | None, bool]:
    """What an expression gives all parameters of, if it does, and whether only of those that get gradients."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters":
        return node.func.value, False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        test, *given = node.args
        if node.func.id == "list":
            return parameters_of(test)
        if node.func.id == "filter" and isinstance(test, ast.Lambda) and given and asks_for_gradients(test.body):
            return parameters_of(given[0])[0], True
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1:
        (each,) = node.generators
        if ast.unparse(each.target) == ast.unparse(node.elt) and all(map(asks_for_gradients, each.ifs)):
            owner, is_filtered = parameters_of(each.iter)
            return owner, is_filtered or bool(each.ifs)
    return None, False


def asks_for_gradients(test: ast.expr) -> bool:
    """Whether a test holds of the parameters that get gradients, and of no others."""
    if isinstance(test, ast.Compare) and all(isinstance(each, (ast.Eq, ast.Is)) for each in test.ops):
        (compared, *others) = test.comparators
        test = test.left if ast.unparse(compared) == "True" and not others else test
    return isinstance(test, ast.Attribute) and test.attr == "requires_grad"


def _note_whole(frame: Frame, optimizer: Atom, is_whole: bool) -> None:
    """Note whether an optimizer has all parameters of a module that ever get gradients."""
    registry = frame.analysis.pytorch.registry
    if is_whole:
        registry.whole[optimizer] = None
        registry.forget_sharing()
    elif optimizer in registry.whole:
        del registry.whole[optimizer]
        registry.forget_sharing()
        _note_home(frame, optimizer, is_new=True)


def note_switched(frame: Frame, leaves: Leaves) -> None:
    """Somebody tells whether parameters get gradients: which do may change from one time to another."""
    registry = frame.analysis.pytorch.registry
    if not leaves <= registry.switched:
        registry.switched |= leaves
        frame.analysis.heap.signal(REGISTRY, _SWITCHED)


def _are_switched(frame: Frame, leaves: Leaves) -> bool:
    """Whether some parameters may get gradients at one time, and none at another; of an unread module nobody knows."""
    frame.analysis.heap.read(REGISTRY, _SWITCHED, frame.task)
    is_seen = any(isinstance(each, Part) and isinstance(each.owner, Obj) for each in leaves)
    switched = frozenset(frame.analysis.pytorch.registry.switched)
    return not is_seen or overlap(switched, leaves) is not False


def wrap_optimizer(frame: Frame, wrapper: Obj, groups: Value, node: ast.AST) -> None:
    """An object gets an optimizer's `param_groups` for its own: it is an optimizer of the same parameters."""
    leaves = leaves_of(frame, groups)
    registry = frame.analysis.pytorch.registry
    registry.wrapping[wrapper] = None
    registry.forget_sharing()
    note_optimizer(frame, wrapper, leaves or None)
    changes: dict[Key, object] = {grad_key(wrapper): NO_GRAD, made_key(wrapper): True}
    _change(frame, changes, lambda machine: (machine.but(changes),))


def made_of_leaves(frame: Frame, found: Value, given: Value, node: ast.AST) -> None:
    """What may be an optimizer of a class that nobody knows is made: of several, it is the one that is there."""
    if any(isinstance(each, Tensor) and each.leaf for each in all_in(frame, given, "['params']")):
        known = [each for each in found if isinstance(each, Atom) and each not in frame.analysis.plural]
        _note_list(frame, known, node)
        made, unread = dict.fromkeys(known, leaves_of(frame, given)), frame.analysis.pytorch.registry.unread
        if not made.items() <= unread.items():
            unread.update(made)
            frame.analysis.heap.signal(REGISTRY, _UNREAD)
        gone = [("stepped", each, other) for each in frame.analysis.pytorch.registry.scalers for other in known]
        keys: dict[Key, object] = {**{made_key(each): True for each in known}, **dict.fromkeys(gone)}
        _change(frame, keys, lambda machine: (machine.but(keys),))


def optimizer_method(frame: Frame, optimizer: Atom, name: str, args: Arguments, node: ast.AST) -> Value:
    """A call of a method of an optimizer."""
    if name == "step":
        note_optimizer(frame, optimizer)
        closure, loss = args.get(0, "closure"), NEVER
        if closure is not None and closure != NONE_VALUE:
            frame.analysis.event(frame, Act.CLOSURE, node, optimizer=one(optimizer))
            loss = frame.analysis.call(frame, closure, Arguments(), node)
            frame.is_dead = False
        step_optimizer(frame, optimizer, node)
        return loss or NONE_VALUE
    if name == "zero_grad":
        note_optimizer(frame, optimizer)
        clear(frame, {optimizer: True}, node)
        return NONE_VALUE
    if name == "add_param_group":
        given = args.get(0, "param_group")
        if given is not None:
            note_optimizer(frame, optimizer, leaves_of(frame, given))
        return NONE_VALUE
    if name in ("state_dict", "load_state_dict"):
        act = Act.SAVED if name == "state_dict" else Act.LOADED
        frame.analysis.event(frame, act, node, optimizer=one(optimizer))
        return state_at(frame, node)
    return UNKNOWN


def state_at(frame: Frame, node: ast.AST) -> Value:
    """What `state_dict()` gives: nobody knows what is in it, but where it goes."""
    return one(Opaque((frame.site(node), STATE)))


def step_optimizer(frame: Frame, optimizer: Atom, node: ast.AST) -> None:
    """`optimizer.step()` itself."""
    key = grad_key(optimizer)
    frame.task.touched.add(key)
    frame.analysis.event(frame, Act.STEP, node, optimizer=one(optimizer))
    _change(frame, [key], lambda m: (m.but({key: m.get(key, UNKNOWN_GRAD).but(spent=True)}),))


def clear(frame: Frame, optimizers: dict[Atom, bool | None], node: ast.AST, *, only_spent: bool = False) -> None:
    """Gradients are set to nothing; of an optimizer that may not be meant, or only in part, they may stay.

    Args:
        only_spent: whether they are set to zero, which is a gradient too, of any scale, where a step is still to come.
    """
    frame.analysis.event(frame, Act.ZERO, node, optimizer=frozenset(optimizers))
    registry = frame.analysis.pytorch.registry
    for each in [each for each, answer in optimizers.items() if answer]:
        shared = {other: registry.has_all_of(each, other) or None for other in registry.sharing(each)}
        optimizers = {**shared, **optimizers}
    keys = [grad_key(each) for each in optimizers]

    def change(machine: Machine) -> Iterable[Machine]:
        grads = {each: machine.grad(each) for each in optimizers}
        # No optimizer steps on those of a tensor by itself.
        stepped = {each: old for each, old in grads.items() if each in registry.optimizers}
        kept = {each for each, old in stepped.items() if only_spent and old is not None and not old.spent}
        cleared = ((each, NO_GRAD if answer else NO_GRAD.but(guessed=True)) for each, answer in optimizers.items())
        yield machine.but({grad_key(each): grads[each] if each in kept else grad for each, grad in cleared})
        if None in optimizers.values():
            unsure = ((grad_key(each), machine.grad(each)) for each, answer in optimizers.items() if not answer)
            stay = {key: grad.but(guessed=True) for key, grad in unsure if grad is not None}
            gone = {each for each, answer in optimizers.items() if answer and each not in kept}
            yield machine.but({grad_key(each): NO_GRAD for each in gone} | stay)

    _change(frame, keys, change)


def clear_unknown(frame: Frame, optimizer: Opaque, node: ast.AST) -> None:
    """Gradients are set to nothing by an optimizer that nobody sees: it may be another such one, or hold it."""
    note_optimizer(frame, optimizer)
    known = relevant(frame, frame.analysis.pytorch.registry.optimizers)
    others = (each for each in known if isinstance(each, Opaque))
    clear(frame, {**dict.fromkeys(others), optimizer: True}, node)


def clear_leaves(
    frame: Frame, leaves: frozenset[Atom], node: ast.AST, *, only_spent: bool = False, is_sure: bool = True
) -> None:
    """The gradients of some leaves are set to nothing: by a module's `zero_grad`, or one by one."""
    targets = holders(frame, leaves)
    covered = (
        each for each in targets if is_sure and _covers(frame.analysis.pytorch.registry.optimizers[each], leaves)
    )
    sure = dict.fromkeys(targets) | {each: targets[each] for each in covered}
    own: dict[Atom, bool | None] = dict.fromkeys(standalone_leaves(leaves), True)
    if sure or own:
        clear(frame, {**sure, **own}, node, only_spent=only_spent)


def _covers(parameters: frozenset[Atom] | None, leaves: frozenset[Atom]) -> bool:
    """Whether some leaves are all the parameters of an optimizer, as far as it can be seen."""
    return parameters is None or all(overlap(leaves, frozenset({each})) is not False for each in parameters)


# Scalers


def make_scaler(frame: Frame, scaler: Obj, name: str, args: Arguments, node: ast.AST) -> None:
    """A scaler is made by a class of a full name, or by one that is derived from it."""
    note_scaler(frame, scaler)
    frame.analysis.event(frame, Act.SCALER_MADE, node, scaler=one(scaler))
    enabled = args.of(name, "enabled")
    frame.write(scaler, ENABLED, const(True) if enabled is None else enabled)
    keys: list[Key] = [("fresh", scaler), ("checked", scaler), ("idle", scaler)]
    optimizers = frame.analysis.pytorch.registry.optimizers
    stages = dict.fromkeys(("stage", scaler, each) for each in optimizers)
    stepped: list[Key] = [("stepped", scaler, each) for each in optimizers]
    changes: dict[Key, object] = {("fresh", scaler): True, ("checked", scaler): False, ("idle", scaler): True, **stages}

    def change(machine: Machine) -> Iterable[Machine]:
        yield machine.but(changes | {each: EARLIER for each in stepped if machine.get(each)})

    _change(frame, [*keys, *stages, *stepped], change)


def is_off(frame: Frame, scaler: Atom) -> bool:
    """Whether a scaler is switched off in the text."""
    return isinstance(scaler, Obj) and constant(frame.read(scaler, ENABLED)) is False


def scaler_method(frame: Frame, scaler: Atom, name: str, args: Arguments, node: ast.AST) -> Value:
    """A call of a method of a scaler."""
    analysis = frame.analysis
    note_scaler(frame, scaler)
    first = args.get(0, {"scale": "outputs"}.get(name, "optimizer"))
    if name == "scale":
        if first is None or is_off(frame, scaler):
            return first or NEVER
        _ask_for_tensors(frame, first, node)
        # Only now does it have a scale: before, `step`, `unscale_` and `update` raise.
        _change(frame, [("idle", scaler)], lambda machine: (machine.but({("idle", scaler): None}),))
        return scaled(frame, first, scaler)
    if name == "get_scale":
        return some("float", PURE if is_off(frame, scaler) else frozenset({(scaler, 1)}))
    if name == "is_enabled":
        return frozenset({Some("bool")})
    optimizers = UNKNOWN if first is None else _optimizers_in(first)
    if name in ("step", "unscale_") and not is_off(frame, scaler):
        _ask_for_parameters(frame, first or NEVER, node)
    if name == "step":
        if len(args.positional) > 1 or "closure" in args.keywords:
            closure = args.get(1, "closure") or NEVER
            analysis.event(frame, Act.CLOSURE, node, scaler=one(scaler), optimizer=optimizers)
            if closure:
                analysis.call(frame, closure, Arguments(), node)
                frame.is_dead = False
        if is_off(frame, scaler):
            for each in optimizers:
                if isinstance(each, Atom):
                    step_optimizer(frame, each, node)
            return NONE_VALUE
        _scaler_step(frame, scaler, optimizers, node)
        return UNKNOWN
    if is_off(frame, scaler):
        return NONE_VALUE
    if name == "unscale_":
        _unscale(frame, scaler, optimizers, node)
    elif name == "update":
        if (args.get(0, "new_scale") or NONE_VALUE) != NONE_VALUE:  # a scale that is said needs no gradients to go by
            _look_at(frame, scaler)
        _update(frame, scaler, node)
    elif name in ("state_dict", "load_state_dict"):
        analysis.event(frame, Act.SAVED if name == "state_dict" else Act.LOADED, node, scaler=one(scaler))
        return state_at(frame, node)
    return NONE_VALUE


def _ask_for_tensors(frame: Frame, given: Value, node: ast.AST) -> None:
    """A scaler multiplies tensors, and what holds some one by one: it raises at an object of a class of the project."""
    others = {each: kind for each, kind in _of_project(given).items() if not _may_be_tensors(frame, kind)}
    _note_unfit(frame, Act.NO_TENSOR, given, others, "is none", node)


def _of_project(given: Value) -> dict[Obj, Class]:
    """The objects of classes of the project in a value, each with its class."""
    return {each: each.made_of for each in given if isinstance(each, Obj) and isinstance(each.made_of, Class)}


def _note_unfit(frame: Frame, act: Act, given: Value, unfit: Mapping[Obj, Class], what: str, node: ast.AST) -> None:
    """Note what a scaler gets that it cannot take, if it gets any such."""
    if unfit:
        why = f"{' or '.join(sorted({kind.code.name for kind in unfit.values()}))} {what}"
        is_sure = len(unfit) == len(given)
        frame.analysis.event(frame, act, node, subject=frozenset(unfit), why=why, is_sure=is_sure)


def _may_be_tensors(frame: Frame, kind: Class) -> bool:
    """Whether the objects of a class may be tensors, or give some one by one, as far as its bases are known."""
    if not _BASES_OF_NONE.issuperset(classes.external_bases(frame, kind)):
        return True
    order = classes.lineage(frame, kind)
    return any(frame.analysis.class_cell(frame, each, "__iter__") for each in order if isinstance(each, Class))


def _ask_for_parameters(frame: Frame, given: Value, node: ast.AST) -> None:
    """A scaler finds the gradients that it divides by `param_groups`: what wraps an optimizer may not have them."""
    own = _of_project(given).items()
    lacking = {each: kind for each, kind in own if not attributes.load_of_object(frame, each, "param_groups", node)}
    _note_unfit(frame, Act.NO_OPTIMIZER, given, lacking, "has none", node)
    for foreign in (each for each in given if isinstance(each, Obj) and each.external):
        name = unread.name_of(frame, one(foreign))
        if name and not unread.is_known(name) and not is_optimizer_class(name):
            _doubt(frame, foreign, name, node)


def _doubt(frame: Frame, owner: Obj, name: str, node: ast.AST) -> None:
    """Note an object of an unread class that is no optimizer by what it is made of.

    An optimizer of PyTorch's gets parameters when it is made; what gets an optimizer may show its parameters, or not.
    """
    given = [frame.read(owner, each) for each in frame.analysis.heap.names(owner, frame.task) if each.startswith("<")]
    held = [atom for value in given for atom in all_in(frame, value)]
    wraps = any(each in frame.analysis.pytorch.registry.optimizers for each in held)
    if wraps or not any(_may_hold_leaves(each) for each in held):
        evidence = "gets an optimizer, which it may not show" if wraps else "gets no parameters where it is made"
        why = f"{name}, which was not read, {evidence}"
        frame.analysis.event(frame, Act.NO_OPTIMIZER, node, subject=one(owner), why=why, is_sure=not wraps)


def _may_hold_leaves(atom: Atom | Tensor) -> bool:
    """Whether something may be parameters, or have some; what stands on a command line has none."""
    if isinstance(atom, Tensor):
        return bool(atom.leaf)
    if isinstance(atom, Opaque):
        return atom.path[1:2] != (command_line.ARGUMENTS,)
    return isinstance(atom, Obj) and atom.made_of not in (containers.LIST, containers.SET, containers.DICT)


def _optimizers_in(value: Value) -> Value:
    """What a scaler is given; of an object of a foreign class, the face by which it is known what is done with it.

    `transformers.AdamW(...)` is an object and something unknown: two faces of one optimizer, which steps once. What is
    unknown is told by where it comes from alone, as where its methods are called.
    """
    given = frozenset(
        Opaque(each.path) if isinstance(each, Opaque) else each for each in value if each != Const("NoneType", None)
    )
    if not any(isinstance(each, Opaque) for each in given):
        return given
    return frozenset(
        each
        for each in given
        if not (isinstance(each, Obj) and each.external and not is_optimizer_class(each.external))
    )


def scaled(frame: Frame, value: Value, scaler: Atom, around: frozenset[Atom] = frozenset()) -> Value:
    """A loss, or several, multiplied by the scale.

    Args:
        around: the lists that it is in. One that holds itself stands for several, as of a file of data.
    """
    unit: Units = frozenset({(scaler, 1)})
    found = NEVER
    for atom in value:
        if isinstance(atom, Tensor):
            found = join(
                found,
                one(
                    atom.but(
                        units=multiplied(atom.units, unit),
                        leaf=NOTHING,
                        reach=atom.reach | atom.leaf,
                        precision=atom.precision,
                    )
                ),
            )
        elif isinstance(atom, Opaque):
            tensor = atom.tensor or SOME_TENSOR.but(reach=frozenset({whole_of(atom)}))
            found = join(found, one(Opaque((), tensor.but(units=multiplied(tensor.units, unit)))))
        elif isinstance(atom, Tup):
            items = tuple(scaled(frame, each, scaler, around) for each in atom.items)
            rest = None if atom.rest is None else scaled(frame, atom.rest, scaler, around)
            found = join(found, one(Tup(items, rest)))
        elif isinstance(atom, Obj) and atom.made_of is containers.LIST and atom not in around:
            held = containers.contents(frame, atom)
            found = join(found, one(Tup((), scaled(frame, held, scaler, around | {atom}))))
    if not found:
        found = one(SOME_TENSOR.but(units=unit))
    return found


def is_one(optimizer: Atom) -> bool:
    """Whether something stands for one optimizer, and for none of several in something that nobody knows."""
    return not isinstance(optimizer, Opaque) or bool(optimizer.path and "[]" not in optimizer.path)


def _one_by_one(
    frame: Frame, optimizers: Value, change: Callable[[Atom, Machine], Machine], keys: Callable[[Atom], list[Key]]
) -> None:
    atoms = [each for each in optimizers if isinstance(each, Atom) and each not in frame.analysis.plural]
    known = [each for each in atoms if is_one(each)]
    if not known:
        return
    for each in known:
        note_optimizer(frame, each)
    if len(known) == len(optimizers) == 1:
        _change(frame, keys(known[0]), lambda machine: [change(known[0], machine)])
        return

    def one_of_them(machine: Machine) -> Iterable[Machine]:
        meant = are_there(machine) or known
        if len(meant) == 1:
            return [change(meant[0], machine)]
        gradients = {grad_key(each): (machine.grad(each) or UNKNOWN_GRAD) for each in meant}
        guessed = machine.but({key: grad.but(guessed=True) for key, grad in gradients.items()})
        return [change(each, guessed) for each in meant]

    are_there = there(frame.now.worlds, known)
    _change(frame, [key for each in known for key in (made_key(each), *keys(each))], one_of_them)


def _keys(scaler: Atom) -> Callable[[Atom], list[Key]]:
    def keys(optimizer: Atom) -> list[Key]:
        return [
            ("idle", scaler),
            grad_key(optimizer),
            ("stage", scaler, optimizer),
            ("checked", scaler),
            ("stepped", scaler, optimizer),
            ("fresh", scaler),
            ("fresh", optimizer),
        ]

    return keys


def _unscale(frame: Frame, scaler: Atom, optimizers: Value, node: ast.AST) -> None:
    for each in optimizers:
        if isinstance(each, Atom):
            frame.task.touched.update(_keys(scaler)(each))
    frame.analysis.event(frame, Act.UNSCALE, node, scaler=one(scaler), optimizer=optimizers)

    sharing = frame.analysis.pytorch.registry.sharing

    def change(optimizer: Atom, machine: Machine) -> Machine:
        unscaled = _unscaled(machine, scaler, optimizer, sharing(optimizer))
        return unscaled.but({("stage", scaler, optimizer): states.UNSCALED_BY})

    _one_by_one(frame, optimizers, change, _unscaling_keys(frame, scaler))
    _look_at(frame, scaler)


@remembered(100_000)
def _unscaled(machine: Machine, scaler: Atom, optimizer: Atom, sharing: Sequence[Atom]) -> Machine:
    """A state once a scaler has divided an optimizer's gradients, and with them those of the others that have them."""
    key = grad_key(optimizer)
    old = machine.grad(optimizer)
    if stage(machine, scaler, optimizer) == states.UNSCALED_BY and old is not None and old.kind == UNSCALED:
        return machine  # it raises, and divides nothing
    changes: dict[Key, object] = {key: _divided(machine.get(key, UNKNOWN_GRAD), scaler), ("checked", scaler): True}
    for other in sharing:
        old = machine.grad(other) or UNKNOWN_GRAD
        if old.kind == SCALED and old.scaler is scaler:
            changes[grad_key(other)] = Grad(PARTLY, scaler, old.spent, old.outdated, old.guessed).but(
                clipped=old.clipped
            )
    return machine.but(changes)


def _unscaling_keys(frame: Frame, scaler: Atom) -> Callable[[Atom], list[Key]]:
    registry = frame.analysis.pytorch.registry
    return lambda each: [*_keys(scaler)(each), *(grad_key(other) for other in registry.sharing(each))]


def _divided(old: Grad, scaler: Atom) -> Grad:
    if old.kind == SCALED and old.scaler is scaler:
        return Grad(UNSCALED, scaler, old.spent, False, old.guessed).but(clipped=old.clipped)
    if old.kind in (LOST, EMPTY):
        return old
    kind = UNSCALED if old.kind == states.UNKNOWN else MIXED
    return Grad(kind, scaler, False, False, old.guessed).but(clipped=old.clipped)


def _scaler_step(frame: Frame, scaler: Atom, optimizers: Value, node: ast.AST) -> None:
    for each in optimizers:
        if isinstance(each, Atom):
            frame.task.touched.update(_keys(scaler)(each))
            note_optimizer(frame, each)
    frame.analysis.event(frame, Act.SCALER_STEP, node, scaler=one(scaler), optimizer=optimizers)

    sharing = frame.analysis.pytorch.registry.sharing

    def change(optimizer: Atom, machine: Machine) -> Machine:
        return _stepped(machine, scaler, optimizer, sharing(optimizer))

    _one_by_one(frame, optimizers, change, _unscaling_keys(frame, scaler))
    _look_at(frame, scaler)


@remembered(100_000)
def _stepped(machine: Machine, scaler: Atom, optimizer: Atom, sharing: Sequence[Atom]) -> Machine:
    """A state once a scaler has stepped an optimizer, for which it divides what it has not divided yet."""
    if stage(machine, scaler, optimizer) != states.UNSCALED_BY:
        machine = _unscaled(machine, scaler, optimizer, sharing)
    key = grad_key(optimizer)
    after = machine.get(key, UNKNOWN_GRAD).but(spent=True)
    stepped = {("stage", scaler, optimizer): STEPPED, ("stepped", scaler, optimizer): True}
    return machine.but({key: after, ("checked", scaler): True, **stepped})


def _look_at(frame: Frame, scaler: Atom) -> None:
    """Gradients have been looked at for infinities, be it those of an optimizer that cannot be told from others."""
    _change(frame, [("checked", scaler)], lambda machine: (machine.but({("checked", scaler): True}),))


def _update(frame: Frame, scaler: Atom, node: ast.AST) -> None:
    keys: list[Key] = [("checked", scaler), ("fresh", scaler), ("idle", scaler)]
    for each in relevant(frame, frame.analysis.pytorch.registry.optimizers):
        keys += [("stage", scaler, each), grad_key(each)]
    frame.task.touched.update(keys)
    frame.analysis.event(frame, Act.UPDATE, node, scaler=one(scaler))

    def change(machine: Machine) -> Iterable[Machine]:
        changes: dict[Key, object] = {("checked", scaler): False, ("fresh", scaler): True}
        for key in machine.keys:
            if key[0] == "stage" and key[1] is scaler:
                changes[key] = None
            elif key[0] == "grad":
                old = machine.get(key)
                if old.kind == SCALED and old.scaler is scaler:
                    changes[key] = old.aged.but(outdated=True)
                elif old.of:
                    changes[key] = old.aged
        yield machine.but(changes)

    _change(frame, keys, change)


def put_out_of_sight(frame: Frame, value: Value, node: ast.AST) -> list[Atom]:
    """Note what goes where nobody follows it, and gradients can be got at by; the optimizers and scalers in it.

    That is what a container has, too, what a method is of, and a parameter or gradient itself.
    """
    registry = frame.analysis.pytorch.registry
    inside = all_in(frame, value)
    _note_size_of(frame, inside)
    for each in tensors_in(inside):
        overwritten(frame, each)
    reached = inside | {each.owner for each in inside if isinstance(each, Native)}
    gone = [
        each for each in reached if isinstance(each, Atom) and (each in registry.optimizers or each in registry.scalers)
    ]
    held = [each for each in reached if _may_hold_parameters(frame, each)]
    held += [each for each in reached if isinstance(each, Tensor) and (each.leaf or each.tags & A_GRADIENT)]
    if gone or held:
        frame.analysis.event(frame, Act.HANDED_ON, node, subject=frozenset((*gone, *held)))
    return gone


def handed_on(frame: Frame, value: Value, node: ast.AST) -> None:
    """Something goes where nobody follows it: of a scaler or an optimizer, nothing is known any more."""
    gone = put_out_of_sight(frame, value, node)
    if not gone:
        return

    def change(machine: Machine) -> Iterable[Machine]:
        yield machine.but({key: UNKNOWN_GRAD if key[0] == "grad" else None for key in concerned(machine)})

    @functools.cache
    def concerned(machine: Machine) -> set[Key]:
        known = machine.gradients()
        return {key for key in machine.keys if key[0] != "made" and any(each in key for each in gone)} | {
            grad_key(atom) for atom, grad in known.items() if grad.scaler in gone
        }

    keys = {key for world in frame.now.worlds for key in concerned(world.now)}
    _change(frame, keys, change)


def has_gradients(frame: Frame, atom: Atom | Tensor) -> bool:
    """Whether something is an optimizer or a scaler, or may hold parameters."""
    registry = frame.analysis.pytorch.registry
    return atom in registry.optimizers or atom in registry.scalers or _may_hold_parameters(frame, atom)


def has_what_steps(frame: Frame, value: Value) -> bool:
    """Whether a value is or holds an optimizer or a scaler, or an object of the project that has one."""
    registry, held = frame.analysis.pytorch.registry, frame.kept(_held_closely, value)
    return not (held.isdisjoint(registry.optimizers) and held.isdisjoint(registry.scalers))


def _held_closely(frame: Frame, value: Value) -> Value:
    """What a value is or holds, and what the project's objects among that have."""
    held = all_in(frame, value)
    owners = [each for each in held if isinstance(each, Obj) and isinstance(each.made_of, Class)]
    names = ((owner, name) for owner in owners for name in frame.analysis.heap.names(owner, frame.task))
    return held.union(*(frame.read(owner, name) for owner, name in names))


def _may_hold_parameters(frame: Frame, atom: Atom | Tensor) -> bool:
    """Whether something is a module, or an object of the project, which may have one."""
    if isinstance(atom, Opaque):
        *_, root = (None, *atom.path[:1])
        is_own = isinstance(root, Obj) and isinstance(
            root.made_of, Class
        )  # whose class has a base that nobody has read
        return is_own or (atom.tensor is None and frame.analysis.pytorch.is_like_module(frame, atom))
    return isinstance(atom, Obj) and (isinstance(atom.made_of, Class) or attributes.is_module(frame, atom))


def updated_by_hand(frame: Frame, old: Value, operand: Value, node: ast.AST) -> None:
    """`p -= lr * p.grad`: a parameter is changed by a gradient."""
    if reads_of(operand) and not reads_of(old) and any(each.leaf for each in tensors_in(old)):
        gauge(frame, operand, node, _ADDED)


def gradient_of(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`torch.autograd.grad(outputs, inputs)`: gradients with the scale of the outputs."""
    outputs, inputs = losses_in(frame, args.get(0, "outputs") or UNKNOWN), args.get(1, "inputs") or UNKNOWN
    units = NOTHING.union(*(each.units for each in tensors_in(outputs))) or PURE
    create = constant(args.get(4, "create_graph") or const(False)) is not False
    held = all_in(frame, inputs)
    wanted = [each for each in held if isinstance(each, Tensor)] or [SOME_TENSOR]
    source = next(iter(tensors_in(outputs)), SOME_TENSOR)
    is_known = all(each.leaf for each in wanted) and not any(isinstance(each, Opaque) for each in held)
    leaves = leaves_of(frame, inputs) if is_known else NOTHING
    if leaves and _are_apart(outputs, leaves):  # with `allow_unused`; else it raises
        return one(Tup((), NONE_VALUE))
    why = "create_graph" if create else ""
    given = all_in(frame, args.get(2, "grad_outputs") or NONE_VALUE)
    is_first = units_of(given) == PURE and not any(isinstance(each, Opaque) for each in given)
    is_first = is_first and not frame.now.context.in_gradient
    event = frame.analysis.event(
        frame, Act.OWN_GRADIENT, node, subject=outputs, leaves=leaves, why=why, is_sure=is_first
    )
    event.units = event.units | units
    normalized = [each for each in tensors_in(outputs) if _is_normalized_behind(each, held)]
    if create and normalized:
        frame.analysis.event(frame, Act.NORM_TWICE, node, tensor=normalized[0], is_sure=True)
    found = NEVER
    for each in wanted:
        gradient = made(
            each.precision if each.is_known else OTHER,
            SCALAR | SHAPED,
            each.place,
            flows=FLOWS if create else CUT,
            reach=source.reach if create else NOTHING,
            surely=source.surely if create else NOTHING,
            spared=source.spared if create else NOTHING,
            units=units,
            reads=frozenset({frame.site(node)}) if units != PURE else NOTHING,
        )
        found = join(found, one(gradient))
    return one(Tup((), found))


def _is_normalized_behind(output: Tensor, inputs: Value) -> bool:
    """Whether a norm in float16 lies between what comes out and some input, as far as the leaves of both tell.

    What a norm gets that comes of an input comes to all of its leaves.
    """
    given = [each.reach | each.leaf for each in tensors_in(inputs)] or [NOTHING]
    return bool(output.tags & NORMALIZED) and any(_comes_of(output.normed, each) for each in given)


def _comes_of(leaves: frozenset[Atom], others: frozenset[Atom]) -> bool:
    """Whether what comes to some leaves may be computed from what comes to others."""
    return all(overlap(leaves, frozenset({each})) is not False for each in others)


def _are_apart(outputs: Value, leaves: frozenset[Atom]) -> bool:
    """Whether nothing that may come out is computed from any of some leaves."""
    # What nobody has seen made of anything is, of something: else it raises.
    known = [each.reach | each.leaf for each in outputs if isinstance(each, Tensor)]
    return len(known) == len(outputs) > 0 and all(each and overlap(leaves, each) is False for each in known)


def is_optimizer_class(name: str) -> bool:
    """Whether a class of another package makes optimizers."""
    last = name.rpartition(".")[2]
    return (
        is_optimizer_name(name) and (last[:1].isupper() or last == "?")  # of `getattr(torch.optim, name)`
    ) or name == "torch.optim.Optimizer"
