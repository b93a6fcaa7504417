"""Sees to it that a scaler is made before it is used, on every way through the code.

A scaler is made behind its optimizer. Where that has a value on some ways only, made in one branch or in one of several
methods, so has the scaler: what needs the optimizer has both, but not what other ways use. For their sake it is made
before the branching.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import object_bindings
from amp_migrate.plan.edit import Edit
from amp_migrate.steps.model.route import Creation, Ways
from amp_migrate.trees.nodes import Block, Statement, block_of, header, is_constant, method_of, statements, walk_own
from amp_migrate.trees.tree import Tree

_JUMPS = (cst.Return, cst.Raise, cst.Break, cst.Continue)


def make_first(ways: Ways, edits: Iterable[Edit]) -> None:
    """Move up every scaler that some code which edits bring would find without a value."""
    edits = tuple(edits)
    for key, creation in ways.creations.items():
        name = re.compile(rf"(?<![\w.]){re.escape(creation.target)}\b")
        here = (each for each in edits if each.tree is creation.file.tree and _key(ways, each) is key)
        uses = [each.node for each in here if any(name.search(str(code)) for code in each.codes)]
        ways.creations[key] = _before_all(_Making(creation, key), uses).creation


def _key(ways: Ways, edit: Edit) -> cst.CSTNode | None:
    """The function, class or module whose scaler the new code of an edit means; None for what it is given."""
    owner = edit.tree.owner_class(edit.node)
    if owner in ways.creations:
        return owner
    around = (each for each in edit.tree.ancestors(edit.node) if each in ways.parameters or each in ways.creations)
    found = next(around, None)
    return None if found in ways.parameters else found


def _before_all(making: _Making, uses: list[cst.CSTNode]) -> _Making:
    """The nearest place to what makes a scaler that is before all its uses."""
    while not all(map(making.has_run_at, uses)) and (outer := making.outer) is not None:
        making = outer
    late = [each for each in uses if not making.has_run_at(each)]
    beside = [each for each in map(making.beside, late) if each is not None]
    if beside:
        return making.at(min(beside, key=lambda each: making.tree.order[each]))
    return making.in_constructor() if late else making


@dataclass(frozen=True)
class _Making:
    """The making of a scaler.

    Attributes:
        creation: where and how.
        key: the function, class or module that the scaler belongs to.
    """

    creation: Creation
    key: cst.CSTNode

    @property
    def tree(self) -> Tree:
        return self.creation.file.tree

    @property
    def outer(self) -> _Making | None:
        """The making before the statement around it; None at the top of a function or module."""
        holder = self.tree.parents.get(self.tree.block(self.creation.home))
        if holder is None or isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
            return None
        return self.at(self.tree.statement(holder))

    def at(self, home: Statement) -> _Making:
        """The making before a statement."""
        return replace(self, creation=replace(self.creation, home=home, before=True))

    def in_constructor(self) -> _Making:
        """The making of an object's scaler behind what its constructor begins with: that of the base class."""
        constructor = method_of(self.key, "__init__") if isinstance(self.key, cst.ClassDef) else None
        if constructor is None:
            return self
        body = statements(block_of(constructor))
        behind = [each for each in body if not _is_of_base(each)]
        return self.at(behind[0]) if behind else replace(self, creation=replace(self.creation, home=body[-1]))

    def has_run_at(self, node: cst.CSTNode) -> bool:
        """Whether the scaler has been made wherever a statement runs that would run without one."""
        if self._precedes(node):
            return True
        if self.creation.home in (node, *self.tree.ancestors(node)):
            return False
        return any(map(self._comes_with, self._reads_with(node)))

    def beside(self, node: cst.CSTNode) -> Statement | None:
        """The statement that a node is in, of those of the block where the scaler is made."""
        return self._lifted(node, self.tree.block(self.creation.home))

    def _lifted(self, node: cst.CSTNode, block: Block) -> Statement | None:
        return self.tree.lift(node, block) if block in self.tree.ancestors(node) else None

    @property
    def _ends(self) -> Iterator[Statement]:
        """The statement that the scaler is made at, and those round it that are left only when it has been made."""
        current = self.creation.home
        yield current
        while isinstance(holder := self.tree.parents.get(self.tree.block(current)), cst.With):
            current = holder
            yield current

    def _precedes(self, node: cst.CSTNode) -> bool:
        """Whether control comes to a node through the making alone."""
        for end in self._ends:
            lifted = self._lifted(node, self.tree.block(end))
            if lifted is None:
                continue
            is_here = lifted is end and end is self.creation.home and self.creation.before
            return is_here or self.tree.order[lifted] > self.tree.order[end]
        return self._is_constructed and self.tree.function(node) is not self.tree.function(self.creation.home)

    @property
    def _is_constructed(self) -> bool:
        """Whether no object is without the scaler."""
        method = self.tree.function(self.creation.home)
        is_constructor = isinstance(self.key, cst.ClassDef) and method is method_of(self.key, "__init__")
        return is_constructor and any(self.tree.parents.get(self.tree.block(end)) is method for end in self._ends)

    def _comes_with(self, read: _Read) -> bool:
        """Whether what is read has a value only where the scaler has one as well."""
        if not self._is_beside(read.node):
            return False
        bindings = [each for each in object_bindings(self.creation.file, read.node) if not _is_deleted(each)]
        given = [each for each in bindings if not is_constant(each.value, "None")]
        return bool(given) and (read.is_needed or given == bindings) and all(map(self._is_with, given))

    def _is_beside(self, node: cst.BaseExpression) -> bool:
        """Whether a name, or an attribute of `self`, lives where the scaler does."""
        path = dotted(node)
        if path is None or isinstance(self.key, cst.ClassDef):
            return path is not None and path.startswith("self.") and self.tree.owner_class(node) is self.key
        scope = self.creation.file.scopes.of(node).find(path)
        return scope is not None and scope.node is self.key and "." not in path

    def _is_with(self, binding: Binding) -> bool:
        """Whether who gives a name its value makes the scaler as well, or has made it before."""
        node = binding.node
        if binding.kind is BindingKind.PARAMETER:
            return False
        if self.creation.home in (node, *self.tree.ancestors(node)) or self._precedes(node):
            return True
        siblings = self.tree.siblings(self.creation.home)
        between = siblings[: siblings.index(self.creation.home)]
        first = next((index for index, each in enumerate(between) if each is self.tree.statement(node)), None)
        return first is not None and not any(map(_may_jump, between[first:]))

    def _reads_with(self, node: cst.CSTNode) -> Iterator[_Read]:
        """What is read whenever a node is executed, before it or behind it in the same run."""
        statement = self.tree.statement(node)
        yield from _reads(header(statement))
        while True:
            siblings = self.tree.siblings(statement)
            index = siblings.index(statement)
            behind = takewhile(lambda each: not _may_jump(each), siblings[index + 1 :])
            for each in (*siblings[:index], *behind):
                yield from _reads(each.test if isinstance(each, cst.If) else part for part in header(each)[:1])
            holder = self.tree.parents.get(self.tree.block(statement))
            if holder is None or isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
                return
            if isinstance(holder, cst.If):
                yield from _asked(holder.test)
            statement = self.tree.statement(holder)


