"""Lists, dictionaries, tuples and strings: elements, iteration, and their methods."""

from __future__ import annotations

import ast
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from amp_migrate.flow.domain.atoms import (
    MOST_ATOMS,
    NEVER,
    NONE_VALUE,
    UNKNOWN,
    Atom,
    Class,
    Const,
    External,
    FileModule,
    Member,
    Native,
    Obj,
    Opaque,
    Some,
    Tup,
    Value,
    are_definitions,
    const,
    constant,
    join,
    join_all,
    many,
    one,
    one_of_many,
    some,
    tup,
)
from amp_migrate.flow.domain.contexts import NO_CONTEXT
from amp_migrate.flow.domain.tensor import Tensor
from amp_migrate.flow.python import enums
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import Site
from amp_migrate.tables.torch_names import DISTRIBUTIONS

REST = "[*]"
LIST, DICT, SET = External("builtins.list"), External("builtins.dict"), External("builtins.set")
KINDS = frozenset((LIST, DICT, SET))
FACTORY = "<factory>"  # of a `defaultdict`
ELEMENTS = ".elements"  # of an object of a class that is derived from a container: the container that it is
# What a class may be derived from, as a type of the running Python, and what keeps its elements.
BASES: dict[str, tuple[type, External]] = {
    **{f"{of.__module__}.{of.__name__}": (of, DICT) for of in (dict, OrderedDict, UserDict, defaultdict)},
    **{f"{of.__module__}.{of.__name__}": (of, LIST) for of in (list, UserList, deque)},
    "builtins.set": (set, SET),
    "typing.Dict": (dict, DICT),
    "typing.List": (list, LIST),
}
_TYPES: dict[object, type] = {
    **{External(f"builtins.{kind.__name__}"): kind for kind in (dict, list, set)},
    **{kind.__name__: kind for kind in (str, bytes, int, float, bool, type(None))},
    "number": float,
}
_PROTOCOL = frozenset("__getitem__ __setitem__ __iter__ __len__ __contains__".split())
_TEXT = frozenset(
    (
        "format join lower upper strip lstrip rstrip replace capitalize title decode zfill ljust rjust center "
        "removeprefix removesuffix"
    ).split()
)
_TRUTH = frozenset("startswith endswith isdigit isalpha isinstance issubset".split())
_NUMBER = frozenset("count index find rfind bit_length".split())

ANY_ATTRIBUTE = "*"  # what is set under a name that nobody knows


def key(value: Value) -> str | None:
    """The name of the cell of a constant key or index; None where the key is not known."""
    if len(value) != 1:
        return None
    (atom,) = value
    if isinstance(atom, Const) and atom.kind in ("int", "str", "bool", "NoneType", "float", "member"):
        return f"[{atom.value!r}]"
    return None


def note_key(frame: Frame, owner: Atom, index: Value) -> None:
    """Keep what a key is of whose cell the name does not tell: one that nobody knows, or a member."""
    if key(index) is None or any(isinstance(each, Member) for each in index):
        frame.write(owner, "<key>", index, strong=False)


def _key_of(frame: Frame, owner: Atom, cell: str) -> Value:
    """The key that a cell of a dictionary is for."""
    kept = (each for each in frame.read(owner, "<key>") if isinstance(each, Member) and key(one(each)) == cell)
    return frozenset(kept) or const(ast.literal_eval(cell[1:-1]))


