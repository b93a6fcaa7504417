"""Where probabilities come from: the sigmoids behind what a loss reads.

In float16 a sigmoid is 1 for every logit above 8, and in bfloat16 above 6. A probability of 1 that should be 0 gets a
gradient of NaN in float16 and of 0 in bfloat16, so the sigmoid has to see float32, not only the loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.roles import Roles
from amp_migrate.tables.torch_names import SIGMOID_CLASS, SIGMOID_FUNCTIONS
from amp_migrate.trees.nodes import find, walk

# Methods that hand on the values they are called on.
_SHAPES = frozenset("view reshape squeeze unsqueeze flatten contiguous permute transpose".split())


@dataclass(frozen=True)
class Sigmoids:
    """What computes the probabilities that a value holds.

    Attributes:
        arguments: the logits that visible sigmoids are given, each with its file.
        hidden: whether there is a sigmoid that is given its logits by other code, as in `nn.Sequential`.
    """

    arguments: tuple[tuple[File, cst.BaseExpression], ...] = ()
    hidden: bool = False

    def __add__(self, other: Sigmoids) -> Sigmoids:
        return Sigmoids((*self.arguments, *other.arguments), self.hidden or other.hidden)


def logits(roles: Roles, file: File, value: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a sigmoid is given; None where an expression is none."""
    value = _unshaped(value)
    if not isinstance(value, cst.Call):
        return None
    if isinstance(value.func, cst.Attribute) and value.func.attr.value == "sigmoid" and not value.args:
        return value.func.value
    if len(value.args) != 1 or value.args[0].star:
        return None
    made = [each.value for each in roles.bindings(file, value.func)] or [value.func]
    is_object = any(file.names.callee(each) == SIGMOID_CLASS for each in made if each is not None)
    return value.args[0].value if is_object or file.names.callee(value) in SIGMOID_FUNCTIONS else None


def sigmoids_behind(roles: Roles, file: File, value: cst.BaseExpression, depth: int = 0) -> Sigmoids:
    """The sigmoids of the project that a value comes out of, through names and the modules that computed it."""
    value = _unshaped(value)
    given = logits(roles, file, value)
    if given is not None:
        return Sigmoids(((file, given),))
    found = Sigmoids()
    if depth == MAX_HOPS:
        return found
    if isinstance(value, cst.Call):
        made = [each.value for each in roles.bindings(file, value.func)]
        hidden = any(each is not None and any(_constructs(file, inner) for inner in walk(each)) for each in made)
        found = Sigmoids(hidden=hidden)
        models = [(file, value.func)]
        for binding in roles.bindings(file, value.func):
            if isinstance(binding.node, cst.Param):
                models += passed_values(roles.project, file, binding.node)
        owners = [owner for where, model in models for owner in roles.classes(where, model)]
        for where, owner in dict.fromkeys(owners):  # several callers may pass one model
            found += _of_class(roles, where, owner)
    elif dotted(value) is not None:
        for binding in roles.bindings(file, value):
            source = binding.value if binding.value is not None else binding.source
            if source is not None:
                found += sigmoids_behind(roles, file, source, depth + 1)
    return found


def _of_class(roles: Roles, file: File, owner: cst.ClassDef) -> Sigmoids:
    """The sigmoids whose results the methods of a class return."""
    found = Sigmoids()
    for method in find(owner.body, cst.FunctionDef):
        for statement in find(method.body, cst.Return):
            value = statement.value
            parts = [each.value for each in value.elements] if isinstance(value, cst.Tuple) else [value]
            for part in parts:
                if part is not None and not isinstance(_unshaped(part), cst.Call):
                    found += sigmoids_behind(roles, file, part, MAX_HOPS - 1)
                elif part is not None and (given := logits(roles, file, part)) is not None:
                    found += Sigmoids(((file, given),))
        for call in (each for each in walk(method.body) if isinstance(each, cst.Call)):
            is_handed_on = isinstance(file.tree.parents[call], cst.Arg)
            found += Sigmoids(hidden=is_handed_on and _constructs(file, call))
    return found


def _constructs(file: File, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and file.names.callee(node) == SIGMOID_CLASS


def _unshaped(value: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without the subscripts and the changes of shape behind it."""
    while True:
        if isinstance(value, cst.Subscript):
            value = value.value
        elif (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in _SHAPES
            and dotted(value.func.value) not in ("torch", "F")
        ):
            value = value.func.value
        else:
            return value
