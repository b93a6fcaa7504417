"""Which casts to float32 give what they are given, as that is float32 already on every way through a program."""

from __future__ import annotations

import ast
from typing import NamedTuple

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Value
from amp_migrate.flow.domain.tensor import F32, Tensor
from amp_migrate.flow.source import Site, site_of


class ExactCasts(NamedTuple):
    """Casts in the forms that are written here, by where they stand: `x.float()`, if it is floating, or as another is.

    Attributes:
        needless: those of what is float32, and by which float32 is meant.
        needed: the others that a program comes to: by another caller they may get what is low.
    """

    needless: frozenset[Site] = frozenset()
    needed: frozenset[Site] = frozenset()


def exact_casts(analysis: Analysis) -> ExactCasts:
    """What the casts in a project's files are given, in an analysis that keeps the values of all its files.

    Of a function that did not come to rest, or of a program that is not seen whole, nothing is shown.
    """
    found: tuple[set[Site], set[Site]] = set(), set()
    for module in (each for each in analysis.modules.values() if each and not analysis.files.is_installed(each.file)):
        for node, code in (*module.every(ast.Call), *module.every(ast.IfExp)):
            given = _given(node)
            values = [value for each in given if (value := analysis.values.get(each))]
            if values:
                is_sure = analysis.is_complete and code not in analysis.given_up and len(values) == len(given)
                found[not (is_sure and all(map(_is_float32, values)))].add(site_of(module.file, node))
    return ExactCasts(*map(frozenset, found))


def _given(node: ast.AST) -> list[ast.expr]:
    """What a cast is of, and what it is to be like, if it is like something."""
    if isinstance(node, ast.IfExp):
        test = node.test.func if isinstance(node.test, ast.Call) else None
        is_asked = isinstance(test, ast.Attribute) and test.attr == "is_floating_point"
        return _given(node.body) if is_asked else []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return []
    if node.func.attr == "float" and not node.args:
        return [node.func.value]
    like = node.args[0] if node.func.attr == "to" and len(node.args) == 1 else None
    return [node.func.value, like.value] if isinstance(like, ast.Attribute) and like.attr == "dtype" else []


def _is_float32(value: Value) -> bool:
    return all(isinstance(each, Tensor) and each.precision == F32 for each in value)