def new(
    frame: Frame,
    node: ast.AST,
    kind: Atom,
    items: list[Value] | None = None,
    rest: Value = NEVER,
    length: int | None = None,
) -> Value:
    """A new list, set or dictionary; of a list, the items in their order; of a dictionary, how many keys it gets.

    What holds a network's outputs in training is not what holds them where no gradients are recorded.
    """
    mode = frame.now.context
    under = () if mode == NO_CONTEXT else (Site("", mode.gradients, mode.cuda.on, 0, 0),)
    made = Obj(frame.site(node), (*frame.context_of_objects, *under), kind)
    if frame.runs_often:
        frame.analysis.many.add(made)
    for cell in [each for each in frame.now.cells if each[0] is made]:
        del frame.now.cells[cell]
    for index, item in enumerate(items or []):
        frame.write(made, f"[{index}]", item)
    if kind is not DICT:
        length = len(items or [])
    frame.write(made, "<length>", some("int") if length is None else const(length))
    if rest:
        put(frame, made, rest)
    return one(made)


def new_with(frame: Frame, node: ast.AST, held: Mapping[str | None, Value]) -> Value:
    """A new dictionary of all that there is under some keys; none where another call has made one of other keys."""
    made = new(frame, node, DICT) if held else NEVER
    for each in made:
        assert isinstance(each, Obj)
        if not {*_keys(frame, each)} <= held.keys():
            return NEVER
        for name, value in held.items():
            assert name is not None
            frame.write(each, name, value, strong=False)
    return made


def is_dict(atom: Atom | Tensor) -> TypeGuard[Obj]:
    """Whether something is a dictionary."""
    return isinstance(atom, Obj) and atom.made_of is DICT


def inherited(frame: Frame, owner: Atom, base: str, name: str) -> Value:
    """What an object has under a name from the class of Python's containers that its own is derived from."""
    held = frame.read(owner, ELEMENTS)
    if name == "data" and base.startswith("collections.User"):
        return held
    is_there = name in _PROTOCOL or (not name.startswith("__") and hasattr(BASES[base][0], name))
    return frozenset(Native(name, each) for each in held if is_there and isinstance(each, Obj))


def as_containers(frame: Frame, value: Value) -> Value:
    """A value in which objects of classes derived from containers are the containers that they are."""
    found = {
        each: frame.read(each, ELEMENTS) for each in value if isinstance(each, Obj) and isinstance(each.made_of, Class)
    }
    return join_all(found.get(each) or one(each) for each in value) if any(found.values()) else value  # type: ignore[call-overload]


def put(frame: Frame, owner: Atom, value: Value) -> None:
    """Put a value into a container at a place that nobody knows."""
    frame.write(owner, REST, join(frame.read(owner, REST), one_of_many(value)), strong=False)
    frame.analysis.shared(frame, value)


def having(value: Value, name: str) -> Value:
    """A value without what raises when it is asked for a name, where it may be a container that has it.

    What a file of data gives is a dictionary, a list, a text or a number: which, is seen where it is used.
    """
    if len(value) == 1 or not any(isinstance(each, Obj) and each.made_of in KINDS for each in value):
        return value
    lacking = frozenset(each for each in value if (kind := _type_of(each)) and not hasattr(kind, name))
    is_had = any(isinstance(each, Obj) and each.made_of in KINDS for each in value - lacking)
    return value - lacking if is_had else value


def _type_of(atom: Atom | Tensor) -> type | None:
    if isinstance(atom, (Const, Some)):
        return _TYPES.get(atom.kind)
    return _TYPES.get(atom.made_of) if isinstance(atom, Obj) else None


def elements(frame: Frame, value: Value, node: ast.AST) -> Value:
    """What iterating over a value may give."""
    found = NEVER
    for atom in having(value, "__iter__"):
        found = join(found, _elements(frame, atom, node))
    return found


