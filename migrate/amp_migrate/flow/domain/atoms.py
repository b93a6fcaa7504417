"""The values that the interpreter knows, and sets of them: what an expression may be."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from amp_migrate.flow.domain.dtypes import DTYPES
from amp_migrate.flow.domain.interned import Numbered, remembered
from amp_migrate.flow.domain.tensor import (
    A_PIECE,
    NOTHING,
    PURE,
    SOME_TENSOR,
    Tensor,
    Units,
    each_of,
    join_tensors,
    one_or_none,
    precisions,
    unknown_as_one,
)
from amp_migrate.flow.source import Code, Site

MOST_ATOMS = 24
MOST_CHOSEN = 160  # of what is the project's own, be it the files and classes of a package that a run chooses from
_MOST_CONSTANTS = 6
_MOST_TEXTS = 12  # which name attributes and parts: a list of the names of a model's networks has so many
_LONGEST_TUPLE = 12
_DEEPEST = 4
_LONGEST_PATH = 6


class Call(NamedTuple):
    """A call by what is made in it: its place, and the calls on whose behalf it is."""

    site: Site
    context: tuple[Site, ...]


class Atom(Numbered):
    """One thing that a value may be."""

    __slots__ = ()


class Const(Atom):
    """A constant of Python; `kind` tells True from 1."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.value = kind, value

    def __repr__(self) -> str:
        return repr(self.value)


class Member(Const):
    """A member of an enumeration: what it is as a constant, where it is one of numbers or texts, else its full name."""

    __slots__ = ("name", "of")

    def __init__(self, kind: str, value: Any, of: Class, name: str) -> None:
        super().__init__(kind, value)
        self.of, self.name = of, name


class DeviceOf(Const):
    """The device that a tensor is on: it names none, as what has brought the tensor there does.

    Attributes:
        place: where the tensor may be, of which `value` has the type of the device; "" where nobody can tell it.
    """

    __slots__ = ("place",)

    def __init__(self, value: str, place: int) -> None:
        super().__init__("device", value)
        self.place = place


class Some(Atom):
    """Any value of a type of Python or NumPy, with the loss scale in it, and the gradients it is made of.

    Attributes:
        halves: where it was made of tensors that may be low, if it is an array that is as precise as they were.
        is_huge: whether it is an array with elements that float16 does not have.
    """

    __slots__ = ("halves", "is_huge", "kind", "reads", "units")

    def __init__(
        self,
        kind: str,
        units: Units = PURE,
        reads: frozenset[Site] = frozenset(),
        halves: frozenset[Site] = frozenset(),
        is_huge: bool = False,
    ) -> None:
        self.kind, self.units, self.reads, self.halves, self.is_huge = kind, units, reads, halves, is_huge

    def __repr__(self) -> str:
        return f"some {self.kind}"


class Dtype(Atom):
    """The dtype of a tensor: what it may be, as bits, and the regions that may have made it low."""

    __slots__ = ("precision", "regions")

    def __init__(self, precision: int, regions: frozenset[Site]) -> None:
        self.precision, self.regions = precision, regions

    def __repr__(self) -> str:
        return f"dtype {precisions(self.precision)}"


class Tup(Atom):
    """A tuple, or a sequence that nobody changes: its items, or what any of an unknown number of them may be.

    `names`: those of the items, in a named tuple; empty in others.
    """

    __slots__ = ("items", "names", "rest")

    def __init__(self, items: tuple[Value, ...], rest: Value | None = None, names: tuple[str, ...] = ()) -> None:
        self.items, self.rest, self.names = items, rest, names

    def __repr__(self) -> str:
        return f"({', '.join(show(each) for each in self.items)}{'' if self.rest is None else f'*{show(self.rest)}'})"


class Obj(Atom):
    """An object with an identity, by the place where it is made and on whose behalf: all that is made there is one."""

    __slots__ = ("context", "made_of", "site")

    def __init__(self, site: Site, context: tuple[Site, ...], made_of: Atom) -> None:
        self.site, self.context, self.made_of = site, context, made_of

    @property
    def external(self) -> str:
        """The full name of the class from another package that it is made of; empty for the project's own."""
        return self.made_of.name if isinstance(self.made_of, External) else ""

    def __repr__(self) -> str:
        return f"<{self.made_of!r} of {self.site.line}>"


