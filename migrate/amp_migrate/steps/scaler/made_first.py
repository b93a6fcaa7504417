"""Sees to it that a scaler is made before it is used, on every way through the code.

A scaler is made behind its optimizer. Where that has a value on some ways only, made in one branch or in one of several
methods, so has the scaler: what needs the optimizer has both, but not what other ways use. For their sake it is made
before the branching.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit
from amp_migrate.steps.model.route import Creation, Ways
from amp_migrate.tables.torch_names import is_optimizer_name
from amp_migrate.trees.nodes import (
    IS_SCRIPT,
    Block,
    Statement,
    block_of,
    header,
    is_constant,
    method_of,
    parts_of,
    start_of,
    statements,
    walk_own,
    walk_surely,
)
from amp_migrate.trees.tree import Tree

_JUMPS = (cst.Return, cst.Raise, cst.Break, cst.Continue)


def make_first(ways: Ways, edits: Iterable[Edit], said: Collection[Statement] = ()) -> None:
    """Move up every scaler that some code which edits bring would find without a value.

    Args:
        said: statements at which the script says that scalers are made, which stay there.
    """
    written = [(edit, " ".join(_written(edit))) for edit in edits]
    for key, creation in ways.creations.items():
        if creation.home in said:
            continue
        name = re.compile(rf"(?<![\w.]){re.escape(creation.target)}\b")
        scope = key if creation.declared is None else creation.file.tree.module
        uses = [edit for edit, text in written if name.search(text) and _is_of(ways, edit, scope)]
        ways.creations[key] = _behind_optimizers(_before_all(_Making(creation, scope), uses), uses).creation


def late_uses(ways: Ways, edits: Iterable[Edit], home: Statement) -> Iterator[cst.CSTNode]:
    """The code in the function of a statement that may come to a scaler which is made at that before it is made."""
    for key, creation in ways.creations.items():
        tree, name = creation.file.tree, re.compile(rf"(?<![\w.]){re.escape(creation.target)}\b")
        making = _Making(replace(creation, before=True), key)
        for edit in edits if creation.home is home else ():
            is_beside = edit.tree is tree and tree.function(edit.node) is tree.function(home)
            if is_beside and name.search(" ".join(_written(edit))) and not making.has_run_at(edit):
                yield edit.node


def _written(edit: Edit) -> Iterator[str]:
    """What new code says by itself, beside the old code in it, which knows no scaler."""
    return (part for code in edit.codes for part in code.parts if isinstance(part, str))


def _is_of(ways: Ways, edit: Edit, key: cst.CSTNode) -> bool:
    """Whether code that names a scaler may mean that of a function, class or module, and not what it is given."""
    if isinstance(key, cst.ClassDef):
        owner = edit.tree.owner_class(edit.node)
        return owner is key or owner not in ways.creations  # which inherits it
    around = (each for each in edit.tree.ancestors(edit.node) if each in ways.parameters or each in ways.creations)
    return next((each for each in around if not isinstance(each, cst.ClassDef)), edit.tree.module) is key


def _before_all(making: _Making, uses: list[Edit]) -> _Making:
    """The nearest place to what makes a scaler that is before all its uses."""
    while not all(map(making.has_run_at, uses)) and (outer := making.outer) is not None:
        making = outer
    late = [each for each in uses if not making.has_run_at(each)]
    beside = [found for each in late if (found := making.beside(each)) is not None]
    if beside:
        return making.at(min(beside, key=lambda each: making.tree.order[each]))
    return making.in_constructor() if late else making


def _behind_optimizers(making: _Making, uses: list[Edit]) -> _Making:
    """The making behind the last of the optimizers that are made one after the other, and of what is asserted there.

    Nothing that uses the scaler comes in between.
    """
    creation = making.creation
    if creation.before or creation.given is not None:
        return making
    siblings = making.tree.siblings(creation.home)
    at = siblings.index(creation.home)
    behind = takewhile(lambda each: _goes_with(creation.file, each, creation.home), siblings[at + 1 :])
    last = next(iter(deque(behind, 1)), creation.home)
    later = replace(making, creation=replace(creation, home=last))
    return later if all(later.has_run_at(each) for each in uses if making.has_run_at(each)) else making


def _goes_with(file: File, statement: Statement, home: Statement) -> bool:
    """Whether a statement asserts something, or makes an optimizer, as by the function that makes the scaler's."""
    if isinstance(statement, cst.Assert):
        return True
    made, own = (each.value if isinstance(each, cst.Assign) else None for each in (statement, home))
    if not isinstance(made, cst.Call):
        return False
    is_like = isinstance(own, cst.Call) and file.tree.code(made.func) == file.tree.code(own.func)
    return is_like or is_optimizer_name(file.names.callee(made))


