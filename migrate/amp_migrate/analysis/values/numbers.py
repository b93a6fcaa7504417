"""Numbers that a text writes out."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File


def number(file: File, node: cst.BaseExpression) -> float | None:
    """The number that an expression writes out: `-1e9`, `float("-1e9")`, or a name for one; None for all others."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "float" and node.args:
        text = node.args[0].value
        if isinstance(text, cst.SimpleString):
            return _read(str(text.evaluated_value))
        return number(file, text)
    if isinstance(node, cst.Name):
        bindings = file.scopes.of(node).lookup(node.value)
        value = bindings[0].value if len(bindings) == 1 else None
        return None if value is None or isinstance(value, cst.Name) else number(file, value)
    return _read(file.tree.code(node))


def _read(text: str) -> float | None:
    try:
        return float(text.replace(" ", ""))
    except ValueError:
        return None
