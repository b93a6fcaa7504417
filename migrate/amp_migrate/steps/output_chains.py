"""Chains that begin with an output of a region: `out.detach()[0]` is in low precision because `out` is."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from amp_migrate.steps.regions import RegionFinder
from amp_migrate.trees.nodes import find

# Methods that keep a tensor's dtype, so that a chain of them ends in the dtype of its root.
_KEEPS_DTYPE = frozenset(
    (
        "abs chunk clamp clip clone contiguous cpu cuda data detach exp expand expand_as flatten flip gather log "
        "log_softmax masked_fill mean permute relu repeat reshape round sigmoid softmax split sqrt squeeze sum t tanh "
        "to transpose tril triu unflatten unsqueeze view view_as"
    ).split()
)
# Tensors in the structure that a Hugging Face model gives back.
_STRUCTURE = frozenset({"logits", "loss", "last_hidden_state"})
_MAX_DEPTH = 6


def chain_root(finder: RegionFinder, node: cst.BaseExpression, outputs: Collection[str]) -> cst.BaseExpression | None:
    """The output at the start of a chain of methods and subscripts; None where the chain changes the dtype."""
    if isinstance(node, cst.Name):
        return node if node.value in outputs else None
    if isinstance(node, cst.Subscript):
        inner = chain_root(finder, node.value, outputs)
        # `out[0]` may take a tensor out of a tuple: it is that element which is cast.
        return node if inner is node.value else inner
    if isinstance(node, cst.Call):
        if any(_names_dtype(arg.value) for arg in node.args):
            return None
        name = finder.file.names.callee(node)
        if name.startswith("torch."):
            keeps = name.rpartition(".")[2] in _KEEPS_DTYPE and bool(node.args)
            return chain_root(finder, node.args[0].value, outputs) if keeps else None
        return chain_root(finder, node.func, outputs) if isinstance(node.func, cst.Attribute) else None
    if isinstance(node, cst.Attribute):
        inner = chain_root(finder, node.value, outputs)
        if node.attr.value in _KEEPS_DTYPE:
            return inner
        # `out.logits` is a tensor in a structure; any other method of a tensor makes a dtype of its own.
        return node if inner is node.value and node.attr.value in _STRUCTURE else None
    return None


def is_floating(finder: RegionFinder, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a value is seen to be what a module or a loss computes, and not, say, actions that are drawn from it."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, cst.Call):
        if finder.roles.is_module(finder.file, node.func) or finder.roles.losses.is_call(finder.file, node):
            return True
        full = finder.file.names.callee(node)
        if full.startswith("torch."):
            name, values = full.rpartition(".")[2], [each.value for each in node.args[:1]]
        elif isinstance(node.func, cst.Attribute):
            name, values = node.func.attr.value, [node.func.value]
        else:
            return False
        if name not in _KEEPS_DTYPE or any(_names_dtype(each.value) for each in node.args):
            return False
        return any(is_floating(finder, each, depth + 1) for each in values)
    if isinstance(node, cst.Name):
        order, statement = finder.tree.order, finder.tree.statement(node)
        bound = [each for each in finder.roles.bindings(finder.file, node) if order[each.node] < order[statement]]
        given = [each.value for each in bound if not isinstance(each.node, cst.AugAssign)]  # `x += y` keeps the dtype
        return bool(given) and all(each is not None and is_floating(finder, each, depth + 1) for each in given)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus) and is_floating(finder, node.expression, depth + 1)
    if isinstance(node, cst.BinaryOperation):
        return any(is_floating(finder, each, depth + 1) for each in (node.left, node.right))
    if isinstance(node, cst.Attribute):
        return node.attr.value in _STRUCTURE or is_floating(finder, node.value, depth + 1)
    return isinstance(node, cst.Subscript) and is_floating(finder, node.value, depth + 1)


def _names_dtype(value: cst.BaseExpression) -> bool:
    return any(
        isinstance(each, cst.Attribute)
        and each.attr.value.startswith(("float", "double", "half", "bfloat", "int", "long"))
        for each in find(value, cst.Attribute)
    )
