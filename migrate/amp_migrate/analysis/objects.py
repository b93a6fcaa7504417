"""What an object is made from: the classes of the project, and the methods of them that a call on it may run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.tables.torch_names import COPIES, HANDS_BACK, is_optimizer_name
from amp_migrate.trees.nodes import find, is_constant, method_of

Definition: TypeAlias = "Callable[[File, cst.CSTNode], tuple[File, cst.CSTNode] | None]"
Method: TypeAlias = "tuple[File, cst.FunctionDef]"
Class: TypeAlias = "tuple[File, cst.ClassDef]"

# By these a class has what nobody sees defined in it.
_GIVING_ANY = ("__getattr__", "__getattribute__", "setattr", "__dict__")


class Objects:
    """Finds the classes of objects in one project.

    Args:
        definition: the class or function that a name stands for, in whichever file it is.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    def methods(self, file: File, node: cst.BaseExpression, name: str) -> list[Method] | None:
        """The methods of a name that an object has, by all classes it is made from; None where one cannot be seen."""
        classes = self._classes(file, node, 0)
        found = [self.method(where, owner, name) for where, owner in classes or ()]
        methods = [each for each in found if each is not None]
        return methods if methods and len(methods) == len(found) else None

    def is_missing(self, file: File, node: cst.Attribute) -> bool:
        """Whether an attribute is not there for certain: all classes that its object is made from are in sight.

        They derive from PyTorch's own optimizers at most, which have no more than their documentation has.
        """
        name = node.attr.value
        classes = self._classes(file, node.value, 0)
        above = [each for of_one in classes or () for each in self.lineage(*of_one)]
        is_given = re.search(rf"\.\s*{name}\s*=(?!=)|\bsetattr\b", file.tree.text)
        return bool(above) and not is_given and all(self._is_plain(where, owner, name) for where, owner in above)

    def _is_plain(self, file: File, owner: cst.ClassDef, name: str) -> bool:
        """Whether a class has nothing of a name itself, and derives from optimizers of the project's and PyTorch's."""
        for base in owner.bases:
            found = self._definition(file, base.value)
            is_own = found is not None and isinstance(found[1], cst.ClassDef)
            if not is_own and not is_optimizer_name(file.names.full(base.value)):
                return False
        words = set(re.findall(r"\w+", file.tree.code(owner)))
        return not owner.decorators and not owner.keywords and words.isdisjoint((name, *_GIVING_ANY))

    def method(self, file: File, owner: cst.ClassDef, name: str) -> Method | None:
        """The method of a name that a class has: its own, or the first that it inherits."""
        found = ((where, method_of(each, name)) for where, each in self.lineage(file, owner))
        return next(((where, method) for where, method in found if method is not None), None)

    def lineage(self, file: File, owner: cst.ClassDef) -> Iterator[Class]:
        """A class, and those of the project that it derives from, in the order in which Python mostly asks them."""
        waiting, met = [(file, owner)], set[cst.ClassDef]()
        while waiting:
            where, each = waiting.pop()
            if each not in met:
                met.add(each)
                yield where, each
                bases = [self._definition(where, base.value) for base in each.bases]
                waiting += [
                    (found[0], found[1]) for found in reversed(bases) if found and isinstance(found[1], cst.ClassDef)
                ]

    def _classes(self, file: File, node: cst.BaseExpression, depth: int) -> list[Class] | None:
        """The classes that a value may be made from; None where one of them cannot be seen."""
        if depth > MAX_HOPS:
            return None
        if isinstance(node, cst.Call):
            made = self._definition(file, node.func)
            if made is not None and isinstance(made[1], cst.FunctionDef):
                return self._returned(made[0], made[1], depth)
            if made is not None:
                return [(made[0], made[1])] if isinstance(made[1], cst.ClassDef) else None
            if file.names.callee(node) in COPIES and node.args:
                return self._classes(file, node.args[0].value, depth + 1)
            is_same = isinstance(node.func, cst.Attribute) and node.func.attr.value in HANDS_BACK
            return self._classes(file, cst.ensure_type(node.func, cst.Attribute).value, depth + 1) if is_same else None
        path = dotted(node)
        found: list[Class] = []
        for binding in object_bindings(file, node):
            value = binding.value
            if value is not None and (is_constant(value, "None") or _is_itself(value, path)):
                continue
            classes = None if value is None else self._classes(file, value, depth + 1)
            if classes is None:
                return None
            found += classes
        return found or None

    def _returned(self, file: File, function: cst.FunctionDef, depth: int) -> list[Class] | None:
        """The classes of what a function makes: `create_model(opt)`."""
        if function.decorators or function.asynchronous or any(True for _ in find(function.body, cst.Yield)):
            return None
        found: list[Class] = []
        for each in find(function.body, cst.Return):
            classes = None if each.value is None else self._classes(file, each.value, depth + 1)
            if classes is None:
                return None
            found += classes
        return found or None


def handed_back(value: cst.BaseExpression) -> cst.BaseExpression:
    """What calls that hand their object back are made on: `Net()` for `Net().to(device).eval()`."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in HANDS_BACK:
        value = value.func.value
    return value


def _is_itself(value: cst.BaseExpression, path: str | None) -> bool:
    """Whether a value is what the name stood for before: `model = model.to(device)`."""
    return path is not None and dotted(handed_back(value)) == path
