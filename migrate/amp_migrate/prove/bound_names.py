"""Whether every name that a result adds has a value wherever it is used, on every way on which the original could run.

A function is walked along all of its ways at once. On each, it is known which of the names in question have a value,
which are None, and how tests that come up more than once have come out. A new name may be without a value only where
something that is used together with it is without one, too: there the original ended already.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import cache, cached_property
from typing import TypeGuard

from amp_migrate.frozen import frozen
from amp_migrate.prove.code.atoms import is_carrier
from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.scopes import COMPREHENSIONS, DEFINITIONS, given_none, heads, is_self, parameters
from amp_migrate.prove.code.ways import Walk
from amp_migrate.syntax import children, nodes_in

_LATER = (*DEFINITIONS, ast.ClassDef, ast.Lambda)  # what is inside may run at another time
_MOST = 96  # ways that are told apart; more are taken together, as if less were known of each


@frozen
class Way:
    """What is known on some ways to a place.

    Attributes:
        given: the names that have a value which is not known to be None.
        none: those that are None.
        tests: how tests have come out.
    """

    given: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()
    tests: frozenset[tuple[str, bool]] = frozenset()


Ways = frozenset[Way]


@frozen
class Unbound:
    """A use of a name without a value."""

    name: str
    line: int


def unbound(before: Program, after: Program, name: str) -> Unbound | None:
    """The first use in one file of a name that the result adds, where it may have no value.

    A name that carries precision counts as added, if the original has a value for it wherever it is used: what is
    erased is not held to its place. So does a name that is read by what the result adds: a switch may be asked above
    the line that sets it.
    """
    file = after.files[name]
    old = {place: _Body(node) for place, node in _bodies(before.files[name].tree)}
    known_methods, methods = _beside_constructors(before.files[name].tree), _beside_constructors(file.tree)
    for place, node in _bodies(file.tree):
        if place not in old:
            continue
        scope, body, was = file.scopes.inside(node, file.scopes.module), _Body(node), old[place]
        asked = _newly_read(was, body)
        older = (each for each in body.names & was.names if each in asked or is_carrier(after.values.at(scope, each)))
        for new in (body.names - was.names, *({each} for each in sorted(older))):
            others = methods.get(node, _NO_FUNCTIONS)
            is_plain = not others.reading(new) and all(_is_given_first(body, each) for each in new)
            found = None if is_plain else _without_value(body, new, others)
            before_it = known_methods.get(was.node, _NO_FUNCTIONS)
            was_so = new <= was.names and found is not None and _without_value(was, new, before_it)
            if found is not None and not was_so:
                return found
    return None


class _Body:
    """A function or module, with what is asked of it for one name after another.

    Attributes:
        names: the names that it binds by assignments: names of its own, and attributes of `self`.
        stored: the names that each of its statements itself gives a value to.
    """

    def __init__(self, node: ast.AST) -> None:
        self.node = node
        self.statements = [*_statements(node)]
        self.stored = {each: frozenset(_stored(each)) for each in self.statements}
        own = parameters(node.args) if isinstance(node, DEFINITIONS) else ()
        self.names = frozenset().union(*self.stored.values()) - {each.arg for each in own}
        self._read: dict[ast.stmt, tuple[tuple[_Use, ...], frozenset[str], frozenset[str]]] = {}
        self._codes: dict[ast.expr, str] = {}

    @cached_property
    def used(self) -> Mapping[ast.stmt, tuple[_Use, ...]]:
        """What each of its statements itself reads."""
        return {each: tuple(_used(heads(each))) for each in self.statements}

    @cached_property
    def heads(self) -> Mapping[str, ast.expr]:
        """The expressions of its statements, by their code."""
        return {ast.unparse(head): head for each in self.statements for head in heads(each)}

    @cached_property
    def functions(self) -> _Functions:
        """The functions in it."""
        return _Functions(self.statements)

    @cached_property
    def blocks(self) -> list[list[ast.stmt]]:
        """The lists of its statements, those further out first."""
        return [*_blocks(self.node)]

    @cached_property
    def named(self) -> Mapping[str, list[ast.Name | ast.Attribute]]:
        """All places of each name, and of attributes of `self`, those in functions inside included."""
        found: defaultdict[str, list[ast.Name | ast.Attribute]] = defaultdict(list)
        for each in nodes_in(self.node):
            if isinstance(each, ast.Name):
                found[each.id].append(each)
            elif isinstance(each, ast.Attribute) and is_self(each.value):
                found[f"self.{each.attr}"].append(each)
        return found

    @cached_property
    def later(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda]:
        """What is in it that may run at another time."""
        return [each for each in nodes_in(self.node) if isinstance(each, _LATER) and each is not self.node]

    def read(
        self, node: ast.stmt, expressions: Iterable[ast.expr]
    ) -> tuple[tuple[_Use, ...], frozenset[str], frozenset[str]]:
        """What a statement reads, the methods of `self` that it calls, and what it reads something of, or calls."""
        if node not in self._read:
            read = [*expressions]
            called = frozenset(_called(inner) for each in read for inner in nodes_in(each))
            self._read[node] = tuple(_used(read)), called, _asked_for_more(read)
        return self._read[node]

    def code(self, test: ast.expr) -> str:
        """A test as it is written."""
        if test not in self._codes:
            self._codes[test] = ast.unparse(test)
        return self._codes[test]

    def codes(self, test: ast.expr) -> Iterator[str]:
        """What a test asks, and what the tests ask that it is made of."""
        return (self.code(_asked(each)) for each in _parts(test))


class _Functions:
    """The functions among some statements.

    Args:
        prefix: what they are called by: `self.` for methods.
    """

    def __init__(self, statements: Iterable[ast.stmt], prefix: str = "") -> None:
        self._loaded: dict[str, set[str]] = {}
        self._called: dict[str, set[str]] = {}
        for node in (each for each in statements if isinstance(each, DEFINITIONS)):
            own = {each.arg for each in parameters(node.args)} | {n for s in _statements(node) for n in _stored(s)}
            if prefix:
                loaded = {use.name for each in _statements(node) for use in _used(heads(each))} - own
                called = set(map(_called, nodes_in(node))) - own
            else:
                nodes = (each for each in nodes_in(node) if isinstance(each, ast.Name))
                loaded = called = {each.id for each in nodes if isinstance(each.ctx, ast.Load)} - own
            self._loaded[prefix + node.name], self._called[prefix + node.name] = loaded, called

    def reading(self, names: Set[str]) -> Mapping[str, Set[str]]:
        """For each, the names in question that running it reads, in others that it calls too."""
        reads = {name: loaded & names for name, loaded in self._loaded.items()}
        calls = {name: called & reads.keys() for name, called in self._called.items()} if any(reads.values()) else {}
        for _ in calls:
            more = {name: reads[name].union(*(reads[each] for each in calls[name])) for name in calls}
            if more == reads:
                break
            reads = more
        return {name: found for name, found in reads.items() if found}


_NO_FUNCTIONS = _Functions(())


def _beside_constructors(tree: ast.Module) -> dict[ast.AST, _Functions]:
    """For the constructor of each class, the methods of that: what they read has to be there when it calls them."""
    bodies = (each.body for each in nodes_in(tree) if isinstance(each, ast.ClassDef))
    methods = [(each, body) for body in bodies for each in body if isinstance(each, DEFINITIONS)]
    return {node: _Functions(body, "self.") for node, body in methods if node.name == "__init__"}


def _without_value(body: _Body, new: Set[str], methods: _Functions) -> Unbound | None:
    """The first use of some names that may have no value in a function or module.

    At first only what matters to these names is told apart on each way, and then, as far as there are few ways, all of
    it. Either look takes ways for possible that are not, and none that are for impossible: both have to find one.
    """
    return _Walk(body, new, methods, _mattering(body, new)).run() and _Walk(body, new, methods).run()


@frozen
class _Mattering:
    """What is told apart on the ways through a function: some names, and the tests that decide where they are bound."""

    names: frozenset[str]
    tests: frozenset[str]


def _mattering(body: _Body, new: Set[str]) -> _Mattering:
    """What matters to some names: those that are read together with one, and the tests around what binds any of them.

    What has a value without a test has one on all ways for all that is worth telling apart.
    """
    read = [{use.name for use in uses} for uses in body.used.values()]
    names = frozenset(new).union(*(each for each in read if each & new))
    branches = [each for each in body.statements if isinstance(each, (ast.If, ast.While))]
    inside = {each: [*_statements(each)] for each in branches}
    bound = {each: frozenset().union(*(body.stored[inner] for inner in inside[each])) for each in branches}
    tested = {inner for each in branches for inner in inside[each]}
    always = frozenset().union(*(body.stored[each] for each in body.statements if each not in tested))
    deciding = (each.test for each in branches if not bound[each].isdisjoint(names - (always - new)))
    return _Mattering(names, frozenset(code for each in deciding for code in body.codes(each)))


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """A test, and those that it is made of."""
    yield test
    for each in test.values if isinstance(test, ast.BoolOp) else [test.operand] if _is_not(test) else ():
        yield from _parts(each)


def _newly_read(before: _Body, after: _Body) -> set[str]:
    """The names that a function or module reads at once in expressions that the original's does not have."""
    new = (head for code, head in after.heads.items() if code not in before.heads)
    return {use.name for use in _used(new)}


