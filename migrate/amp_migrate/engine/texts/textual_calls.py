"""What the functions of a text call, as Python's own parser sees it: a look at a file that may not be worth a tree."""

from __future__ import annotations

import ast
import warnings

from amp_migrate.engine.parts.work import Work, count_lines

_PARTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def calls_anything(text: str, name: str) -> bool:
    """Whether some function or method of that name calls something; true where Python cannot parse the text."""
    count_lines(Work.AST, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings
            stack: list[ast.AST] = [ast.parse(text)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            inside = (each for statement in node.body for each in ast.walk(statement))
            if any(isinstance(each, ast.Call) for each in inside):
                return True
        # Definitions stand among statements: no expression is gone through for them.
        stack += [each for each in ast.iter_child_nodes(node) if isinstance(each, _PARTS)]
    return False
