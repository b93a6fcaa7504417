"""A parsed file, with what LibCST's nodes do not know of themselves: their parents, blocks and places.

LibCST's own metadata wrapper copies the tree and resolves far more than a migration asks for. Here one pass finds the
parents; places in the file are worked out only when there is something to say about one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, cast, overload

import libcst as cst

from amp_migrate.trees.places import Places

Statement: TypeAlias = "cst.BaseSmallStatement | cst.BaseCompoundStatement"
Block: TypeAlias = "cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite"
Function: TypeAlias = "cst.FunctionDef | cst.Lambda"
N = TypeVar("N", bound=cst.CSTNode)
M = TypeVar("M", bound=cst.CSTNode)
K = TypeVar("K", bound=cst.CSTNode)

STATEMENT_TYPES = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
BLOCK_TYPES = (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)
LOOP_TYPES = (cst.For, cst.While)
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_HOLDERS = (cst.SimpleStatementLine, *BLOCK_TYPES)  # what statements stand in
_BRANCHES = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Else, cst.Finally)
_CLAUSES = (cst.If, cst.Else, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.MatchCase)

# Fields that hold layout or punctuation. Walking past them makes a walk about four times faster.
_LAYOUT = frozenset(
    {"lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "semicolon", "equal", "colon", "dot"}
    | {"leading_lines", "lines_after_decorators", "header", "footer", "operator", "newline", "first_line", "indent"}
)

# Half of all nodes; their only fields are text.
_LEAVES = frozenset({cst.Name, cst.SimpleString, cst.Integer, cst.Float, cst.FormattedStringText, cst.Pass})


@cache
def _semantic_fields(kind: type) -> Callable[[cst.CSTNode], tuple[object, ...]] | None:
    """What reads the fields of a node that may carry meaning; None for a node that never has one below it."""
    if kind in _LEAVES:
        return None
    # `Module.header` is layout, but so are `If.header`s; no node keeps code in a field of these names.
    names = [f.name for f in fields(kind) if f.name not in _LAYOUT and not f.name.startswith("whitespace")]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple(getattr(node, name) for name in names)


@cache
def is_kind(kind: type, wanted: type | tuple[type, ...]) -> bool:
    """`issubclass`, remembered: LibCST's nodes are abstract base classes, whose own check is slow Python code."""
    return issubclass(kind, wanted)