class External(Atom):
    """Something of another package, by its full name: `torch.nn.Linear`, `builtins.len`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class FileModule(Atom):
    """A module of the project."""

    __slots__ = ("file",)

    def __init__(self, file: str) -> None:
        self.file = file

    def __repr__(self) -> str:
        return f"module {self.file}"


class Lazy(Atom):
    """A name that was imported from a file of the project, which is read when the name is needed."""

    __slots__ = ("file", "name")

    def __init__(self, file: str, name: str) -> None:
        self.file, self.name = file, name


class FrameRef(Atom):
    """The variables of a function, for those defined inside it: the function, on whose behalf it runs, and so on."""

    __slots__ = ("code", "context", "parent")

    def __init__(self, code: Code, context: tuple[Site, ...], parent: FrameRef | None) -> None:
        self.code, self.context, self.parent = code, context, parent


class Func(Atom):
    """A function of the project, with the variables around it."""

    __slots__ = ("code", "frame")

    def __init__(self, code: Code, frame: FrameRef | None) -> None:
        self.code, self.frame = code, frame

    def __repr__(self) -> str:
        return f"def {self.code.name}"


class Class(Atom):
    """A class of the project."""

    __slots__ = ("code", "frame")

    def __init__(self, code: Code, frame: FrameRef | None) -> None:
        self.code, self.frame = code, frame

    def __repr__(self) -> str:
        return f"class {self.code.name}"


class Wrapped(Atom):
    """What a decorator makes of a function: `property`, `staticmethod`; or contexts that it runs under."""

    __slots__ = ("context", "function", "kind")

    def __init__(self, kind: str, function: Atom, context: Atom | None = None) -> None:
        self.kind, self.function, self.context = kind, function, context

    def __repr__(self) -> str:
        return f"{self.kind}({self.function!r})"


class Method(Atom):
    """A function bound to its first argument."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Atom, owner: Atom) -> None:
        self.function, self.owner = function, owner

    def __repr__(self) -> str:
        return f"{self.owner!r}.{self.function!r}"


class Native(Atom):
    """A method of something that is not the project's: `tensor.view`, `optimizer.step`, `"".join`."""

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: Atom) -> None:
        self.name, self.owner = name, owner

    def __repr__(self) -> str:
        return f"{self.owner!r}.{self.name}"


class Super(Atom):
    """`super()` in a method: where the search begins, and the object."""

    __slots__ = ("after", "owner")

    def __init__(self, after: Class, owner: Atom) -> None:
        self.after, self.owner = after, owner


class Share(Atom):
    """Some of the parameters that a call is about of which nobody has read what it gives.

    Attributes:
        call: what tells it from other shares: what is called, with which constants; or where, if it may give others.
        of: the modules, and leaves of gradients, that the call is about.
    """

    __slots__ = ("call", "of")

    def __init__(self, call: tuple[Any, ...], of: frozenset[Atom]) -> None:
        self.call, self.of = call, of

    @property
    def origin(self) -> Share:
        """The share that it is taken from by attributes: `.encoder` of what a call gave."""
        taken = sum(1 for _ in itertools.takewhile(lambda each: isinstance(each, str), reversed(self.call)))
        return Share(self.call[: len(self.call) - taken], self.of) if taken else self


