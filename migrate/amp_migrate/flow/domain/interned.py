"""Objects of which there is one for each content, so that hashing and comparing them costs nothing.

Each is a number, because Python hashes and compares numbers itself, and that is what an analysis does most. The number
is the same in every process: a set of these is gone through in the same order whatever Python's hash seed is, and
whatever was analysed before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast
from zlib import crc32

_F = TypeVar("_F", bound=Callable[..., Hashable])
_FIRST_OF_A_RUN = 2.0**33  # what a run makes is numbered as it comes; behind the numbers of what is there before


class Interned(type):
    """The type of classes whose instances are made once for each set of arguments, which are given by place."""

    def __init__(cls, *args: Any) -> None:
        super().__init__(*args)
        cls._made: dict[tuple[Any, ...], Any] = {}
        init = cls.__dict__.get("__init__")
        cls._defaults: tuple[Any, ...] = (init.__defaults__ or ()) if init else ()
        cls._arity = init.__code__.co_argcount - 1 if init else 0

    def __call__(cls, *args: Any) -> Any:
        found = cls._made.get(args)
        if found is None and (missing := cls._arity - len(args)):
            args += cls._defaults[-missing:]
            found = cls._made.get(args)
        if found is None:
            is_of_run = _NOW.is_on or _is_of_a_run(args)
            number = _NOW.run.next_number if is_of_run else _lasting(cls, args)
            found = cls._made[args] = float.__new__(cls, number)  # type: ignore[arg-type]
            if is_of_run:
                _NOW.run.made.append((cls._made, args, found))
            found.__init__(*args)
        return found


class Numbered(float, metaclass=Interned):
    """The base of these objects; none of them is used as the number that it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return type(self).__name__


class Run:
    """What a run of an analysis has made, which others are not to know of."""

    def __init__(self) -> None:
        self.made: list[tuple[dict[tuple[Any, ...], Any], tuple[Any, ...], Any]] = []
        self._hidden: list[tuple[dict[tuple[Any, ...], Any], tuple[Any, ...], Any]] = []

    @contextmanager
    def interpreting(self) -> Iterator[None]:
        """All that is made belongs to it, and is numbered anew."""
        self.resume()
        _NOW.is_on = True
        try:
            yield
        finally:
            _NOW.is_on = False

    @property
    def next_number(self) -> float:
        """They are numbered as they come."""
        return _FIRST_OF_A_RUN + len(self.made)

    def resume(self) -> None:
        """Find again what it has made, and nothing of others: its program is asked, behind a run of another one."""
        if _NOW.run is not self:
            _NOW.run._leave()
            _NOW.run = self
            for made, args, each in self.made:
                if args in made:  # made outside of all runs since
                    self._hidden.append((made, args, made[args]))
                made[args] = each

    def _leave(self) -> None:
        for made, args, _ in self.made:
            del made[args]
        for made, args, each in self._hidden:
            made[args] = each
        self._hidden.clear()
        for forget in _NOW.forget:
            forget()


class _Now:
    """The run whose program is interpreted, or was the last to be asked."""

    def __init__(self) -> None:
        self.is_on = False
        self.run = Run()
        self.forget: list[Callable[[], None]] = []


_NOW = _Now()
_lasting_numbers: set[float] = set()


def _is_of_a_run(args: Any) -> bool:
    """Whether something has parts that a run has made: what is asked of its program behind its end goes with them."""
    if isinstance(args, (tuple, frozenset)):
        return any(map(_is_of_a_run, args))
    return isinstance(args, Numbered) and args >= _FIRST_OF_A_RUN


def _lasting(kind: type, args: tuple[Any, ...]) -> float:
    """The number of what is made outside of a run: of its content, as modules are not always imported in one order."""
    number = float(crc32(repr((kind.__name__, args)).encode(errors="replace")) + 1)
    while number in _lasting_numbers:
        number += 1
    _lasting_numbers.add(number)
    return number


def remembered(most: int) -> Callable[[_F], _F]:
    """Keep what a function gives, `most` results at once, until the next run."""

    def decorate(function: _F) -> _F:
        kept = lru_cache(maxsize=most)(function)
        _NOW.forget.append(kept.cache_clear)
        return cast("_F", kept)

    return decorate
