"""`@frozen` makes what `@dataclass(frozen=True)` makes."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import amp_migrate
import pytest
from amp_migrate.frozen import frozen, frozen_in_order

PACKAGE = Path(amp_migrate.__file__).parent


@frozen
class Point:
    x: int
    y: int = 2
    known: Mapping[str, int] = field(default_factory=dict, hash=False)
    told: str = field(default="", compare=False, repr=False)

    @cached_property
    def sum(self) -> int:
        return self.x + self.y


@frozen_in_order
class Place:
    file: str
    line: int
    told: str = field(default="", compare=False)


@frozen
class Nothing:
    pass


@frozen
class Named(Point):
    name: str = ""


@frozen
class Positive:
    x: int

    def __post_init__(self) -> None:
        if self.x <= 0:
            raise ValueError("not positive")


def test_fields_are_taken_by_place_and_by_name_and_have_their_defaults() -> None:
    point = Point(1, known={"a": 1})
    assert (point.x, point.y, point.known, point.told) == (1, 2, {"a": 1}, "")
    assert Point(1).known is not Point(1).known
    assert Named(1, name="a") == Named(1, 2, {}, "", "a")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]


@pytest.mark.parametrize("make", [frozen, dataclass(frozen=True)])
def test_two_are_equal_hashed_and_shown_by_their_fields_as_dataclasses_are(make: Callable[[type], Any]) -> None:
    namespace: dict[str, Any] = {"__annotations__": {"x": int, "y": int, "z": int}}
    namespace |= {"y": field(default=2, hash=False), "z": field(default=3, compare=False, repr=False)}
    kind = make(type("Kind", (), namespace))
    assert kind(1, z=4) == kind(1, z=5) != kind(1, 3)
    assert kind(1, 2) != (1, 2, 3)
    assert hash(kind(1, 2, 4)) == hash(kind(1, 3, 5)) != hash(kind(2))
    assert repr(kind(1)) == "Kind(x=1, y=2)"
    assert kind.__match_args__ == ("x", "y", "z")
    shown = {"__annotations__": {"x": int}, "__repr__": lambda self: f"<{self.x}>"}
    assert repr(make(type("Kind", (), shown))(1)) == "<1>"


def test_nothing_is_changed_but_in_a_copy() -> None:
    point = Point(1)
    for name in ("x", "more"):
        with pytest.raises(FrozenInstanceError):
            setattr(point, name, 2)
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert replace(point, x=2) == Point(2)
    assert point.sum == 3
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == point
    assert asdict(point) == {"x": 1, "y": 2, "known": {}, "told": ""}
    assert [each.name for each in fields(Named)] == ["x", "y", "known", "told", "name"]


def test_a_class_may_look_at_what_it_is_given_and_may_have_no_fields() -> None:
    with pytest.raises(ValueError, match="not positive"):
        Positive(0)
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_all_frozen_data_that_a_run_loads_is_made_so() -> None:
    slow = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "frozen.py" and "verify" not in path.parts
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.ClassDef)
        if any(ast.unparse(made) == "dataclass(frozen=True)" for made in each.decorator_list)
    ]
    assert slow == []


def test_what_stands_in_an_order_is_compared_by_its_fields() -> None:
    first, same, second = Place("a", 2, told="x"), Place("a", 2, told="y"), Place("b", 1)
    assert sorted([second, first]) == [first, second]
    assert max(first, second) == second
    assert first <= same
    assert first >= same
    assert not first < same
    assert second > first
    with pytest.raises(TypeError):
        sorted([first, "a"])  # type: ignore[type-var]
    assert pickle.loads(pickle.dumps(first)) == first