class Opaque(Atom):
    """Something that nobody knows.

    Attributes:
        path: where it comes from, which is what tells it from others: a parameter, or a call, and the attributes taken
            on the way; empty where it has no identity.
        tensor: what is known of the tensors that it is, or holds.
        hint: the full name of a class that it is said to be of; empty where nothing says so.
        is_chosen: whether it is one of more of the project's own than are looked at, or made by one.
        shares: the parameters that it is, or holds, if it is of any: as far as the calls tell that may have given it.
    """

    __slots__ = ("hint", "is_chosen", "path", "shares", "tensor")

    def __init__(
        self,
        path: tuple[Any, ...] = (),
        tensor: Tensor | None = None,
        hint: str = "",
        is_chosen: bool = False,
        shares: frozenset[Share] = NOTHING,
    ) -> None:
        self.path, self.tensor, self.hint, self.is_chosen, self.shares = path, tensor, hint, is_chosen, shares

    @property
    def name(self) -> str:
        """The last word of where it comes from."""
        return str(self.path[-1]) if self.path else ""

    @property
    def made_in(self) -> object:
        """What it comes from: a call, the place of a parameter, something known; None where it has no identity."""
        return self.path[0] if self.path else None

    @property
    def made_at(self) -> Site | None:
        """The place of the call, or parameter, that it comes from; None where it comes from something known."""
        root = self.made_in
        return root.site if isinstance(root, Call) else root if isinstance(root, Site) else None

    def part(self, step: str) -> Opaque:
        """What is taken from it: an attribute `.x`, an element `[]`, a result `()`; no step is told from itself."""
        is_chosen = self.is_chosen and step[0] != "["
        if not self.path or len(self.path) >= _LONGEST_PATH or step in self.path:
            return Opaque((), self.tensor, "", is_chosen)
        shares = self.shares
        if step not in ("[]", "()"):  # one attribute or element is not another
            shares = frozenset(Share((*each.call, step), each.of) for each in shares)
        path, tensor = (*self.path, step), self.tensor
        if tensor is not None and step not in ("[]", "()"):  # nor is a tensor in it one in another
            tensor = tensor.but(piece=frozenset({path}))
        return Opaque(path, tensor, "", is_chosen, shares)

    def with_tensor(self, tensor: Tensor) -> Opaque:
        """The same of whose tensors something else is known."""
        return Opaque(self.path, tensor, self.hint, self.is_chosen, self.shares)

    def __repr__(self) -> str:
        return "unknown " + "".join(str(each) for each in self.path[1:])


class Part(Atom):
    """A leaf of gradients: all parameters of an object (`*`), or the one of a name."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Atom, name: str) -> None:
        self.owner, self.name = owner, name

    def __repr__(self) -> str:
        return f"{self.owner!r}.{self.name}"


def by_path(atom: Atom) -> Atom:
    """Something by itself: of what nobody knows, where it came from."""
    return _alone(atom) if isinstance(atom, Opaque) else atom


@remembered(100_000)
def _alone(unknown: Opaque) -> Opaque:
    return Opaque(unknown.path)


@remembered(10_000)
def wholes(unknown: Opaque) -> tuple[Opaque, ...]:
    """What something unknown was taken from, the outermost first."""
    return tuple(Opaque(unknown.path[:end]) for end in range(1, len(unknown.path)))


def whole_of(owner: Atom) -> Part:
    """All parameters of something as one leaf, whatever else is known of it by now."""
    return Part(by_path(owner), "*")


# Beside the leaves of what was stored at several times, of which nobody knows when a loss is computed from which.
AT_SOME_TIME = Part(External("<some time>"), "")


class Unbound(Atom):
    """What a name is before it is assigned."""

    __slots__ = ()


Value: TypeAlias = "frozenset[Atom | Tensor]"
NEVER: Value = frozenset()
"""No value at all: what is not reached."""
STATE = "state_dict()"  # the step to what this gives from the place where it is called
NONE = Const("NoneType", None)
# With the one nothing is computed, and zero is zero times any scale.
_OF_ANY_SCALE = frozenset((NONE, Const("int", 0), Const("float", 0.0)))
NONE_VALUE: Value = frozenset({NONE})
UNKNOWN: Value = frozenset({Opaque()})
CHOSEN: Value = frozenset({Opaque((), None, "", True)})
"""One of the project's own of which not all are looked at."""
UNBOUND = Unbound()
TRUTHS: Value = frozenset({Some("bool")})


def places_of(atom: Atom | Tensor) -> tuple[Site, ...]:
    """Where something is made, behind the calls on whose behalf it is; nothing where nobody knows."""
    if isinstance(atom, Obj):
        return (*atom.context, atom.site)
    root = atom.made_in if isinstance(atom, Opaque) else None
    return (*root.context, root.site) if isinstance(root, Call) else (root,) if isinstance(root, Site) else ()


