"""Reading and storing attributes."""

from __future__ import annotations

import ast
from abc import ABCMeta

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Atom,
    Class,
    Const,
    External,
    FileModule,
    Func,
    Lazy,
    Member,
    Method,
    Native,
    Obj,
    Opaque,
    Some,
    Super,
    Tup,
    Value,
    Wrapped,
    const,
    join,
    join_all,
    one,
)
from amp_migrate.flow.domain.tensor import Tensor
from amp_migrate.flow.python import command_line, containers, enums
from amp_migrate.flow.python.classes import class_of, is_module_class, lineage
from amp_migrate.flow.python.constructors import is_replaced
from amp_migrate.flow.python.frame import Frame
from amp_migrate.tables.torch_names import is_module_name

MORE = "<more>"  # whether something may get attributes out of sight: by its `__dict__`, or what makes it a class
_GETTERS = ("__getattr__", "__getattribute__")
_OBJECT = External("builtins.object")  # what every class inherits from
# What tensors and tuples have, or those that PyTorch's functions give.
_OF_TUPLES = frozenset("count index values indices min max sign numel".split())


def load(frame: Frame, value: Value, name: str, node: ast.AST) -> Value:
    """What an attribute of a value may be."""
    found = NEVER
    # Where it is that of a tensor, a tuple would raise: `net(x).cpu()` of what gives a pair in training only.
    is_of_tensor = len(value) > 1 and name not in _OF_TUPLES and any(isinstance(each, Tensor) for each in value)
    for atom in containers.having(value, name):
        if not (is_of_tensor and isinstance(atom, Tup)):
            found = join(found, _load(frame, atom, name, node))
    numbers = [each for each in value if isinstance(each, Const) and type(each.value) in (int, float)]
    if not found and len(numbers) == len(value):  # they are NumPy's, which have more
        return frozenset(Native(name, Some(each.kind)) for each in numbers)
    return found


def _load(frame: Frame, atom: Atom | Tensor, name: str, node: ast.AST) -> Value:
    if isinstance(atom, Tensor):
        return frame.analysis.pytorch.tensor_attribute(frame, atom, name, node)
    if isinstance(atom, Obj):
        return load_of_object(frame, atom, name, node) or _out_of_sight(frame, atom, name)
    if isinstance(atom, FileModule):
        # A module's namespace has what the module has, and is taken for it.
        found = one(atom) if name == "__dict__" else frame.analysis.global_of(frame, atom.file, name)
        is_method = name in ("get", "update") and found == one(Opaque((atom.file, name)))
        return one(Native(name, atom)) if is_method else found
    if isinstance(atom, External):
        return frame.analysis.external_attribute(frame, atom, name)
    if isinstance(atom, Opaque):
        if atom.hint and is_module_name(atom.hint) and name == "module":
            return one(atom)
        if atom.tensor is not None:
            return frame.analysis.pytorch.unknown_attribute(frame, atom, name, node)
        known = command_line.option(frame, atom, name) or frame.analysis.pytorch.no_tensor(name)
        return known or one(atom.part(f".{name}"))
    if isinstance(atom, Class):
        if name in ("__name__", "__qualname__"):  # whatever its bases and its metaclass give it
            return const(atom.code.name)
        return load_of_class(frame, atom, atom, None, name) or _out_of_sight(frame, atom, name)
    if isinstance(atom, Super):
        return load_of_super(frame, atom, name) or _of_every(atom.owner, name)
    if isinstance(atom, (Func, Method, Wrapped)):
        inner = atom
        while not isinstance(inner, (Func, Class)):
            inner = inner.function  # type: ignore[assignment]
        if name in ("__name__", "__qualname__"):
            return const(inner.code.name)
        stored = frame.read(inner, name)
        return stored or UNKNOWN
    if isinstance(atom, Tup) and name in atom.names:
        return atom.items[atom.names.index(name)]
    if (
        isinstance(atom, Tup)
        and name in ("values", "indices", "logabsdet", "Q", "R", "U", "S", "V", "Vh")
        and atom.items
    ):
        at = {"indices": 1, "logabsdet": 1, "R": 1, "S": 1, "V": 2, "Vh": 2}.get(name, 0)
        return atom.items[min(at, len(atom.items) - 1)]
    if isinstance(atom, Some) and atom.kind == "ndarray" and name == "T":
        return one(atom)
    if isinstance(atom, Const) and atom.kind == "device" and name == "type":
        return const(atom.value)
    if isinstance(atom, Member):
        own = enums.attribute(frame, atom, name)
        own = own or load_of_class(frame, atom.of, atom.of, atom, name, missing=False)
        is_inherited = atom.kind != "member" and hasattr(atom.value, name)
        return own or one(Native(name, atom) if is_inherited else Opaque((atom,)).part(f".{name}"))
    if isinstance(atom, Some) and atom.kind == "member":
        return UNKNOWN
    if isinstance(atom, (Const, Some, Tup)):
        # Where it is the 0 that a sum began with, and the method a tensor's, it raises: some round has added to it.
        return NEVER if isinstance(atom, Const) and not hasattr(atom.value, name) else one(Native(name, atom))
    if isinstance(atom, Native):
        return UNKNOWN
    return NEVER