def _elements(frame: Frame, atom: Atom | Tensor, node: ast.AST) -> Value:
    if isinstance(atom, Tup):
        return join_all((*atom.items, atom.rest or NEVER))
    if isinstance(atom, Tensor):
        return frame.analysis.pytorch.element(frame, atom, node)
    if isinstance(atom, Class):
        return join_all(enums.members(frame, atom).values()) or UNKNOWN
    if isinstance(atom, Obj):
        if atom.made_of is DICT:
            keys = [_key_of(frame, atom, name) for name in _keys(frame, atom)]
            return join_all([*keys, frame.read(atom, "<key>")]) or NEVER
        if atom.made_of in (LIST, SET):
            return contents(frame, atom)
        return frame.analysis.iterate(frame, atom, node)
    if isinstance(atom, Const):
        return some("str") if atom.kind == "str" else NEVER
    if isinstance(atom, Some) and atom.kind == "ndarray":
        return frame.analysis.pytorch.part_of_array(atom)
    if isinstance(atom, Some):
        return (
            some("int") if atom.kind in ("range", "bytes", "size") else some("str") if atom.kind == "str" else UNKNOWN
        )
    if isinstance(atom, Opaque):
        return one(atom.part("[]"))
    return UNKNOWN


def _keys(frame: Frame, owner: Atom) -> list[str]:
    names = frame.analysis.heap.names(owner, frame.task)
    return [name for name in names if name.startswith("[") and name != REST]


def contents(frame: Frame, owner: Atom) -> Value:
    """Everything that a container may hold."""
    names = [name for name in frame.analysis.heap.names(owner, frame.task) if name.startswith("[")]
    return join_all(frame.read(owner, name) for name in names)


def sequence(frame: Frame, value: Value, node: ast.AST) -> tuple[list[Value], Value]:
    """The items of a sequence whose length is known, and no rest; else none, and what any of them may be.

    Optimizers are taken to be there as soon as they are put in anywhere: before, nobody could have used them.
    """
    if len(value) == 1:
        (atom,) = value
        if isinstance(atom, Tup):
            return list(atom.items), atom.rest or NEVER
        if is_dict(atom) and _is_whole(frame, atom):
            return [_key_of(frame, atom, name) for name in _keys(frame, atom)], NEVER
        if isinstance(atom, Obj) and atom.made_of is LIST:
            length = constant(frame.read(atom, "<length>"))
            if isinstance(length, int) and not frame.read(atom, REST):
                return [frame.read(atom, f"[{index}]") for index in range(length)], NEVER
            # By another key it raises: who puts something in so has a dictionary on that way.
            places = sorted(int(name[1:-1]) for name in _keys(frame, atom) if name[1:-1].isdigit())
            items = [frame.read(atom, f"[{index}]") for index in places]
            is_one = atom not in frame.analysis.many
            if is_one and not frame.read(atom, REST) and frame.analysis.pytorch.has_steps(items):
                return items, NEVER
    return [], elements(frame, value, node)


def unpack(frame: Frame, value: Value, count: int, star: int | None, node: ast.AST) -> list[Value]:
    """The values of the targets that a value is unpacked into; `star` is the place of a starred one."""
    columns: list[Value] = [NEVER] * count
    for atom in value:
        given, rest = sequence(frame, frozenset({atom}), node)
        if isinstance(atom, Opaque):
            parts = [one(atom.part(f"[{index}]")) for index in range(count)]
        elif given and not rest and star is None:
            if len(given) != count:
                continue
            parts = given
        elif given and not rest and star is not None:
            behind = count - star - 1
            if len(given) < count - 1:
                continue
            middle = given[star : len(given) - behind]
            parts = [*given[:star], many(join_all(middle)), *given[len(given) - behind :]]
        else:
            whole = join_all((*given, rest))
            parts = [many(whole) if index == star else whole for index in range(count)]
        columns = [join(old, part) for old, part in zip(columns, parts, strict=True)]
    if star is not None:
        columns[star] = new(frame, node, LIST, rest=elements(frame, columns[star], node))
    return columns


def item(frame: Frame, value: Value, index: Value, node: ast.AST) -> Value:
    """What a subscript of a value may be."""
    found = NEVER
    for atom in having(value, "__getitem__"):
        found = join(found, _item(frame, atom, index, node))
    return found


