"""What a text calls and uses, as Python's own parser sees it: a look at a file that may not be worth a tree."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Container, Iterator
from functools import lru_cache

from amp_migrate.engine.parts.work import Work, count_lines

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Everything:
    def __contains__(self, name: object) -> bool:
        return True


@lru_cache(maxsize=2_000)
def used_names(text: str) -> Container[str]:
    """The names that stand for variables and attributes in a text, or for what it imports.

    Those of parameters, of keyword arguments, and of what is defined and used nowhere are none of them. A text that
    Python cannot parse may use any.
    """
    tree = _parsed(text)
    if tree is None:
        return _Everything()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name.rpartition(".")[2])
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
    return frozenset(found)


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
    functions = (each for each in ast.walk(tree) if isinstance(each, _FUNCTIONS) and each.name == name)
    inside = (each for function in functions for statement in function.body for each in ast.walk(statement))
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
