"""What a script asks of its choice between Apex and native AMP, and what it asks where Apex is never chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import loaded_by
from amp_migrate.analysis.project import Project
from amp_migrate.plan.code import Code, code
from amp_migrate.steps.apex.beside.choice import Choice, constants_of, is_fixed, operator_of, parts_of
from amp_migrate.steps.apex.beside.never_set import native_flags
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.trees.nodes import is_constant, walk

_NOT_EQUAL = (cst.NotEqual, cst.NotIn)
_COMPARED = (cst.Equal, cst.In, *_NOT_EQUAL)
_TESTS = (cst.If, cst.IfExp, cst.Assert)
_PARTS = (cst.Attribute, cst.ImportAlias, cst.ImportFrom)  # a name that is imported does nothing yet


class Asked:
    """Reads what a script asks of its choice, as if Apex were never chosen, and native AMP in its stead."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._is_flag = choice.apex is None
        self._names = (choice.asked, choice.native) if self._is_flag and choice.native else (choice.asked,)

    def asked(self, file: File) -> Iterator[cst.Name | cst.Attribute]:
        """Wherever the choice is read."""
        for name in self._names:
            for node in file.uses.get(name.rpartition(".")[2], ()):
                is_given = isinstance(file.tree.parents[node], cst.AssignTarget)
                if file.tree.code(node) == name and not is_given:
                    yield node

    def decided(self, file: File, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool] | None:
        """The longest question that has one answer where Apex is not chosen, with that."""
        parents = file.tree.parents
        inner = parents[node] if not self._is_flag and isinstance(parents[node], cst.Comparison) else node
        found = None
        while isinstance(inner, cst.BaseExpression) and (answer := self._answer(file, inner)) is not None:
            found, inner = (inner, answer), parents[inner]
        return found

    def _answer(self, file: File, node: cst.BaseExpression) -> bool | None:
        """What an expression is where Apex is not chosen; None where that depends on more."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self._answer(file, node.expression)
            return None if inner is None else not inner
        if isinstance(node, cst.BooleanOperation):
            both = [self._answer(file, each) for each in (node.left, node.right)]
            decides = isinstance(node.operator, cst.Or)
            return decides if decides in both else None if None in both else not decides
        if self._is_flag:
            is_it = isinstance(node, (cst.Name, cst.Attribute)) and file.tree.code(node) == self._choice.asked
            return False if is_it else None
        values = self._values(file, node)
        return isinstance(operator_of(node), _NOT_EQUAL) if values == [] else None

    def _values(self, file: File, node: cst.BaseExpression) -> list[str] | None:
        """What the choice is compared with, if Apex's value counts as the native one; None for another expression."""
        if not isinstance(node, cst.Comparison) or file.tree.code(node.left) != self._choice.asked:
            return None
        if len(node.comparisons) != 1 or not isinstance(operator_of(node), _COMPARED):
            return None
        apex, values = self._choice.apex, list(map(file.tree.code, constants_of(node.comparisons[0])))
        if not values:
            return None
        others = [each for each in values if each != apex]
        return [*others, apex] if apex is not None and self._choice.native in others else others

    def is_understood(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Whether it can be said what a place asks: for one of the two, or for anything else."""
        parent, choice = file.tree.parents[node], self._choice
        if self._is_flag and file.tree.code(node) == choice.native:
            return _is_seen(file, node, choice.asked)
        found = self.decided(file, node)
        if found is not None:
            around = file.tree.parents[found[0]]
            is_elif = isinstance(around, cst.If) and file.tree.statement(around) is not around
            return (found[0] is not node or isinstance(around, (*_TESTS, cst.BooleanOperation))) and not is_elif
        if self._is_flag or isinstance(parent, cst.ComparisonTarget):
            return False
        if not isinstance(parent, cst.Comparison):
            return True
        return self._values(file, parent) is not None and choice.native is not None

    def widened(self, file: File, node: cst.Name | cst.Attribute) -> tuple[cst.BaseExpression, Code] | None:
        """A question for native AMP, and the one that counts what chose Apex."""
        choice, parent = self._choice, file.tree.parents[node]
        if self._is_flag:
            return (node, code("{} or {}", node, choice.asked)) if file.tree.code(node) == choice.native else None
        values = self._values(file, parent) if isinstance(parent, cst.Comparison) else None
        if not values or not isinstance(parent, cst.Comparison):
            return None
        old = list(map(file.tree.code, constants_of(parent.comparisons[0])))
        if sorted(old) == sorted(values):
            return None
        words = ("not in", "!=") if isinstance(operator_of(parent), _NOT_EQUAL) else ("in", "==")
        if len(values) == 1:
            return parent, code("{} {} {}", node, words[1], values[0])
        return parent, code("{} {} {}", node, words[0], f"({', '.join(values)})")

    def decided_apart(self, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where autocast or a scaler stands under a condition that is neither this choice nor asked for Apex, too."""
        choice = self._choice
        asked, native = choice.asked if self._is_flag else f"{choice.asked} == {choice.apex}", choice.native
        known = {f"not ({asked})", native if self._is_flag else f"{choice.asked} == {native}"}
        flags = set(native_flags(choice.always))
        set_up = {each for _, chain in choice.always for each in walk(chain)}
        for file in files:
            for name in ("initialize", "scale_loss"):
                known.update(each for call in amp_calls(file, name) for each in _conditions(file, call))
        for file in files:
            for node in file.tree.every(cst.Name, cst.Attribute):
                is_native = not isinstance(file.tree.parents[node], _PARTS) and names_amp(file, node)
                if not is_native or node in set_up or _is_its_own(file, node):
                    continue
                conditions = set(_conditions(file, node))
                if not (conditions <= known or conditions & flags):
                    return file, node
        return None

    def set_up_with(self, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where the flag that chooses native AMP is set with more: that is not done where the flag of Apex is set."""
        native = self._choice.native if self._is_flag else None
        for file in files if native is not None else ():
            for target in file.tree.every(cst.AssignTarget):
                statement = file.tree.parents[target]
                if file.tree.code(target.target) == native and is_constant(
                    cst.ensure_type(statement, cst.Assign).value, "True"
                ):
                    others = file.tree.siblings(cst.ensure_type(statement, cst.Assign))
                    more = next((each for each in others if isinstance(each, cst.Assign) and not _is_flag(each)), None)
                    if more is not None:
                        return file, more
        return None

    def asked_elsewhere(self, project: Project, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where another file asks what this script has chosen; a script apart from it has a choice of its own.

        A flag that is never set is false there as it was without Apex.
        """
        if self._choice.always:
            return None
        script = loaded_by(project, files)
        for word in dict.fromkeys(name.rpartition(".")[2] for name in self._names):
            for file in project.library.mentioning(word):
                asking = [node for node in file.uses.get(word, ()) if file not in files and self._is_asked(file, node)]
                if asking and file not in script and loaded_by(project, [file]).isdisjoint(files):
                    asking = [node for node in asking if not _is_its_own(file, node)]
                if asking:
                    return file, asking[0]
        return None

    def _is_asked(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Whether another file may ask for the choice by the same words."""
        parent = file.tree.parents[node]
        if self._is_flag or not isinstance(parent, cst.Comparison):
            return self._is_flag and isinstance(node, cst.Attribute) and not isinstance(parent, cst.AssignTarget)
        values = self._values(file, parent)
        return values is not None and values != list(map(file.tree.code, constants_of(parent.comparisons[0])))


def _conditions(file: File, node: cst.CSTNode) -> Iterator[str]:
    """What is true where some code is executed, as code, but for what is installed."""
    inner = node
    for around in file.tree.ancestors(node):
        if isinstance(around, (cst.If, cst.IfExp)) and inner is not around.test:
            parts = [file.tree.code(each) for each in parts_of(around.test) if not is_fixed(file, each)]
            yield from parts if inner is around.body else [f"not ({' and '.join(parts)})"]
        inner = around


def _is_flag(statement: cst.Assign) -> bool:
    return is_constant(statement.value, "True") or is_constant(statement.value, "False")


def _is_its_own(file: File, node: cst.Name | cst.Attribute) -> bool:
    """Whether a file itself gives a value to what an expression begins with: nobody hands it in, and no import."""
    root: cst.BaseExpression = node
    while isinstance(root, cst.Attribute):
        root = root.value
    given = file.scopes.of(node).lookup(dotted(root) or "")
    return bool(given) and all(each.kind is BindingKind.ASSIGNMENT for each in given)


def _is_seen(file: File, node: cst.Name | cst.Attribute, flag: str) -> bool:
    """Whether a flag means at the place of another one what it means elsewhere."""
    root = flag.partition(".")[0]
    own = file.tree.code(node).partition(".")[0]
    return root == own if "." in flag else isinstance(node, cst.Name) and file.scopes.of(node).find(flag) is not None
