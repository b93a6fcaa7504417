"""What a loop counts, in terms of its own variable: a test of the one is a test of the other.

    count = 0
    for i, batch in enumerate(batches):
        ...
        count += 1  # from here on, and behind the loop, it is i + 1

Every number that begins with a constant and grows by a constant in each iteration is linear in the number of
iterations, and so is the variable of `enumerate` and `range`; of two that grow alike, one is the other plus a constant.
"""

from __future__ import annotations

import ast
import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import lru_cache, partial
from typing import Any

from amp_migrate.frozen import frozen
from amp_migrate.implications import Facts, Rounds, behind_all, implied, rounds_of
from amp_migrate.syntax import nodes_in

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPARING: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_PROGRESS = "tqdm"  # the package whose bars give what they get


@frozen
class _Counter:
    """A number that is `start + step * n` in the n-th iteration of a loop, before it grows in it.

    Attributes:
        grows_at: the index of the statement, in the loop's body, by which it grows; None for the loop's own variable.
    """

    name: str
    start: int
    step: int
    grows_at: int | None = None

    def minus(self, other: _Counter, index: int) -> int:
        """By how much it is more than another that grows alike, in a statement of the loop's body."""
        grown, others = (each.grows_at is not None and each.grows_at < index for each in (self, other))
        return self.start - other.start + self.step * (grown - others)


def implied_in(tree: ast.Module, function: ast.AST, test: ast.expr, outcome: bool) -> Facts:
    """What follows from a test in a function that came to `outcome`; what a loop counts is said by one name.

    Args:
        tree: the module of the function, or the same.
    """
    return implied(_in_terms_of_loops(tree, function, test), outcome)


def known_of_number(tree: ast.Module, function: ast.AST, name: str, number: object) -> Facts:
    """What a function's comparisons of a variable with numbers come to where it is one: it counts anew from there."""
    if not isinstance(number, (int, float)):
        return frozenset()
    tests = _compared(function).get(name, ())
    found = ((each, _COMPARING[type(each.ops[0])](number, ast.literal_eval(each.comparators[0]))) for each in tests)
    return frozenset().union(*(implied_in(tree, function, each, outcome) for each, outcome in found))


@lru_cache(maxsize=1024)
def _compared(function: ast.AST) -> dict[str, list[ast.Compare]]:
    """The comparisons of variables with numbers that are written out, by variable."""
    found: dict[str, list[ast.Compare]] = defaultdict(list)
    for node in nodes_in(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Name):
            number = node.comparators[0]
            is_number = isinstance(number, ast.Constant) and isinstance(number.value, (int, float))
            if is_number and type(node.ops[0]) in _COMPARING:
                found[node.left.id].append(node)
    return dict(found)


def behind_all_in(tree: ast.Module, loop: ast.For | ast.AsyncFor, facts: Facts) -> Facts:
    """What facts of the last round come to behind a loop of a module that is not left by itself: see `behind_all`."""
    rounds = _rounds(tree, loop)
    return frozenset() if rounds is None else behind_all(rounds, facts)


@lru_cache(maxsize=256)
def ranging(tree: ast.Module, function: ast.AST) -> frozenset[ast.AST]:
    """The `while` loops of a function that go from a number up to a bound, by whatever steps: `for` over a `range()`.

    What they go through is empty where that would be: the number is given before them, in their block.
    """
    body = getattr(function, "body", ())
    found: set[ast.AST] = set()
    for block, at in _loops(body) if isinstance(body, list) else ():
        loop = block[at]
        test = loop.test if isinstance(loop, ast.While) else None
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name)):
            continue
        start, bound = _before(block[:at], test.left.id), test.comparators[0]
        is_one = isinstance(test.ops[0], (ast.Lt, ast.LtE)) and start is not None and test.left.id not in _shared(tree)
        if is_one and (not isinstance(bound, ast.Constant) or _COMPARING[type(test.ops[0])](start, _whole(bound) or 0)):
            found.add(loop)
    return frozenset(found)


@lru_cache(maxsize=1024)
def _rounds(tree: ast.Module, loop: ast.For | ast.AsyncFor) -> Rounds | None:
    return rounds_of(loop, partial(_without_progress, tree))


