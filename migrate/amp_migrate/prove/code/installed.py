"""What code decides by what is installed: each choice is taken as it falls with one set of packages.

`try: import apex`, `find_spec("apex")` and tests of PyTorch's version are executed, with what they test and nothing
else; what is left is a program without the choice. So a result can be compared with the original for every machine.
"""

from __future__ import annotations

import ast
import operator as operators
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from amp_migrate.frozen import frozen
from amp_migrate.prove.code.public_names import public
from amp_migrate.prove.code.scopes import Scope, Scopes, full_module
from amp_migrate.prove.code.trees import is_same
from amp_migrate.tables.apex_names import DELETED, PROBES, SHIM, WITHDRAWN
from amp_migrate.tables.apex_natives import NATIVES
from amp_migrate.tables.signatures import FORMS, Version, forms

APEX = "apex"
OLD = "old apex"  # that it is one which still has what was taken out of packages that are still there
PACKAGES = (APEX, SHIM)
_OF_APEX = frozenset({APEX, "amp_C", "apex_C"})
_FINDERS = frozenset({"importlib.util.find_spec", "importlib.find_loader", "pkgutil.find_loader"})
_PARSERS = frozenset({"parse", "Version", "LooseVersion", "StrictVersion", "TorchVersion", "parse_version"})
_MODULES = frozenset({"torch", "torch.amp", "torch.cuda", "torch.cuda.amp", "torch.cpu", "torch.nn", "torch.optim"})
_FAILURES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "AttributeError"})
_TORCH_VERSION = "TORCH_VERSION"  # by which libraries hand on `torch.__version__`
_CHOOSES = frozenset({"find_spec", "find_loader", "__version__", _TORCH_VERSION, "modules", *PROBES})
_OF_AMP = frozenset(
    {"ImportError", "ModuleNotFoundError", *_OF_APEX, SHIM, "amp", "autocast", "GradScaler", "custom_fwd", "custom_bwd"}
)
_NATIVES = frozenset(native.new for native in NATIVES)
_GONE = tuple(f"{each}." for each in DELETED)
_SIMPLE: Mapping[str, Callable[..., Any]] = {
    "int": int, "float": float, "str": str, "tuple": tuple, "list": list, "len": len, "bool": bool,
    "map": lambda function, values: [function(each) for each in values],
}  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.GtE: operators.ge, ast.Gt: operators.gt, ast.LtE: operators.le, ast.Lt: operators.lt,
    ast.Eq: operators.eq, ast.NotEq: operators.ne,
}  # fmt: skip
_METHODS = frozenset({"split", "rsplit", "partition", "startswith", "strip", "replace"})


def may_choose(words: set[str]) -> bool:
    """Whether code that has these words may choose by what is installed."""
    return bool(words & _CHOOSES) or ("except" in words and bool(words & _OF_AMP)) or {"hasattr", "torch"} <= words


@frozen
class Installed:
    """A machine.

    Attributes:
        packages: which of Apex and the shim it has; `OLD` beside them.
        torch: the PyTorch that it has, as the oldest and the newest that code is written for.
    """

    packages: frozenset[str]
    torch: tuple[Version, Version]


class Unknown(Exception):
    """The value of an expression depends on more than what is installed."""


