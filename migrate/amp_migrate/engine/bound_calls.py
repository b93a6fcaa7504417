"""Whether the calls that a migration adds can be made: each against the signature of the target's PyTorch."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from inspect import Signature

from amp_migrate.tables.signatures import FORMS, Version, forms


def unbound_call(before: str, after: str, torch: Version) -> str | None:
    """What is wrong with a call of autocast, GradScaler or their like in `after` that `before` does not have.

    None where every such call binds. Calls that the old text has as well are the user's own.
    """
    old = set(_calls(before))
    known = {full for full, _ in old}
    for full, code in _calls(after):
        if (full, code) in old:
            continue
        accepted = forms(full, torch)
        version = ".".join(map(str, torch))
        if not accepted:
            if full not in known:
                return f"PyTorch {version} has no {full}"
        elif not any(_binds(form.signature, code) for form in accepted):
            return f"{code} is no call that PyTorch {version} takes"
    return None


def _calls(text: str) -> Iterator[tuple[str, str]]:
    """The calls of the functions in the table: full name and code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    names = dict(_imported(nodes))
    for node in nodes:
        if isinstance(node, ast.Call):
            full = _full(node.func, names)
            if full in FORMS:
                yield full, ast.unparse(node)


def _imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """What each name is imported as, wherever in the module; the last import of a name counts."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _full(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_full(node.value, names)}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def _binds(signature: Signature, code: str) -> bool:
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    positional = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    keywords = {each.arg: each.value for each in call.keywords if each.arg is not None}
    is_open = len(positional) < len(call.args) or len(keywords) < len(call.keywords)
    try:
        # What is starred may hold anything: only what is written out can be wrong.
        (signature.bind_partial if is_open else signature.bind)(*positional, **keywords)
    except TypeError:
        return False
    return True
