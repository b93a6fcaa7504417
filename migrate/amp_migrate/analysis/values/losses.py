"""Criteria, and calls that compute a loss: also those that CUDA's autocast refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File, object_bindings, object_path
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.values.looped import elements, held_in
from amp_migrate.analysis.values.recursion import Recursion
from amp_migrate.tables import torch_names as table
from amp_migrate.trees.nodes import find

_LOSS_NAME = re.compile(r"(^|[._])(\w*criterion\w*|crit|\w*loss\w*|bce|mse|l1|ce|objective)(\[\])?$", re.IGNORECASE)
# A module that computes its loss itself: `model_and_loss`, `ModelWithLoss`.
_MODEL_WITH_LOSS = re.compile(r"(model|net|network)_?(and|with)_?(loss|criterion)", re.IGNORECASE)
_Asked: TypeAlias = "Callable[[File, cst.Call], bool]"


class Losses:
    """The criteria of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._losses, self._reaching = Recursion(), Recursion()

    def is_object(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether an expression is a criterion: made from a `torch.nn.*Loss`, or named like one."""
        path = object_path(node)
        if path is None:
            return False
        if any(_is_loss_class(file, each.value) for each in object_bindings(file, node)):
            return True
        if any(_is_loss_class(file, each) for held in held_in(file, node) for each in _collected(file, held)):
            return True
        return _LOSS_NAME.search(path) is not None and _MODEL_WITH_LOSS.search(path) is None

    def is_call(self, file: File, call: cst.Call) -> bool:
        """Whether a call computes a loss."""
        full = file.names.callee(call)
        if full:
            return full in table.LOSS_FUNCTIONS or (_LOSS_NAME.search(full) is not None and not is_class_name(full))
        found = self._project.definition(file, call.func)
        if found is not None and isinstance(found[1], cst.ClassDef):
            return False
        if isinstance(call.func, cst.Call):  # nn.CrossEntropyLoss()(output, target)
            return _is_loss_class(file, call.func)
        return isinstance(call.func, cst.BaseExpression) and self.is_object(file, call.func)

    def computes(self, file: File, call: cst.Call) -> bool:
        """Whether a call computes a loss, by itself or inside a function of the project."""
        if self.is_call(file, call):
            return True
        function = self._project.called(file, call)
        makes = function is not None and function.name == "__init__"
        return not makes and self._any_inside(self._losses, file, call, self.computes)

    def is_banned(self, file: File, call: cst.Call) -> bool:
        """Whether a call computes a loss that CUDA autocast refuses: `nn.BCELoss`, `F.binary_cross_entropy`."""
        if file.names.callee(call) == table.BANNED_LOSS_FUNCTION:
            return True
        if isinstance(call.func, cst.Call):
            return file.names.callee(call.func) == table.BANNED_LOSS_CLASS
        return any(
            isinstance(each.value, cst.Call) and _class_of(file, each.value) == table.BANNED_LOSS_CLASS
            for each in object_bindings(file, call.func)
        )

    def may_be_another(self, file: File, call: cst.Call) -> bool:
        """Whether a criterion that autocast may refuse is made a loss of another class on some ways."""
        made = (each.value for each in object_bindings(file, call.func))
        return any(isinstance(each, cst.Call) and _class_of(file, each) != table.BANNED_LOSS_CLASS for each in made)

    def reaches_banned(self, file: File, call: cst.Call) -> bool:
        """Whether a call computes a banned loss, by itself or inside a function of the project."""
        if self.is_banned(file, call):
            return True
        return self._any_inside(self._reaching, file, call, self.reaches_banned)

    def _any_inside(self, known: Recursion, file: File, call: cst.Call, asked: _Asked) -> bool:
        """Whether something holds of a call inside what a call runs of the project."""
        run = self._project.run(file, call)
        if run is None:
            return False
        where, function = run
        return known.ask(function, lambda: any(asked(where, each) for each in find(function.body, cst.Call)))


def is_class_name(full: str) -> bool:
    """Whether a full name ends as classes are named: `losses.DiceLoss` makes a loss, it does not compute one."""
    return full.rpartition(".")[2][:1].isupper()


def _class_of(file: File, call: cst.Call) -> str:
    """The full name of the class that a construction makes, through `.to(device)` and `.cuda()`."""
    while isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call):
        if call.func.attr.value not in ("to", "cuda"):
            break
        call = call.func.value
    return file.names.callee(call)


def _collected(file: File, held: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a collection is given that is written out, by itself or in one of PyTorch's."""
    for binding in object_bindings(file, held):
        made = binding.value
        is_wrapped = isinstance(made, cst.Call) and file.names.callee(made) in table.MODULE_COLLECTIONS and made.args
        yield from elements(made.args[0].value if isinstance(made, cst.Call) and is_wrapped else made)


def _is_loss_class(file: File, value: cst.BaseExpression | None) -> bool:
    if not isinstance(value, cst.Call):
        return False
    full = _class_of(file, value)
    return full.startswith("torch.nn.") and full.endswith(table.LOSS_CLASS_SUFFIX)
