"""What a text calls and uses, as Python's own parser sees it: a look at a file that may not be worth a tree."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Set
from functools import lru_cache

from amp_migrate.engine.parts.work import Work, count_lines
from amp_migrate.frozen import frozen
from amp_migrate.syntax import nodes_in

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


@frozen
class _Uses:
    """What a text uses.

    Attributes:
        names: of variables and attributes, and of what it imports.
        attributes: for the name of each attribute, the variables that it is asked of; `""` for anything else.
        brought: the last words of what it imports.
        brings_all: whether it has a star import.
        modules: the modules that a name stands for which nothing but imports bind.
    """

    names: Set[str]
    attributes: Mapping[str, Set[str]]
    brought: Set[str]
    brings_all: bool
    modules: Mapping[str, Set[str]]


def may_use(text: str, name: str, *, is_method: bool, is_own: Callable[[str], bool]) -> bool:
    """Whether a text may use something of that name which another text defines.

    It asks an object for a method; it imports a function or class, or asks a module for it: not `subprocess.run`.

    Args:
        is_own: whether importing a module loads one of the project's.
    """
    uses = _uses(text)
    if uses is None:
        return True
    if not is_method and (name in uses.brought or (uses.brings_all and name in uses.names)):
        return True
    return any(
        each not in uses.modules or any(is_own(module) or is_own(f"{module}.{name}") for module in uses.modules[each])
        for each in uses.attributes.get(name, ())
    )


@lru_cache(maxsize=2_000)
def _uses(text: str) -> _Uses | None:
    tree = _parsed(text)
    if tree is None:
        return None
    names: set[str] = set()
    attributes: dict[str, set[str]] = defaultdict(set)
    brought: set[str] = set()
    bound: set[str] = set()  # by anything but `import module`
    modules: dict[str, set[str]] = defaultdict(set)
    for node in nodes_in(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
        elif isinstance(node, ast.Attribute):
            attributes[node.attr].add(node.value.id if isinstance(node.value, ast.Name) else "")
        elif isinstance(node, ast.Import):
            for each in node.names:
                modules[each.asname or each.name].add(each.name)
        elif isinstance(node, ast.ImportFrom):
            bound.update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.alias):
            brought.add(node.name.rpartition(".")[2])
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
            bound.update(node.names)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (*_DEFINITIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            bound.add(node.name or "")
    return _Uses(
        names.union(attributes, brought),
        attributes,
        brought,
        "*" in brought,
        {name: each for name, each in modules.items() if name not in bound},
    )


def _parsed(text: str) -> ast.Module | None:
    count_lines(Work.AST, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def calls_other(text: str, name: str, idle: Container[str]) -> bool:
    """Whether some function or method of that name calls something that `idle` does not name.

    True where Python cannot parse the text.

    Args:
        idle: functions as `len`, methods as `.reset`.
    """
    trees = [_parsed(each) for each in _definitions(text, name)]
    if not trees or None in trees:  # what looked like the end of one is in a string or in brackets
        trees = [_parsed(text)]
    return any(tree is None or _calls_other(tree, name, idle) for tree in trees)


def _calls_other(tree: ast.Module, name: str, idle: Container[str]) -> bool:
    functions = (each for each in nodes_in(tree) if isinstance(each, _FUNCTIONS) and each.name == name)
    inside = (each for function in functions for statement in function.body for each in nodes_in(statement))
    return any(isinstance(each, ast.Call) and _last_name(each.func) not in idle for each in inside)


def _last_name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return f".{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def _definitions(text: str, name: str) -> Iterator[str]:
    """The functions of that name in a text, each up to the next line that is no deeper."""
    for head in re.finditer(rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{name}\b", text, re.MULTILINE):
        end = re.compile(rf"^(?!{head[1]}[ \t]|[ \t]*(?:#|\r?$))", re.MULTILINE).search(text, head.end())
        yield textwrap.dedent(text[head.start() : len(text) if end is None else end.start()])
