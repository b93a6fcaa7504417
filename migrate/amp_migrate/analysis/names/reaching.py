"""Which of the values that a name is given it may have where it is read.

A value that is always given on the way to a place hides those before it, but not where it is made of them; what stands
in the branch for another PyTorch is never given.
"""

from __future__ import annotations

from typing import Protocol, cast

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.names.scopes import Scopes
from amp_migrate.trees.nodes import is_constant
from amp_migrate.trees.tree import Tree

_CHOICES = (cst.If, cst.IfExp)
_PLACES = (cst.IndentedBlock, cst.Module)
# What is executed where the code around it is.
_TRANSPARENT = (cst.IndentedBlock, cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.Else)


class VersionTests(Protocol):
    """What knows which way the tests of a file always go."""

    tree: Tree
    scopes: Scopes

    def outcome(self, choice: cst.If | cst.IfExp) -> bool | None:
        """Which way a test of PyTorch's version always goes; None for every other test."""

    def is_never_run(self, node: cst.CSTNode) -> bool:
        """Whether a node stands on the side of a test of PyTorch's version that is never taken."""


def reaching(names: VersionTests, node: cst.Name) -> list[Binding]:
    """The bindings of a name that it may have its value from at a place."""
    bindings = names.scopes.of(node).lookup(node.value)
    home = names.scopes.of(node).find(node.value)
    if len(bindings) < 2 or home is None or any(names.scopes.of(each.node) is not home for each in bindings):
        return bindings
    order, here = names.tree.order, names.tree.order[node]
    around = frozenset(names.tree.ancestors(node))
    alive = _last(names, bindings, around, here)
    is_once = names.scopes.of(node) is home and names.tree.loop(node) is None
    return [each for each in alive if order[each.node] < here and not _is_given_by(each, around)] if is_once else alive


def left_over(names: VersionTests, name: str) -> list[Binding]:
    """The bindings that a name of a module may have its value from once that has been executed."""
    bindings = names.scopes.module.bindings.get(name, [])
    if len(bindings) < 2 or any(names.scopes.of(each.node) is not names.scopes.module for each in bindings):
        return bindings
    return _last(names, bindings, frozenset({names.tree.module}), len(names.tree.order))


def _last(names: VersionTests, bindings: list[Binding], around: frozenset[cst.CSTNode], here: int) -> list[Binding]:
    """The last of some bindings that is always given before a place, and those behind that; all if none is."""
    order = names.tree.order
    alive = sorted((each for each in bindings if not names.is_never_run(each.node)), key=lambda each: order[each.node])
    before = [
        each
        for each in alive
        if order[each.node] < here and not _is_given_by(each, around) and _is_always_given(names, each, around)
    ]
    return alive[alive.index(before[-1]) :] if before else alive


def flag_of_version(names: VersionTests, node: cst.Name) -> bool | None:
    """What a flag is that a test of PyTorch's version sets; None for every other name."""
    values = [each.value for each in reaching(names, node)]
    said = {True if is_constant(each, "True") else False if is_constant(each, "False") else None for each in values}
    is_set = any(_is_of_version(names, each) for each in names.scopes.of(node).lookup(node.value))
    return said.pop() if is_set and len(said) == 1 else None


def _is_given_by(binding: Binding, around: frozenset[cst.CSTNode]) -> bool:
    """Whether a place is in the value that an assignment gives: it is read first."""
    return isinstance(binding.node, cst.Assign) and binding.node in around


def _is_always_given(names: VersionTests, binding: Binding, around: frozenset[cst.CSTNode]) -> bool:
    """Whether a binding is executed before what stands behind it, in one of some blocks."""
    inside: cst.CSTNode = binding.node
    for ancestor in names.tree.ancestors(binding.node):
        if ancestor in around:
            return isinstance(ancestor, _PLACES)
        if isinstance(ancestor, cst.If):
            if names.outcome(ancestor) is not (inside is ancestor.body):
                return False
        elif not isinstance(ancestor, _TRANSPARENT):
            return False
        inside = ancestor
    return False


def _is_of_version(names: VersionTests, binding: Binding) -> bool:
    choices = (each for each in names.tree.ancestors(binding.node) if type(each) in _CHOICES)
    return binding.kind is BindingKind.ASSIGNMENT and any(
        names.outcome(cast("cst.If | cst.IfExp", each)) is not None for each in choices
    )
