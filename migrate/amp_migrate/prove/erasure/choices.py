"""What the branches of Apex and of native AMP are chosen by, in a program that has both."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from amp_migrate.frozen import frozen
from amp_migrate.prove.code.public_names import AUTOCAST, SCALERS, public
from amp_migrate.prove.code.scopes import DEFINITIONS, Scope, Scopes, heads, imported_name, last_word, parameters
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.signatures import argument

ON = True  # what a flag is where it is set
OFF = False
_CHOOSES = frozenset({"apex.amp.initialize", "apex.amp.scale_loss"})
_NATIVE = frozenset({AUTOCAST, *SCALERS})
NEGATED = (ast.NotEq, ast.NotIn)
_Key = tuple[object, ...]


@frozen
class Question:
    """Something that a test asks for: that a thing is a constant, or that a flag is set (`ON`), or is not (`OFF`)."""

    key: _Key
    value: object
    code: str

    def is_chosen_by(self, value: object) -> bool:
        """Whether it is so once a constant is given to what it asks for."""
        is_flag = self.value is ON or self.value is OFF
        return bool(value) is self.value if is_flag else value == self.value


@frozen
class _Member:
    """A member of an enumeration: by its name it is what it is, as a constant is by its value."""

    code: str

    def __repr__(self) -> str:
        return self.code


_ELSE: list[Question] = []  # what an `else` asks for


class Chooser:
    """What one file of such a program asks, and what stands in the branches.

    Attributes:
        name: the file.
        text: its text.
        scopes: who binds what in it.
        asks_installed: whether what is installed may be what chooses.
        keeping: the statements that keep a parameter as an attribute, under which others ask for it.
    """

    def __init__(self, name: str, text: str, *, asks_installed: bool) -> None:
        self.name = name
        self.text = text
        self.asks_installed = asks_installed
        self.scopes = Scopes(ast.parse(text), name, text)
        given = [
            (scope.find(each.id), each.id, statement.value)
            for statement, scope in self.scopes.statements
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            for each in _names(target)
        ]
        count = Counter((scope, name) for scope, name, _ in given)
        # Names for what an object has: `params = self.params`.
        self._own = {(s, n): v for s, n, v in given if count[s, n] == 1 and ast.unparse(v).startswith("self.")}
        self._asked: dict[_Key, ast.expr] = {
            (n, s): v for s, n, v in given if s is not None and count[s, n] == 1 and isinstance(v, ast.BoolOp)
        }
        self._kept: dict[tuple[str, Scope], _Key] = {}
        self.keeping = frozenset(self._keeping())

    def _keeping(self) -> Iterator[ast.stmt]:
        """The statements that keep a parameter: `self.mode = mode`."""
        for node, scope in self.scopes.statements:
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            value = node.value if isinstance(node, ast.Assign) else None
            if (
                isinstance(target, ast.Attribute)
                and isinstance(value, ast.Name)
                and isinstance(scope.node, DEFINITIONS)
            ):
                is_parameter = any(each.arg == value.id for each in parameters(scope.node.args))
                key = _key(target, scope) if is_parameter and value.id not in scope.assigned else None
                if key is not None:
                    self._kept[value.id, scope] = key
                    yield node

    def key(self, node: ast.expr, scope: Scope) -> _Key | None:
        """What tells a variable, or a chain of attributes, from others that are spelled alike."""
        found = scope.find(node.id) if isinstance(node, ast.Name) else None
        kept = self._kept.get((node.id, found)) if isinstance(node, ast.Name) and found is not None else None
        return _key(self._meant(node, scope), scope) if kept is None else kept

    def _meant(self, node: ast.expr, scope: Scope) -> ast.expr:
        """An expression with what an object has by its own name: `self.params.amp` behind `params = self.params`."""
        own = {each.id: self._own.get((scope.find(each.id), each.id)) for each in _names(node)}
        return _Named(own).visit(ast.parse(ast.unparse(node), mode="eval").body) if any(own.values()) else node

    def called(self, question: Question, node: ast.expr, scope: Scope) -> str:
        """A flag as it is called beside another one: by the parameter, where that is."""
        names = {key: name for (name, where), key in self._kept.items() if where is scope}
        return names.get(question.key, question.code) if isinstance(node, ast.Name) else question.code

    def of_apex(self) -> Iterator[Question]:
        """What is asked for by the tests of branches that Apex's steps stand in."""
        for branches, _ in self._chains():
            for atoms, body, scope in branches:
                if any(self._calls_apex(each, scope) for each in body):
                    yield from atoms

    def pairs(self, apex: set[Question]) -> Iterator[tuple[Question, Question | None]]:
        """What chooses Apex, with what chooses native AMP beside it; None where that is whatever is not Apex."""
        for branches, _ in self._chains():
            natives = [
                atoms
                for atoms, body, scope in branches
                if any(self._is_native(each, scope, is_asked=atoms is not _ELSE) for each in body)
            ]
            if len(branches) == 2 and len(branches[0][0]) == 1 and branches[0][0] in natives:
                [asked], (_, other_body, scope) = branches[0][0], branches[1]
                is_flag = asked.value is ON or asked.value is OFF
                if is_flag and any(self._calls_apex(each, scope) for each in other_body):
                    yield replace(asked, value=not asked.value), None
            *_, (_, other_body, scope) = branches
            inner = [list(self._atoms(each.test, scope)) for each in other_body if isinstance(each, ast.If)]
            for atoms in (*(atoms for atoms, _, _ in branches), *inner):
                for own in (each for each in atoms if each in apex):
                    for other in natives:
                        if other is _ELSE and len(atoms) == 1:
                            yield own, None
                        yield from ((own, each) for each in _beside(own, atoms, other) if not self._asks(each, own))

    def _asks(self, flag: Question, own: Question) -> bool:
        """Whether a flag is only set where something else is asked for, too: that does not choose between the two."""
        value, scope = self._asked.get(flag.key), flag.key[-1]
        return value is not None and isinstance(scope, Scope) and own in self._atoms(value, scope)

    def given(self, key: _Key) -> Iterator[tuple[ast.stmt, object]]:
        """The statements that give something a value, each with that; None where it is no constant."""
        for node, scope in self.scopes.statements:
            is_plain = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for head in heads(node):
                for each, where in self._walk(head, scope):
                    is_stored = isinstance(each, (ast.Name, ast.Attribute)) and not isinstance(each.ctx, ast.Load)
                    if is_stored and isinstance(each, ast.expr) and _key(each, where) == key:
                        is_it = is_plain and each in node.targets  # type: ignore[attr-defined]
                        yield node, node.value.value if is_it else None  # type: ignore[attr-defined]

    def chain_of(self, statement: ast.stmt) -> ast.If | None:
        """The `if` with native AMP in it, in whose `else` a statement stands."""
        for branches, node in self._chains():
            is_its = len(branches) == 2 and statement in branches[1][1]
            if is_its and any(self._is_native(each, branches[0][2], is_asked=True) for each in branches[0][1]):
                return node
        return None

    def _chains(self) -> Iterator[tuple[list[tuple[list[Question], list[ast.stmt], Scope]], ast.If]]:
        """The branches of each `if`, with what their tests ask for, and the `if`."""
        ifs = [(node, scope) for node, scope in self.scopes.statements if isinstance(node, ast.If)]
        continued = {node.orelse[0] for node, _ in ifs if len(node.orelse) == 1}
        for node, scope in ifs:
            branches = []
            rest: list[ast.stmt] = [node]
            while len(rest) == 1 and isinstance(current := rest[0], ast.If):
                branches.append((list(self._atoms(current.test, scope)), current.body, scope))
                rest = current.orelse
            if node not in continued:
                yield [*branches, (_ELSE, rest, scope)], node

    def _atoms(self, test: ast.expr, scope: Scope) -> Iterator[Question]:
        """What has to be so for a test to be true."""
        for each, is_set in (_asked_of(part, scope) for part in parts_of(test)):
            if (flag := self.flag(each, scope)) is not None:
                if not self._is_fixed(each, scope):
                    yield flag if is_set else replace(flag, value=OFF)
            elif is_set and isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Eq):
                key, values = self.asked(each, scope) or (None, [])
                if key is not None:
                    yield Question(key, values[0], self._said(each, scope))

    def flag(self, node: ast.expr, scope: Scope) -> Question | None:
        """The question whether a variable, or an attribute of one, is set."""
        key = self.key(node, scope)
        return None if key is None else Question(key, ON, str(key[0]))

    def _said(self, part: ast.expr, scope: Scope) -> str:
        """A part of a test as code, which is the same for a parameter and for what it is kept as."""
        key = self.key(part.left if isinstance(part, ast.Compare) else part, scope)
        if key is None:
            return ast.unparse(part)
        name = ast.Name(str(key[0]))
        return ast.unparse(ast.Compare(name, part.ops, part.comparators) if isinstance(part, ast.Compare) else name)

    def _condition(self, part: ast.expr, scope: Scope, *, is_met: bool = True) -> str:
        """That a part of a test is met, or is not, as code."""
        asked, is_set = _asked_of(part, scope)
        said = self._said(asked, scope)
        return said if is_set is is_met else f"not ({said})"

    def asked(self, node: ast.Compare, scope: Scope) -> tuple[_Key, list[object]] | None:
        """What a comparison compares, and with which constants."""
        key, right = self.key(node.left, scope), node.comparators[0]
        elements = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
        if key is None or len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Eq, ast.In, *NEGATED)):
            return None
        constants = [_constant(each, scope) for each in elements]
        values: list[object] = [each for each in constants if type(each) in (str, int, type(None), _Member)]
        is_one = isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        return (key, values) if is_one is (elements == [right]) and len(values) == len(elements) else None

    def _is_fixed(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a name only says what is installed: the module gives it True and False, and nobody anything else."""
        if self.asks_installed or not isinstance(node, ast.Name) or scope.find(node.id) is not self.scopes.module:
            return False
        given = [
            each.value
            for each, _ in self.scopes.statements
            if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
        ]
        return bool(given) and all(isinstance(each, ast.Constant) and isinstance(each.value, bool) for each in given)

    def conditions(
        self, is_meant: Callable[[ast.AST, Scope], bool], *, asks_enabled: bool = False
    ) -> Iterator[tuple[str, ...]]:
        """Under which conditions each of some nodes of the file is executed, or is switched on, as code."""
        yield from self._under(self.scopes.module.node, self.scopes.module, is_meant, (), asks_enabled)

    def _under(
        self,
        node: ast.AST,
        scope: Scope,
        is_meant: Callable[[ast.AST, Scope], bool],
        known: tuple[str, ...],
        asks_enabled: bool,
    ) -> Iterator[tuple[str, ...]]:
        if isinstance(node, ast.Call) and self.is_of_torch(node.func, scope):
            enabled = argument(node, imported_name(node.func, scope), "enabled") or ast.Constant(True)
            if isinstance(enabled, ast.Constant) and not enabled.value:
                return  # it keeps float32, whichever was chosen
            if asks_enabled and not isinstance(enabled, ast.Constant):
                known = (*known, *(self._said(each, scope) for each in parts_of(enabled)))
        if is_meant(node, scope):
            yield known
        inner = self.scopes.inside(node, scope)
        if not isinstance(node, (ast.If, ast.IfExp)):
            for each in ast.iter_child_nodes(node):
                yield from self._under(each, inner, is_meant, known, asks_enabled)
            return
        asked = [each for each in parts_of(node.test) if not self._is_fixed(each, scope)]
        parts = [self._condition(each, scope) for each in asked]
        any_of = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or) else []
        one_of = any_of or (asked if len(asked) == 1 else [])
        failed = [self._condition(each, scope, is_met=False) for each in one_of] or [f"not ({' and '.join(parts)})"]
        for block, conditions in ((node.body, parts), (node.orelse, failed)):
            for each in block if isinstance(block, list) else [block]:
                yield from self._under(each, inner, is_meant, (*known, *conditions), asks_enabled)

    @staticmethod
    def is_of_apex(node: ast.AST, scope: Scope) -> bool:
        """Whether a call is a part of a step by Apex."""
        return isinstance(node, ast.Call) and imported_name(node.func, scope) in _CHOOSES

    @staticmethod
    def is_of_torch(node: ast.AST, scope: Scope) -> bool:
        """Whether an expression names autocast or a scaler of torch."""
        return isinstance(node, (ast.Name, ast.Attribute)) and public(imported_name(node, scope)) in _NATIVE

    def _calls_apex(self, node: ast.AST, scope: Scope) -> bool:
        return any(self.is_of_apex(each, where) for each, where in self._walk(node, scope))

    def _is_native(self, node: ast.AST, scope: Scope, *, is_asked: bool) -> bool:
        """Whether code names autocast or a scaler of torch; in an `else`, under no further condition."""
        if not is_asked and isinstance(node, ast.If):
            return False
        if self.is_of_torch(node, scope):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            scaled = node.func.value
            if isinstance(scaled, ast.Call) and isinstance(scaled.func, ast.Attribute) and scaled.func.attr == "scale":
                return True
        inner = self.scopes.inside(node, scope)
        return any(self._is_native(each, inner, is_asked=is_asked) for each in ast.iter_child_nodes(node))

    def _walk(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        yield node, scope
        if not isinstance(node, ast.JoinedStr):  # the places in it are not to be relied upon
            inner = self.scopes.inside(node, scope)
            for each in ast.iter_child_nodes(node):
                yield from self._walk(each, inner)


class _Named(ast.NodeTransformer):
    """Puts expressions in the places of names."""

    def __init__(self, values: Mapping[str, ast.expr | None]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The expression that a name stands for, if it stands for one."""
        return self._values.get(node.id) or node


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in nodes_in(node) if isinstance(each, ast.Name)]


