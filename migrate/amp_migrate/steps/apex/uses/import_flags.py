"""Names that say whether Apex could be imported: `AVAILABLE = True` behind the import in its `try`, else False."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.uses.apex_guards import guard_of, is_apex_import
from amp_migrate.trees.nodes import block_of, is_constant, statements


def says_apex_is_there(file: File, node: cst.BaseExpression) -> bool:
    """Whether a name is True wherever Apex could be imported, and False elsewhere."""
    if not isinstance(node, cst.Name):
        return False
    bindings = file.scopes.of(node).lookup(node.value)
    given = [each for each in bindings if is_constant(each.value, "True")]
    guards = {_guard(file, each) for each in given}
    guard = guards.pop() if len(guards) == 1 else None
    others = [each for each in bindings if each not in given]
    return guard is not None and all(_is_missing(file, each, guard) for each in others)


def _guard(file: File, binding: Binding) -> cst.Try | None:
    """The `try` that a name gets its value in, where that imports `apex.amp` first."""
    statement = file.tree.statement(binding.node)
    guard = guard_of(file, statement) if binding.kind is BindingKind.ASSIGNMENT else None
    block = [] if guard is None else statements(block_of(guard))
    earlier = block[: block.index(statement)] if statement in block else []
    return guard if any(is_apex_import(file, each) for each in earlier) else None


def _is_missing(file: File, binding: Binding, guard: cst.Try) -> bool:
    """Whether a name is False by a binding for want of Apex: in an `except` of its `try`, or above that."""
    tree = file.tree
    around = {*tree.ancestors(binding.node)}
    is_above = (
        tree.block(tree.statement(binding.node)) is tree.block(guard) and tree.order[binding.node] < tree.order[guard]
    )
    return is_constant(binding.value, "False") and (is_above or not around.isdisjoint(guard.handlers))