def const(value: Any) -> Value:
    """A constant."""
    return frozenset({Const(type(value).__name__, value)})


def some(kind: str, units: Units = PURE, reads: frozenset[Site] = frozenset()) -> Value:
    """Any value of a type."""
    return frozenset({Some(kind, units, reads)})


def one(atom: Atom | Tensor) -> Value:
    """A value that is one thing."""
    return frozenset({atom})


def tup(items: Iterable[Value]) -> Value:
    """A tuple with these items."""
    return frozenset({Tup(tuple(items))})


def many(rest: Value) -> Value:
    """A sequence of any number of items."""
    return frozenset({Tup((), one_of_many(rest))})


def one_of_many(value: Value) -> Value:
    """A value that stands for many, of which two may differ, be they made by one operation."""
    if any(isinstance(each, (Tup, Tensor, Opaque)) for each in value):
        return frozenset(map(_one_of_many, value))
    return value


def _one_of_many(atom: Atom | Tensor) -> Atom | Tensor:
    if isinstance(atom, Tup):
        rest = None if atom.rest is None else one_of_many(atom.rest)
        return Tup(tuple(map(one_of_many, atom.items)), rest, atom.names)
    if isinstance(atom, Opaque) and atom.tensor is not None:
        return atom.with_tensor(atom.tensor.but(piece=A_PIECE))
    return atom.but(piece=A_PIECE) if isinstance(atom, Tensor) else atom


def named(value: Value, site: Site) -> Value:
    """A value as it gets a name, by which one of several tensors is known from then on."""
    here = frozenset({site})
    births = {each.born for each in value if isinstance(each, Tensor)}
    if not births:  # what holds tensors, for all that is known, may be one
        is_piece = any(isinstance(each, Opaque) and each.tensor and None in each.tensor.piece for each in value)
        return frozenset(_named_unknown(each, here) for each in value) if is_piece else value
    if len(births) > 1 or len(next(iter(births))) != 1:
        return frozenset(each.but(born=here, piece=NOTHING) if isinstance(each, Tensor) else each for each in value)
    if any(isinstance(each, Tensor) and None in each.piece for each in value):
        return frozenset(each.but(piece=here) if isinstance(each, Tensor) else each for each in value)
    return value


def _named_unknown(atom: Atom | Tensor, here: frozenset[Site]) -> Atom | Tensor:
    tensor = atom.tensor if isinstance(atom, Opaque) else None
    return atom.with_tensor(tensor.but(piece=here)) if isinstance(atom, Opaque) and tensor is not None else atom


def untold(value: Value, code: Code, name: str) -> Value:
    """A value of which tests in a function that name something tell no more, because that is something else now."""
    if not any(isinstance(each, Tensor) and each.spared for each in value):
        return value
    return frozenset(
        each.but(
            spared=frozenset(
                entry
                for entry in each.spared
                if entry[1] is not code or not any(name in fact[2] for fact in entry[2] | entry[3])
            )
        )
        if isinstance(each, Tensor)
        else each
        for each in value
    )


def show(value: Value) -> str:
    """A value as a message shows it."""
    return " | ".join(sorted(map(repr, value))) or "never"


def join(a: Value, b: Value) -> Value:
    """What is one of two values."""
    if a is b or not b:
        return a
    if not a:
        return b
    if b <= a:
        return a
    if a <= b:
        return b
    return _merged(a | b)


def join_all(values: Iterable[Value]) -> Value:
    """What is one of several values."""
    found = NEVER
    for each in values:
        found = join(found, each)
    return found