def _item(frame: Frame, atom: Atom | Tensor, index: Value, node: ast.AST) -> Value:
    if isinstance(atom, Tensor):
        assert isinstance(node, ast.Subscript)
        return frame.analysis.pytorch.subscript(frame, atom, index, node)
    is_part = is_slice(index)
    if isinstance(atom, Tup):
        at = constant(index)
        if isinstance(at, int) and atom.rest is None:
            return atom.items[at] if -len(atom.items) <= at < len(atom.items) else NEVER
        whole = join_all((*atom.items, atom.rest or NEVER))
        if is_part:
            of = bounds(node) if atom.rest is None else None
            return many(whole) if of is None else tup(atom.items[of])
        return whole
    if isinstance(atom, Obj):
        return _item_of_object(frame, atom, index, node)
    if isinstance(atom, Opaque):
        name = key(index) or "[]"
        return one(atom.part(name)) if not is_part else one(atom)
    if isinstance(atom, Some) and atom.kind == "size":
        return one(atom) if is_part else some("int")
    if isinstance(atom, Some) and atom.kind == "ndarray":
        return frame.analysis.pytorch.part_of_array(atom)
    if isinstance(atom, (Const, Some)):
        return some("str") if atom.kind == "str" else UNKNOWN if atom.kind != "NoneType" else NEVER
    if isinstance(atom, FileModule):  # `globals()[name]`
        return frame.analysis.global_at(frame, atom, constant(index))
    if isinstance(atom, External) and atom.name == "sys.modules":
        is_own = isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "__name__"
        return one(FileModule(frame.module.file)) if is_own else UNKNOWN
    if isinstance(atom, Class):
        return enums.item(frame, atom, index) or UNKNOWN
    if isinstance(atom, External):
        return one(atom)  # `list[int]`, `Optional[Tensor]`
    return UNKNOWN


def is_slice(index: Value) -> bool:
    """Whether a subscript takes several elements, be it by a slice that was made before: `layers[some]`."""
    return bool(index) and all(isinstance(each, Some) and each.kind == "slice" for each in index)


def bounds(node: ast.AST) -> slice | None:
    """The slice that is written out in a subscript; None where there is none, or a bound is computed."""
    of = node.slice if isinstance(node, ast.Subscript) else None
    if not isinstance(of, ast.Slice):
        return None
    try:
        return slice(*(None if each is None else ast.literal_eval(each) for each in (of.lower, of.upper, of.step)))
    except (ValueError, TypeError, SyntaxError):
        return None


def _item_of_object(frame: Frame, owner: Obj, index: Value, node: ast.AST) -> Value:
    if owner.made_of not in (LIST, DICT, SET):
        return frame.analysis.get_item(frame, owner, index, node)
    if is_slice(index):
        given, rest = sequence(frame, one(owner), node)
        of = bounds(node) if given and not rest else None
        if of is None:
            return new(frame, node, LIST, rest=contents(frame, owner))
        return new(frame, node, LIST, given[of])
    name = key(index)
    if name is None:
        made = NEVER if contents(frame, owner) else _made_for_key(frame, owner, REST, node)
        found = made or _under_some_key(frame, owner)
        return found or (UNKNOWN if owner in frame.analysis.many else NEVER)
    at = constant(index)
    if owner.made_of is LIST and isinstance(at, int) and at < 0:
        given, rest = sequence(frame, one(owner), node)
        if given and not rest:
            return given[at] if -len(given) <= at else NEVER
        return contents(frame, owner)
    return join(frame.read(owner, name), frame.read(owner, REST)) or _made_for_key(frame, owner, name, node)


def _under_some_key(frame: Frame, owner: Obj) -> Value:
    """What a container may hold under a key that nobody knows; of definitions, what is put in elsewhere, too.

    Of many of these, those that are known are no better a guess then than any other.
    """
    found = contents(frame, owner)
    if owner.made_of is DICT and are_definitions(found):
        more = frame.analysis.put_in_elsewhere(frame, owner)
        return more if more and len(found) > MOST_ATOMS else join(found, more)
    return found


