"""Hooks that are given gradients during `backward()`, while a loss scaler has them multiplied by its scale."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.trees.nodes import walk

_REGISTERS = frozenset(
    (
        "register_backward_hook register_full_backward_hook register_full_backward_pre_hook register_hook "
        "register_post_accumulate_grad_hook"
    ).split()
)
# What is not the same of a gradient and of a multiple of it; sums and averages over processes are.
_NOT_LINEAR = re.compile(r"\b(clamp|clip|norm|sign|tanh|sigmoid)\w*\(")


def reading_hook(file: File, roles: Roles, optimizers: Sequence[cst.BaseExpression]) -> tuple[File, cst.Call] | None:
    """A hook for whose work the size of gradients matters, with its file.

    That is any hook that an optimizer of the project registers itself, to build its step on what it is given, and one
    in the file of the step that clips or the like.
    """
    for optimizer in optimizers:
        for where, owner in roles.classes(file, optimizer):
            for call in _registrations(each for each in walk(owner) if isinstance(each, cst.Call)):
                return where, call
    return next(((file, call) for call in _registrations(file.calls) if _is_not_linear(file, roles, call)), None)


def _registrations(calls: Iterable[cst.Call]) -> Iterator[cst.Call]:
    for call in calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _REGISTERS and call.args:
            yield call


def _is_not_linear(file: File, roles: Roles, call: cst.Call) -> bool:
    hook = call.args[0].value
    found = roles.project.definition(file, hook)
    code = file.tree.code(hook) if found is None else found[0].tree.code(found[1])
    return _NOT_LINEAR.search(code) is not None