def _out_of_sight(frame: Frame, holder: Obj | Class, name: str) -> Value:
    """What an object or a class may have that neither it nor a class in sight shows; nothing where it has no such."""
    kinds = [each for each in lineage(frame, class_of(holder) or holder) if isinstance(each, Class)]
    is_given_more = frame.read(holder, MORE) or any(frame.analysis.class_cell(frame, each, MORE) for each in kinds)
    is_given_more = is_given_more or (isinstance(holder, Obj) and _is_made_out_of_sight(holder))
    return one(Opaque((holder,)).part(f".{name}")) if is_given_more else _of_every(holder, name)


def _of_every(holder: Atom, name: str) -> Value:
    """What Python gives every object and every class, and what decorators and metaclasses put beside it."""
    if name in ("__getattr__", "__setattr__"):
        return one(Native(name, holder))
    return UNKNOWN if name.startswith("__") or (isinstance(holder, Class) and hasattr(ABCMeta, name)) else NEVER


def load_of_object(frame: Frame, owner: Obj, name: str, node: ast.AST) -> Value:
    """An attribute of an object: its own, then that of its class."""
    own = frame.read(owner, name)
    kind = class_of(owner)
    if own == NONE_VALUE and _is_made_out_of_sight(owner):
        given_in_sight = frame.analysis.heap.read(owner, name, frame.task)
        own = own if given_in_sight - NONE_VALUE else join(own, one(Opaque((owner,)).part(f".{name}")))
    if isinstance(kind, Class):
        own = frame.analysis.pytorch.placed(frame, own)
        inherited = load_of_class(frame, kind, owner, owner, name, missing=not own)
        if own and not inherited:
            return own
        found = join(own, inherited)
        if name == "__class__":
            return one(kind)
        if name == "__dict__":
            frame.write(owner, MORE, TRUTHS, strong=False)
            return UNKNOWN
        # What has been stored by a name that nobody knows is in the place of none of what every module or object has.
        is_method = bool(found) and frame.analysis.pytorch.is_of_every_module(frame, kind, name)
        is_method = is_method or name.startswith("__")
        loose = NEVER if is_method else frame.read(owner, containers.ANY_ATTRIBUTE)
        return join(found, loose) if loose else found
    if isinstance(kind, External):
        native = frame.analysis.pytorch.object_attribute(frame, owner, name, node)
        return join(own, native)
    return own or UNKNOWN


def _is_made_out_of_sight(owner: Obj) -> bool:
    """Whether nobody in sight makes an object: whoever does gives it what it lacks, or derives a class that does."""
    kind = class_of(owner)
    return isinstance(kind, Class) and owner.site == kind.code.site


def load_of_class(
    frame: Frame, start: Class, holder: Atom, instance: Atom | None, name: str, *, missing: bool = True
) -> Value:
    """What a class has under a name, bound to an instance where there is one."""
    return _found(frame, lineage(frame, start), holder, instance, name, missing)


def load_of_super(frame: Frame, atom: Super, name: str) -> Value:
    """What `super()` has under a name: that of the first class behind the one where the search begins."""
    kind = class_of(atom.owner) if isinstance(atom.owner, Obj) else atom.owner
    order = lineage(frame, kind) if isinstance(kind, Class) else lineage(frame, atom.after)
    order = order[order.index(atom.after) + 1 :] if atom.after in order else lineage(frame, atom.after)[1:]
    return _found(frame, [*order, _OBJECT], atom.owner, atom.owner, name, True)


