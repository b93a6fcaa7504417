"""A parsed file, with what LibCST's nodes do not know of themselves: their parents, blocks and places.

LibCST's own metadata wrapper copies the tree and resolves far more than a migration asks for. Here one pass finds the
parents; places in the file are worked out only when there is something to say about one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast, overload

import libcst as cst

from amp_migrate.trees.nodes import (
    BLOCK_TYPES,
    HOLDERS,
    LOOP_TYPES,
    STATEMENT_TYPES,
    Block,
    K,
    M,
    N,
    Statement,
    block_of,
    children,
    is_kind,
    statements,
)
from amp_migrate.trees.places import Places


class Tree:
    """A module with parents, and places on demand.

    Attributes:
        name: the file as the user named it.
        module: the LibCST tree.
        parents: the parent of every node that carries meaning.
        refused: why nothing may be written in it, in a few words; empty where it may.
        order: a number for each node that grows with its place in the source, parents before children.
    """

    def __init__(self, name: str, module: cst.Module, text: str | None = None, refused: str = "") -> None:
        self.name = name
        self.refused = refused
        self.module = module
        self._text = text
        self._printed: dict[cst.CSTNode, str] = {}
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
            if is_kind(type(parent), HOLDERS) and is_kind(type(current), STATEMENT_TYPES):
                return cast(Statement, current)
            current = parent

    def is_target(self, node: cst.CSTNode) -> bool:
        """Whether a name is assigned to, alone or among others (`a, b = ...`)."""
        parent = self.parents[node]
        while isinstance(parent, (cst.BaseElement, cst.Tuple, cst.List)):
            node, parent = parent, self.parents[parent]
        return isinstance(parent, cst.AssignTarget) or (
            isinstance(parent, (cst.AnnAssign, cst.NamedExpr)) and parent.target is node
        )

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

    def is_attribute(self, node: cst.CSTNode) -> bool:
        """Whether a node is the last word of an attribute, and no variable."""
        parent = self.parents[node]
        return isinstance(parent, cst.Attribute) and parent.attr is node

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

    def loops(self, node: cst.CSTNode) -> Iterator[cst.For | cst.While]:
        """The loops of the same function around `node`, the innermost first."""
        for ancestor in self.ancestors(node):
            if type(ancestor) in LOOP_TYPES:
                yield cast("cst.For | cst.While", ancestor)
            elif type(ancestor) in (cst.FunctionDef, cst.ClassDef):
                return

    def loop(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """The innermost of them."""
        return next(self.loops(node), None)

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

    def printed(self, module: cst.Module | None = None) -> str:
        """What LibCST prints for the module, or for one made of it: a statement that both have is printed once."""
        module = module or self.module
        parts = (*module.header, *module.body, *module.footer)
        if not module.has_trailing_newline or not parts:
            return module.code
        for each in parts:
            if each not in self._printed:
                self._printed[each] = module.code_for_node(each)
        return "".join(self._printed[each] for each in parts)

    @cached_property
    def text(self) -> str:
        """What the module was parsed from; printed where nobody gave it."""
        return self.printed() if self._text is None else self._text

    @cached_property
    def _places(self) -> Places:
        return Places(self.module, self.text, [node for node in self.order if is_kind(type(node), STATEMENT_TYPES)])

    @property
    def is_of_this_python(self) -> bool:
        """Whether the running Python parses the file: LibCST may know a syntax that is newer."""
        return self._places.is_of_this_python

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """The 1-based line and column where a node starts."""
        return self._places.of((node, *self.ancestors(node)))
