"""Where a value comes from: the expressions that a name, a parameter or an attribute of `self` may have been given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.frozen import frozen
from amp_migrate.prove.code.arguments import bound
from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.scopes import (
    DEFINITIONS,
    FUNCTIONS,
    Definition,
    Scope,
    heads,
    imported_name,
    is_self,
    last_word,
)
from amp_migrate.syntax import nodes_in


@frozen
class Source:
    """An expression where it stands.

    Attributes:
        index: which part of its value is meant, if it is taken apart.
    """

    node: ast.expr
    scope: Scope
    index: int | None = None


class Origins:
    """The origins of the values of a program, in files that did not change as well."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._stores: dict[tuple[Scope, str], list[Source | None]] = {}
        self._fields: dict[tuple[ast.ClassDef, str], list[Source | None]] = {}
        self._calls: dict[str, list[Source]] = {}
        self._scopes: dict[ast.expr, Scope] = {}
        self._files: dict[str, File] = {}
        for file in program.files.values():
            self._read(file)

    def _read(self, file: File) -> None:
        self._files[file.name] = file
        for statement, scope in file.scopes.statements:
            for head in heads(statement):
                for node in nodes_in(head):
                    if isinstance(node, ast.Call):
                        self._scopes[node] = scope
                        self._calls.setdefault(last_word(node.func), []).append(Source(node, scope))
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._store(target, Source(statement.value, scope), scope)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._store(statement.target, Source(statement.value, scope), scope)
            elif isinstance(statement, (ast.For, ast.AsyncFor)):
                self._store(statement.target, None, scope)
            elif isinstance(statement, (ast.With, ast.AsyncWith)):
                for item in statement.items:
                    self._store(item.optional_vars, None, scope)

    def _store(self, target: ast.expr | None, source: Source | None, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            self._stores.setdefault((scope.find(target.id) or scope, target.id), []).append(source)
        elif isinstance(target, ast.Attribute) and is_self(target.value) and scope.owner is not None:
            self._fields.setdefault((scope.owner, target.attr), []).append(source)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, element in enumerate(target.elts):
                part = None if source is None or source.index is not None else Source(source.node, source.scope, index)
                self._store(element, part, scope)

    def scope_of(self, call: ast.expr) -> Scope | None:
        """The scope that a call of the files stands in."""
        return self._scopes.get(call)

    def of(self, source: Source) -> list[Source]:
        """All that a name or an attribute of `self` may have been given; nothing where that is not known."""
        node, scope = source.node, source.scope
        found: list[Source | None] = []
        if isinstance(node, ast.Name):
            at = scope.find(node.id)
            latest = _latest(at.node.body, node) if at is scope and isinstance(at.node, DEFINITIONS) else None
            if latest is not None:
                return [Source(latest, scope)]
            found = self._stores.get((at, node.id), []) if at is not None else []
            if at is not None and isinstance(at.node, FUNCTIONS):
                found = [*found, *self._passed(at, node.id)]
        elif isinstance(node, ast.Attribute) and is_self(node.value) and scope.owner is not None:
            found = self._fields.get((scope.owner, node.attr), [])
        return [each for each in found if each is not None] if None not in found else []

    def own_class(self, source: Source) -> ClassSource | None:
        """The class whose method an expression stands in, where it is `self`."""
        scope: Scope | None = source.scope if is_self(source.node) else None
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        if scope is None or scope.parent is None or not isinstance(scope.node, ast.ClassDef):
            return None
        return ClassSource(scope.node, scope.parent)

    def returned(self, source: Source) -> list[Source]:
        """All that a call of a function of the project hands back; nothing where that is not known."""
        node = source.node
        found = []
        for function, at in self._defined(node.func, source.scope) if isinstance(node, ast.Call) else ():
            if isinstance(function, DEFINITIONS):
                inner = self._files[at.file].scopes.inside(function, at)
                for each in nodes_in(function):
                    if isinstance(each, ast.Return) and each.value is not None:
                        found.append(Source(each.value, inner, source.index))
        return found

    def _defined(self, func: ast.expr, scope: Scope) -> Iterator[tuple[Definition | ast.ClassDef, Scope]]:
        """What the project defines by a name, each with the scope that it stands in."""
        name = func.id if isinstance(func, ast.Name) else ""
        at = scope.find(name) if name else None
        if at is None or name not in at.definitions:
            full = imported_name(func, scope)
            module, _, name = full.rpartition(".")
            file = self._load(module or full.removesuffix(name), scope.file) if name else None
            at = None if file is None else file.scopes.module
        if at is not None:
            for each in at.definitions.get(name, ()):
                yield each, at

    def _passed(self, inner: Scope, name: str) -> Iterator[Source | None]:
        """What the calls of a function give to one of its parameters."""
        function = inner.node
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        if name not in {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}:
            return
        is_method = inner.parent is not None and isinstance(inner.parent.node, ast.ClassDef)
        for call in self._calls.get(function.name, ()):
            assert isinstance(call.node, ast.Call)
            for parameter, value in bound(function, call.node, 1 if is_method else 0):
                if parameter == name:
                    yield None if value is None else Source(value, call.scope)

    def made(self, source: Source) -> tuple[str, ClassSource | None]:
        """The class that a call makes an object of: its full name, and where the project defines it."""
        node, scope = source.node, source.scope
        if not isinstance(node, ast.Call):
            return "", None
        if isinstance(node.func, ast.Name) and "." in node.func.id:  # of an erased program
            return node.func.id, None
        defined = self._defined(node.func, scope)
        found = next((ClassSource(each, at) for each, at in defined if isinstance(each, ast.ClassDef)), None)
        if found is not None and found.scope.file == scope.file:
            return found.node.name, found
        full = self._program.values.name(node.func, scope) if scope.file in self._program.files else ""
        return full or imported_name(node.func, scope), found

    def inside(self, function: Definition, of: ClassSource) -> Scope:
        """The scope inside a method of a class."""
        scopes = self._files[of.scope.file].scopes
        return scopes.inside(function, scopes.inside(of.node, of.scope))

    def _load(self, module: str, importer: str) -> File | None:
        found = self._program.loaded(module, importer)
        if found is not None and found.name not in self._files:
            self._read(found)
        return found


@frozen
class ClassSource:
    """A class where it is defined."""

    node: ast.ClassDef
    scope: Scope

    def method(self, name: str) -> Definition | None:
        """One of its own methods."""
        found = (each for each in self.node.body if isinstance(each, ast.FunctionDef) and each.name == name)
        return next(found, None)


def _latest(body: list[ast.stmt], name: ast.Name) -> ast.expr | None:
    """The value that a name has at one of its uses, where it is what the one assignment before it gave; else None."""
    line = name.lineno
    for index, statement in enumerate(body):
        if statement.lineno <= line <= (statement.end_lineno or line):
            is_loop = isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
            for part in ("body", "orelse", "finalbody"):
                block = getattr(statement, part, [])
                if block and block[0].lineno <= line <= (block[-1].end_lineno or line):
                    found = _latest(block, name)
                    if found is not None or is_loop or isinstance(statement, (ast.Try, *DEFINITIONS)):
                        return found
            for before in reversed(body[:index]):
                if any(
                    isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Store)
                    for n in nodes_in(before)
                ):
                    is_it = isinstance(before, ast.Assign) and len(before.targets) == 1
                    is_it = is_it and isinstance(before.targets[0], ast.Name)  # type: ignore[attr-defined]
                    return before.value if is_it else None  # type: ignore[attr-defined]
    return None