def _made_for_key(frame: Frame, owner: Obj, cell: str, node: ast.AST) -> Value:
    """What a `defaultdict` makes for a key that nothing is known under; nothing at all where it is none."""
    factory = frame.read(owner, FACTORY)
    if not factory:
        return NEVER
    found = frame.analysis.call_without_arguments(frame, factory, node)
    frame.write(owner, cell, found, strong=False)
    return found


def store_item(frame: Frame, owners: Value, index: Value, value: Value, node: ast.AST) -> None:
    """Store an element of what a value may be."""
    frame.analysis.pytorch.array_stored(frame, owners, value, node)
    for atom in owners:
        if isinstance(atom, Tensor):
            frame.analysis.pytorch.index_store(frame, atom, index, value, node)
        elif isinstance(atom, Some) and atom.kind == "ndarray":
            frame.analysis.pytorch.to_numpy(frame, value, node)
        elif isinstance(atom, Opaque):
            if atom.tensor is not None:
                frame.analysis.pytorch.index_store(frame, atom.tensor, index, value, node)
            if atom.path:
                frame.write(atom, key(index) or REST, value, strong=False)
        elif isinstance(atom, Obj):
            if atom.made_of not in (LIST, DICT, SET):
                frame.analysis.set_item(frame, atom, index, value, node)
                continue
            name = None if is_slice(index) else key(index)
            at = constant(index)
            if atom.made_of is DICT:
                note_key(frame, atom, index)
            if name is None or (atom.made_of is LIST and isinstance(at, int) and at < 0):
                put(frame, atom, elements(frame, value, node) if is_slice(index) else value)
                for cell in [each for each in frame.now.cells if each[0] is atom]:
                    del frame.now.cells[cell]
            else:
                frame.write(atom, name, value, strong=len(owners) == 1)


def lacks(call: Native) -> bool:
    """Whether a list, dictionary, set, tuple or distribution is taken for a tensor: none of them has a `float()`."""
    owner = call.owner
    of_object = isinstance(owner, Obj) and (owner.made_of in KINDS or owner.external.startswith(DISTRIBUTIONS))
    return call.name == "float" and (isinstance(owner, Tup) or of_object)


def method(frame: Frame, call: Native, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
    """A call of a method of a list, dictionary, set, tuple, string or number."""
    owner, name = call.owner, call.name
    if isinstance(owner, FileModule) and name == "update":
        return _update_file(frame, owner, args, keywords)
    if isinstance(owner, FileModule):  # `globals().get(name)`
        default = args[1] if len(args) > 1 else NONE_VALUE
        return join(frame.analysis.global_at(frame, owner, constant(args[0]) if args else None), default)
    if isinstance(owner, Obj) and name in _PROTOCOL:
        return _by_protocol(frame, owner, name, args, node)
    if isinstance(owner, Obj) and owner.made_of in (LIST, SET):
        return _list_method(frame, owner, name, args, node)
    if is_dict(owner):
        return _dict_method(frame, owner, name, args, keywords, node)
    if isinstance(owner, Tup):
        return some("int") if name in _NUMBER else UNKNOWN
    kind = owner.kind if isinstance(owner, (Const, Some)) else ""
    if kind in ("str", "bytes"):
        if isinstance(owner, Const) and not keywords and all(constant(each) is not None for each in args):
            return _text_method(owner, name, [constant(each) for each in args])
        if name in ("split", "rsplit", "splitlines"):
            return new(frame, node, LIST, rest=some("str"))
        if name in ("partition", "rpartition"):
            return tup([some("str")] * 3)
        return some("bool") if name in _TRUTH else some("int") if name in _NUMBER else some("str")
    if isinstance(owner, Some) and kind in ("float", "int") and name in ("item", "cpu", "detach"):
        return one(owner)
    return UNKNOWN


def _update_file(frame: Frame, owner: FileModule, args: list[Value], keywords: dict[str, Value]) -> Value:
    """`globals().update(settings)`: names may be what they were, or what they get.

    Where nobody knows which names get a value, those of settings may be anything: numbers, texts, None.
    """
    is_here = not frame.code.is_function and owner.file == frame.module.file
    known = frame.now.names if is_here else {}

    def may_be(name: str, value: Value) -> None:
        if is_here:
            frame.bind(name, join(known.get(name, NEVER), value))
        else:
            frame.write(owner, name, value, strong=False)

    pairs = [*keywords.items(), *(pair for each in args for pair in keyword_pairs(frame, each))]
    for name, value in pairs:
        if name:
            may_be(name, value)
            continue
        frame.write(owner, ANY_ATTRIBUTE, UNKNOWN, strong=False)
        for each, held in list(known.items()):
            if held and all(isinstance(atom, (Const, Some)) for atom in held):
                may_be(each, UNKNOWN)
    return NONE_VALUE


def _text_method(owner: Const, name: str, args: list[object]) -> Value:
    if name in _TEXT or name in _TRUTH or name in _NUMBER:
        try:
            return const(getattr(owner.value, name)(*args))
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, LookupError):
            return some("str")
    if name in ("split", "rsplit"):
        return many(some("str"))
    return some("str") if name != "partition" else tup([some("str")] * 3)