@remembered(100_000)
def _merged(atoms: frozenset[Atom | Tensor], depth: int = 0) -> Value:
    """One tensor, one tuple of a length, few constants of a kind: a set that cannot grow for ever."""
    found: set[Atom | Tensor] = set()
    tensor: Tensor | None = None
    dtype: Dtype | None = None
    unknown: dict[tuple[tuple[Any, ...], str], Opaque] = {}
    tuples: list[Tup] = []
    plain: dict[str, list[Const]] = {}
    kinds: dict[str, Some] = {}
    for each in atoms:
        if isinstance(each, Tensor):
            tensor = each if tensor is None else join_tensors(tensor, each)
        elif isinstance(each, Dtype):
            dtype = each if dtype is None else Dtype(dtype.precision | each.precision, dtype.regions | each.regions)
        elif isinstance(each, Tup):
            tuples.append(each)
        elif isinstance(each, Const):
            plain.setdefault(each.kind, []).append(each)
        elif isinstance(each, Some):
            twin = kinds.get(each.kind)
            kinds[each.kind] = (
                each
                if twin is None
                else Some(
                    each.kind,
                    twin.units | each.units,
                    twin.reads | each.reads,
                    twin.halves | each.halves,
                    twin.is_huge or each.is_huge,
                )
            )
        elif isinstance(each, Opaque):
            key = (each.path, each.hint if each.path else "")
            unknown[key] = _join_unknown(unknown[key], each) if key in unknown else each
        else:
            found.add(each)
    found.update(each for each in (tensor, dtype) if each is not None)
    # Before it was seen who calls for something, it was known by its place alone.
    told = {(each.path[0].site, *each.path[1:]) for each in unknown.values() if isinstance(each.made_in, Call)}
    found.update(each for each in unknown.values() if each.path not in told)
    for kind, constants in plain.items():
        if kind in kinds:
            continue
        if len(constants) > (_MOST_TEXTS if kind == "str" else _MOST_CONSTANTS):
            kinds[kind] = Some(kind)
        else:
            found.update(constants)
    found.update(kinds.values())
    if tuples:
        found.add(tuples[0] if len(tuples) == 1 else _join_tuples(tuples, depth))
    if len(found) > MOST_ATOMS and (len(found) > MOST_CHOSEN or len(set(map(_choice, found))) > MOST_ATOMS):
        return taken_for_one(found)
    return frozenset(found)


def taken_for_one(found: Iterable[Atom | Tensor]) -> Value:
    """One unknown thing in the place of more than are told apart."""
    atoms = [*found]
    opaque = [each for each in atoms if isinstance(each, Opaque)]
    tensors = [each.tensor for each in opaque if each.tensor] + [each for each in atoms if isinstance(each, Tensor)]
    whole = functools.reduce(join_tensors, tensors) if tensors else None
    is_chosen = any(isinstance(each, (Class, Func)) for each in atoms) or any(each.is_chosen for each in opaque)
    return frozenset({Opaque((), whole, "", is_chosen)})


class _Choice(tuple[Any, ...]):
    """What things have in common of which a run chooses one."""


def _choice(atom: Atom | Tensor) -> Atom | Tensor | _Choice:
    """What something counts as: what a run chooses one of counts as one, for there is no more than the text has."""
    if isinstance(atom, (Class, Func, FileModule)):
        return _Choice((type(atom),))
    if isinstance(atom, Obj) and atom.context and not atom.context[-1].line:  # a layer of a library's model
        return _Choice((Obj, atom.site, atom.context[:-1]))
    if isinstance(atom, Obj):
        return _Choice((Obj, atom.site, atom.context))
    if isinstance(atom, Opaque) and isinstance(atom.made_in, Call) and len(atom.path) == 2:  # of a package's class
        return _Choice((Obj, *atom.made_in))
    if isinstance(atom, (Method, Native)):
        owner = _choice(atom.owner)
        return _Choice((type(atom), owner)) if isinstance(owner, _Choice) else atom
    return atom


def _join_unknown(a: Opaque, b: Opaque) -> Opaque:
    """One of two unknown things from the same place."""
    hint = a.hint if a.path else ""
    tensor = a.tensor or b.tensor
    if tensor is not None:
        tensor = join_tensors(a.tensor or SOME_TENSOR, b.tensor or SOME_TENSOR)
    return Opaque(a.path, tensor, hint, a.is_chosen or b.is_chosen, a.shares | b.shares)


