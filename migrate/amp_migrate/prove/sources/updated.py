"""What Apex's `master_params` gives, by another name: `model.parameters()` of the model of an optimizer."""

from __future__ import annotations

import ast

from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.trees import is_same
from amp_migrate.prove.code.values import Values
from amp_migrate.prove.sources.origins import Origins, Source

_DEPTH = 6  # names for one model, each given the next; beyond, two are not known to be the same
# Methods and functions that hand back the model they are given, or one with the same parameters.
_SAME_METHODS = frozenset("to cuda cpu float train eval requires_grad_ half double".split())
_SAME_CALLS = ("DataParallel", "DistributedDataParallel", "convert_sync_batchnorm", "convert_syncbn_model", "compile")


class Updated:
    """Whose parameters the optimizers of a program update."""

    def __init__(self, program: Program, origins: Origins) -> None:
        self._values = Values(program.files, follows_optimizers=True)
        self._origins = origins

    def are_of(self, optimizer: Source, model: Source) -> bool:
        """Whether an optimizer updates all parameters of a model and no others."""
        values = self._values.of(optimizer.node, optimizer.scope)
        made = [each[1] for each in values if isinstance(each, tuple) and each[0] == "made"]
        return bool(made) and all(self._is_made_for(call, model) for call in made)

    def _is_made_for(self, call: ast.Call, model: Source) -> bool:
        given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "params"), None)
        scope = self._origins.scope_of(call)
        found = None if given is None or scope is None else self._model(Source(given, scope))
        return found is not None and self._is_same(model, found)

    def _model(self, source: Source, depth: int = 0) -> Source | None:
        """The model whose parameters an expression is: all of them, or all that are trained."""
        node, inner = source.node, None
        if isinstance(node, ast.Name):
            given = self._origins.of(source)
            return self._model(given[0], depth + 1) if len(given) == 1 and depth < _DEPTH else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_all = node.func.attr == "parameters" and not node.args
            return Source(node.func.value, source.scope) if is_all else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            is_trained = isinstance(node.args[0], ast.Lambda) and _is_trained(node.args[0].body)
            if node.func.id in ("list", "tuple", "iter") or (node.func.id == "filter" and is_trained):
                inner = node.args[-1]
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1:
            generator = node.generators[0]
            if is_same(node.elt, _read(generator.target)) and all(map(_is_trained, generator.ifs)):
                inner = generator.iter
        return self._model(Source(inner, source.scope), depth + 1) if inner is not None and depth < _DEPTH else None

    def _is_same(self, one: Source, other: Source, depth: int = 0) -> bool:
        """Whether two expressions are the same model as far as its parameters go."""
        mine, theirs = _bare(one.node), _bare(other.node)
        if depth > _DEPTH:
            return False
        if isinstance(mine, ast.Name) and isinstance(theirs, ast.Name):
            found = one.scope.find(mine.id)
            if mine.id == theirs.id and found is not None and found is other.scope.find(theirs.id):
                return True
        if isinstance(mine, ast.Attribute) and isinstance(theirs, ast.Attribute) and mine.attr == theirs.attr:
            return True
        for each in self._origins.of(Source(mine, one.scope)):
            if self._is_same(each, Source(theirs, other.scope), depth + 1):
                return True
        given = self._origins.of(Source(theirs, other.scope))
        return any(self._is_same(Source(mine, one.scope), each, depth + 1) for each in given)


def _is_trained(node: ast.expr) -> bool:
    """`p.requires_grad`: other parameters have no gradients."""
    return isinstance(node, ast.Attribute) and node.attr == "requires_grad"


def _read(node: ast.expr) -> ast.expr:
    return ast.Name(node.id, ast.Load()) if isinstance(node, ast.Name) else node


def _bare(model: ast.expr) -> ast.expr:
    """A model without what wraps it."""
    node = model
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        func = node.func
        if func.attr in _SAME_METHODS:
            node = func.value
        elif func.attr in _SAME_CALLS and node.args:
            node = node.args[0]
        else:
            break
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return node.value
    return node