def is_constant(node: cst.CSTNode | None, name: str) -> bool:
    """Whether an expression is written as one of Python's constants: `None`, `True` or `False`."""
    return isinstance(node, cst.Name) and node.value == name


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes directly below `node` that carry meaning, in source order of their fields."""
    # Every pass over every tree comes through here: no generator, no more calls than there must be.
    read = _semantic_fields(node.__class__)
    if read is None:
        return []
    found: list[Any] = []
    for value in read(node):
        if value is None:
            continue
        kind: type = value.__class__
        if kind is tuple or kind is list:
            found += cast("Sequence[Any]", value)  # nothing but nodes stands in a node's sequences
        elif is_kind(kind, cst.CSTNode):
            found.append(value)
    return found


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, parents before children."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        below = children(current)
        below.reverse()
        stack += below


def walk_own(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Like `walk`, without going into functions and classes defined below `node`: what runs when `node` runs."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if current is not node and is_kind(type(current), _DEFINITIONS):
            continue
        below = children(current)
        below.reverse()
        stack += below


def find(node: cst.CSTNode, kind: type[N]) -> Iterator[N]:
    """All nodes of one type at and below `node`, without nested functions and classes."""
    return (cast(N, each) for each in walk_own(node) if is_kind(type(each), kind))


def statements(block: Block) -> tuple[Statement, ...]:
    """The statements of a block, the parts of `a; b` each on its own."""
    found: list[Statement] = []
    for item in block.body:
        if type(item) is cst.SimpleStatementLine:
            found.extend(item.body)
        else:
            found.append(cast(Statement, item))
    return tuple(found)


def block_of(node: cst.FunctionDef | cst.For | cst.While) -> Block:
    """The body of a function or a loop."""
    assert isinstance(node.body, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return node.body


def blocks(statement: Statement) -> tuple[Block, ...]:
    """The blocks of a compound statement, `elif` and `except` branches included, in source order."""
    found: list[Block] = []
    if is_kind(type(statement), cst.BaseSmallStatement):
        return ()
    stack = children(statement)
    while stack:
        node = stack.pop(0)
        if type(node) in BLOCK_TYPES:
            found.append(cast(Block, node))
        elif type(node) in _CLAUSES:
            stack[:0] = children(node)
    return tuple(found)


def nested_statements(block: Block) -> Iterator[Statement]:
    """Every statement of `block` in source order, blocks below it included, nested functions and classes not."""
    for statement in statements(block):
        yield statement
        if type(statement) not in (cst.FunctionDef, cst.ClassDef):
            for inner in blocks(statement):
                yield from nested_statements(inner)


def header(statement: Statement) -> tuple[cst.CSTNode, ...]:
    """What a statement evaluates by itself: all of a simple one, the head of a compound one without its blocks."""
    if is_kind(type(statement), cst.BaseSmallStatement):
        return (statement,)
    found: list[cst.CSTNode] = []
    node: cst.CSTNode | None = statement
    while node is not None:
        elif_branch: cst.CSTNode | None = None
        for child in children(node):
            if type(child) is cst.If:
                elif_branch = child
            elif type(child) not in _BRANCHES:
                found.append(child)
        node = elif_branch
    return tuple(found)


class Tree:
    """A module with parents, and places on demand.

    Attributes:
        name: the file as the user named it.
        module: the LibCST tree.
        parents: the parent of every node that carries meaning.
        order: a number for each node that grows with its place in the source, parents before children.
    """

    def __init__(self, name: str, module: cst.Module, text: str | None = None) -> None:
        self.name = name
        self.module = module
        self._text = text
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.order: dict[cst.CSTNode, int] = {}
        stack: list[cst.CSTNode] = [module]
        while stack:
            node = stack.pop()
            self.order[node] = len(self.order)
            below = children(node)
            for child in below:
                self.parents[child] = node
            below.reverse()
            stack += below

    @cached_property
    def _by_kind(self) -> dict[type, list[cst.CSTNode]]:
        found: dict[type, list[cst.CSTNode]] = defaultdict(list)
        for node in self.order:
            found[type(node)].append(node)
        return found

    @overload
    def every(self, kind: type[N], /) -> list[N]: ...
    @overload
    def every(self, kind: type[N], second: type[M], /) -> list[N | M]: ...
    @overload
    def every(self, kind: type[N], second: type[M], third: type[K], /) -> list[N | M | K]: ...
    def every(self, *kinds: type[cst.CSTNode]) -> list[Any]:
        """All nodes of exactly these types, in source order, those in functions and classes too."""
        found = [node for kind in kinds for node in self._by_kind.get(kind, ())]
        if len(kinds) > 1:
            found.sort(key=self.order.__getitem__)
        return found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The parents of `node`, nearest first, up to the module."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def statement(self, node: cst.CSTNode) -> Statement:
        """The nearest statement at or above `node` that stands in a block itself (never an `elif` branch)."""
        current: cst.CSTNode = node
        while True:
            parent = self.parents[current]
            if is_kind(type(parent), _HOLDERS) and is_kind(type(current), STATEMENT_TYPES):
                return cast(Statement, current)
            current = parent

    def block(self, statement: Statement) -> Block:
        """The block that a statement stands in."""
        parent = self.parents[statement]
        if isinstance(parent, cst.SimpleStatementLine):
            parent = self.parents[parent]
        return cast(Block, parent)

    def siblings(self, statement: Statement) -> tuple[Statement, ...]:
        """All statements of the block that `statement` stands in, itself included."""
        return statements(self.block(statement))

    def trailing_comment(self, statement: Statement) -> str:
        """The comment behind a statement on its line, which goes when the statement goes; empty where there is none."""
        line = self.parents[statement]
        comment = line.trailing_whitespace.comment if isinstance(line, cst.SimpleStatementLine) else None
        return "" if comment is None else comment.value

    def lift(self, node: cst.CSTNode, block: Block) -> Statement:
        """The statement of `block` that `node` is, or stands in."""
        current = self.statement(node)
        while self.block(current) is not block:
            current = self.statement(self.parents[self.block(current)])
        return current

    def common_block(self, nodes: list[cst.CSTNode]) -> Block:
        """The innermost block that holds all `nodes`."""
        chains = [[a for a in self.ancestors(self.statement(node)) if isinstance(a, BLOCK_TYPES)] for node in nodes]
        for candidate in chains[0]:
            if all(any(candidate is other for other in chain) for chain in chains[1:]):
                return candidate
        raise AssertionError("every statement stands in the module")

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function whose body `node` stands in; None at module or class level."""
        for ancestor in self.ancestors(node):
            if type(ancestor) is cst.FunctionDef:
                return ancestor
            if type(ancestor) is cst.ClassDef:
                return None
        return None

    def owner_class(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The innermost class around `node`, across functions."""
        return next((a for a in self.ancestors(node) if type(a) is cst.ClassDef), None)

    def loop(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """The innermost loop of the same function around `node`."""
        for ancestor in self.ancestors(node):
            if type(ancestor) in LOOP_TYPES:
                return cast("cst.For | cst.While", ancestor)
            if type(ancestor) in (cst.FunctionDef, cst.ClassDef):
                return None
        return None

    def body(self, node: cst.CSTNode) -> Block:
        """The body of the function `node` stands in, or the module."""
        function = self.function(node)
        return self.module if function is None else block_of(function)

    def code(self, node: cst.CSTNode) -> str:
        """The source text of a node."""
        return self.module.code_for_node(node)

    def quote(self, node: cst.CSTNode) -> str:
        """The source text of a node on one line, shortened: what a message shows of it."""
        code = " ".join(self.code(node).split())
        return code if len(code) <= 60 else f"{code[:57]}..."

    @cached_property
    def text(self) -> str:
        """What the module was parsed from; printed where nobody gave it."""
        return self.module.code if self._text is None else self._text

    @cached_property
    def _places(self) -> Places:
        return Places(self.module, self.text, [node for node in self.order if is_kind(type(node), STATEMENT_TYPES)])

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """The 1-based line and column where a node starts."""
        return self._places.of((node, *self.ancestors(node)))
