"""What made the object that a method is called on, where every statement that gives it its value shows that."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from amp_migrate.prove.code.public_names import OPTIMIZERS
from amp_migrate.prove.code.scopes import DEFINITIONS, Scope, heads, last_word, parameters
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import HANDS_BACK

# Of whose objects it is known what their methods are: none of the files.
_WITHOUT_CLASSES = (*OPTIMIZERS, "torch.nn.")


class Values(Protocol):
    """What is asked about the expressions of some files."""

    def of(self, node: ast.expr, scope: Scope) -> frozenset[Any]:
        """What an expression may be."""

    def place(self, node: ast.expr, scope: Scope) -> tuple[Any, str]:
        """Where something is kept: whose it is, None where nobody can say, and its name."""

    def is_class_outside(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression names a class that has nothing to do with those of the files."""

    def mentioning(self, name: str) -> Iterable[tuple[ast.stmt, Scope]]:
        """The statements that have a name in them."""


class Receivers:
    """Knows the classes of objects in some files."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._known: dict[tuple[Any, str], list[ast.ClassDef] | None] = {}

    def made_by(self, node: ast.expr, scope: Scope) -> list[ast.ClassDef] | None:
        """The classes of the files that an object may be of.

        None of them for an optimizer, a schedule or a module of PyTorch's, and for an object of a class of another
        file; None where it may be of any.
        """
        owner, name = place = self._values.place(node, scope)
        if owner is None:
            return None
        if place not in self._known:
            self._known[place] = None if isinstance(owner, Scope) and _is_given(name, owner) else self._made_at(place)
        return self._known[place]

    def _made_at(self, place: tuple[Any, str]) -> list[ast.ClassDef] | None:
        found: list[ast.ClassDef] = []
        given = [each for each in self._given(place) if not _is_none(each[0])]  # which somebody else fills
        for value, scope in given:
            made = None if value is None else self._made_in(value, scope)
            if made is None:
                return None
            found += made
        return found if given else None

    def _given(self, place: tuple[Any, str]) -> Iterator[tuple[ast.expr | None, Scope]]:
        """The values that a place is given; None for one that no assignment spells out."""
        owner, name = place
        is_of_object = isinstance(owner, ast.ClassDef)
        places = {place, (None, name)} if is_of_object else {place}  # `trainer.optimizer = ...` may be of this object
        for statement, scope in self._values.mentioning(name):
            in_class = is_of_object and isinstance(scope.node, ast.ClassDef)
            for each in (each for head in heads(statement) for each in nodes_in(head)):
                if not isinstance(each, (ast.Name, ast.Attribute)) or isinstance(each.ctx, ast.Load):
                    continue
                if self._values.place(each, scope) in places or (in_class and last_word(each) == name):
                    yield _assigned(statement, each), scope

    def _made_in(self, node: ast.expr, scope: Scope) -> list[ast.ClassDef] | None:
        """The classes of the files whose objects an expression gives, as in `made_by`."""
        if isinstance(node, ast.IfExp):
            both = [self._made_in(each, scope) for each in (node.body, node.orelse)]
            return None if None in both else [each for made in both for each in made or ()]
        if _is_none(node):
            return []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HANDS_BACK:
            return self._made_in(node.func.value, scope)
        if isinstance(node, ast.Call) and self._values.is_class_outside(node.func, scope):
            return []
        found: list[ast.ClassDef] = []
        of = self._values.of(node.func, scope) if isinstance(node, ast.Call) else ()
        for each in of:
            if isinstance(each, tuple) and each[0] == "class":
                found.append(each[1])
            elif not (isinstance(each, tuple) and each[0] == "name" and each[1].startswith(_WITHOUT_CLASSES)):
                return None
        return found if of else None


def _assigned(statement: ast.stmt, target: ast.expr) -> ast.expr | None:
    """The value that a statement gives to one of its targets, where that is all that the target gets."""
    is_plain = isinstance(statement, ast.Assign) and target in statement.targets
    is_annotated = isinstance(statement, ast.AnnAssign) and target is statement.target
    return (
        statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) and (is_plain or is_annotated) else None
    )


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_given(name: str, scope: Scope) -> bool:
    """Whether more than assignments give a name its value: a call, an import, a definition."""
    node = scope.node
    is_parameter = isinstance(node, DEFINITIONS) and name in {each.arg for each in parameters(node.args)}
    return is_parameter or name in scope.imports or name in scope.definitions