@lru_cache(maxsize=4096)
def _in_terms_of_loops(tree: ast.Module, function: ast.AST, test: ast.expr) -> ast.expr:
    known = _counted(tree, function)
    instead = {id(each): _sum(*known[each]) for each in nodes_in(test) if each in known}
    return _Folding().visit(deepcopy(test, instead)) if instead else test


class _Folding(ast.NodeTransformer):
    """Adds constants that are added one after another."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        inner, more = node.left, _added(node)
        before = _added(inner) if isinstance(inner, ast.BinOp) else None
        if more is None or before is None or not isinstance(inner, ast.BinOp):
            return node
        return _sum(inner.left, before + more)


def _added(node: ast.BinOp) -> int | None:
    """The constant that an expression adds to its left side; None where it is another operation."""
    constant = _whole(node.right)
    if constant is None or not isinstance(node.op, (ast.Add, ast.Sub)):
        return None
    return constant if isinstance(node.op, ast.Add) else -constant


def _sum(of: ast.expr, more: int) -> ast.expr:
    operator = ast.Add() if more > 0 else ast.Sub()
    return ast.BinOp(of, operator, ast.Constant(abs(more))) if more else of


def _whole(node: ast.expr | None) -> int | None:
    """The whole number that an expression is, as a constant."""
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


@lru_cache(maxsize=256)
def _counted(tree: ast.Module, function: ast.AST) -> dict[ast.AST, tuple[ast.expr, int]]:
    """The places in a function where a name is another counter of its loop plus a constant."""
    body = getattr(function, "body", ())
    found: dict[ast.AST, tuple[ast.expr, int]] = {}
    for block, at in _loops(body) if isinstance(body, list) else ():
        counters = [each for each in _counters(tree, block, at) if each.name not in _shared(tree)]
        for other in counters[1:]:
            if other.step == counters[0].step:
                found.update(_uses(block, at, other, counters[0]))
    return found


@lru_cache(maxsize=256)
def _shared(tree: ast.Module) -> frozenset[str]:
    """The names that several functions of a module may change."""
    declared = (each.names for each in nodes_in(tree) if isinstance(each, (ast.Global, ast.Nonlocal)))
    return frozenset(name for names in declared for name in names)


@lru_cache(maxsize=256)
def _imported(tree: ast.Module) -> frozenset[str]:
    """The names that the package of progress bars gives to a module, or goes by in it."""
    found: set[str] = set()
    for node in nodes_in(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            ours = (each for each in node.names if f"{origin}{each.name}.".startswith(f"{_PROGRESS}."))
            found.update((each.asname or each.name).partition(".")[0] for each in ours)
    return frozenset(found)


def _loops(block: Sequence[ast.stmt]) -> Iterator[tuple[Sequence[ast.stmt], int]]:
    """Each loop in some statements, by the block that it stands in."""
    for at, statement in enumerate(block):
        if isinstance(statement, _LOOPS):
            yield block, at
        if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                for name in ("body", "orelse", "finalbody"):
                    yield from _loops(getattr(part, name, ()))


def _counters(tree: ast.Module, block: Sequence[ast.stmt], at: int) -> Iterator[_Counter]:
    """What a loop counts, its own variable first."""
    loop = block[at]
    assert isinstance(loop, _LOOPS)
    own = None if isinstance(loop, ast.While) else _variable(tree, loop)
    if own is not None and not _stores(loop.body, own.name):
        yield own
    for index, statement in enumerate(loop.body):
        name, step = _growing(statement)
        start = _before(block[:at], name) if name and step else None
        is_alone = start is not None and _stores([loop], name) == 1
        if is_alone and start is not None and not _ends(loop.body[:index], ast.Continue):
            yield _Counter(name, start, step, index)


def _variable(tree: ast.Module, loop: ast.For | ast.AsyncFor) -> _Counter | None:
    """The variable of `for i, x in enumerate(...)` and `for i in range(...)`."""
    target, source = loop.target, _without_progress(tree, loop.iter)
    called = source.func.id if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) else ""
    if not isinstance(source, ast.Call):
        return None
    args = [*source.args, *(each.value for each in source.keywords)]
    if called == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
        start = _whole(args[1]) if len(args) == 2 else 0
        return None if start is None else _Counter(target.elts[0].id, start, 1)
    if called == "range" and isinstance(target, ast.Name):
        start = _whole(args[0]) if len(args) > 1 else 0
        step = _whole(args[2]) if len(args) == 3 else 1
        return None if start is None or not step else _Counter(target.id, start, step)
    return None


def _without_progress(tree: ast.Module, source: ast.expr) -> ast.expr:
    """What a loop goes through, without a progress bar round it."""
    while isinstance(source, ast.Call) and source.args and _is_progress(tree, source.func):
        source = source.args[0]
    return source


def _is_progress(tree: ast.Module, called: ast.expr) -> bool:
    return ast.unparse(called).partition(".")[0] in _imported(tree)


def _growing(statement: ast.stmt) -> tuple[str, int]:
    """The name that a statement adds a constant to, and the constant."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        step = _added(ast.BinOp(statement.target, statement.op, statement.value))
        return statement.target.id, step or 0
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp) and len(statement.targets) == 1:
        target, of = statement.targets[0], statement.value.left
        if isinstance(target, ast.Name) and isinstance(of, ast.Name) and of.id == target.id:
            return target.id, _added(statement.value) or 0
    return "", 0