def _by_protocol(frame: Frame, owner: Obj, name: str, args: list[Value], node: ast.Call) -> Value:
    """A call of what stands behind a subscript, a loop, `len()` and `in`, as `super().__setitem__(name, value)`."""
    if name == "__getitem__" and args:
        return _item_of_object(frame, owner, args[0], node)
    if name == "__setitem__" and len(args) == 2:
        store_item(frame, one(owner), args[0], args[1], node)
        return NONE_VALUE
    if name == "__iter__":
        return many(elements(frame, one(owner), node))
    return some({"__len__": "int", "__contains__": "bool"}[name]) if name in ("__len__", "__contains__") else UNKNOWN


def _list_method(frame: Frame, owner: Obj, name: str, args: list[Value], node: ast.Call) -> Value:
    if name in ("append", "add", "appendleft"):
        value = args[0] if args else UNKNOWN
        length = constant(frame.read(owner, "<length>"))
        if name == "append" and isinstance(length, int) and length < 12 and not frame.runs_often:
            frame.write(owner, f"[{length}]", value)
            frame.write(owner, "<length>", const(length + 1))
            frame.analysis.shared(frame, value) if frame.depth else None
        else:
            frame.write(owner, "<length>", some("int"))
            put(frame, owner, value)
        return NONE_VALUE
    if name in ("extend", "insert", "update", "extendleft"):
        frame.write(owner, "<length>", some("int"))
        put(
            frame, owner, elements(frame, args[0], node) if name != "insert" and args else args[-1] if args else UNKNOWN
        )
        return NONE_VALUE
    if name in ("pop", "popleft"):
        frame.write(owner, "<length>", some("int"))
        whole = contents(frame, owner)
        put(frame, owner, whole)
        return whole
    if name in ("remove", "clear", "reverse", "sort", "discard"):
        put(frame, owner, contents(frame, owner))
        frame.write(owner, "<length>", some("int"))
        return NONE_VALUE
    if name in ("copy", "union", "intersection", "difference"):
        inside = [contents(frame, owner), *(elements(frame, each, node) for each in args)]
        return new(frame, node, owner.made_of, rest=join_all(inside))
    return some("int") if name in _NUMBER else some("bool")