@frozen
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
        home, before = start_of(constructor)
        return replace(self, creation=replace(self.creation, home=home, before=before))

    def has_run_at(self, use: Edit) -> bool:
        """Whether the scaler has been made wherever code runs that would run without one."""
        if self._precedes(use.node):
            return True
        if self.creation.home in (use.node, *self.tree.ancestors(use.node)):
            return False
        is_behind = self._is_behind(use)
        if is_behind and self.tree.loop(self.creation.home) is None:
            return False
        until = use.node if is_behind else self.creation.home
        return any(self._comes_with(read, until) for read in _read_with(use.tree, use.node, with_later=not is_behind))

    def _is_behind(self, use: Edit) -> bool:
        """Whether the scaler is made by what stands behind a use: for the first one, too late."""
        home = self.creation.home
        if use.tree.function(use.node) is not self.tree.function(home) or use.tree is not self.tree:
            return False
        block = self.tree.common_block([self.tree.statement(use.node), home])
        first, then = (self.tree.lift(each, block) for each in (use.node, home))
        return self.tree.order[first] < self.tree.order[then]

    def beside(self, use: Edit) -> Statement | None:
        """The statement that a use stands in, of those of the block where the scaler is made; None for a function."""
        if use.tree.function(use.node) is not self.tree.function(self.creation.home):
            return None
        return self._lifted(use.node, self.tree.block(self.creation.home))

    def _lifted(self, node: cst.CSTNode, block: Block) -> Statement | None:
        return self.tree.lift(node, block) if block in self.tree.ancestors(node) else None

    @property
    def _ends(self) -> Iterator[Statement]:
        """The statement that the scaler is made at, and those round it that are left only when it has been made."""
        current = self.creation.home
        yield current
        while isinstance(holder := self.tree.parents.get(self.tree.block(current)), (cst.With, cst.If)):
            if isinstance(holder, cst.If) and self.tree.code(holder.test) not in IS_SCRIPT:
                return
            current = holder
            yield current

    def _precedes(self, node: cst.CSTNode) -> bool:
        """Whether control comes to a node through the making alone."""
        for end in self._ends:
            lifted = self._lifted(node, self.tree.block(end))
            is_here = lifted is end is self.creation.home and self.creation.before
            if is_here or (lifted is not None and self.tree.order[lifted] > self.tree.order[end]):
                return True
        return self.tree.function(node) is not self.tree.function(self.creation.home) and self._is_always_made

    @property
    def _is_always_made(self) -> bool:
        """Whether a function that sees the scaler finds one, if it is not called by what stands above the making."""
        function = self.tree.function(self.creation.home)
        if isinstance(self.key, cst.ClassDef) and function is not method_of(self.key, "__init__"):
            return False
        return any(self.tree.block(end) is self.tree.body(end) for end in self._ends)

    def _comes_with(self, read: _Read, until: cst.CSTNode) -> bool:
        """Whether what is read has a value only where the scaler has one as well.

        Args:
            until: where it is read, if the scaler is made further down, in one loop; else where that is made.
        """
        bindings = [each for each in self._bindings(read.node) if not isinstance(each.node, cst.Del)]
        given = [each for each in bindings if not is_constant(each.value, "None")]
        return (
            bool(given) and (read.is_needed or given == bindings) and all(self._is_with(each, until) for each in given)
        )

    def _bindings(self, node: cst.BaseExpression) -> list[Binding]:
        """Where a name, or an attribute of `self`, gets its value; nothing where it lives elsewhere than the scaler."""
        path, file = dotted(node), self.creation.file
        if path is None or path.startswith("self.") is not isinstance(self.key, cst.ClassDef):
            return []
        if isinstance(self.key, cst.ClassDef):
            return [*file.attribute_bindings(self.key, path)]
        scope = file.scopes.of(node).find(path) if node in self.tree.parents else None
        return [] if scope is None or scope.node is not self.key else scope.bindings.get(path, [])

    def _is_with(self, binding: Binding, until: cst.CSTNode) -> bool:
        """Whether who gives a name its value makes the scaler as well, and by then, or has made it before."""
        node = binding.node
        if binding.kind is BindingKind.PARAMETER:
            return False
        if self.creation.home in (node, *self.tree.ancestors(node)) or self._precedes(node):
            return True
        if until is not self.creation.home and self.tree.order[node] < self.tree.order[until]:
            return False  # in the same round
        siblings = self.tree.siblings(self.creation.home)
        between = siblings[: siblings.index(self.creation.home)]
        first = next((index for index, each in enumerate(between) if each is self.tree.statement(node)), None)
        return first is not None and not any(map(_may_jump, between[first:]))


