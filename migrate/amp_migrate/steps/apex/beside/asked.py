"""What a script asks of its choice between Apex and native AMP, and what it asks where Apex is never chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.imported import loaded_by
from amp_migrate.analysis.project import Project
from amp_migrate.plan.code import Code, code
from amp_migrate.steps.apex.beside.choice import NAMING, Choice, constants_of, operator_of
from amp_migrate.steps.apex.beside.conditions import (
    Condition,
    compared_with_truth,
    conditions,
    implied,
    is_fixed,
    meant,
    reached,
    switched,
    with_apex,
)
from amp_migrate.steps.apex.beside.never_set import native_flags
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.trees.nodes import is_constant, walk

_NOT_EQUAL = (cst.NotEqual, cst.NotIn)
_COMPARED = (cst.Equal, cst.In, *_NOT_EQUAL)
_TESTS = (cst.If, cst.IfExp, cst.Assert)


class Asked:
    """Reads what a script asks of its choice, as if Apex were never chosen, and native AMP in its stead.

    Args:
        files: those of the script.
    """

    def __init__(self, project: Project, choice: Choice, files: Collection[File]) -> None:
        self._project = project
        self._files = files
        self._choice = choice
        self._is_flag = choice.apex is None
        self._names = (choice.asked, choice.native) if self._is_flag and choice.native else (choice.asked,)
        self._kept: dict[tuple[File, str], dict[cst.FunctionDef, str]] = {}
        self._keeping: set[cst.CSTNode] = set()  # what keeps such a parameter, and asks nothing

    def asked(self, file: File) -> Iterator[cst.Name | cst.Attribute]:
        """Wherever the choice is read, but for where a parameter of that meaning is kept."""
        for name in self._names:
            for word in dict.fromkeys((name, *self._parameters(file, name).values())):
                for node in file.uses.get(word.rpartition(".")[2], ()):
                    is_given = isinstance(file.tree.parents[node], cst.AssignTarget)
                    if self._is(file, node, name) and not (is_given or node in self._keeping):
                        yield node

    def _is(self, file: File, node: cst.BaseExpression, name: str) -> bool:
        """Whether an expression is the choice of a name: by these words, or a parameter that is kept under them."""
        words = meant(file, node)
        function = file.tree.function(node)
        return words == name or (function is not None and self._parameters(file, name).get(function) == words)

    def _parameters(self, file: File, name: str) -> dict[cst.FunctionDef, str]:
        """The parameters that are kept as an attribute of a name, and nothing else is: `self.mode = mode`."""
        known = self._kept.get((file, name))
        if known is None:
            known = self._kept[file, name] = {}
            for node in file.uses.get(name.rpartition(".")[2], ()) if "." in name else ():
                bindings = object_bindings(file, node) if file.tree.code(node) == name else []
                kept = bindings[0].value if len(bindings) == 1 else None
                function = None if kept is None else file.tree.function(kept)
                if function is not None and isinstance(kept, cst.Name):
                    given = file.scopes.of(kept).lookup(kept.value)
                    if given and all(each.kind is BindingKind.PARAMETER for each in given):
                        known[function] = kept.value
                        self._keeping.add(kept)
        return known

    def decided(self, file: File, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool] | None:
        """The longest question that has one answer where Apex is not chosen, with that."""
        parents = file.tree.parents
        inner = parents[node] if not self._is_flag and isinstance(parents[node], cst.Comparison) else node
        found = None
        while isinstance(inner, cst.BaseExpression) and (answer := self._answer(file, inner)) is not None:
            found, inner = (inner, answer), parents[inner]
        return None if self._is_handed_on(file, node) else found

    def _answer(self, file: File, node: cst.BaseExpression) -> bool | None:
        """What an expression is where Apex is not chosen; None where that depends on more."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self._answer(file, node.expression)
            return None if inner is None else not inner
        if isinstance(node, cst.BooleanOperation):
            both = [self._answer(file, each) for each in (node.left, node.right)]
            decides = isinstance(node.operator, cst.Or)
            return decides if decides in both else None if None in both else not decides
        if (compared := compared_with_truth(file, node)) is not None:
            inner = self._answer(file, compared[0])
            return None if inner is None else inner is compared[1]
        if self._is_flag:
            is_it = isinstance(node, (cst.Name, cst.Attribute)) and self._is(file, node, self._choice.asked)
            return not self._choice.chosen if is_it else None
        values = self._values(file, node)
        return isinstance(operator_of(node), _NOT_EQUAL) if values == [] else None

    def _values(self, file: File, node: cst.BaseExpression) -> list[str] | None:
        """What the choice is compared with, if Apex's value counts as the native one; None for another expression."""
        if not isinstance(node, cst.Comparison) or not self._is(file, node.left, self._choice.asked):
            return None
        if len(node.comparisons) != 1 or not isinstance(operator_of(node), _COMPARED):
            return None
        apex, values = self._choice.apex, self._constants(file, node)
        if not values:
            return None
        others = [each for each in values if each != apex]
        return [*others, apex] if apex is not None and self._choice.native in others else others

    def is_understood(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Whether it can be said what a place asks: for one of the two, or for anything else."""
        parent, choice = file.tree.parents[node], self._choice
        if self._is_native_flag(file, node):
            return self._asked_at(file, node) is not None
        found = self.decided(file, node)
        if found is not None:
            around = file.tree.parents[found[0]]
            is_elif = isinstance(around, cst.If) and file.tree.statement(around) is not around
            return (found[0] is not node or isinstance(around, (*_TESTS, cst.BooleanOperation))) and not is_elif
        if self._is_flag or isinstance(parent, cst.ComparisonTarget):
            return self._is_handed_on(file, node)
        if not isinstance(parent, cst.Comparison):
            return True
        return self._values(file, parent) is not None and choice.native is not None

    def _is_handed_on(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether a flag is passed to a function of the script that asks for it by the same name."""
        arg = file.tree.parents[node]
        call = file.tree.parents[arg] if isinstance(arg, cst.Arg) else None
        function = self._project.called(file, call) if isinstance(call, cst.Call) else None
        if function is None or function.file not in self._files or not isinstance(call, cst.Call):
            return False
        return isinstance(node, cst.Name) and function.given(call, node.value) is node

    def _is_native_flag(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        return self._is_flag and self._choice.native is not None and self._is(file, node, self._choice.native)

    def _asked_at(self, file: File, node: cst.Name | cst.Attribute) -> str | None:
        """The flag of Apex as it is called at the place of that of native AMP; None where it cannot be said there."""
        flag, function = self._choice.asked, file.tree.function(node)
        if isinstance(node, cst.Name) and "." in (self._choice.native or ""):
            return None if function is None else self._parameters(file, flag).get(function)
        if "." in flag:
            return flag if flag.partition(".")[0] == file.tree.code(node).partition(".")[0] else None
        bound = file.scopes.of(node).lookup(flag)
        is_set = isinstance(node, cst.Name) or all(file.tree.order[e.node] < file.tree.order[node] for e in bound)
        return flag if bound and is_set else None

    def widened(self, file: File, node: cst.Name | cst.Attribute) -> tuple[cst.BaseExpression, Code] | None:
        """A question for native AMP, and the one that counts what chose Apex."""
        parent = file.tree.parents[node]
        if self._is_flag:
            asked = self._asked_at(file, node) if self._is_native_flag(file, node) else None
            return None if asked is None else (node, code("{} or {}", node, asked))
        values = self._values(file, parent) if isinstance(parent, cst.Comparison) else None
        if not values or not isinstance(parent, cst.Comparison):
            return None
        old = self._constants(file, parent)
        if sorted(old) == sorted(values):
            return None
        words = ("not in", "!=") if isinstance(operator_of(parent), _NOT_EQUAL) else ("in", "==")
        if len(values) == 1:
            return parent, code("{} {} {}", node, words[1], values[0])
        return parent, code("{} {} {}", node, words[0], f"({', '.join(values)})")

    def decided_apart(self, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where autocast or a scaler stands under a condition that is neither this choice nor asked for Apex, too.

        Where only the flag of native AMP is answered, it also has to stand under all that Apex is asked for by.
        """
        apex = [each for file in files for each in self._of_apex(file)]
        known = frozenset(more for file in files for each in self._of_apex(file) for more in implied(file, each))
        known |= self._implied(files)
        raising = [(file.tree.function(at), each) for file in files for at, each in self._raising(file, known)]
        flags = set(native_flags(self._choice.always))
        set_up = {each for _, chain in self._choice.always for each in walk(chain)}
        for file in files:
            for node in file.tree.every(cst.Name, cst.Attribute):
                is_native = not isinstance(file.tree.parents[node], NAMING) and names_amp(file, node)
                if not is_native or node in set_up or _is_its_own(file, node):
                    continue
                found = self._open(file, switched(file, node))
                found -= {each.negated for function, each in raising if function is file.tree.function(node)}
                if _is_region(file, node):  # what does not come to it computes nothing there, with Apex or without
                    found -= reached(file, node) - known
                is_known = found <= known or any(each.holds and each.code in flags for each in found)
                if not is_known or (not self._choice.chosen and not any(one <= found for one in apex)):
                    return file, node
        return None

    def _implied(self, files: Sequence[File]) -> frozenset[Condition]:
        """What is true wherever the choice has another value than None: what it is given each under."""
        ways = [
            conditions(file, target)
            for file in files
            for target in file.tree.every(cst.AssignTarget)
            if not self._is_flag and meant(file, target.target) == self._choice.asked
            if not is_constant(cst.ensure_type(file.tree.parents[target], cst.Assign).value, "None")
        ]
        return frozenset.intersection(*ways) if ways else frozenset()

    def _raising(self, file: File, known: frozenset[Condition]) -> Iterator[tuple[cst.Raise, Condition]]:
        """What makes the script raise where Apex is chosen: each that does so alone, beside what is known."""
        for statement in file.tree.every(cst.Raise):
            found = conditions(file, statement)
            others = self._open(file, found) - known
            is_caught = any(isinstance(each, cst.Try) for each in file.tree.ancestors(statement))
            if len(others) == 1 and not is_caught and any(self._chooses_apex(file, each) for each in found):
                yield statement, next(iter(others))

    def _chooses_apex(self, file: File, condition: Condition) -> bool:
        node = condition.node
        if self._is_flag:
            return condition.holds is self._choice.chosen and self._is(file, node, self._choice.asked)
        if not (condition.holds and isinstance(node, cst.Comparison) and self._is(file, node.left, self._choice.asked)):
            return False
        return self._constants(file, node) == [self._choice.apex]

    def _of_apex(self, file: File) -> Iterator[frozenset[Condition]]:
        """What is true where a file initializes Apex, or scales a loss by it, beside the choice."""
        for name in ("initialize", "scale_loss"):
            for call in amp_calls(file, name):
                yield self._open(file, with_apex(file, call))

    def _open(self, file: File, found: frozenset[Condition]) -> frozenset[Condition]:
        """Conditions without the choice, and without what is installed."""
        return frozenset(
            each
            for each in found
            if not is_fixed(file, each.node)
            and not any(self._is(file, each.node, name) for name in self._names)
            and self._values(file, each.node) is None
        )

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

    def asked_elsewhere(self, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where another file asks what this script has chosen; a script apart from it has a choice of its own.

        A flag that is never set is false there as it was without Apex.
        """
        if self._choice.always:
            return None
        script = loaded_by(self._project, files)
        for word in dict.fromkeys(name.rpartition(".")[2] for name in self._names):
            for file in self._project.library.mentioning(word):
                asking = [node for node in file.uses.get(word, ()) if file not in files and self._is_asked(file, node)]
                if asking and file not in script and loaded_by(self._project, [file]).isdisjoint(files):
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
        return values is not None and values != self._constants(file, parent)

    def _constants(self, file: File, node: cst.Comparison) -> list[str]:
        return list(map(file.tree.code, constants_of(self._project, file, node.comparisons[0])))


def _is_flag(statement: cst.Assign) -> bool:
    return is_constant(statement.value, "True") or is_constant(statement.value, "False")


def _is_region(file: File, autocast: cst.CSTNode) -> bool:
    call = file.tree.parents[autocast]
    return isinstance(call, cst.Call) and isinstance(file.tree.parents[call], cst.WithItem)


def _is_its_own(file: File, node: cst.Name | cst.Attribute) -> bool:
    """Whether a file itself gives a value to what an expression begins with: nobody hands it in, and no import."""
    root: cst.BaseExpression = node
    while isinstance(root, cst.Attribute):
        root = root.value
    given = file.scopes.of(node).lookup(dotted(root) or "")
    return bool(given) and all(each.kind is BindingKind.ASSIGNMENT for each in given)
