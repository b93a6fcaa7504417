"""Whether what regions compute in a function stays in it: an evaluation that forgets `no_grad` trains nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import NEVER, Const, External, Native, Obj, Opaque, Some, Tup, Value
from amp_migrate.flow.domain.tensor import FLOWS, LOWERED, Tensor
from amp_migrate.flow.events import Act
from amp_migrate.flow.source import FUNCTIONS, Code

# What these get they keep nowhere but in what they give.
_KEEPING_NOTHING = ("torch.", "numpy.", "math.", "builtins.")
_GIVING = (ast.Return, ast.Yield, ast.YieldFrom)
_INSIDE = (*FUNCTIONS, ast.ClassDef)


def keeps_gradients(analysis: Analysis, code: Code) -> bool:
    """Whether no tensor whose gradient comes through a region leaves a function, nor anything that is made of one.

    What it calls is looked into: that may give such a tensor back, and goes backward from none.
    """
    losses = [each.site for each in analysis.events.values() if each.act is Act.BACKWARD]
    seen, stack = {code: None}, [code]
    while stack:
        inside = _Inside(analysis, stack.pop())
        if any(map(inside.code.has, losses)) or any(inside.leaving(is_whole=inside.code is code)):
            return False
        more = [each for each in inside.called if each not in seen]
        seen.update(dict.fromkeys(more))
        stack += more
    return True


class _Inside:
    """What holds such tensors in a function.

    Attributes:
        code: the function.
        names: the variables that do.
    """

    def __init__(self, analysis: Analysis, code: Code) -> None:
        self._analysis, self.code = analysis, code
        self.names: set[str] = set()
        self._nodes = [*_own_nodes(code.node)]
        self._inner = frozenset[str]().union(*(each.used for each in code.inner))

    @property
    def called(self) -> Iterator[Code]:
        """The functions that it calls."""
        return (each for node in self._nodes for each in self._analysis.callees.get(node, ()))

    def leaving(self, *, is_whole: bool) -> Iterator[ast.AST]:
        """Where something of it leaves.

        Args:
            is_whole: whether what it gives counts.
        """
        known = -1
        while known < len(self.names):
            known = len(self.names)
            leaving = [node for node in self._nodes if self._leaves(node)]
        yield from (each for each in leaving if is_whole or not isinstance(each, _GIVING))
        if not self.names.isdisjoint(self._inner):
            yield self.code.node

    def _leaves(self, node: ast.AST) -> bool:
        if isinstance(node, _GIVING):
            return node.value is not None and self._holds(node.value)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return node.value is not None and self._holds(node.value) and not all(map(self._names, targets))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            return self._holds(node.iter) and not self._names(node.target)
        if isinstance(node, ast.withitem):
            named = node.optional_vars
            return named is not None and self._holds(node.context_expr) and not self._names(named)
        if isinstance(node, ast.Call):
            given = (*node.args, *(each.value for each in node.keywords))
            is_followed = bool(self._analysis.callees.get(node))
            return any(map(self._holds, given)) and not self._hands_back(node.func, is_followed=is_followed)
        return False

    def _names(self, target: ast.expr) -> bool:
        """Whether something is given to variables of the function alone, which hold it from then on."""
        if isinstance(target, (ast.Tuple, ast.List)):
            given = [self._names(each) for each in target.elts]
            return all(given)
        if isinstance(target, ast.Starred):
            return self._names(target.value)
        if isinstance(target, ast.Name) and target.id in self.code.bound:
            self.names.add(target.id)
            return True
        return False

    def _hands_back(self, called: ast.expr, *, is_followed: bool) -> bool:
        """Whether what is called keeps nothing of what it gets, or is looked into: an operator, a layer, a function."""
        value = self._value(called)
        return bool(value) and all(
            (isinstance(each, External) and each.name.startswith(_KEEPING_NOTHING))
            or (isinstance(each, Native) and not isinstance(each.owner, (Obj, Opaque)))
            or (isinstance(each, Obj) and each.external.startswith("torch.nn."))
            or (is_followed and not isinstance(each, (External, Native, Opaque)))
            for each in value
        )

    def _holds(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Starred):
            return self._holds(node.value)
        value = self._value(node)
        if any(map(_is_lowered, value)):
            return True
        if value and all(isinstance(each, (Const, Some, Tensor)) for each in value):
            return False
        if isinstance(node, ast.Name):
            return node.id in self.names
        parts = (each for each in ast.iter_child_nodes(node) if isinstance(each, (ast.expr, ast.keyword)))
        return any(map(self._holds, parts))

    def _value(self, node: ast.AST) -> Value:
        return self._analysis.values.get(node, NEVER)


def _is_lowered(atom: object) -> bool:
    if isinstance(atom, Tup):
        return any(_is_lowered(each) for item in (*atom.items, atom.rest or NEVER) for each in item)
    tensor = atom.tensor if isinstance(atom, Opaque) else atom
    return isinstance(tensor, Tensor) and bool(tensor.flows & FLOWS) and bool(tensor.tags & LOWERED)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, and in no other that is defined in it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, _INSIDE):
            yield each
            yield from _own_nodes(each)