@dataclass(frozen=True)
class _Read:
    """An expression that is read.

    Attributes:
        is_needed: whether None in its place would be an error.
    """

    node: cst.BaseExpression
    is_needed: bool


def _reads(parts: Iterable[cst.CSTNode]) -> Iterator[_Read]:
    for part in parts:
        for each in walk_own(part):
            if isinstance(each, (cst.Attribute, cst.Subscript)):
                yield _Read(each.value, True)
            elif isinstance(each, cst.Call):
                yield _Read(each.func, True)
            elif isinstance(each, cst.Arg):
                yield _Read(each.value, False)


def _asked(test: cst.BaseExpression) -> Iterator[_Read]:
    """What is not None where a test is true."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from (*_asked(test.left), *_asked(test.right))
    elif isinstance(test, (cst.Name, cst.Attribute)):
        yield _Read(test, True)
    elif isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, cst.IsNot):
        yield _Read(test.left, is_constant(test.comparisons[0].comparator, "None"))


def _may_jump(statement: Statement) -> bool:
    return any(isinstance(each, _JUMPS) for each in walk_own(statement))


def _is_deleted(binding: Binding) -> bool:
    return isinstance(binding.node, cst.Del)


def _is_of_base(statement: Statement) -> bool:
    """Whether a statement of a constructor is its docstring, or the call of that of a base class."""
    value = statement.value if isinstance(statement, cst.Expr) else None
    if isinstance(value, cst.Call):
        return isinstance(value.func, cst.Attribute) and value.func.attr.value == "__init__"
    return isinstance(value, (cst.SimpleString, cst.ConcatenatedString))