@total_ordering
class _Version:
    """A version that compares as versions do, with another and with a text."""

    def __init__(self, value: object) -> None:
        numbers = value if isinstance(value, tuple) else re.findall(r"\d+", str(value).partition("+")[0])
        self.numbers = [int(each) for each in numbers][:3]
        self.numbers += [0] * (3 - len(self.numbers))

    def __eq__(self, other: object) -> bool:
        return self.numbers == _Version(other).numbers

    def __lt__(self, other: object) -> bool:
        return self.numbers < _Version(other).numbers

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers))

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Fold(ast.NodeTransformer):
    """Takes the choices of one module.

    Attributes:
        locate: gives the file that an import loads, if it is among those that are compared.
        consulted: the packages that a choice asked for, filled while choices are taken.
        asks_for_living: whether a choice asked the shim for something that Apex itself still has.
        needs: the scopes that end with an error because a package is missing.
        choices: each that was taken, by its place and by what was left of it.
    """

    scopes: Scopes
    installed: Installed
    locate: Callable[[str], str | None]
    consulted: set[str] = field(default_factory=set)
    asks_for_living: bool = False
    needs: set[Scope] = field(default_factory=set)
    choices: list[tuple[object, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scope: Scope = self.scopes.module
        self._values: dict[str, ast.expr | None] = {}
        for node, _ in self.scopes.statements:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                self._values[name] = None if name in self._values else node.value
        self._about: set[str] = set()
        self._torch: Version = self.installed.torch[0]
        self._local: dict[str, object] = {}

    def taken(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement of the module with its choices taken."""
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    # -- statements

    def visit(self, node: ast.AST) -> Any:
        scope, self._scope = self._scope, self.scopes.inside(node, self._scope)
        try:
            found = super().visit(node)
        finally:
            self._scope = scope
        if found is not node:
            left = [(e.lineno, e.col_offset) for e in (found if isinstance(found, list) else [found])]
            self.choices.append((node.lineno, node.col_offset, *left, getattr(found, "value", None)))  # type: ignore[attr-defined]
        return found

    def visit_Try(self, node: ast.Try) -> Any:
        self.generic_visit(node)
        for index, statement in enumerate(node.body):
            outcome = self._outcome(statement)
            if outcome is None:
                return node
            if outcome is False:
                handler = next((each for each in node.handlers if self._catches(each)), None)
                if handler is None:
                    return node
                if any(isinstance(each, ast.Raise) for each in handler.body):
                    self.needs.add(self._scope)
                return _sequence([*node.body[:index], *handler.body, *node.finalbody], node)
        return _sequence([*node.body, *node.orelse, *node.finalbody], node)

    def visit_If(self, node: ast.If) -> Any:
        known = self._decided(node.test)
        self.generic_visit(node)
        return node if known is None else _sequence(node.body if known else node.orelse, node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        known = self._decided(node.test)
        self.generic_visit(node)
        return node if known is None else node.body if known else node.orelse

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        known = self._constant(node)
        if known is not node:
            return known
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        if any(isinstance(each, ast.Constant) and each.value is decides for each in node.values):
            return ast.copy_location(ast.Constant(decides), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        known = self._constant(node)
        if known is node:
            self.generic_visit(node)
        return known

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        full = self._full(node.func)
        name = full.rpartition(".")[2]
        if name in PROBES and not node.args and self._is_foreign(node.func):
            self.consulted.add(APEX)
            return ast.copy_location(ast.Constant(APEX in self.installed.packages), node)
        return self._constant(node) if name == "hasattr" or full in _FINDERS else node

    def _is_foreign(self, func: ast.expr) -> bool:
        """Whether a function is none of torch, and of no file that is compared: such a one says itself what it asks."""
        full = self._full(func)
        is_imported = full.startswith(".") or full.partition(".")[0] not in ("", "torch")
        return is_imported and self.locate(full.rpartition(".")[0]) is None

    def _outcome(self, statement: ast.stmt) -> bool | None:
        """Whether a statement of a guard succeeds (True), fails to import (False), or may do either or more (None)."""
        if isinstance(statement, ast.Import):
            return self._all(self._has(alias.name) for alias in statement.names)
        if isinstance(statement, ast.ImportFrom):
            module = full_module(statement)
            return self._all(self._has(f"{module}.{alias.name}") for alias in statement.names)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            value = statement.value
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if not all(isinstance(target, ast.Name) for target in targets):
                return None
            if isinstance(value, ast.Constant):
                return True
            return self._has(self._full(value)) if isinstance(value, (ast.Attribute, ast.Name)) else None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Constant, ast.Attribute, ast.Name)):
            is_text = isinstance(statement.value, ast.Constant)
            return True if is_text else self._has(self._full(statement.value))
        if isinstance(statement, ast.Return) and (statement.value is None or isinstance(statement.value, ast.Constant)):
            return True
        return True if isinstance(statement, (ast.Pass, ast.Global, ast.Nonlocal)) else None

    def _has(self, full: str) -> bool | None:
        root = full.partition(".")[0]
        package = APEX if root in _OF_APEX else root
        if full in WITHDRAWN and OLD not in self.installed.packages:
            return False
        if package in PACKAGES:
            self.consulted.add(package)
            if package == SHIM and public(full) != APEX and not f"{public(full)}.".startswith(_GONE):
                self.asks_for_living = True
            return package in self.installed.packages
        is_there = full in _MODULES or full in _NATIVES or (full in FORMS and forms(full, self.installed.torch[0]))
        return True if is_there else None

    @staticmethod
    def _all(outcomes: Iterable[bool | None]) -> bool | None:
        found = set(outcomes)
        return False if False in found else None if None in found else True

    @staticmethod
    def _catches(handler: ast.ExceptHandler) -> bool:
        types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        return any(each is None or (isinstance(each, ast.Name) and each.id in _FAILURES) for each in types)

    # -- expressions

    def _full(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.Attribute):
            base = self._full(node.value)
            return f"{base}.{node.attr}" if base else ""
        if not isinstance(node, ast.Name):
            return ""
        scope = self._scope.find(node.id)
        found = scope.imports.get(node.id, set()) if scope is not None else set()
        return next(iter(found)) if len(found) == 1 else "" if scope is not None else node.id

    def _decided(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.Constant):
            return None  # `while True`, `if 0:`: no choice of ours
        found = self._constant(test)
        return bool(found.value) if isinstance(found, ast.Constant) else None

    def _constant(self, node: ast.expr) -> ast.expr:
        """A constant for an expression that is decided by what is installed; else the expression."""
        results = []
        for version in self.installed.torch:
            self._torch, self._about = version, set()
            try:
                results.append(self._value(node))
            except (Unknown, ValueError, TypeError, IndexError, AttributeError):
                return node
        if not self._about or any(bool(each) != bool(results[0]) for each in results):
            return node
        self.consulted |= self._about & set(PACKAGES)
        value = results[0] if isinstance(results[0], (bool, type(None))) else bool(results[0])
        return ast.copy_location(ast.Constant(value), node)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in self._local:
            return self._local[node.id]
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._named(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(map(self._value, node.elts))
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self._value(node.operand)
        if isinstance(node, ast.BoolOp):
            values = [self._value(each) for each in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.Subscript):
            return self._value(node.value)[self._index(node.slice)]
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)) and len(node.generators) == 1:
            return self._listed(node.elt, node.generators[0])
        if isinstance(node, ast.Call):
            return self._called(node)
        raise Unknown

    def _index(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Slice):
            return self._value(node)
        return slice(*(None if part is None else self._value(part) for part in (node.lower, node.upper, node.step)))

    def _named(self, node: ast.Name | ast.Attribute) -> Any:
        full = self._full(node)
        if full in ("torch.__version__", "torch.version.__version__") or full.rpartition(".")[2] == _TORCH_VERSION:
            self._about.add("torch")
            return _Version(self._torch)
        value = self._values.pop(node.id, None) if isinstance(node, ast.Name) else None
        if value is not None and isinstance(node, ast.Name):
            try:
                return self._value(value)
            finally:
                self._values[node.id] = value
        if full in _SIMPLE:
            return _SIMPLE[full]
        raise Unknown

    def _listed(self, element: ast.expr, generator: ast.comprehension) -> Any:
        if generator.ifs or not isinstance(generator.target, ast.Name):
            raise Unknown
        found = []
        for each in self._value(generator.iter):
            self._local[generator.target.id] = each
            found.append(self._value(element))
        self._local.pop(generator.target.id, None)
        return tuple(found)

    def _compared(self, node: ast.Compare) -> bool:
        if len(node.ops) != 1:
            raise Unknown
        operator, container = node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.In, ast.NotIn)) and self._full(container) == "sys.modules":
            return self._found(node.left) == isinstance(operator, ast.In)
        left, right = self._sides(node.left, container)
        if isinstance(operator, (ast.In, ast.NotIn)) and isinstance(right, _Version):
            return (str(left) in str(right)) == isinstance(operator, ast.In)
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return (left is right) == isinstance(operator, ast.Is)
        if type(operator) not in _COMPARED:
            raise Unknown
        return bool(_COMPARED[type(operator)](left, right))

    def _sides(self, left: ast.expr, right: ast.expr) -> tuple[Any, Any]:
        """What is compared; both as versions where one function, whichever it is, has read both."""
        if isinstance(left, ast.Call) and isinstance(right, ast.Call) and is_same(left.func, right.func):
            texts = [self._value(each.args[0]) for each in (left, right) if len(each.args) == 1]
            if len(texts) == 2 and all(isinstance(each, (str, _Version)) for each in texts):
                return _Version(texts[0]), _Version(texts[1])
        return self._value(left), self._value(right)

    def _found(self, node: ast.expr) -> bool:
        """Whether there is the package that an expression names."""
        name = self._value(node)
        package = name.partition(".")[0] if isinstance(name, str) else ""
        if package not in PACKAGES:
            raise Unknown
        self._about.add(package)
        return package in self.installed.packages

    def _called(self, node: ast.Call) -> Any:
        full = self._full(node.func)
        if full in _FINDERS and len(node.args) == 1:
            return "found" if self._found(node.args[0]) else None
        if full == "hasattr" and len(node.args) == 2:
            has = self._has(f"{self._full(node.args[0])}.{self._value(node.args[1])}")
            if has is None or not self._full(node.args[0]).startswith("torch"):
                raise Unknown
            self._about.add("torch")
            return has
        arguments = [self._value(each) for each in node.args]
        if full.rpartition(".")[2] in _PARSERS and len(arguments) == 1:
            return _Version(arguments[0])
        if full in _SIMPLE and not node.keywords:
            return _SIMPLE[full](*arguments)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return getattr(str(self._value(node.func.value)), node.func.attr)(*arguments)
        raise Unknown


def _sequence(body: list[ast.stmt], instead: ast.stmt) -> Any:
    """Statements in the place of one, as `ast.NodeTransformer` takes them."""
    return body or ast.copy_location(ast.Pass(), instead)