def _before(block: Sequence[ast.stmt], name: str) -> int | None:
    """The constant that a name is behind some statements."""
    for statement in reversed(block):
        if _stores([statement], name):
            return _given(statement, name)
    return None


def _given(statement: ast.stmt, name: str) -> int | None:
    pairs = [(each, statement.value) for each in statement.targets] if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        pairs = [(statement.target, statement.value)]
    for target, value in pairs:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs += zip(target.elts, value.elts, strict=True)
    given = (_whole(value) for target, value in pairs if isinstance(target, ast.Name) and target.id == name)
    return next(given, None)


def _uses(
    block: Sequence[ast.stmt], at: int, counter: _Counter, other: _Counter
) -> Iterator[tuple[ast.AST, tuple[ast.expr, int]]]:
    """Where a counter is read, each time with another that it is, but for a constant, and that constant."""
    loop = block[at]
    assert isinstance(loop, _LOOPS)
    whole = ast.Name(other.name, ast.Load())
    for index, part in enumerate(
        [loop.test, *loop.body] if isinstance(loop, ast.While) else [loop.target, *loop.body], -1
    ):
        for each in _reads([part], counter.name):
            yield each, (whole, counter.minus(other, index))
    if any(each.grows_at and _ends(loop.body[: each.grows_at], ast.Break) for each in (counter, other)):
        return
    for statement in block[at + 1 :]:
        if _stores([statement], counter.name) or _stores([statement], other.name):
            break
        for each in _reads([statement], counter.name):
            yield each, (whole, counter.minus(other, len(loop.body)))


def _reads(nodes: Collection[ast.AST], name: str) -> Iterator[ast.Name]:
    named = (each for each in _inside(nodes) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return (each for each in named if each.id == name)


def _stores(nodes: Iterable[ast.AST], name: str) -> int:
    """How often a name is given another value in some nodes, or may be."""
    found = 0
    for each in _inside(nodes):
        if isinstance(each, ast.Name):
            found += each.id == name and not isinstance(each.ctx, ast.Load)
        elif isinstance(each, (ast.ExceptHandler, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found += each.name == name
        elif isinstance(each, ast.alias):
            found += name in (each.asname, each.name, "*")
    return found


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Some nodes and all in them, but for what functions and classes have."""
    stack = [*nodes]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            stack += ast.iter_child_nodes(node)


def _ends(body: Iterable[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Whether an iteration may be ended in a part of its body by `continue`, or the loop by `break`."""
    stack: list[ast.AST] = [*body]
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            return True
        if isinstance(node, _LOOPS):
            stack += node.orelse
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            stack += ast.iter_child_nodes(node)
    return False
