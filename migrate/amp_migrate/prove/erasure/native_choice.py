"""The other program that a result may be: the original, where native AMP is chosen wherever Apex was.

A script that trains with either asks which it is: `args.amp == "apex"`, `use_apex`. What that is compared with, or is,
in a branch that calls `apex.amp` is Apex's choice; what it is in another branch of the same `if`, which names autocast
or a scaler of torch, is the native one. In the other program every question is answered as if that had been chosen: the
value stays what it is, and counts as the native one wherever it is asked for. That is native AMP only if nothing else
decides about it: autocast and scalers are named under no condition but this choice, and those of Apex's own calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from amp_migrate.prove.code.public_names import AUTOCAST, SCALERS, public
from amp_migrate.prove.code.scopes import Scope, Scopes, heads, imported_name

_ON = True  # what a flag is where it is set
_CHOOSES = frozenset({"apex.amp.initialize", "apex.amp.scale_loss"})
_NATIVE = frozenset({AUTOCAST, *SCALERS})
_NEGATED = (ast.NotEq, ast.NotIn)
_Key = tuple[object, ...]


@dataclass(frozen=True)
class _Atom:
    """Something that a test asks for: that a thing is a constant, or that a flag is set (`_ON`)."""

    key: _Key
    value: object
    code: str


_ELSE: list[_Atom] = []  # what an `else` asks for


def chosen_natively(texts: Mapping[str, str]) -> dict[str, str] | None:
    """The texts of the files of such a program; None where the original does not choose between the two."""
    modules = [_Module(name, text) for name, text in texts.items()]
    apex = {atom for each in modules for atom in each.of_apex()}
    found: dict[_Atom, set[_Atom | None]] = {}
    for atom, native in (pair for each in modules for pair in each.pairs(apex)):
        found.setdefault(atom, set()).add(native)
    choices = {atom: next(iter(natives)) for atom, natives in found.items() if len(natives) == 1}
    if not choices:
        return None
    known = {text for atom, native in choices.items() for text in _conditions(atom, native)}
    of_apex = {text for each in modules for text in each.conditions(each.is_of_apex)}
    of_torch = {text for each in modules for text in each.conditions(each.is_of_torch)}
    return {each.name: each.choosing(choices) for each in modules} if of_torch <= known | of_apex else None


class _Module:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self._scopes = Scopes(ast.parse(text), name, text)
        self._choices: Mapping[_Atom, _Atom | None] = {}

    # -- which values choose what

    def of_apex(self) -> Iterator[_Atom]:
        """What is asked for by the tests of branches that Apex's steps stand in."""
        for branches in self._chains():
            for atoms, body, scope in branches:
                if any(self._calls_apex(each, scope) for each in body):
                    yield from atoms

    def pairs(self, apex: set[_Atom]) -> Iterator[tuple[_Atom, _Atom | None]]:
        """What chooses Apex, with what chooses native AMP beside it; None where that is whatever is not Apex."""
        for branches in self._chains():
            natives = [
                atoms
                for atoms, body, scope in branches
                if any(self._is_native(each, scope, is_asked=atoms is not _ELSE) for each in body)
            ]
            for atoms, _, _ in branches:
                for own in (each for each in atoms if each in apex):
                    for other in natives:
                        if other is _ELSE and len(atoms) == 1:
                            yield own, None
                        yield from ((own, each) for each in _beside(own, atoms, other))

    def _chains(self) -> Iterator[list[tuple[list[_Atom], list[ast.stmt], Scope]]]:
        """The branches of each `if`, with what their tests ask for."""
        ifs = [(node, scope) for node, scope in self._scopes.statements if isinstance(node, ast.If)]
        continued = {node.orelse[0] for node, _ in ifs if len(node.orelse) == 1}
        for node, scope in ifs:
            branches = []
            rest: list[ast.stmt] = [node]
            while len(rest) == 1 and isinstance(current := rest[0], ast.If):
                branches.append((list(self._atoms(current.test, scope)), current.body, scope))
                rest = current.orelse
            if node not in continued:
                yield [*branches, (_ELSE, rest, scope)]

    def _atoms(self, test: ast.expr, scope: Scope) -> Iterator[_Atom]:
        """What has to be so for a test to be true."""
        for each in _parts(test):
            if (flag := self._flag(each, scope)) is not None:
                if not self._is_fixed(each, scope):
                    yield flag
            elif isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Eq):
                key, values = self._asked(each, scope) or (None, [])
                if key is not None:
                    yield _Atom(key, values[0], ast.unparse(each))

    def _flag(self, node: ast.expr, scope: Scope) -> _Atom | None:
        key = _key(node, scope)
        return None if key is None else _Atom(key, _ON, ast.unparse(node))

    @staticmethod
    def _asked(node: ast.Compare, scope: Scope) -> tuple[_Key, list[object]] | None:
        """What a comparison compares, and with which constants."""
        key, right = _key(node.left, scope), node.comparators[0]
        elements = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
        if key is None or len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Eq, ast.In, *_NEGATED)):
            return None
        constants = [each.value for each in elements if isinstance(each, ast.Constant)]
        values: list[object] = [each for each in constants if type(each) in (str, int, type(None))]
        is_one = isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        return (key, values) if is_one is (elements == [right]) and len(values) == len(elements) else None

    def _is_fixed(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a name only says what is installed: the module gives it True and False, and nobody anything else."""
        if not isinstance(node, ast.Name) or scope.find(node.id) is not self._scopes.module:
            return False
        given = [
            each.value
            for each, _ in self._scopes.statements
            if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
        ]
        return bool(given) and all(isinstance(each, ast.Constant) and isinstance(each.value, bool) for each in given)

    def conditions(self, is_meant: Callable[[ast.AST, Scope], bool]) -> Iterator[str]:
        """Under which conditions any of some nodes of the file are executed, as code."""
        yield from self._under(self._scopes.module.node, self._scopes.module, is_meant, ())

    def _under(
        self, node: ast.AST, scope: Scope, is_meant: Callable[[ast.AST, Scope], bool], known: tuple[str, ...]
    ) -> Iterator[str]:
        if is_meant(node, scope):
            yield from known
        inner = self._scopes.inside(node, scope)
        if not isinstance(node, (ast.If, ast.IfExp)):
            for each in ast.iter_child_nodes(node):
                yield from self._under(each, inner, is_meant, known)
            return
        parts = [ast.unparse(each) for each in _parts(node.test) if not self._is_fixed(each, scope)]
        for block, conditions in ((node.body, parts), (node.orelse, [f"not ({' and '.join(parts)})"])):
            for each in block if isinstance(block, list) else [block]:
                yield from self._under(each, inner, is_meant, (*known, *conditions))

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
        inner = self._scopes.inside(node, scope)
        return any(self._is_native(each, inner, is_asked=is_asked) for each in ast.iter_child_nodes(node))

    def _walk(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        yield node, scope
        if not isinstance(node, ast.JoinedStr):  # the places in it are not to be relied upon
            inner = self._scopes.inside(node, scope)
            for each in ast.iter_child_nodes(node):
                yield from self._walk(each, inner)

    # -- the text

    def choosing(self, choices: Mapping[_Atom, _Atom | None]) -> str:
        """The text of the file where native AMP is chosen; a branch that never runs then does nothing."""
        self._choices = choices
        edits: list[tuple[ast.AST, ast.AST, str]] = []
        for node, scope in self._scopes.statements:
            for head in heads(node):
                edits += ((each, each, new) for each, new in self._edits(head, scope))
            if isinstance(node, ast.If) and self._truth(node.test, scope) is False:
                edits.append((node.body[0], node.body[-1], "pass"))
        return _edited(self._text, edits)

    def _edits(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, str]]:
        """What is said instead of some expressions."""
        new = self._answer(node, scope) if isinstance(node, ast.expr) else None
        if new is not None:
            yield node, new
        elif not isinstance(node, ast.JoinedStr):
            inner = self._scopes.inside(node, scope)
            for each in ast.iter_child_nodes(node):
                yield from self._edits(each, inner)

    def _answer(self, node: ast.expr, scope: Scope) -> str | None:
        """A question as it is where native AMP is chosen; None where it stays what it is."""
        if isinstance(node, ast.Compare) and (asked := self._asked(node, scope)) is not None:
            key, values = asked
            mine = {each: native for each, native in self._choices.items() if each.key == key and each.value is not _ON}
            as_native = [each.value for each, native in mine.items() if native is not None and native.value in values]
            gone = [each.value for each in mine]
            kept = [each for each in values if each not in gone] + as_native
            if not mine or set(map(repr, kept)) == set(map(repr, values)):
                return None
            is_not = isinstance(node.ops[0], _NEGATED)
            if not kept:
                return str(is_not)
            return f"({ast.unparse(node.left)} {'not in' if is_not else 'in'} {tuple(kept)!r})"
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            flag = self._flag(node, scope)
            if flag is None:
                return None
            if flag.key in {each.key for each in self._choices if each.value is _ON}:
                return "False"
            others = [
                each.code
                for each, native in self._choices.items()
                if native is not None and each.value is _ON and native.key == flag.key
            ]
            return f"({' or '.join([flag.code, *others])})" if others else None
        return None

    def _truth(self, test: ast.expr, scope: Scope) -> bool | None:
        """Whether a test is known where native AMP is chosen."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._truth(test.operand, scope)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            decides = isinstance(test.op, ast.Or)
            values = [self._truth(each, scope) for each in test.values]
            return decides if decides in values else None if None in values else not decides
        answer = self._answer(test, scope)
        return answer == "True" if answer in ("True", "False") else None


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """What has to be true for a test to be true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for each in test.values:
            yield from _parts(each)
    else:
        yield test


def _conditions(apex: _Atom, native: _Atom | None) -> Iterator[str]:
    """What is true where native AMP is chosen in the place of Apex, as code."""
    yield f"not ({apex.code})"
    if native is not None:
        yield native.code


def _beside(own: _Atom, atoms: list[_Atom], other: list[_Atom]) -> Iterator[_Atom]:
    """What chooses native AMP by the test of another branch: another value of the same thing, or another flag."""
    if own.value is not _ON:
        yield from (each for each in other if each.key == own.key and each.value is not _ON and each.value != own.value)
        return
    flags = [[each for each in side if each.value is _ON] for side in (atoms, other)]
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


def _edited(text: str, edits: list[tuple[ast.AST, ast.AST, str]]) -> str:
    """A text with other code from the first node of each edit to its last, on as many lines."""
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for each in lines:
        starts.append(starts[-1] + len(each))
    spans = []
    for first, last, new in edits:
        begin = starts[first.lineno - 1] + first.col_offset  # type: ignore[attr-defined]
        spans.append((begin, starts[last.end_lineno - 1] + last.end_col_offset, new))  # type: ignore[attr-defined]
    whole, at, found = b"".join(lines), 0, []
    for begin, end, new in sorted(spans, key=lambda each: (each[0], -each[1])):
        if begin >= at:  # else it stands in code that another edit has taken
            line_ends = b"\n" * whole[begin:end].count(b"\n")
            new_code = b"(" + new.encode() + line_ends + b")" if new != "pass" else new.encode() + line_ends
            found += [whole[at:begin], new_code if line_ends else new.encode()]
            at = end
    return b"".join([*found, whole[at:]]).decode()