def _join_tuples(tuples: list[Tup], depth: int) -> Tup:
    lengths = {len(each.items) for each in tuples}
    if depth < _DEEPEST and len(lengths) == 1 and all(each.rest is None for each in tuples):
        columns = zip(*(each.items for each in tuples), strict=True)
        names = {each.names for each in tuples}
        items = tuple(_merged(frozenset().union(*column), depth + 1) for column in columns)
        return Tup(items, None, names.pop() if len(names) == 1 else ())
    if depth >= _DEEPEST:
        return Tup((), UNKNOWN)
    inside = [item for each in tuples for item in (*each.items, each.rest or NEVER)]
    return Tup((), _merged(frozenset().union(*inside), depth + 1))


def bounded(value: Value, depth: int = 0) -> Value:
    """A value that holds no tuple in a tuple in a tuple for ever, and none that is long."""
    if not any(isinstance(each, Tup) for each in value):
        return value
    return _merged(frozenset(_bounded_tuple(each, depth) if isinstance(each, Tup) else each for each in value))


def _bounded_tuple(whole: Tup, depth: int) -> Tup:
    if depth >= _DEEPEST:
        return Tup((), UNKNOWN)
    if len(whole.items) > _LONGEST_TUPLE:
        return Tup((), bounded(join_all((*whole.items, whole.rest or NEVER)), depth + 1))
    rest = None if whole.rest is None else bounded(whole.rest, depth + 1)
    return Tup(tuple(bounded(item, depth + 1) for item in whole.items), rest, whole.names)


_GROWING = ("int", "float", "str")


def widened(old: Value, new: Value, growing: tuple[str, ...] = _GROWING) -> Value:
    """The join at the head of a loop: numbers that change from round to round are any number."""
    if new <= old:
        return old
    numbers = [each for each in new | old if isinstance(each, Const) and each.kind in growing]
    if len(numbers) > 1:
        kinds = {each.kind for each in numbers if sum(other.kind == each.kind for other in numbers) > 1}
        keep = frozenset(each for each in old | new if not (isinstance(each, Const) and each.kind in kinds))
        return bounded(_merged(keep | {Some(kind) for kind in kinds}))
    return bounded(join(old, new))


def with_few_leaves(value: Value) -> Value:
    """A value whose tensors may depend on anything, where they depend on something that nobody knows."""
    return frozenset(_with_few_leaves(each) for each in value)


def _with_few_leaves(atom: Atom | Tensor) -> Atom | Tensor:
    if isinstance(atom, Tensor):
        return atom.but(reach=unknown_as_one(atom.reach))
    if isinstance(atom, Opaque) and atom.tensor is not None:
        return atom.with_tensor(atom.tensor.but(reach=unknown_as_one(atom.tensor.reach)))
    return atom


def at_several_times(found: Value, *stored: Value) -> Value:
    """A join of what was stored one after the other: nobody knows at which time a loss reads what depends on more."""
    reaches = {frozenset().union(*(each.reach for each in tensors_in(value))) for value in stored}
    return found if len(reaches) == 1 else frozenset(_at_some_time(each) for each in found)


def _at_some_time(atom: Atom | Tensor) -> Atom | Tensor:
    if not isinstance(atom, Tensor) or atom.reach <= each_of(atom.surely):
        return atom
    return atom.but(reach=atom.reach | {AT_SOME_TIME})


def dtype_named(atom: Atom | Tensor) -> int:
    """The precisions that a dtype may stand for, written out or a tensor's; 0 where something is no dtype."""
    return DTYPES.get(atom.name, 0) if isinstance(atom, External) else atom.precision if isinstance(atom, Dtype) else 0


def are_definitions(value: Value) -> bool:
    """Whether a value is one of the project's classes and functions: of these it has no more than its text."""
    return all(isinstance(each, (Class, Func)) for each in value)


def made_by_choice(found: Value, *made: Value) -> Value:
    """What one of several makes: where there are more objects than are kept apart, one of more than are looked at."""
    is_lost = any(isinstance(each, Obj) for value in made for each in value)
    if not is_lost or any(isinstance(each, Obj) for each in found):
        return found
    return frozenset(
        Opaque(each.path, each.tensor, each.hint, True, each.shares) if isinstance(each, Opaque) else each
        for each in found
    )


