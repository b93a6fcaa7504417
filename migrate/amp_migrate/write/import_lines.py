"""Imports as edits want them, and the lines at the top of a file that new code needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import dotted, packages_of
from amp_migrate.plan.code import Definition, Need, plain
from amp_migrate.plan.edit import After, Before, Change, Edit, Imported, NewLine, Reimport
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement, statements
from amp_migrate.trees.tree import Tree


def with_imported(node: cst.CSTNode, change: Reimport) -> cst.CSTNode:
    """An import with other items, or from another module."""
    assert isinstance(node, (cst.Import, cst.ImportFrom))
    module = {} if change.module is None else {"module": build.expression(change.module)}
    if not change.items:
        return node.with_changes(**module)
    items = [_alias(each) for each in change.items]
    if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
        items[-1] = items[-1].with_changes(comma=node.names[-1].comma)  # a list in brackets ends as it did
    else:
        items[-1] = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(names=items, **module)


def _alias(item: Imported) -> cst.ImportAlias:
    alias = cst.ImportAlias(cst.Name("_")) if item.old is None else item.old
    if item.name is not None:
        alias = alias.with_changes(name=build.expression(item.name))
    return alias if item.local is None else alias.with_changes(asname=cst.AsName(cst.Name(item.local)))


def lines_for(tree: Tree, needs: Mapping[Need, str]) -> Iterator[Edit]:
    """The edits that bring what new code needs: imports beside the others, definitions below them.

    Args:
        needs: what is needed, each with the rule that needs it.
    """
    imports = [each for each in statements(tree.module) if isinstance(each, (cst.Import, cst.ImportFrom))]
    own = [each for each in imports if not (isinstance(each, cst.ImportFrom) and dotted(each.module) == "__future__")]
    for need in sorted(needs, key=lambda need: (isinstance(need, Definition), need.name)):
        rule = needs[need]
        if isinstance(need, Definition):
            line = NewLine(plain(f"{need.name} = {need.value}"), blank=1 if imports else 0)
            yield _at_top(tree, imports, line, rule)
            continue
        line = NewLine(plain(f"import {need.name}"))
        near = [each for each in imports if "torch" in packages_of(each)] if need.name == "torch" else own
        beside = next(iter(near), None)
        yield _at_top(tree, imports, line, rule) if beside is None else Edit(tree, beside, Before((line,)), rule)


def _at_top(tree: Tree, imports: Sequence[Statement], line: NewLine, rule: str) -> Edit:
    if imports:
        return Edit(tree, imports[-1], After((line,)), rule)
    first = statements(tree.module)[0]
    has_docstring = isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
    change: Change = After((line,)) if has_docstring else Before((line,))
    return Edit(tree, first, change, rule)