def _dict_method(
    frame: Frame, owner: Obj, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
) -> Value:
    if name in ("pop", "popitem", "clear"):
        frame.write(owner, "<length>", some("int"))
    if name in ("get", "pop", "setdefault"):
        default = args[1] if len(args) > 1 else NONE_VALUE
        cell = key(args[0]) if args else None
        held = frame.read(owner, REST)
        found = _under_some_key(frame, owner) if cell is None else join(frame.read(owner, cell), held)
        if name == "setdefault":
            if cell is None:
                put(frame, owner, default)
            else:
                frame.write(owner, cell, join(found, default))
        return join(found, default) if name != "pop" or len(args) > 1 else found
    if name == "items":
        pairs = [tup([_key_of(frame, owner, each), frame.read(owner, each)]) for each in _keys(frame, owner)]
        rest = frame.read(owner, REST)
        if _is_whole(frame, owner):
            return tup(pairs)
        if rest:
            pairs.append(tup([join(frame.read(owner, "<key>"), some("str")), rest]))
        return many(join_all(pairs))
    if name == "keys":
        return many(join(_elements(frame, owner, node), frame.read(owner, "<key>")))
    if name == "values":
        if _is_whole(frame, owner):
            return tup([frame.read(owner, each) for each in _keys(frame, owner)])
        return many(contents(frame, owner))
    if name == "update":
        for each in args:
            merge_dict(frame, owner, each)
        for word, value in keywords.items():
            frame.write(owner, f"[{word!r}]", value)
        return NONE_VALUE
    if name == "copy":
        made = new(frame, node, DICT)
        merge_dict(frame, next(iter(made)), one(owner))  # type: ignore[arg-type]
        return made
    return NONE_VALUE if name in ("clear",) else UNKNOWN


def _is_whole(frame: Frame, owner: Atom) -> bool:
    """Whether all keys of a dictionary are known: those that it was written with, or those of optimizers."""
    length, keys = constant(frame.read(owner, "<length>")), _keys(frame, owner)
    if not keys or not isinstance(length, int) or owner in frame.analysis.many or frame.read(owner, REST):
        return False
    return length == len(keys) or frame.analysis.pytorch.has_steps(frame.read(owner, each) for each in keys)


def merge_pairs(frame: Frame, owner: Obj, value: Value, node: ast.AST) -> int:
    """Put what `dict` is made of into a dictionary: another one, or pairs; returns how many, where these are all."""
    pairs = frozenset(atom for atom in value if isinstance(atom, (Tup, Obj)) and not is_dict(atom))
    given, rest = sequence(frame, pairs, node)
    for pair in (*given, *([rest] if rest else ())):
        at, held = unpack(frame, pair, 2, None, node)
        cell = key(at)
        note_key(frame, owner, at)
        if cell is not None:
            frame.write(owner, cell, held, strong=pair is not rest)
        else:
            put(frame, owner, held)
    merge_dict(frame, owner, value - pairs)
    return len(given) if pairs == value else 0


def merge_dict(frame: Frame, owner: Atom, value: Value) -> None:
    """Put everything of a mapping into a dictionary."""
    for each in as_containers(frame, value):
        if is_dict(each):
            if kept := frame.read(each, "<key>"):
                frame.write(owner, "<key>", kept, strong=False)
            for name in _keys(frame, each):
                frame.write(owner, name, join(frame.read(owner, name), frame.read(each, name)))
            rest = frame.read(each, REST)
            if rest:
                put(frame, owner, rest)
        elif isinstance(each, Opaque):
            put(frame, owner, one(each.part("[]")))
        else:
            put(frame, owner, UNKNOWN)


def keyword_pairs(frame: Frame, value: Value) -> Iterator[tuple[str, Value]]:
    """The keywords that `**value` gives, as far as they are known; the others come as an empty name."""
    for each in as_containers(frame, value):
        if is_dict(each):
            for name in _keys(frame, each):
                word = ast.literal_eval(name[1:-1])
                if isinstance(word, str):
                    yield word, frame.read(each, name)
            rest = frame.read(each, REST)
            if rest:
                yield "", rest
        else:
            yield "", one(each.part("[]")) if isinstance(each, Opaque) else UNKNOWN
