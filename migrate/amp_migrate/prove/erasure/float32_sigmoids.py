"""Classes of sigmoids that compute in float32: without its precision, such a class is PyTorch's own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.scopes import DEFINITIONS
from amp_migrate.prove.code.trees import is_same
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import SIGMOID_CLASS

_RETURNED = ast.parse("input.float().sigmoid()", mode="eval").body


def sigmoids_in_float32(file: File, name: Callable[[ast.expr], str]) -> dict[str, ast.ClassDef]:
    """Those that a file defines, by the only meaning that their names have in it.

    Args:
        name: gives the public name of what an expression of the module names.
    """
    module = file.scopes.module
    return {
        node.name: node
        for at, node in enumerate(file.tree.body)
        if isinstance(node, ast.ClassDef)
        and module.definitions.get(node.name) == [node]
        and not {node.name} & (module.assigned | module.imports.keys())
        and [name(each) for each in node.bases] == [SIGMOID_CLASS]
        and _computes_in_float32(node)
        and _is_bound(file, _first_word(node.bases[0]), frozenset(_imported(file.tree.body[:at])))
    }


def _is_bound(file: File, name: str, imported: frozenset[str]) -> bool:
    """Whether imports above bring a name; what the module itself binds nowhere comes by one of its star imports."""
    return name in imported or ("*" in imported and name not in file.scopes.module.names)


def _imported(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that imports among statements of a module bring, also in a `try` or an `if`."""
    around = (each for each in statements if not isinstance(each, (*DEFINITIONS, ast.ClassDef)))
    for node in (node for each in around for node in nodes_in(each)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _first_word(node: ast.expr) -> str:
    return ast.unparse(node).partition(".")[0]


def _computes_in_float32(node: ast.ClassDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if node.decorator_list or node.keywords or len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        return False
    forward, args = body[0], body[0].args
    is_plain = not (
        forward.decorator_list or args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults
    )
    returned = forward.body[0].value if len(forward.body) == 1 and isinstance(forward.body[0], ast.Return) else None
    return (
        forward.name == "forward"
        and is_plain
        and [each.arg for each in args.args] == ["self", "input"]
        and returned is not None
        and is_same(returned, _RETURNED)
    )
