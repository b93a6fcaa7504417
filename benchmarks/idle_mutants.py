"""Mutants that are none: what they change has no effect, or has to do with precision alone. The check is not asked.

Both texts are compiled, first as they are, then without what nobody reads, then without what is of precision alone:
where the same byte code is left, the mutant does what the result does. (Trivial compiler equivalence: Papadakis, Jia,
Harman and Le Traon, "Trivial Compiler Equivalence", ICSE 2015.)
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from types import CodeType, SimpleNamespace
from typing import Any

SAME_CODE, UNREAD = "the same byte code", "nobody reads what it changes"
SAME_BRANCHES = "both branches are the same"
OLD_TORCH, PRECISION = "code for a PyTorch that results are not written for", "of precision alone"
_TORCH = "2.6.0"  # as a script that compares texts sees it
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_INNER = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_PURE = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Subscript, ast.Slice),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr, ast.FormattedValue, ast.Starred),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)
_PURE_CALLS = frozenset("abs bool dict float int len list max min range round set sorted str sum tuple zip".split())
_LOOKS_AT_NAMES = frozenset({"locals", "vars", "eval", "exec", "globals"})
_CASTS = frozenset({"half", "float", "bfloat16"})


def why_idle(result: str, mutant: str) -> str:
    """Why a mutant does what its result does; empty where it may do something else."""
    trees = [ast.parse(text) for text in (result, mutant)]
    if _is_same(trees):
        return SAME_CODE
    for reason, taken_out in (
        (SAME_BRANCHES, _SameBranches),
        (UNREAD, _Unread),
        (OLD_TORCH, _OldTorch),
        (PRECISION, _OfPrecision),
    ):
        trees = [taken_out().visit(each) for each in trees]
        if _is_same(trees):
            return reason
    return ""


def _is_same(trees: Iterable[ast.Module]) -> bool:
    one, other = (_plain(compile(_on_one_line(each), "", "exec", optimize=2)) for each in trees)
    return one == other


def _on_one_line(tree: ast.Module) -> ast.Module:
    """A tree without its lines: the compiler has an operation for each line that a debugger may stop at."""
    for node in ast.walk(ast.fix_missing_locations(tree)):
        for place in node._attributes:
            setattr(node, place, 1)
    return tree


def _plain(code: CodeType) -> tuple[Any, ...]:
    """A code object without the places in its source."""
    constants = tuple(_plain(e) if isinstance(e, CodeType) else (type(e), repr(e)) for e in code.co_consts)
    return code.co_name, code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_flags


class _Unread(ast.NodeTransformer):
    """Takes stores of plain values away that nobody reads: of names that are never read, or written again first."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        while not _names(node) & _LOOKS_AT_NAMES and self._is_less(node):
            pass
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def _is_less(self, function: ast.AST) -> bool:
        shared = {name for e in ast.walk(function) if isinstance(e, (ast.Global, ast.Nonlocal)) for name in e.names}
        read = {e.id for e in ast.walk(function) if isinstance(e, ast.Name) and not isinstance(e.ctx, ast.Store)}
        inside = set().union(*(_names(e) for e in ast.walk(function) if isinstance(e, _INNER) and e is not function))
        handled = set().union(*(_names(e) for e in ast.walk(function) if isinstance(e, ast.Try)))
        changed = False
        for block in _blocks(function):
            for index, each in enumerate(block):
                name = _stored(each)
                if name is None or name in shared:
                    continue
                if name not in read or (name not in inside | handled and _is_written_first(name, block[index + 1 :])):
                    block[index], changed = ast.Pass(), True
        return changed


class _SameBranches(ast.NodeTransformer):
    """Takes choices away that make no difference."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        body, orelse = (ast.unparse(ast.Module(each, [])) for each in (node.body, node.orelse))
        return node.body if body == orelse and _is_pure(node.test) else node


class _OldTorch(ast.NodeTransformer):
    """Takes away what `if torch.__version__ < "1.2"` leaves for others than today's."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        test = node.test
        if not isinstance(test, ast.Compare) or ast.unparse(test.left) != "torch.__version__":
            return node
        if not all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in test.comparators):
            return node
        is_so = eval(compile(ast.Expression(test), "", "eval"), {"torch": SimpleNamespace(__version__=_TORCH)})
        return (node.body if is_so else node.orelse) or ast.Pass()


class _OfPrecision(ast.NodeTransformer):
    """Takes away casts of whole models, what loads the state of a scaler, and choices about nothing else."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            is_state = call.func.attr == "load_state_dict" and is_scaler(call.func.value)
            if is_state or (call.func.attr in _CASTS and not call.args and not call.keywords):
                return ast.Pass()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        is_empty = all(isinstance(each, ast.Pass) for each in (*node.body, *node.orelse))
        return ast.Pass() if is_empty and _is_pure(node.test) else node


def is_scaler(node: ast.AST | None) -> bool:
    """Whether an expression goes by the name of a scaler, as results of `amp-migrate` call it."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return "scaler" in name.lower()


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function, without those of functions inside of it."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
            for each in block:
                if not isinstance(each, _INNER):
                    yield from _blocks(each)
    for handler in getattr(node, "handlers", ()):
        yield from _blocks(handler)


def _stored(node: ast.stmt) -> str | None:
    """The one name that a statement gives a plain value to, and does nothing else."""
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or node.value is None:
        return None
    target, *others = node.targets if isinstance(node, ast.Assign) else [node.target]
    return target.id if isinstance(target, ast.Name) and not others and _is_pure(node.value) else None


def _is_pure(node: ast.AST) -> bool:
    """Whether an expression computes a value and does nothing else."""
    if isinstance(node, ast.Call):
        is_known = isinstance(node.func, ast.Name) and node.func.id in _PURE_CALLS
        return is_known and all(map(_is_pure, (*node.args, *(each.value for each in node.keywords))))
    return isinstance(node, _PURE) and all(map(_is_pure, ast.iter_child_nodes(node)))


def _is_written_first(name: str, following: list[ast.stmt]) -> bool:
    """Whether statements give a local name a value before anything reads it."""
    for each in following:
        if any(isinstance(e, (ast.Break, ast.Continue)) for e in ast.walk(each)):
            return False
        uses = Counter(type(e.ctx) for e in ast.walk(each) if isinstance(e, ast.Name) and e.id == name)
        if uses:
            targets = each.targets if isinstance(each, ast.Assign) else []
            stores = (e for target in targets for e in ast.walk(target) if isinstance(e, ast.Name) and e.id == name)
            return not uses[ast.Load] and not uses[ast.Del] and any(True for _ in stores)
    return False
