"""New code as pieces of tree, with the old code in its holes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.plan.code import Code, Hole
from amp_migrate.plan.edit import NewLine
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Line, children

_HOLE = "_hole_{}_"
# What stands as it is wherever an expression may stand, but before a dot.
_ATOMS = (
    *(cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString, cst.Ellipsis),
    *(cst.List, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp),
)
_OPERATIONS = (cst.BinaryOperation, cst.BooleanOperation, cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget)
# What other things would be read into, in what stands around it.
_SPLIT = (
    ((cst.Tuple, cst.Yield), (cst.Arg, cst.BaseElement, cst.IfExp)),
    ((cst.IfExp, cst.Lambda), (cst.IfExp, cst.CompFor, cst.CompIf, cst.StarredElement, cst.StarredDictElement)),
)
_BEFORE_DOT = {cst.Attribute: "value", cst.Call: "func", cst.Subscript: "value", cst.Await: "expression"}


class Filler:
    """Makes tree of new code.

    Args:
        module: the file, whose line ends new statements have.
        final: the old code in a hole as it is in the end.

    Attributes:
        indent: that of the body of a new statement.
    """

    def __init__(self, module: cst.Module, final: Callable[[Hole], cst.CSTNode]) -> None:
        self._module = module
        self._final = final
        self.indent = module.default_indent

    def expression(self, code: Code) -> cst.BaseExpression:
        """The tree of an expression."""
        filled = self._filled(build.expression(_text(code)), code)
        assert isinstance(filled, cst.BaseExpression)
        return filled

    def line(self, new: NewLine) -> Line:
        """The tree of a statement, in the style of the file."""
        if not new.body:
            return self._line(_text(new.head), new.head)
        other = (self._newline, "else:", *self._below(new.orelse)) if new.orelse else ()
        code = Code((*new.head.parts, *self._below(new.body), *other, self._newline))
        line = self._line(_text(code), code)
        changes: dict[str, cst.CSTNode] = {"body": self._indented(line)}
        if isinstance(line, cst.If) and isinstance(line.orelse, cst.Else):
            changes["orelse"] = line.orelse.with_changes(body=self._indented(line.orelse))
        return line.with_changes(**changes)

    def _below(self, body: Iterable[Code]) -> Iterator[str | Hole]:
        return (part for each in body for part in (self._break, *each.parts))

    def _indented(self, node: Line | cst.Else) -> cst.IndentedBlock:
        return cst.ensure_type(node.body, cst.IndentedBlock).with_changes(indent=self.indent)

    def header(self, context: Code) -> cst.With:
        """`with <context>:`, to be given a body."""
        return cst.With(items=[cst.WithItem(self.expression(context))], body=cst.IndentedBlock(body=[]))

    @property
    def _newline(self) -> str:
        return self._module.default_newline

    @property
    def _break(self) -> str:
        return self._newline + self.indent

    def _line(self, text: str, code: Code) -> Line:
        filled = self._filled(build.line(text, self._module), code)
        assert isinstance(filled, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        return filled

    def _filled(self, node: cst.CSTNode, code: Code) -> cst.CSTNode:
        holes = {_HOLE.format(index): hole for index, hole in enumerate(code.holes)}
        if not holes:
            return node
        pieces: dict[str, cst.CSTNode] = {}
        for name, hole in holes.items():
            final = self._final(hole)
            if any(final is known for known in pieces.values()):
                final = final.deep_clone()
            pieces[name] = self._bare(final) if hole.bare else final
        filled = node.visit(_Holes(pieces, dict(_parents(node))))
        assert isinstance(filled, cst.CSTNode)
        return filled

    def _bare(self, node: cst.CSTNode) -> cst.CSTNode:
        """An expression without its outer parentheses, unless they hold it together over several lines."""
        if not isinstance(node, cst.BaseExpression) or not node.lpar:
            return node
        bare = node.with_changes(lpar=[], rpar=[])
        return node if "\n" in self._module.code_for_node(bare) else bare


def in_place(new: cst.BaseExpression, parent: cst.CSTNode, place: cst.CSTNode) -> cst.BaseExpression:
    """An expression as it can stand where another did: in parentheses where what is around it binds tighter.

    Args:
        parent: what the other stood in.
        place: the other, as it is there.
    """
    if new.lpar or isinstance(new, cst.GeneratorExp):
        return new
    before_dot = next((name for kind, name in _BEFORE_DOT.items() if isinstance(parent, kind)), None)
    if before_dot is not None and getattr(parent, before_dot) is place:
        return build.grouped(new)
    if is_atom(new):
        return new
    if isinstance(parent, _OPERATIONS):
        is_looser = isinstance(parent, cst.BooleanOperation) and isinstance(new, (cst.Comparison, cst.BinaryOperation))
        return new if is_looser else _in_parentheses(new)
    is_split = any(isinstance(new, of) and isinstance(parent, around) for of, around in _SPLIT)
    return _in_parentheses(new) if is_split else new


def is_atom(node: cst.BaseExpression) -> bool:
    """Whether an expression needs no parentheses wherever it stands, but perhaps before a dot."""
    return isinstance(node, _ATOMS)


def _in_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _text(code: Code) -> str:
    """The text of new code with names in the place of its holes."""
    names = iter(range(len(code.parts)))
    return "".join(_HOLE.format(next(names)) if isinstance(part, Hole) else part for part in code.parts)


def _parents(node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    stack = [node]
    while stack:
        current = stack.pop()
        for child in children(current):
            yield child, current
            stack.append(child)


class _Holes(cst.CSTTransformer):
    """Puts pieces in the place of names."""

    def __init__(self, pieces: dict[str, cst.CSTNode], parents: dict[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._pieces = pieces
        self._parents = parents

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        piece = self._pieces.get(original_node.value)
        if not isinstance(piece, cst.BaseExpression):
            return updated_node
        parent = self._parents.get(original_node)
        return piece if parent is None else in_place(piece, parent, original_node)

    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.BaseSmallStatement:
        value = original_node.value
        piece = self._pieces.get(value.value) if isinstance(value, cst.Name) else None
        return piece if isinstance(piece, cst.BaseSmallStatement) else updated_node