def given_by_one(found: Value, given: Sequence[Value]) -> Value:
    """What one of several layers gives, of which some have parameters: it depends on those of one, or on none."""
    tensors = [each for value in given for each in value if isinstance(each, Tensor)]
    if not all(any(isinstance(each, Tensor) for each in value) for value in given):
        return found
    choice = one_or_none([each.sure_leaves for each in tensors])
    return frozenset(e.but(surely=e.surely | choice) if choice and isinstance(e, Tensor) else e for e in found)


def loosened(value: Value, *, tensors: bool) -> Value:
    """Anything, of which the tensors may be known as well as they are in a value."""
    is_chosen = any(isinstance(each, Opaque) and each.is_chosen for each in value)
    return one(Opaque((), tensor_of(value) if tensors else None, "", is_chosen))


def tensor_of(value: Value) -> Tensor | None:
    """What is known of the tensors that a value is, or holds in something unknown; None where it is none at all."""
    found: Tensor | None = None
    for each in value:
        own = each if isinstance(each, Tensor) else None
        if isinstance(each, Opaque):
            own = each.tensor or SOME_TENSOR
        if own is not None:
            found = own if found is None else join_tensors(found, own)
    return found


def tensors_in(value: Value, depth: int = 0) -> Iterator[Tensor]:
    """The tensors in a value, and in its tuples."""
    for each in value:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, Opaque) and each.tensor is not None:
            yield each.tensor
        elif isinstance(each, Tup) and depth < _DEEPEST:
            for item in (*each.items, each.rest or NEVER):
                yield from tensors_in(item, depth + 1)


def units_of(value: Value) -> Units:
    """The powers of a loss scale that may be in a number or tensor; what comes from out of sight has none."""
    found: Units = frozenset()
    for each in value:
        if isinstance(each, (Tensor, Some)):
            found |= each.units
        elif isinstance(each, Opaque) and each.tensor is not None:
            found |= each.tensor.units
        elif each not in _OF_ANY_SCALE:
            found |= PURE
    return PURE if found == PURE or not found else found


def reads_of(value: Value) -> frozenset[Site]:
    """Where the gradients were read that a number or tensor is made of."""
    found: frozenset[Site] = frozenset()
    for each in value:
        if isinstance(each, (Tensor, Some)):
            found |= each.reads
        elif isinstance(each, Opaque) and each.tensor is not None:
            found |= each.tensor.reads
    return found


def only(value: Value, kind: type[Any]) -> Any:
    """The one thing of a kind that a value is; None where it may be another."""
    if len(value) == 1:
        (atom,) = value
        if isinstance(atom, kind):
            return atom
    return None


def constant(value: Value) -> Any:
    """The constant that a value is; None where it is none, or the constant None."""
    found = only(value, Const)
    return None if found is None else found.value


def numbers_in(value: Value) -> tuple[float, ...]:
    """The numbers that a value may be, beside what nobody knows; none where it may be anything else."""
    consts = [each.value for each in value if isinstance(each, Const) and each.kind in ("int", "float")]
    known = len(consts) + sum(isinstance(each, Opaque) for each in value)
    return tuple(sorted(consts)) if known == len(value) else ()


def may_be(value: Value, truth: bool) -> bool:
    """Whether a value may be true, or may be false, where it is tested."""
    return any(truth in _truth(each) for each in value)


_BOTH = (True, False)


def _truth(atom: Atom | Tensor) -> tuple[bool, ...]:
    if isinstance(atom, Const):
        return (bool(atom.value),)
    if isinstance(atom, Tup):
        return (bool(atom.items),) if atom.rest is None else _BOTH
    if isinstance(atom, (Func, Class, Method, Native, Wrapped, FileModule, External, Super)):
        return (True,)
    return _BOTH


def truth_of_flag(value: Value) -> bool | None:
    """What a flag is, if it is known; None of anything else."""
    known = constant(value)
    return known if isinstance(known, bool) else None


def of_truth(value: Value, truth: bool) -> Value:
    """What a value may be where a test of it has come out as `truth`."""
    if all(truth in _truth(each) for each in value):
        return value
    return frozenset(each for each in value if truth in _truth(each))
