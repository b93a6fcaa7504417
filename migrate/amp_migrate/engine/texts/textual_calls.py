"""What a text calls and uses, as Python's own parser sees it: a look at a file that may not be worth a tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Container
from functools import lru_cache

from amp_migrate.engine.parts.work import Work, count_lines

_PARTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


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


def calls_anything(text: str, name: str) -> bool:
    """Whether some function or method of that name calls something; true where Python cannot parse the text."""
    tree = _parsed(text)
    if tree is None:
        return True
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            inside = (each for statement in node.body for each in ast.walk(statement))
            if any(isinstance(each, ast.Call) for each in inside):
                return True
        # Definitions stand among statements: no expression is gone through for them.
        stack += [each for each in ast.iter_child_nodes(node) if isinstance(each, _PARTS)]
    return False
