"""What the constructor of a base class stores, and that of a derived class replaces before anybody reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.flow.domain.atoms import Class, Obj, Opaque
from amp_migrate.flow.python.classes import lineage
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import FUNCTIONS, Code
from amp_migrate.syntax import nodes_in

_INIT = "__init__"


def is_replaced(frame: Frame, owner: Obj, name: str) -> bool:
    """Whether what is stored in an attribute here is gone before anybody reads it.

    So it is in the constructor of a base, if the class's own puts something else there behind `super().__init__()`, and
    no constructor up to there hands on the object, or calls or reads what may have to do with the attribute.
    """
    if frame.code.name != _INIT or not isinstance(owner.made_of, Class) or frame.code.parent is owner.made_of.code:
        return False
    return frame.kept(_is_stored_anew, (frame.code, owner.made_of, name))


def _is_stored_anew(frame: Frame, about: tuple[Code, Class, str]) -> bool:
    code, owner, name = about
    order = lineage(frame, owner)
    kinds = [each.code for each in order if isinstance(each, Class)]
    run: list[Code] = []
    for kind in kinds:
        run += [each for each in kind.inner if each.name == _INIT]
        if code in run:
            break
    if code not in run[1:] or not run[0].stores(name) or any(isinstance(each, Opaque) for each in order):
        return False
    if len({each.parent for each in run}) < len(run) or not all(map(_is_plain, run)):
        return False
    methods = [each for kind in kinds for each in kind.inner if each.name != _INIT]
    if any(_INIT in each.attributes for each in methods):  # a base's constructor may run again, without the other
        return False
    until = _until_replaced(run[0], name)
    stored = {attribute for each in run for attribute in _stored(each)} - {name, *(each.name for each in methods)}
    return bool(until) and all(
        _keeps_to(body, each.parameters[0].arg, stored)
        for each, body in zip(run, [until, *(each.body for each in run[1:])], strict=True)
    )


def _is_plain(code: Code) -> bool:
    """Whether a constructor is a function with nothing around it, that has a name for the object."""
    return isinstance(code.node, ast.FunctionDef) and not code.node.decorator_list and bool(code.parameters)


def _until_replaced(code: Code, name: str) -> list[ast.stmt]:
    """The statements of a constructor up to where it stores an attribute anew for certain; none where it does not."""
    own = code.parameters[0].arg
    is_made = False
    for index, each in enumerate(code.body):
        if is_made and isinstance(each, ast.Assign) and [_attribute(to, own) for to in each.targets] == [name]:
            return code.body[: index + 1]
        if any(isinstance(inner, ast.Return) for inner in nodes_in(each)):
            break
        is_made |= isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and _is_of_super(each.value.func)
    return []


def _stored(code: Code) -> Iterator[str]:
    """The attributes that a constructor stores in its object."""
    stored = (
        each for each in nodes_in(code.node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    )
    return (each.attr for each in stored if _attribute(each, code.parameters[0].arg))


def _keeps_to(body: Iterable[ast.stmt], own: str, attributes: set[str]) -> bool:
    """Whether some statements store attributes of an object, read no others than these, and do nothing else with it."""
    known: set[ast.AST] = set()
    for each in (node for statement in body for node in nodes_in(statement)):
        if _is_of_super(each):
            known |= {*nodes_in(each)}
        elif isinstance(each, ast.Attribute) and _attribute(each, own):
            if not isinstance(each.ctx, ast.Store) and each.attr not in attributes:
                return False
            known.add(each.value)
        elif isinstance(each, FUNCTIONS) or (
            isinstance(each, ast.Name) and each.id in (own, "super") and each not in known
        ):
            return False
    return True


def _attribute(node: ast.AST, own: str) -> str:
    """The attribute of an object that an expression is; empty for any other."""
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own
    return node.attr if isinstance(node, ast.Attribute) and is_own else ""


def _is_of_super(node: ast.AST) -> bool:
    """Whether an expression is `super().__init__`, of whichever class."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == _INIT
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "super"
    )
