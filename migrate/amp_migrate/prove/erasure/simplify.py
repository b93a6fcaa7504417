"""Leaves out of a program what does nothing: what is left of it once its precision is gone.

All that is done here keeps what the program does, precision or not, so that it may be done to both sides alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeGuard

from amp_migrate.prove.code.trees import Same, is_quiet, is_same
from amp_migrate.prove.erasure.compare import Comparison
from amp_migrate.syntax import nodes_in

PARAMETERS = "<parameters>"  # what an optimizer updates
SCALER = "<scaler>"  # what only has to do with precision
IS_ON = f"{SCALER}.is_enabled"
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def simplified(tree: ast.Module) -> ast.Module:
    """The same program without code that does nothing; the tree itself is changed."""
    found = _Simplifier(tree).visit(tree)
    assert isinstance(found, ast.Module)
    return found


class _Simplifier(ast.NodeTransformer):
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    @cached_property
    def _attributes(self) -> set[str]:
        """The attributes that the program stores anywhere."""
        return {each.attr for each in _stored(self._tree) if isinstance(each, ast.Attribute)}

    def generic_visit(self, node: ast.AST) -> Any:
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None) or []
            for index, each in enumerate(body if isinstance(body, list) else ()):
                if isinstance(each, ast.If) and any(isinstance(inner, ast.Raise) for inner in each.body):
                    self._know(each.test, body[index + 1 :])
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                end = next((i for i, each in enumerate(body) if isinstance(each, _ENDS)), len(body))
                del body[end + 1 :]
                body[:] = [
                    each
                    for index, each in enumerate(body)
                    if not (index and (_is_repeated(body[index - 1], each) or _is_same_tuple(body[index - 1], each)))
                ]
        return node

    def _know(self, test: ast.expr, following: list[ast.stmt]) -> None:
        """Take a test for false where an error was raised if it is true, and nothing changes what it asks."""
        if all(isinstance(each, (ast.Name, ast.Attribute, ast.expr_context)) for each in nodes_in(test)):
            stored = {each.id for body in following for each in _stored(body) if isinstance(each, ast.Name)}
            if (stored | self._attributes).isdisjoint(ast.unparse(test).split(".")):
                for each in following:
                    _Known(test).visit(each)

    def visit_Pass(self, node: ast.Pass) -> Any:
        return None

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.IfExp):  # which steps in one of its arms, perhaps
            body, orelse = (ast.copy_location(ast.Expr(each), node) for each in (node.value.body, node.value.orelse))
            return self.visit(ast.copy_location(ast.If(node.value.test, [body], [orelse]), node))
        self.generic_visit(node)
        return None if is_quiet(node.value) else node

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        node.test = _asked(node.test)
        return None if isinstance(node.test, ast.Constant) and node.test.value else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        return None if is_same(node.targets[0], node.value) else node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        node.test = _asked(node.test)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        if not is_quiet(node.test):
            return node
        if not node.body and not node.orelse:
            return None
        if Comparison(_is_clipped).blocks(node.body, node.orelse) is None:
            return node.orelse  # where Apex is off, parameters have the names that the user knows
        if not node.body:
            node.test, node.body, node.orelse = _negated(node.test), node.orelse, []
        only = node.body[0] if len(node.body) == 1 and not node.orelse else None
        if isinstance(only, ast.If) and not only.orelse and is_quiet(only.test):
            neither = _one_of(ast.BoolOp(ast.Or(), [_negated(node.test), _negated(only.test)]))
            if not isinstance(neither, ast.BoolOp):
                return ast.copy_location(ast.If(_negated(neither), only.body, []), node)
        inner = node.orelse[0] if len(node.orelse) == 1 else None
        if isinstance(inner, ast.If) and is_quiet(inner.test):
            for body, other in ((node.body, inner.body), (inner.body, node.body)):
                if Comparison(_is_clipped).blocks(other, body) is None:
                    either = self.visit(ast.BoolOp(ast.Or(), [node.test, inner.test]))
                    return self.visit(ast.copy_location(ast.If(either, body, inner.orelse), node))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        node.iter = _gone_through(node.iter)
        return node

    def visit_For(self, node: ast.For | ast.AsyncFor) -> Any:
        self.generic_visit(node)
        node.iter = _gone_through(node.iter)
        if isinstance(node.iter, ast.Tuple) and not node.iter.elts:
            return node.orelse
        return node if node.body or node.orelse or not is_quiet(node.iter) else None

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> Any:
        self.generic_visit(node)
        return node if node.body or not all(is_quiet(each.context_expr) for each in node.items) else None

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try) -> Any:
        self.generic_visit(node)
        if not node.body:
            return [*node.orelse, *node.finalbody]
        return node if node.handlers or node.finalbody else [*node.body, *node.orelse]

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        node.test = _asked(node.test)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        for one, other in ((node.body, node.orelse), (node.orelse, node.body)) if is_quiet(node.test) else ():
            if Comparison(_is_clipped).nodes(one, other) is None:
                return other  # as for statements
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        node.values = list(map(_asked, node.values))
        decides = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for index, each in enumerate(node.values):
            kept.append(each)
            if isinstance(each, ast.Constant) and isinstance(each.value, bool):
                if each.value is decides:
                    break
                if index < len(node.values) - 1 or len(kept) > 1:
                    kept.pop()
        if isinstance(kept[-1], ast.Constant) and kept[-1].value is decides and all(map(is_quiet, kept)):
            return kept[-1]
        node.values = kept
        return kept[0] if len(kept) == 1 else _one_of(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        right = node.comparators[0]
        choices = right.elts if isinstance(right, (ast.Tuple, ast.List)) and isinstance(node.ops[0], ast.In) else []
        if choices and all(isinstance(each, ast.Constant) for each in choices):
            right = ast.copy_location(ast.Tuple(sorted(choices, key=ast.dump), ast.Load()), right)
            node.comparators = [right, *node.comparators[1:]]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = _asked(node.operand)
        return _negated(node.operand) if isinstance(node.op, ast.Not) else node


def _is_repeated(node: ast.stmt, following: ast.stmt) -> bool:
    """Whether a choice only says again what stands before it: `a = b`, and then `if x: a = b`."""
    only = following.body if isinstance(following, ast.If) and not following.orelse and is_quiet(following.test) else []
    is_plain = (
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and isinstance(node.targets[0], ast.Name)
    )
    return is_plain and is_same(only, [node])


def _is_same_tuple(node: ast.stmt, following: ast.stmt) -> bool:
    """Whether `gradients = tuple(each for each in gradients)` says again what they are: autograd gives a tuple."""
    if not (isinstance(node, ast.Assign) and isinstance(following, ast.Assign)):
        return False
    made = following.value
    if not (_is_called(node.value, "torch.autograd.grad") and _is_called(made, "tuple") and len(made.args) == 1):
        return False
    return is_same([*node.targets, *node.targets], [*following.targets, _gone_through(made.args[0])])


class _Known(ast.NodeTransformer):
    """Has choices know that a test is false."""

    def __init__(self, test: ast.expr) -> None:
        self._test = test

    def visit_If(self, node: ast.If | ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if is_same(node.test, self._test):
            node.test = ast.copy_location(ast.Constant(False), node.test)
        return node

    visit_IfExp = visit_If

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ast.AST:
        return node  # its names may be others

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef


def _stored(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """What is given a value anywhere below a node."""
    for each in nodes_in(node):
        if isinstance(each, Same):
            yield from _stored(each.node)
        elif isinstance(each, (ast.Name, ast.Attribute)) and not isinstance(each.ctx, ast.Load):
            yield each


def _asked(test: ast.expr) -> ast.expr:
    """What a test asks: `x` for `bool(x)`, nothing for `x or not x`, and of a scaler that may be None if it is on."""
    if isinstance(test, ast.Name) and test.id == SCALER:
        return ast.copy_location(ast.Call(ast.Name(IS_ON, ast.Load()), [], []), test)
    if isinstance(test, ast.BoolOp) and is_quiet(test):
        opposites = map(_negated, test.values)
        if any(is_same(each, other) for each in opposites for other in test.values):
            return ast.copy_location(ast.Constant(isinstance(test.op, ast.Or)), test)
    return test.args[0] if _is_called(test, "bool") and len(test.args) == 1 else test


def _gone_through(node: ast.expr) -> ast.expr:
    """What a loop goes through: `xs` for `[x for x in xs]`."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1:
        (generator,) = node.generators
        if not generator.ifs and not generator.is_async and is_same(node.elt, generator.target):
            return generator.iter
    return node