@frozen
class _Read:
    """An expression that is read.

    Attributes:
        is_needed: whether None in its place would be an error.
    """

    node: cst.BaseExpression
    is_needed: bool


def _read_with(tree: Tree, node: cst.CSTNode, *, with_later: bool) -> Iterator[_Read]:
    """What is read whenever a node is executed: before it, and `with_later` behind it in the same run as well."""
    statement = tree.statement(node)
    yield from _reads(header(statement))
    while True:
        siblings = tree.siblings(statement)
        index = siblings.index(statement)
        behind = takewhile(lambda each: not _may_jump(each), siblings[index + 1 :])
        for each in (*siblings[:index], *(behind if with_later else ())):
            yield from chain.from_iterable(_reads(_begun_with(passed)) for passed in _passed(each))
        holder = tree.parents.get(tree.block(statement))
        if holder is None or isinstance(holder, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(holder, cst.If):
            yield from _asked(holder.test)
        statement = tree.statement(holder)
        yield from _reads(_begun_with(statement))


def _begun_with(statement: Statement) -> Sequence[cst.CSTNode]:
    """What a statement evaluates first: of a compound one, what decides about its blocks."""
    if isinstance(statement, cst.Try):
        return ()
    return (statement.test,) if isinstance(statement, cst.If) else header(statement)[:1]


def _passed(statement: Statement) -> Iterator[Statement]:
    """What has begun to run wherever a statement has run: all of a `try` whose handlers lead nowhere behind it."""
    yield statement
    if isinstance(statement, cst.Try) and all(
        isinstance(statements(block_of(e))[-1], _JUMPS) for e in statement.handlers
    ):
        yield from chain.from_iterable(map(_passed, statements(block_of(statement))))


def _reads(parts: Iterable[cst.CSTNode]) -> Iterator[_Read]:
    for part in parts:
        for each in walk_surely(part):
            if isinstance(each, (cst.Attribute, cst.Subscript)):
                yield _Read(each.value, True)
            elif isinstance(each, cst.Call):
                yield _Read(each.func, True)
            elif isinstance(each, cst.Arg):
                yield _Read(each.value, False)


def _asked(test: cst.BaseExpression) -> Iterator[_Read]:
    """What is read by a test, or not None, where it is true."""
    for part in parts_of(test):
        yield from _reads([part])
        if isinstance(part, (cst.Name, cst.Attribute)):
            yield _Read(part, True)
        elif isinstance(part, cst.Comparison) and isinstance(part.comparisons[0].operator, cst.IsNot):
            yield _Read(part.left, is_constant(part.comparisons[0].comparator, "None"))


def _may_jump(statement: Statement) -> bool:
    return any(isinstance(each, _JUMPS) for each in walk_own(statement))
