"""What is in a tree of Python's own `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Decorators under which a function is still called with the same arguments.
_KEEPING = frozenset(
    "no_grad inference_mode enable_grad staticmethod classmethod property wraps contextmanager".split()
)
# What may be read of a function without running it.
_READ = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Yield, ast.YieldFrom)

# The fields that hold no names or statements: half of all nodes are in them.
_WITHOUT_NODES = frozenset("ctx op ops id attr asname module level type_comment kind conversion simple rest".split())
_fields: dict[type, tuple[str, ...]] = {ast.Constant: ()}


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes in one, as `ast.iter_child_nodes` gives them in four times the time; no operators, and no contexts."""
    kind = type(node)
    if kind not in _fields:
        _fields[kind] = tuple(each for each in kind._fields if each not in _WITHOUT_NODES)
    found: list[ast.AST] = []
    for name in _fields[kind]:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
    return found


def nodes_in(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all that is in it, in the order and in half the time of `ast.walk`; no operators, and no contexts."""
    found = [node]
    for each in found:
        found += children(each)
        yield each


def blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement, and of its handlers and cases."""
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from filter(None, (getattr(part, name, None) for name in ("body", "orelse", "finalbody")))


def is_keeping(decorator: ast.expr) -> bool:
    """Whether a decorator is called what such are under which a function is called with the same arguments."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "") in _KEEPING


def keeps_arguments(decorator: ast.AST) -> bool:
    """Whether a function makes of another one that runs that, with all that it is given, and returns what that does."""
    if (
        not isinstance(decorator, ast.FunctionDef)
        or decorator.decorator_list
        or len(parameters := _names(decorator)) != 1
    ):
        return False
    *before, inner, last = [None, None, *decorator.body]
    is_alone = all(
        each is None or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)) for each in before
    )
    if not is_alone or not isinstance(inner, ast.FunctionDef) or not isinstance(last, ast.Return):
        return False
    args = inner.args
    if (
        args.vararg is None
        or args.kwarg is None
        or len(_names(inner)) != 2
        or not all(map(is_keeping, inner.decorator_list))
    ):
        return False
    own = {*parameters, *_names(inner)}
    inside = [each for statement in inner.body for each in nodes_in(statement)]
    given = f"{parameters[0]}(*{args.vararg.arg}, **{args.kwarg.arg})"
    calls = [each for each in inside if isinstance(each, ast.Call) and ast.unparse(each) == given]
    kept = {each for call in calls for each in nodes_in(call)}
    kept |= {each.value for each in inside if isinstance(each, ast.Attribute) and each.attr in _READ}
    uses = [each for each in inside if isinstance(each, ast.Name) and each.id in own and each not in kept]
    is_plain = not uses and not any(isinstance(each, _NESTED) or own & {*_words(each)} for each in inside)
    return is_plain and len(calls) == 1 and ast.unparse(last) == f"return {inner.name}" and _returns(inside, calls[0])


def _names(function: ast.FunctionDef) -> list[str]:
    """The names of all parameters."""
    return [each.arg for each in nodes_in(function.args) if isinstance(each, ast.arg)]


def _words(node: ast.AST) -> Iterator[str]:
    """What a node binds by a name that stands in no node of its own: a handler, an import, a pattern."""
    if not isinstance(node, (ast.Name, ast.Constant, ast.Attribute, ast.keyword)):
        for _, value in ast.iter_fields(node):
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def _returns(inside: list[ast.AST], call: ast.Call) -> bool:
    """Whether all that is returned is what a call gives, by a name that nothing else is given to or by none."""
    returned = [each.value for each in inside if isinstance(each, ast.Return)]
    names = {each.id for each in returned if isinstance(each, ast.Name)}
    kept = [each for each in inside if isinstance(each, ast.Assign) and each.value is call]
    targets = [target for each in kept for target in each.targets]
    stored = [
        each
        for each in inside
        if isinstance(each, ast.Name) and each.id in names and not isinstance(each.ctx, ast.Load)
    ]
    is_named = all(each in targets for each in stored) and len(stored) == len(names) <= 1
    return bool(returned) and is_named and all(each is call or isinstance(each, ast.Name) for each in returned)