def _constant(node: ast.expr, scope: Scope) -> object:
    """The value of a constant, or a name of a class or module, as of `AmpType.APEX`; True for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return True
    name = node.value.id
    at = scope.find(name)
    is_named = at is not None and (name in at.imports or name in at.definitions) and name not in at.assigned
    return _Member(ast.unparse(node)) if is_named else True


def _asked_of(test: ast.expr, scope: Scope) -> tuple[ast.expr, bool]:
    """What a test asks for, and whether it has to be so: `flag` of `flag is True`, of `not flag`, of `amp is None`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner, is_set = _asked_of(test.operand, scope)
        return inner, not is_set
    return compared_with_truth(test, scope) or (test, True)


def compared_with_truth(test: ast.expr, scope: Scope) -> tuple[ast.expr, bool] | None:
    """What a test compares with True or False, and what that has to be; None for any other test.

    What is Apex or None is true where it is not None.
    """
    other = test.comparators[0] if isinstance(test, ast.Compare) and len(test.ops) == 1 else None
    if not isinstance(test, ast.Compare) or not isinstance(other, ast.Constant):
        return None
    if not (isinstance(other.value, bool) or (other.value is None and _is_apex_or_none(test.left, scope))):
        return None
    is_negated = isinstance(test.ops[0], (ast.IsNot, ast.NotEq))
    if not is_negated and not isinstance(test.ops[0], (ast.Is, ast.Eq)):
        return None
    return test.left, bool(other.value) is not is_negated