def _is_called(node: ast.expr, *names: str) -> TypeGuard[ast.Call]:
    """Whether an erased expression calls something of one of these names."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _one_of(node: ast.BoolOp) -> ast.expr:
    """`x in ("a", "b")` for `x == "a" or x == "b"`."""
    found: list[ast.expr] = []
    tested = None
    for each in node.values if isinstance(node.op, ast.Or) else ():
        right = each.comparators[0] if isinstance(each, ast.Compare) and len(each.ops) == 1 else None
        if not isinstance(each, ast.Compare) or (tested is not None and not is_same(tested, each.left)):
            return node
        tested = each.left
        if isinstance(each.ops[0], ast.Eq) and isinstance(right, ast.Constant):
            found.append(right)
        elif isinstance(each.ops[0], ast.In) and isinstance(right, ast.Tuple):
            found += right.elts
        else:
            return node
    if tested is None or not all(isinstance(each, ast.Constant) for each in found):
        return node
    choices = ast.Tuple(sorted(found, key=ast.dump), ast.Load())
    return ast.copy_location(ast.Compare(tested, [ast.In()], [choices]), node)


def _negated(node: ast.expr) -> ast.expr:
    """The opposite of a test."""
    if isinstance(node, ast.Constant):
        return ast.copy_location(ast.Constant(not node.value), node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        return ast.copy_location(ast.Compare(node.left, [_OPPOSITES[type(node.ops[0])]()], node.comparators), node)
    return ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _is_clipped(one: ast.expr, other: ast.expr) -> bool:
    """Whether one branch clips what Apex updates, and the other what the user says it is."""
    return is_parameters(one) and isinstance(other, ast.Call) and is_method(other, "parameters")


def is_parameters(node: ast.expr) -> bool:
    """Whether an erased expression is what an optimizer updates."""
    return _is_called(node, PARAMETERS)


def is_method(node: ast.Call, name: str) -> bool:
    """Whether a call is of a method of this name."""
    return isinstance(node.func, ast.Attribute) and node.func.attr == name
