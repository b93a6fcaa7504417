"""One edit: a place in a tree, what becomes of it, and the rule behind it. The kinds of change are a closed set.

Changes name nodes of the tree as it was read, so that none has to know of another, and several can be made to one node:
a call that is renamed gets its argument as well, and what is put round an expression holds what changes inside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias, cast

import libcst as cst

from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code, Need, source
from amp_migrate.trees.nodes import Block, Statement
from amp_migrate.trees.tree import Tree


@frozen
class NewLine:
    """A new statement.

    Attributes:
        head: the statement, or the head of a compound one (`if x:`).
        body: the simple statements below the head.
        orelse: those below an `else`.
        blank: how many empty lines stand above it; where that is two, as many part it from what is below it.
    """

    head: Code
    body: tuple[Code, ...] = ()
    orelse: tuple[Code, ...] = ()
    blank: int = 0

    def __str__(self) -> str:
        other = ("else:", *(f"    {each}" for each in self.orelse)) if self.orelse else ()
        return "\n".join((str(self.head), *(f"    {each}" for each in self.body), *other))

    @property
    def codes(self) -> tuple[Code, ...]:
        """All new code in it."""
        return (self.head, *self.body, *self.orelse)


# Expressions, and names that label something.


@frozen
class Replace:
    """Something else stands in the place of an expression, or of a name."""

    new: Code


@frozen
class Cast:
    """An expression gets another dtype where it stands; one that several ask for is made once, as the first asks."""

    new: Code


# Items of calls, parameters and displays.


@frozen
class Given:
    """An argument of a call as it is to be.

    Attributes:
        old: the argument that it was; None for a new one.
        keyword: its keyword; None for that of `old`, or none.
        value: its value; None for that of `old`.
    """

    old: cst.Arg | None = None
    keyword: str | None = None
    value: Code | None = None

    @property
    def name(self) -> str | None:
        """The keyword that it has in the end."""
        if self.keyword is None and self.old is not None and self.old.keyword is not None:
            return self.old.keyword.value
        return self.keyword

    @property
    def code(self) -> Code:
        """The argument as code that stands by itself."""
        value = Code((source(self.old.value),)) if self.value is None and self.old is not None else self.value
        assert value is not None
        prefix = "" if self.name is None else f"{self.name}="
        return Code((prefix, *value.parts), value.needs)


@frozen
class NewArguments:
    """A call has these arguments, in the layout that it had."""

    given: tuple[Given, ...]


@frozen
class AddArgument:
    """A call has one more argument.

    Attributes:
        after: the argument that it stands behind; None for the last.
        first: whether it stands before all others instead.
    """

    value: Code
    keyword: str = ""
    after: cst.Arg | None = None
    first: bool = False


@frozen
class SetKeyword:
    """An argument is given by this keyword."""

    keyword: str


@frozen
class AddParameter:
    """A function has one more parameter.

    Attributes:
        after: the parameter that it stands behind; None for the last that can be given by its place.
    """

    name: str
    after: cst.Param | None = None
    annotation: Code | None = None
    default: Code | None = None


@frozen
class AddEntry:
    """A dictionary display has one more entry, behind one of its own."""

    key: str
    value: Code
    after: cst.DictElement


@frozen
class Remove:
    """An argument, a parameter, or an item of a display or a `with` is no more."""


@frozen
class AddDecorator:
    """A function has one more decorator, below the others."""

    new: Code


@frozen
class DropDecorator:
    """A function has one decorator less; the comments above it stay."""

    decorator: cst.Decorator


# Statements.


@frozen
class Before:
    """Lines stand before a statement, under the comments above it."""

    lines: tuple[NewLine, ...]


@frozen
class After:
    """Lines stand behind a statement, those of an earlier edit first."""

    lines: tuple[NewLine, ...]


@frozen
class Substitute:
    """Lines stand in the place of a statement, and none where it goes; comments above it stay."""

    lines: tuple[NewLine, ...] = ()


@frozen
class Splice:
    """The statements of one of its blocks stand in the place of a compound statement."""

    block: Block


@frozen
class Wrap:
    """A run of statements stands in the body of a `with`.

    Attributes:
        last: the last statement of the run, which the edited one begins.
        context: what the `with` enters.
        tail: lines behind the run, in the same body.
        head: lines before it there.
    """

    last: Statement
    context: Code
    tail: tuple[NewLine, ...] = ()
    head: tuple[NewLine, ...] = ()


@frozen
class DropBranch:
    """An `if` or `elif` goes with its branch; what follows it in the chain takes its place."""


@frozen
class Annotate:
    """A comment stands above a statement."""

    comment: str


@frozen
class Recomment:
    """A comment that belongs to a line, a block or a parameter says something else."""

    comment: cst.Comment
    new: Code


# Imports.


@frozen
class Imported:
    """One item of an import.

    Attributes:
        old: the item that it was; None for a new one.
        name: the full name in the module, or of the module; None for that of `old`.
        local: the name that it is given by `as`; None for that of `old`, or none.
    """

    old: cst.ImportAlias | None = None
    name: str | None = None
    local: str | None = None

    def __str__(self) -> str:
        if self.old is not None and self.name is None and self.local is None:
            return source(self.old.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        name = source(self.old.name) if self.name is None and self.old is not None else self.name
        known = None if self.old is None or self.old.asname is None else source(self.old.asname.name)
        local = self.local or known
        return f"{name}" if local is None else f"{name} as {local}"


@frozen
class Reimport:
    """An import has these items, and for `from` this module.

    Attributes:
        items: the items; none for a star, which stays.
        module: the module; None where it stays, and for `import`.
    """

    items: tuple[Imported, ...]
    module: str | None = None


Change: TypeAlias = (
    "Replace | Cast | NewArguments | AddArgument | SetKeyword | AddParameter | AddEntry | Remove | AddDecorator "
    "| DropDecorator "
    "| Before | After | Substitute | Splice | Wrap | DropBranch | Annotate | Recomment | Reimport"
)


@frozen
class Edit:
    """One change at one place.

    Attributes:
        tree: the file, as it was read.
        node: the place.
        change: what becomes of it.
        rule: the code of the rule that asks for it.
    """

    tree: Tree
    node: cst.CSTNode
    change: Change
    rule: str

    @property
    def kind(self) -> str:
        """What is done, in a word."""
        return type(self.change).__name__

    @property
    def codes(self) -> tuple[Code, ...]:
        """All new code in it."""
        return tuple(_codes(self.change))

    @property
    def needs(self) -> frozenset[Need]:
        """What its new code needs at the top of the file."""
        return frozenset(need for each in self.codes for need in each.needs)

    @property
    def changed(self) -> tuple[cst.CSTNode, ...]:
        """The nodes that are not what they were: none where lines are only put beside a statement."""
        if isinstance(self.change, (Before, After)):
            return ()
        if isinstance(self.change, Wrap):
            run = self.tree.siblings(cast(Statement, self.node))
            return run[run.index(cast(Statement, self.node)) : run.index(self.change.last) + 1]
        return (self.node,)

    @property
    def line(self) -> int:
        """The 1-based line that the place begins in."""
        return self.tree.position(self.node)[0]

    @property
    def gone(self) -> bool:
        """Whether the statement goes, with nothing in its place."""
        return isinstance(self.change, Substitute) and not self.change.lines


def replaced_by(edits: Iterable[Edit]) -> frozenset[cst.CSTNode]:
    """The statements that some edits take out, or put something else in the place of; of a `try`, one of its blocks."""
    return frozenset(
        edit.node
        for edit in edits
        if isinstance(edit.change, Substitute) or (isinstance(edit.change, Splice) and isinstance(edit.node, cst.Try))
    )


def dropped_by(edits: Iterable[Edit]) -> frozenset[cst.CSTNode]:
    """The tests and blocks of the branches that some edits drop."""
    dropped = [cst.ensure_type(edit.node, cst.If) for edit in edits if isinstance(edit.change, DropBranch)]
    return frozenset(part for each in dropped for part in (each.test, each.body))


def is_within(tree: Tree, node: cst.CSTNode, places: Collection[cst.CSTNode]) -> bool:
    """Whether a node is one of some places, or stands in one."""
    return bool(places) and (node in places or any(each in places for each in tree.ancestors(node)))


def _codes(change: Change) -> Iterator[Code]:
    match change:
        case Replace(new) | Cast(new) | AddDecorator(new) | Recomment(_, new):
            yield new
        case NewArguments(given):
            yield from (each.value for each in given if each.value is not None)
        case AddArgument(value) | AddEntry(_, value):
            yield value
        case AddParameter(_, _, annotation, default):
            yield from (each for each in (annotation, default) if each is not None)
        case Before(lines) | After(lines) | Substitute(lines):
            yield from (each for line in lines for each in line.codes)
        case Wrap(_, context, tail, head):
            yield context
            yield from (each for line in (*head, *tail) for each in line.codes)
