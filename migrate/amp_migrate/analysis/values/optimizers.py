"""Optimizers and learning-rate schedulers: known by what made them, by what is called on them, or by their name."""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.analysis.files import File, object_bindings, object_path
from amp_migrate.analysis.values.looped import elements, held_in
from amp_migrate.tables import torch_names as table
from amp_migrate.trees.nodes import subscript_key, written_string

_OPTIMIZER_NAME = re.compile(
    r"(^|[._])(\w*optimizer\w*|optims?|opts?|\w+_opt|opt_\w+|optim_\w+|\w+_optim|opt(im)?(?-i:[A-Z])\w*)(\[\])?$",
    re.IGNORECASE,
)
# What a text holds in which `is_optimizer` can be true of anything.
OPTIMIZER_SIGN = re.compile(r"optim|(?:\b|_)opt(?:\b|_|(?-i:[A-Z]))|zero_grad", re.IGNORECASE)
_SCHEDULER_NAME = re.compile(r"sched|warmup", re.IGNORECASE)


def is_optimizer(file: File, node: cst.BaseExpression) -> bool:
    """Whether an expression is an optimizer."""
    path = object_path(node)
    if path is None or is_scheduler(file, node):
        return False
    for binding in object_bindings(file, node):
        value = binding.value if binding.value is not None else binding.source
        if isinstance(value, cst.Call) and table.is_optimizer_name(file.names.callee(value)):
            return True
    called = file.called_on(node)
    is_named_so = any(map(_OPTIMIZER_NAME.search, {path, _name(node, path)}))
    return is_named_so or {"zero_grad", "step"} <= called or _is_one_of_some(file, node)


def _name(node: cst.BaseExpression, path: str) -> str:
    """What an object is called: by the key that it is taken from a dictionary by, `state["optimizer"]`, or its path."""
    return written_string(subscript_key(node)) or path


def _is_one_of_some(file: File, node: cst.BaseExpression) -> bool:
    """Whether an object is an element of a collection of optimizers."""
    return any(
        _OPTIMIZER_NAME.search(object_path(held) or "")
        or any(isinstance(e, cst.Call) and table.is_optimizer_name(file.names.callee(e)) for e in _put_into(file, held))
        for held in held_in(file, node)
    )


def _put_into(file: File, held: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What stands in the displays and comprehensions that make a collection."""
    return [each for binding in object_bindings(file, held) for each in elements(binding.value)]


def is_scheduler(file: File, node: cst.BaseExpression) -> bool:
    """Whether an expression is a learning-rate scheduler."""
    path = object_path(node)
    if path is None:
        return False
    if any(_makes_scheduler(file, binding.value) for binding in object_bindings(file, node)):
        return True
    kept = [each for held in held_in(file, node) for each in _put_into(file, held)]
    if kept and all(_makes_scheduler(file, each) for each in kept):
        return True
    return _SCHEDULER_NAME.search(_name(node, path).rpartition(".")[2]) is not None


def _makes_scheduler(file: File, value: cst.BaseExpression | None) -> bool:
    return isinstance(value, cst.Call) and file.names.callee(value).startswith(table.SCHEDULER_FACTORIES)