def _found(frame: Frame, order: list[Atom], holder: Atom, instance: Atom | None, name: str, missing: bool) -> Value:
    """The first of some classes that has a name says what it is.

    Args:
        missing: whether the object has none of that name itself, so that an unknown class must be asked.
    """
    for each in order:
        if isinstance(each, Class):
            stored = frame.analysis.class_cell(frame, each, name)
            if stored and enums.is_enumeration(order):
                stored = enums.as_member(order, each, name, stored)
            if stored:
                return bound(frame, stored, holder, instance)
        elif isinstance(each, External):
            given = frame.analysis.pytorch.class_attribute(frame, each.name, holder, name, missing)
            if given:
                return given
        elif isinstance(each, Opaque) and missing:
            return one(Opaque((holder,)).part(f".{name}"))
    if instance is not None and missing and name.startswith("__") is False:
        own = [each for each in order if isinstance(each, Class)]
        if any(frame.analysis.class_cell(frame, each, getter) for each in own for getter in _GETTERS):
            return UNKNOWN
    return NEVER


def bound(frame: Frame, value: Value, holder: Atom, instance: Atom | None) -> Value:
    """What a class holds, as it is when it is taken from an instance: functions become methods."""
    found = NEVER
    for atom in value:
        if isinstance(atom, Wrapped):
            found = join(found, _bound_wrapped(frame, atom, holder, instance))
        elif isinstance(atom, Func) and instance is not None:
            found = join(found, one(Method(atom, instance)))
        elif isinstance(atom, Obj) and isinstance(atom.made_of, Class) and instance is not None:
            getter = load_of_class(frame, atom.made_of, atom, atom, "__get__")
            given = [one(instance), one(class_of(instance) or instance)]
            got = [frame.analysis.call_function(frame, each, given) for each in getter if isinstance(each, Method)]
            found = join(found, join_all(got) if got else one(atom))
        else:
            found = join(found, one(atom))
    return found


def _bound_wrapped(frame: Frame, atom: Wrapped, holder: Atom, instance: Atom | None) -> Value:
    if atom.kind == "staticmethod":
        return one(atom.function)
    if atom.kind == "classmethod":
        kind = class_of(holder) if isinstance(holder, Obj) else holder
        return one(Method(atom.function, kind or holder))
    if instance is None:
        return one(atom)
    if atom.kind == "property":
        return frame.analysis.call_function(frame, atom.function, [one(instance)])
    return one(Method(atom, instance))


def store(frame: Frame, owners: Value, name: str, value: Value, node: ast.AST) -> None:
    """Store an attribute of what a value may be."""
    objects = [each for each in owners if isinstance(each, (Obj, Class, FileModule, Func, Opaque))]
    strong = len(owners) == 1
    for atom in objects:
        if name == "__dict__":
            frame.write(atom, MORE, TRUTHS, strong=False)
        if isinstance(atom, Class):
            frame.analysis.heap.write(atom, name, value)
        elif isinstance(atom, FileModule):
            frame.write(atom, name, value, strong=False)
        elif isinstance(atom, Opaque):
            if atom.path:
                frame.write(atom, name, value, strong=strong)
        elif isinstance(atom, Obj) and isinstance(atom.made_of, Class) and _set_by_property(frame, atom, name, value):
            continue
        else:
            frame.analysis.pytorch.attribute_stored(frame, atom, name, value, node)
            if strong and isinstance(atom, Obj) and is_replaced(frame, atom, name):
                continue
            frame.write(atom, name, value, strong=strong)
    for each in owners:
        if isinstance(each, Tensor):
            frame.analysis.pytorch.tensor_stored(frame, each, name, value, node)
        elif isinstance(each, (External, Obj, Opaque)):
            frame.analysis.pytorch.kept_elsewhere(frame, each, value, node)


def _set_by_property(frame: Frame, owner: Obj, name: str, value: Value) -> bool:
    """Whether a property of the class takes what is stored."""
    for kind in lineage(frame, owner.made_of):
        if isinstance(kind, Class):
            setter = frame.analysis.heap.read(kind, f"{name}.setter", frame.task)
            for each in setter:
                if isinstance(each, Func):
                    frame.analysis.call_function(frame, each, [one(owner), value])
                    return True
    return False


def is_module(frame: Frame, atom: Atom | Tensor) -> bool:
    """Whether something is a module of PyTorch, by its class."""
    return isinstance(atom, Obj) and is_module_class(frame, atom.made_of)


def resolve(frame: Frame, value: Value) -> Value:
    """A value with the names that are imported read now."""
    for each in value:
        if type(each) is Lazy:
            break
    else:
        return value
    found = NEVER
    for atom in value:
        own = frame.analysis.global_of(frame, atom.file, atom.name) if isinstance(atom, Lazy) else one(atom)
        found = join(found, own)
    return found
