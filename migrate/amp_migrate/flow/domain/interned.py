"""Objects of which there is one for each content, so that comparing and hashing them costs nothing."""

from __future__ import annotations

from typing import Any


class Interned(type):
    """The type of classes whose instances are made once for each set of arguments, which are given by place."""

    def __init__(cls, *args: Any) -> None:
        super().__init__(*args)
        cls._made: dict[tuple[Any, ...], Any] = {}
        init = cls.__dict__.get("__init__")
        cls._defaults: tuple[Any, ...] = (init.__defaults__ or ()) if init else ()
        cls._arity = init.__code__.co_argcount - 1 if init else 0

    def __call__(cls, *args: Any) -> Any:
        missing = cls._arity - len(args)
        if missing:
            args += cls._defaults[-missing:]
        found = cls._made.get(args)
        if found is None:
            found = cls._made[args] = super().__call__(*args)
        return found
