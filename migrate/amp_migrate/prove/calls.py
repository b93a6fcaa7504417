"""Whether what a result adds can be imported and called: in PyTorch, in the shim, and in the project itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property

from amp_migrate.prove.code.arguments import fits, takes
from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.scopes import Function, Scope, full_module, heads, imported_name, member
from amp_migrate.prove.code.trees import brief
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.apex_names import SHIM
from amp_migrate.tables.shim_names import shim_has
from amp_migrate.tables.signatures import FORMS, Version, forms, written


def wrong_call(before: Program, after: Program, name: str, versions: Iterable[Version]) -> tuple[str, int] | None:
    """A call or an import of one file that cannot work and that the original does not have, and its line.

    Args:
        versions: those of PyTorch that it has to work with.
    """
    old_imports = {code for _, _, code in _imports(before.files[name])}
    old_calls = _Written(before, name)
    is_changed = not before.signatures >= after.signatures
    lines = after.texts[name].encode().splitlines()
    for line, full, code in _imports(after.files[name]):
        if code not in old_imports and not _is_there(full, after, name, versions):
            return f"`{code}` imports what is not there", line
    for call, scope in _calls(after.files[name]):
        if old_calls.has(call, lines):
            if not is_changed or _bound_to(call, scope, before, after):
                continue
            return f"`{brief(call)}` does not fit the new parameters of what it calls", call.lineno
        wrong = _wrong_for_torch(call, scope, versions, old_calls)
        if wrong is not None:
            return wrong, call.lineno
        if not _binds_to_any(call, scope, after) and not old_calls.has_unfit(call):
            return f"`{brief(call)}` does not fit the parameters of what it calls", call.lineno
    return None


class _Written:
    """The calls that a file makes, by their texts: as they stand there, and if need be as they would be written."""

    def __init__(self, program: Program, name: str) -> None:
        lines = program.texts[name].encode().splitlines()
        self._program = program
        self._calls = [*_calls(program.files[name])]
        self._texts = {_text(call, lines) for call, _ in self._calls}

    @cached_property
    def _codes(self) -> set[str]:
        return {ast.unparse(call) for call, _ in self._calls}

    @cached_property
    def _unfit(self) -> set[_Form]:
        return {_form(call) for call, scope in self._calls if not _binds_to_any(call, scope, self._program)}

    @cached_property
    def names(self) -> set[str]:
        """The full names of what is called that is imported."""
        return {imported_name(call.func, scope) for call, scope in self._calls}

    def has(self, call: ast.Call, lines: list[bytes]) -> bool:
        """Whether a call of another file, whose lines are given, is one of these."""
        return _text(call, lines) in self._texts or ast.unparse(call) in self._codes

    def has_unfit(self, call: ast.Call) -> bool:
        """Whether one of these fits as little what it calls, with as many arguments of the same names: it raised so."""
        return _form(call) in self._unfit


_Form = tuple[str, tuple[bool, ...], tuple[str | None, ...]]


def _form(call: ast.Call) -> _Form:
    is_starred = tuple(isinstance(each, ast.Starred) for each in call.args)
    return ast.unparse(call.func), is_starred, tuple(each.arg for each in call.keywords)


def _text(node: ast.expr, lines: list[bytes]) -> bytes:
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    if first == last:
        return lines[first][node.col_offset : node.end_col_offset]
    return b"\n".join([lines[first][node.col_offset :], *lines[first + 1 : last], lines[last][: node.end_col_offset]])


def _imports(file: File) -> Iterator[tuple[int, str, str]]:
    """What a file imports: the line, the full name, and the import as it would be written alone."""
    for node, _ in file.scopes.statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = full_module(node)
                yield node.lineno, member(module, alias.name), f"from {module} import {alias.name}"


def _calls(file: File) -> Iterator[tuple[ast.Call, Scope]]:
    for statement, scope in file.scopes.statements:
        for head in heads(statement):
            for node in nodes_in(head):
                if isinstance(node, ast.Call):
                    yield node, scope


# -- imports


def _is_there(full: str, program: Program, importer: str, versions: Iterable[Version]) -> bool:
    module, _, name = full.rpartition(".")
    root = full.partition(".")[0]
    if root == "torch":
        return full not in FORMS or all(forms(full, version) for version in versions)
    if root == SHIM:
        return name == "*" or shim_has(full)
    if root in sys.stdlib_module_names:
        return True
    file = program.loaded(module or full.removesuffix(name), importer)
    if file is not None:
        return name == "*" or name in file.scopes.module.names or program.loaded(full, importer) is not None
    return program.loaded(full, importer) is not None or _is_foreign(root, program, importer)


def _is_foreign(root: str, program: Program, importer: str) -> bool:
    """Whether a package that is not of the project is imported anywhere in the file already."""
    before = (full for _, full, _ in _imports(program.files[importer]))
    return sum(full.partition(".")[0] == root for full in before) > 1 or root == "click"


# -- calls


def _wrong_for_torch(call: ast.Call, scope: Scope, versions: Iterable[Version], old: _Written) -> str | None:
    """What is wrong with a call of autocast, GradScaler or their like in one of the versions.

    That a version has nothing of the name is no fault of the result where the original calls it as well: it is written
    for a newer one.
    """
    full = imported_name(call.func, scope)
    for version in versions if full in FORMS else ():
        accepted = forms(full, version)
        if not accepted and full in old.names:
            continue
        if not accepted:
            return f"PyTorch {written(version)} has no {full}"
        if not any(fits(form.signature, call) for form in accepted):
            return f"`{brief(call)}` is no call that PyTorch {written(version)} takes"
    return None


def _binds_to_any(call: ast.Call, scope: Scope, program: Program) -> bool:
    """Whether a call fits one of the functions of the project that it may run; yes where none is known."""
    found = list(program.values.called(call, scope))
    fitting = [takes(function, call, skipped) for function, skipped, is_sure in found if is_sure]
    return all(fitting) or (_is_two_things(call.func, scope) and any(fitting))


def _is_two_things(node: ast.expr, scope: Scope) -> bool:
    """Whether a scope imports and defines what a name stands for: which of them depends on the time."""
    found = scope.find(node.id) if isinstance(node, ast.Name) else None
    return (
        found is not None and isinstance(node, ast.Name) and node.id in found.imports and node.id in found.definitions
    )


def _bound_to(call: ast.Call, scope: Scope, before: Program, after: Program) -> bool:
    """Whether a call that stayed as it was still fits functions that took it."""
    for function, skipped, is_sure in after.values.called(call, scope):
        if not takes(function, call, skipped):
            old = _same_function(function, before)
            is_lost = old is not None and takes(old, call, skipped) and not _is_same_signature(old, function)
            if is_sure and is_lost:
                return False
    return True


def _same_function(function: Function, program: Program) -> Function | None:
    name = getattr(function, "name", "")
    found = [node for file in program.files.values() for node, _ in file.scopes.functions if node.name == name]
    return found[0] if len(found) == 1 else None


def _is_same_signature(one: Function, other: Function) -> bool:
    return ast.unparse(one.args) == ast.unparse(other.args)
