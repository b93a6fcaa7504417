"""Data flow inside one function, as far as finding a region needs it: who writes what the loss is made of."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.trees.nodes import Statement, header, walk

# What tells about a tensor, and not what is in it.
_ABOUT = frozenset({"device", "dim", "dtype", "ndim", "ndimension", "numel", "shape", "size"})
# Methods that give plain numbers.
_ENDS = frozenset({"item", "numpy", "tolist"})
_NUMBERS = frozenset({"bool", "float", "int"})  # of Python's own
# Methods that put their argument into the object they are called on.
_MUTATORS = frozenset("append extend insert add update setdefault appendleft".split())


def key_of(node: cst.CSTNode) -> str | None:
    """What a flow is followed by: a plain name, or one attribute of `self`."""
    while isinstance(node, (cst.Subscript, cst.Call)):
        node = node.value if isinstance(node, cst.Subscript) else node.func
    path = dotted(node)
    if path is None:
        return key_of(node.value) if isinstance(node, cst.Attribute) else None
    parts = path.split(".")
    return ".".join(parts[:2]) if parts[0] == "self" and len(parts) > 1 else parts[0]


def reads(nodes: Iterable[cst.CSTNode]) -> frozenset[str]:
    """The names whose values some code reads, and of `self` the attributes; not those it only asks for a size."""
    found: set[str] = set()
    for root in nodes:
        labels: set[cst.CSTNode] = set()
        for node in walk(root):
            if isinstance(node, cst.Attribute) and node.attr.value in _ABOUT and dotted(node.value) is not None:
                labels.update(walk(node))
            elif node in labels:
                continue
            elif isinstance(node, cst.Arg) and node.keyword is not None:
                labels.add(node.keyword)
            elif isinstance(node, cst.Attribute):
                labels.add(node.attr)
                if isinstance(node.value, cst.Name) and node.value.value == "self":
                    labels.add(node.value)
                    found.add(f"self.{node.attr.value}")
            elif isinstance(node, cst.Name) and node not in labels:
                found.add(node.value)
    return frozenset(found)


def statement_reads(statement: Statement) -> frozenset[str]:
    """What a statement reads; for an assignment, not what it overwrites."""
    if isinstance(statement, cst.Assign):
        weak = [t.target for t in statement.targets if not isinstance(t.target, cst.Name)]
        subscripts = [each for target in weak for each in _flat(target) if isinstance(each, cst.Subscript)]
        return reads([statement.value, *subscripts])
    if isinstance(statement, cst.AnnAssign):
        return reads([statement.value]) if statement.value is not None else frozenset()
    return reads([statement.iter] if isinstance(statement, cst.For) else header(statement))


def _flat(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return [leaf for element in target.elements for leaf in _flat(element.value)]
    return [target]


def targets(statement: Statement) -> list[cst.BaseExpression]:
    """The expressions that a statement assigns to by itself; a loop, to its target."""
    if isinstance(statement, cst.Assign):
        return [leaf for each in statement.targets for leaf in _flat(each.target)]
    if isinstance(statement, (cst.AnnAssign, cst.AugAssign)):
        return [statement.target]
    return _flat(statement.target) if isinstance(statement, cst.For) else []


def writes(statement: Statement) -> frozenset[str]:
    """What a statement gives a value to by itself, or puts something into; not that of which it wants gradients."""
    found = {key_of(target) for target in targets(statement) if not _is_switch(target)}
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        func = statement.value.func
        if isinstance(func, cst.Attribute) and (func.attr.value in _MUTATORS or func.attr.value.endswith("_")):
            found.add(None if _is_switch(func) else key_of(func.value))
    return frozenset(key for key in found if key is not None)


def _is_switch(node: cst.CSTNode) -> bool:
    """Whether something is `loss.requires_grad`, or the method that sets it: the value stays what it is."""
    return isinstance(node, cst.Attribute) and node.attr.value in ("requires_grad", "requires_grad_")


def leaves_graph(statement: Statement) -> bool:
    """Whether a statement assigns what no gradient comes back from: `actions = policy(x).cpu().numpy()`."""
    value = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    return is_plain_number(value) and all(isinstance(target, cst.Name) for target in targets(statement))


def is_plain_number(value: cst.BaseExpression | None) -> bool:
    """Whether a value is what a method like `item()` gives, or `int()`, or something taken of that."""
    while isinstance(value, (cst.Call, cst.Subscript, cst.Attribute)):
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value in _NUMBERS:
            return True
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            if value.func.attr.value in _ENDS and not value.args:
                return True
            value = value.func.value
        else:
            value = value.func if isinstance(value, cst.Call) else value.value
    return False


def overwrites(statement: Statement) -> frozenset[str]:
    """The names that have a wholly new value after a statement."""
    if not isinstance(statement, (cst.Assign, cst.AnnAssign)):
        return frozenset()
    plain = [t for t in targets(statement) if not isinstance(t, cst.Subscript) and not _is_switch(t)]
    return frozenset(key for key in map(key_of, plain) if key is not None) - statement_reads(statement)