def _is_given_first(body: _Body, name: str) -> bool:
    """Whether every use of a name plainly stands behind its assignment, in the same list of statements."""
    uses = [each for each in body.named.get(name, ()) if not isinstance(each.ctx, ast.Store)]
    if any(isinstance(use.ctx, ast.Del) or any(_is_inside(use, each, each) for each in body.later) for use in uses):
        return False
    for block in body.blocks:
        for index, statement in enumerate(block[:-1]):
            if isinstance(statement, (ast.Assign, ast.Import, ast.ImportFrom)) and name in _stored(statement):
                is_behind = block[index + 1].lineno > (statement.end_lineno or statement.lineno)
                return is_behind and all(_is_inside(use, block[index + 1], block[-1]) for use in uses)
    return not uses


def _is_inside(use: ast.expr, first: ast.stmt | ast.expr, last: ast.stmt | ast.expr) -> bool:
    """Whether a use is in the lines of some statements."""
    return first.lineno <= use.lineno <= (last.end_lineno or last.lineno)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function or module, those further out first."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
            for each in block:
                if not isinstance(each, (*DEFINITIONS, ast.ClassDef)):
                    yield from _blocks(each)


def _bodies(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The module, and every function by its place in it."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, node = stack.pop()
        if isinstance(node, (ast.Module, *DEFINITIONS)):
            yield prefix, node
        for child in children(node):
            name = getattr(child, "name", None)
            is_named = isinstance(child, (*DEFINITIONS, ast.ClassDef))
            if isinstance(child, ast.stmt) or not isinstance(child, ast.expr):
                stack.append((f"{prefix}.{name}" if is_named else prefix, child) if is_named else (prefix, child))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function or module, without those of functions and classes inside."""
    for child in children(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, (ast.expr, *DEFINITIONS, ast.ClassDef)):
            yield from _statements(child)


def _stored(node: ast.stmt) -> Iterator[str]:
    """The names that a statement itself gives a value to."""
    if isinstance(node, (*DEFINITIONS, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    else:
        targets = [*getattr(node, "targets", ()), *filter(None, [getattr(node, "target", None)])]
        targets += [item.optional_vars for item in getattr(node, "items", ()) if item.optional_vars is not None]
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return
        for target in targets if not isinstance(node, ast.Delete) else ():
            for each in nodes_in(target):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id
                elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and is_self(each.value):
                    yield f"self.{each.attr}"


@frozen
class _Use:
    """Where an expression reads a name.

    Attributes:
        conditions: the tests that decide whether it comes to that, with how each comes out: `a` in `a and b`.
    """

    name: str
    line: int
    conditions: tuple[tuple[ast.expr, bool], ...] = ()


def _used(nodes: Iterable[ast.AST], conditions: tuple[tuple[ast.expr, bool], ...] = ()) -> Iterator[_Use]:
    """The names that expressions read at once; what stands in a lambda is read later, or never."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield _Use(node.id, node.lineno, conditions)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and is_self(node.value):
            yield _Use(f"self.{node.attr}", node.lineno, conditions)
        elif isinstance(node, ast.BoolOp):
            for number, value in enumerate(node.values):
                known = ((each, isinstance(node.op, ast.And)) for each in node.values[:number])
                yield from _used([value], (*conditions, *known))
        elif isinstance(node, ast.IfExp):
            yield from _used([node.test], conditions)
            yield from _used([node.body], (*conditions, (node.test, True)))
            yield from _used([node.orelse], (*conditions, (node.test, False)))
        elif not isinstance(node, ast.Lambda):
            inside = _used(children(node), conditions)
            own = (
                {e.id for g in node.generators for e in nodes_in(g.target) if isinstance(e, ast.Name)}
                if isinstance(node, COMPREHENSIONS)
                else ()
            )
            yield from (each for each in inside if each.name not in own)


def _asked_for_more(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that expressions read an attribute or an item of, or call."""
    found: set[str] = set()
    for each in (inner for node in nodes for inner in nodes_in(node)):
        owner = each.func if isinstance(each, ast.Call) else getattr(each, "value", None)
        if isinstance(each, (ast.Call, ast.Attribute, ast.Subscript)) and isinstance(owner, ast.expr):
            found |= {use.name for use in _used([owner])}
    return frozenset(found)


class _Walk(Walk[Way]):
    """The ways through one function or module.

    Args:
        new: the names in question.
        methods: those of its class, for a constructor.
        only: what is told apart on the ways; everything, if it is not given.
    """

    def __init__(self, body: _Body, new: Set[str], methods: _Functions, only: _Mattering | None = None) -> None:
        super().__init__()
        self._body, self._node = body, body.node
        asked = [each.test for each in body.statements if isinstance(each, (ast.If, ast.While))]
        for use in (use for uses in body.used.values() for use in uses if use.name in new):
            asked += (test for test, _ in use.conditions)
        tests = Counter(code for each in asked for code in set(body.codes(each)))
        self._twice = {test for test, number in tests.items() if number > 1 and (only is None or test in only.tests)}
        stores = frozenset().union(*body.stored.values())
        # Attributes of `self` may have been given a value by any other method, but for those that are new in this one.
        is_constructor = isinstance(body.node, DEFINITIONS) and body.node.name == "__init__"
        own = {name for name in stores if not name.startswith("self.") or (is_constructor and name in new)}
        self._own = own if only is None else own & only.names
        self._new = new & own
        self._later = body.functions.reading(self._new)
        self._by_methods = methods.reading(self._new)
        self._found: Unbound | None = None
        self._used: dict[ast.stmt, tuple[_Use, ...]] = {}

    def run(self) -> Unbound | None:
        """The first use of a name in question that may have no value."""
        if isinstance(self._node, DEFINITIONS):
            given = frozenset(each.arg for each in parameters(self._node.args))
            self.block(self._node.body, frozenset({Way(given)}))
        elif isinstance(self._node, ast.Module):
            self.block(self._node.body, frozenset({Way()}))
        return self._found

    def fewer(self, states: Ways) -> Ways:
        return _fewer(states)

    def read(self, node: ast.stmt, expressions: Iterable[ast.expr], states: Ways) -> Ways:
        plainly, called, asked = self._body.read(node, expressions)
        if node not in self._used:
            by_methods = {
                name: found for name, found in self._by_methods.items() if name in called
            }  # a kept one: later
            reads = {**self._later, **by_methods}
            later = ((each, use.conditions) for use in plainly for each in sorted(reads.get(use.name, ())))
            self._used[node] = (*plainly, *(_Use(name, node.lineno, known) for name, known in later))
        used = self._used[node]
        old = {use.name for use in used if use.name in self._own and use.name not in self._new}
        # None may be handed on, but has no attributes, items or calls.
        needed = old & asked
        # Where the original has no value for what it reads, it ends.
        states = frozenset(way for way in states if old <= way.given | way.none) or states
        for use in used if self._found is None else ():
            if use.name in self._new:
                reaching = states
                for test, outcome in use.conditions:
                    reaching = self.branch(test, outcome, reaching)
                if any(use.name not in way.given | way.none and needed <= way.given for way in reaching):
                    self._found = Unbound(use.name, use.line)
                    break
        return states

    def give(self, node: ast.stmt, states: Ways) -> Ways:
        changed = self._body.stored[node]
        gone = frozenset(each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name))
        if isinstance(node, ast.Delete):
            return frozenset(replace(way, given=way.given - gone, none=way.none - gone) for way in states)
        if not changed:
            return states
        names = changed & self._own
        nones = frozenset(map(ast.unparse, given_none(node))) & names if isinstance(node, ast.Assign) else frozenset()
        found = set()
        for way in states:
            tests = frozenset(each for each in way.tests if not any(_says(each[0], name) for name in changed))
            found.add(Way(way.given - names | names - nones, way.none - names | nones, tests))
        return frozenset(found)

    def branch(self, test: ast.expr, outcome: bool, states: Ways) -> Ways:
        if _is_not(test):
            return self.branch(test.operand, not outcome, states)
        if isinstance(test, ast.Constant):
            return super().branch(test, outcome, states)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is outcome:
            for each in test.values:
                states = self.branch(each, outcome, states)
        name, is_none = _asks(test)
        code = self._body.code(test)
        found = set()
        for way in states:
            if (code, not outcome) in way.tests:
                continue
            if name in self._own and is_none is not None:
                wants_none = is_none is outcome  # `if x is None` where it is, and where it is not
                if (name in way.none and not wants_none) or (name in way.given and wants_none and is_none):
                    continue
            found.add(replace(way, tests=way.tests | {(code, outcome)}) if code in self._twice else way)
        return frozenset(found)


@cache
def _says(code: str, name: str) -> bool:
    """Whether a test reads a name: `x` is not in `backend == "apex"`."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", code) is not None


def _asked(test: ast.expr) -> ast.expr:
    """What a test asks: the same for `x` and for `not x`."""
    return _asked(test.operand) if _is_not(test) else test


def _is_not(test: ast.expr) -> TypeGuard[ast.UnaryOp]:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _asks(test: ast.expr) -> tuple[str, bool | None]:
    """The name that a test asks for None, and whether it is true of None; no name for any other test."""
    node = test
    is_none: bool | None = False
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        if test.comparators[0].value is not None or not isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            return "", None
        node, is_none = test.left, isinstance(test.ops[0], (ast.Is, ast.Eq))
    if isinstance(node, ast.Name):
        return node.id, is_none
    if isinstance(node, ast.Attribute) and is_self(node.value):
        return f"self.{node.attr}", is_none
    return "", None


def _fewer(ways: Iterable[Way]) -> Ways:
    """The same ways, told apart less finely where they are many."""
    found = frozenset(ways)
    if len(found) > _MOST:
        found = frozenset(replace(way, tests=frozenset()) for way in found)
    if len(found) > _MOST:
        given = frozenset.intersection(*(way.given for way in found))
        none = frozenset.intersection(*(way.none | way.given for way in found)) - given
        found = frozenset({Way(given, none)})
    return found


def _called(node: ast.AST) -> str:
    """The method of the same object that a node calls, as `self.load`; empty for anything else."""
    func = node.func if isinstance(node, ast.Call) else None
    return f"self.{func.attr}" if isinstance(func, ast.Attribute) and is_self(func.value) else ""
