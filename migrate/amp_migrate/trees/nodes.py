"""Walks over LibCST's nodes, and the blocks and statements that they are.

Layout and punctuation are walked past: most of a tree's nodes are those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, cast

import libcst as cst

Statement: TypeAlias = "cst.BaseSmallStatement | cst.BaseCompoundStatement"
Block: TypeAlias = "cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite"
Line: TypeAlias = "cst.SimpleStatementLine | cst.BaseCompoundStatement"
N = TypeVar("N", bound=cst.CSTNode)
M = TypeVar("M", bound=cst.CSTNode)
K = TypeVar("K", bound=cst.CSTNode)

# The tests that only keep what a script runs from what imports it.
IS_SCRIPT = ('__name__ == "__main__"', "__name__ == '__main__'")
STATEMENT_TYPES = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
BLOCK_TYPES = (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)
LOOP_TYPES = (cst.For, cst.While)
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
HOLDERS = (cst.SimpleStatementLine, *BLOCK_TYPES)  # what statements stand in
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


def never_holds(test: cst.BaseExpression) -> bool:
    """Whether a test is a constant that switches off what it guards: `if False:`, `if 0:`."""
    return is_constant(test, "False") or (isinstance(test, cst.Integer) and test.evaluated_value == 0)


def last_word(node: cst.CSTNode | None) -> str:
    """The last word of a dotted name; empty for any other node."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def written_string(node: cst.CSTNode | None) -> str | None:
    """What a string says that is written out, as `f"O{1}"` is, too; None for any other node, and for bytes."""
    if isinstance(node, cst.FormattedString):
        texts = [_written_part(each) for each in node.parts]
        return None if None in texts else "".join(filter(None, texts))
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def _written_part(part: cst.BaseFormattedStringContent) -> str | None:
    """What a part of a formatted string says, if that is written out."""
    if isinstance(part, cst.FormattedStringText):
        return None if any(each in part.value for each in "\\{}") else part.value
    if not isinstance(part, cst.FormattedStringExpression) or part.conversion or part.format_spec or part.equal:
        return None
    inside = part.expression
    return str(inside.evaluated_value) if isinstance(inside, cst.Integer) else written_string(inside)


def subscript_key(node: cst.CSTNode | None) -> cst.SimpleString | None:
    """The string that a subscript indexes with; None for any other index, and any other node."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    return key if isinstance(key, cst.SimpleString) else None


def compared_with_none(node: cst.CSTNode | None) -> tuple[cst.BaseExpression, bool] | None:
    """What an expression compares with None, and what it is where that is something: of `x is not None`, x and True."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    operator, other = node.comparisons[0].operator, node.comparisons[0].comparator
    is_asked = isinstance(operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)) and is_constant(other, "None")
    return (node.left, isinstance(operator, (cst.IsNot, cst.NotEqual))) if is_asked else None


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


def walk_surely(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Like `walk_own`, without what need not run when `node` runs: the arms of `a if b else c`, `b` of `a and b`."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, cst.IfExp):
            stack.append(current.test)
        elif isinstance(current, cst.BooleanOperation):
            stack.append(current.left)
        elif isinstance(current, cst.BaseComp):
            stack.append(current.for_in.iter)
        elif current is node or not is_kind(type(current), _DEFINITIONS):
            stack += reversed(children(current))


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


def block_of(
    node: cst.FunctionDef | cst.For | cst.While | cst.If | cst.Else | cst.With | cst.Try | cst.ExceptHandler,
) -> Block:
    """The body of a compound statement, or of a clause of one."""
    assert isinstance(node.body, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return node.body


def start_of(constructor: cst.FunctionDef) -> tuple[Statement, bool]:
    """Where an object's first own attribute goes: a statement of its constructor, and whether before that."""
    body = statements(block_of(constructor))
    first = next((each for each in body if not _comes_first(each)), None)
    return (body[-1], False) if first is None else (first, True)


def _comes_first(statement: Statement) -> bool:
    """Whether a statement of a constructor is its docstring, a check of what it is given, or the base class's own."""
    value = statement.value if isinstance(statement, cst.Expr) else None
    func = value.func if isinstance(value, cst.Call) else None
    is_text = isinstance(value, (cst.SimpleString, cst.ConcatenatedString))
    is_check = isinstance(statement, cst.Assert) and not any(each.value == "self" for each in find(statement, cst.Name))
    return is_text or is_check or (isinstance(func, cst.Attribute) and func.attr.value == "__init__")


def method_of(owner: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    """The method of a name that a class defines itself."""
    return next((each for each in find(owner.body, cst.FunctionDef) if each.name.value == name), None)


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


def inner_statements(statement: Statement) -> Iterator[Statement]:
    """Every statement in the blocks of one, nested functions and classes not."""
    for block in blocks(statement):
        yield from nested_statements(block)


def parts_of(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What has to be so for a test to be true."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from (*parts_of(test.left), *parts_of(test.right))
    else:
        yield test


def arms(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a value may be: `a` and `b` of `a if c else b` and of `a or b`, but for None."""
    if isinstance(value, cst.IfExp):
        return [each for arm in (value.body, value.orelse) if not is_constant(arm, "None") for each in arms(arm)]
    if isinstance(value, cst.BooleanOperation) and isinstance(value.operator, cst.Or):
        return [*arms(value.left), *arms(value.right)]
    return [value]


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