def _is_apex_or_none(node: ast.expr, scope: Scope) -> bool:
    at = scope.find(node.id) if isinstance(node, ast.Name) else None
    return imported_name(node, scope) == "apex.amp" and at is not None and last_word(node) not in at.assigned


def parts_of(test: ast.expr) -> Iterator[ast.expr]:
    """What has to be true for a test to be true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for each in test.values:
            yield from parts_of(each)
    else:
        yield test


def _beside(own: Question, atoms: list[Question], other: list[Question]) -> Iterator[Question]:
    """What chooses native AMP by the test of another branch: another value of the same thing, or another flag."""
    if own.value is not ON:
        yield from (each for each in other if each.key == own.key and each.value is not ON and each.value != own.value)
        return
    flags = [[each for each in side if each.value is ON] for side in (atoms, other)]
    mine, theirs = ([each for each in side if each not in rest] for side, rest in (flags, flags[::-1]))
    if mine == [own] and len(theirs) == 1:
        yield theirs[0]


def _key(node: ast.expr, scope: Scope) -> _Key | None:
    """What tells a variable, or a chain of attributes, from others that are spelled alike."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return None
    if isinstance(node, ast.Name):
        return node.id, scope.find(node.id)
    return ast.unparse(node), scope.owner if root.id == "self" else None
