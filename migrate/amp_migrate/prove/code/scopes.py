"""Which scope binds a name, and to what: Python's own rules, for one module.

Only statements are read at first. What stands inside expressions, lambdas and comprehensions, is opened when somebody
looks into it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from amp_migrate.syntax import children, nodes_in
from amp_migrate.tables.apex_names import AMP, API
from amp_migrate.tables.signatures import FORMS

Definition: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Scope:
    """One module, class, function or comprehension.

    Attributes:
        names: what it binds itself.
        assigned: those of them that assignments, loops and contexts give another value than None.
        nones: those that are None where the program chooses so, and not for want of a package.
        elsewhere: the names that `global` and `nonlocal` give to another scope.
        imports: the full names that imports of this scope give to names.
        stars: the modules that it imports everything from.
        definitions: the functions and classes that it defines.
    """

    node: ast.AST
    parent: Scope | None
    file: str
    names: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    nones: set[str] = field(default_factory=set)
    elsewhere: dict[str, Scope] = field(default_factory=dict)
    imports: dict[str, set[str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    definitions: dict[str, list[Definition | ast.ClassDef]] = field(default_factory=dict)

    def find(self, name: str) -> Scope | None:
        """The scope that a name used here is looked up in; None for names of builtins, and of star imports."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.elsewhere:
                return scope.elsewhere[name]
            # The names of a class are seen in its body only, not in its methods.
            if name in scope.names and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope
            scope = scope.parent
        return None

    @property
    def module(self) -> Scope:
        """The module's own scope."""
        return self if self.parent is None else self.parent.module

    @property
    def owner(self) -> ast.ClassDef | None:
        """The class whose method this scope is, or is inside of."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, ast.ClassDef):
                return scope.node
            scope = scope.parent
        return None


def place_of(scope: Scope) -> str:
    """A function by its place in the file; empty for the module."""
    return "" if scope.parent is None else f"{place_of(scope.parent)}.{getattr(scope.node, 'name', '')}"


def imported_name(node: ast.expr, scope: Scope) -> str:
    """The full name of what an expression names, by the imports of its scope; empty where it is no import's.

    Where `amp` is Apex's or PyTorch's, as was found, it is that which has what is asked of it.
    """
    found = _imported_names(node, scope)
    return next(iter(found)) if len(found) == 1 else ""


def _imported_names(node: ast.expr, scope: Scope) -> set[str]:
    if isinstance(node, ast.Attribute):
        found = {f"{base}.{node.attr}" for base in _imported_names(node.value, scope)}
        return found if len(found) < 2 else found & {*FORMS, *(f"{AMP}.{each}" for each in API)}
    at = scope.find(node.id) if isinstance(node, ast.Name) else None
    return at.imports.get(node.id, set()) if at is not None and isinstance(node, ast.Name) else set()


class Scopes:
    """All scopes of one module.

    Attributes:
        statements: every statement with the scope that it stands in, in order.
        functions: every function that has a name, with the scope that it is defined in.
    """

    def __init__(self, tree: ast.Module, file: str, text: str) -> None:
        self._has_walrus = ":=" in text
        # Whether an `if`, or a handler, decides about the statements that are being read.
        self._is_chosen = self._is_handled = False
        self._tree = tree
        self.module = Scope(tree, None, file)
        self.statements: list[tuple[ast.stmt, Scope]] = []
        self.functions: list[tuple[Definition, Scope]] = []
        self._of: dict[ast.AST, Scope] = {tree: self.module}
        self._declared: list[tuple[Scope, str, bool]] = []
        self._block(tree.body, self.module)
        for scope, name, is_global in self._declared:
            target = scope.module if is_global else (scope.parent.find(name) if scope.parent else None) or scope.module
            scope.elsewhere[name] = target
            scope.names.discard(name)
            target.names.add(name)
            if target is not scope and name in scope.imports:
                target.imports.setdefault(name, set()).update(scope.imports.pop(name))

    @cached_property
    def given(self) -> dict[str, list[ast.expr]]:
        """What assignments give each name, in whichever scope."""
        found: dict[str, list[ast.expr]] = defaultdict(list)
        for each in (statement for statement, _ in self.statements if isinstance(statement, ast.Assign)):
            for name in dict.fromkeys(target.id for target in each.targets if isinstance(target, ast.Name)):
                found[name].append(each.value)
        return found

    def inside(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope inside a node that stands in a scope: its own, if it opens one."""
        if node not in self._of and isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            inner = self._open(node, scope)
            if isinstance(node, ast.Lambda):
                inner.names.update(each.arg for each in parameters(node.args))
            else:
                for generator in node.generators:
                    self._target(generator.target, inner)
        return self._of.get(node, scope)

    def _open(self, node: ast.AST, parent: Scope) -> Scope:
        scope = self._of[node] = Scope(node, parent, parent.file)
        return scope

    def _block(self, body: list[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self.statements.append((statement, scope))
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        if isinstance(node, (*DEFINITIONS, ast.ClassDef)):
            scope.names.add(node.name)
            scope.definitions.setdefault(node.name, []).append(node)
            self._forget(node.name, node, scope)
            inner = self._open(node, scope)
            if isinstance(node, DEFINITIONS):
                self.functions.append((node, scope))
                inner.names.update(each.arg for each in parameters(node.args))
            self._block(node.body, inner)
            return
        if isinstance(node, ast.Assign):
            known = set(scope.assigned)
            for target in node.targets:
                self._target(target, scope)
            # What stands for something else is still that, or nothing.
            nones = {each.id for each in given_none(node) if isinstance(each, ast.Name)}
            scope.assigned -= nones - known
            if self._is_chosen or (isinstance(scope.node, DEFINITIONS) and not self._is_handled):
                scope.nones |= nones
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
            self._target(node.target, scope)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._target(item.optional_vars, scope)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._target(target, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self._declared += [(scope, name, isinstance(node, ast.Global)) for name in node.names]
        elif isinstance(node, ast.Match):
            self._match(node, scope)
        around = self._is_chosen, self._is_handled
        for handler in getattr(node, "handlers", ()):
            if handler.name:
                scope.names.add(handler.name)
            self._is_chosen, self._is_handled = False, True
            self._block(handler.body, scope)
        self._is_chosen, self._is_handled = around[0] or isinstance(node, ast.If), around[1]
        for name in ("body", "orelse", "finalbody"):
            self._block(getattr(node, name, []), scope)
        self._is_chosen, self._is_handled = around
        for expression in heads(node) if self._has_walrus else ():
            for each in nodes_in(expression):
                if isinstance(each, ast.NamedExpr):
                    scope.names.add(each.target.id)

    def _target(self, node: ast.expr | None, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            scope.names.add(node.id)
            scope.assigned.add(node.id)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                self._target(element, scope)
        elif isinstance(node, ast.Starred):
            self._target(node.value, scope)

    def _match(self, node: ast.Match, scope: Scope) -> None:
        for case in node.cases:
            for each in nodes_in(case.pattern):
                name = getattr(each, "name", None) or getattr(each, "rest", None)
                if isinstance(name, str):
                    scope.names.add(name)
            self._block(case.body, scope)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                name, full = (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            elif alias.name == "*":
                scope.stars.append(full_module(node))
                continue
            else:
                name, full = alias.asname or alias.name, member(full_module(node), alias.name)
            scope.names.add(name)
            self._forget(name, node, scope)
            scope.imports.setdefault(name, set()).add(full)

    def _forget(self, name: str, node: ast.stmt, scope: Scope) -> None:
        """Forget what was imported by a name that the module gives to something else now, where nobody has seen it."""
        if name in scope.imports and node in self._top and self._said_at.get(name, node.lineno) >= node.lineno:
            del scope.imports[name]

    @cached_property
    def _top(self) -> frozenset[ast.stmt]:
        return frozenset(self._tree.body)

    @cached_property
    def _said_at(self) -> dict[str, int]:
        """The first line that says each name."""
        found: dict[str, int] = {}
        for each in nodes_in(self._tree):
            if isinstance(each, ast.Name):
                found[each.id] = min(each.lineno, found.get(each.id, each.lineno))
        return found


def full_module(node: ast.ImportFrom) -> str:
    """The module of a `from` import as it is written: `.engine` where it is relative."""
    return "." * node.level + (node.module or "")


def member(module: str, name: str) -> str:
    """The full name of something in a module: `.engine`, not `..engine`, for what is beside the file."""
    return module + name if module.endswith(".") else f"{module}.{name}"


def last_word(node: ast.expr) -> str:
    """The last word of a dotted name; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_self(node: ast.expr) -> bool:
    """Whether an expression is the object that a method is called on."""
    return isinstance(node, ast.Name) and node.id == "self"


def given_none(node: ast.Assign) -> Iterator[ast.expr]:
    """What an assignment gives None, be it beside other things: `apex, amp = None, None`."""
    waiting = [(each, node.value) for each in node.targets]
    several = (ast.Tuple, ast.List)
    for target, value in waiting:  # grows by the items of tuples
        if isinstance(value, ast.Constant) and value.value is None:
            yield target
        elif isinstance(target, several) and isinstance(value, several) and len(target.elts) == len(value.elts):
            waiting += zip(target.elts, value.elts, strict=True)


def parameters(args: ast.arguments) -> Iterator[ast.arg]:
    """All parameters of a function, starred ones too."""
    yield from (*args.posonlyargs, *args.args)
    yield from filter(None, (args.vararg,))
    yield from args.kwonlyargs
    yield from filter(None, (args.kwarg,))


def heads(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without the statements below it."""
    if isinstance(node, DEFINITIONS):
        yield from node.decorator_list
        yield from (*node.args.defaults, *filter(None, node.args.kw_defaults))
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            yield item.context_expr
            yield from filter(None, [item.optional_vars])
    else:
        for child in children(node):
            if isinstance(child, ast.expr):
                yield child
            elif isinstance(child, ast.keyword):
                yield child.value
