"""How the parameters that something is made of were chosen among those of a model: some may not be there."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from amp_migrate.flow.pytorch.gradients import asks_for_gradients
from amp_migrate.flow.source import Code, word_called
from amp_migrate.frozen import frozen
from amp_migrate.syntax import nodes_in

# What gives the parameters of a module, or some of them, one after another and once.
_ONCE = frozenset(("filter", "iter", "map", "named_parameters", "parameters", "zip"))
_ADDING = frozenset(("append", "extend", "insert"))
# What gives all of what it is given, or holds it.
_SAME = frozenset(("chain", "dict", "iter", "list", "sorted", "tuple"))

# What a comparison is not where it is this. Nobody chooses parameters by what is not a number.
_OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotIn: ast.In, ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.Lt: ast.GtE, ast.LtE: ast.Gt,
}  # fmt: skip


class _Choice(NamedTuple):
    """Some of what an expression gives, as its text has it: that of which a test holds."""

    source: str
    test: ast.expr


@frozen
class Chosen:
    """How parameters were chosen.

    Attributes:
        tests: the tests that chose some, by the text of what they were chosen from.
        are_all: whether no test leaves any out. Groups that a test parts are all of them, if what it holds of is in one
            and the rest in another. What gets no gradient may be missing. None where that cannot be seen: what calls
            give may be chosen in them, and what is told by the identity of parameters may come in by another group.
        are_of_groups: whether an optimizer's own `param_groups` gave them.
    """

    tests: frozenset[tuple[str, str]]
    are_all: bool | None
    are_of_groups: bool


def chosen(made_of: ast.expr, code: Code) -> Chosen:
    """How the parameters were chosen that an expression in a function holds."""
    choosing = _Choosing(code)
    tests: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for each in choosing.of(made_of):
        tests[each.source].append(each.test)
    texts = frozenset((source, ast.unparse(test)) for source, each in tests.items() for test in each)
    left_out = [test for each in tests.values() if not _holds_one(each, {}) for test in each]
    used_up = any(len(each) > 1 and choosing.is_used_up(source) for source, each in tests.items())
    if used_up or not all(map(_is_by_identity, left_out)):
        return Chosen(texts, False, choosing.names_groups)
    return Chosen(texts, None if left_out or choosing.is_unknown else True, choosing.names_groups)


class _Choosing:
    """Follows an expression to the tests that choose what it is made of."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._seen: set[str] = set()
        self.is_unknown = self.names_groups = False

    def of(self, node: ast.expr) -> Iterator[_Choice]:
        """The choices in an expression, and in what the names in it were given."""
        inner: Sequence[ast.expr] = ()
        if isinstance(node, ast.Name):
            inner = () if node.id in self._seen else self._given(node.id)
            self.is_unknown |= node.id not in self._seen and self._is_pieced_together(node.id, inner)
            self._seen.add(node.id)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            inner = [*(each.iter for each in node.generators), *([node.elt] if isinstance(node.elt, ast.Dict) else [])]
            yield from (_choice(each.target, each.iter, each.ifs) for each in node.generators if each.ifs)
        elif isinstance(node, ast.Dict):
            inner = [v for k, v in zip(node.keys, node.values, strict=True) if k is None or _is_parameters(k)]
        elif isinstance(node, ast.BinOp):
            inner = [node.left, node.right]
        elif isinstance(node, (ast.List, ast.Tuple)):
            inner = node.elts
        elif isinstance(node, ast.Starred):
            inner = [node.value]
        elif isinstance(node, ast.Call) and word_called(node) in _SAME:
            inner = [*node.args, *(each.value for each in node.keywords if each.arg == "params")]
        elif isinstance(node, ast.Call) and word_called(node) == "filter" and len(node.args) == 2:
            test, *inner = node.args
            if isinstance(test, ast.Lambda) and test.args.args:
                yield _choice(ast.Name(test.args.args[0].arg), inner[0], [test.body])
            else:
                self.is_unknown = True
        else:
            self.is_unknown |= not (isinstance(node, ast.Call) and word_called(node) in _ONCE)
            self.names_groups |= isinstance(node, ast.Attribute) and node.attr == "param_groups"
        # What is empty at first is filled somewhere, under whatever tests.
        self.is_unknown |= not inner and isinstance(node, (ast.List, ast.Tuple))
        for each in inner:
            yield from self.of(each)

    def is_used_up(self, source: str) -> bool:
        """Whether a variable gives what it has to the first who asks."""
        return any(isinstance(each, ast.Call) and word_called(each) in _ONCE for each in self._given(source))

    def _given(self, name: str) -> list[ast.expr]:
        """What a variable is given in the function, or in the one around it whose it is."""
        given = (each for each in nodes_in(self._home(name).node) if isinstance(each, ast.Assign))
        return [each.value for each in given if name in map(ast.unparse, each.targets)]

    def _is_pieced_together(self, name: str, given: Sequence[ast.expr]) -> bool:
        """Whether a variable has one of several values, which do not come of each other, or is added to."""
        of_others = [each for each in given if name not in {getattr(node, "id", "") for node in nodes_in(each)}]
        owners = (getattr(each, "target", getattr(each, "value", None)) for each in self._changes(name))
        return len(of_others) != 1 or any(isinstance(each, ast.Name) and each.id == name for each in owners)

    def _changes(self, name: str) -> Iterator[ast.AST]:
        """What adds to something, or calls a method of it that does: `+=`, `x.append`."""
        for each in nodes_in(self._home(name).node):
            if isinstance(each, ast.AugAssign) or (isinstance(each, ast.Attribute) and each.attr in _ADDING):
                yield each

    def _home(self, name: str) -> Code:
        code = self._code
        while code.parent is not None and name not in code.bound:
            code = code.parent
        return code


def _is_parameters(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and key.value == "params"


def _is_count(node: ast.expr) -> bool:
    """Whether an expression is a whole number: that of a parameter's dimensions or elements, or a length."""
    is_asked = isinstance(node, ast.Call) and word_called(node) in ("dim", "len", "ndimension", "numel")
    return is_asked or (isinstance(node, ast.Attribute) and node.attr == "ndim")


def _is_by_identity(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and word_called(each) == "id" for each in nodes_in(test))


def _choice(target: ast.expr, source: ast.expr, tests: Sequence[ast.expr]) -> _Choice:
    while (
        isinstance(source, ast.Call)
        and isinstance(source.func, ast.Name)
        and word_called(source) in _SAME
        and source.args
    ):
        source = source.args[0]
    return _Choice(ast.unparse(source), _in_order(target, ast.BoolOp(ast.And(), [*tests])))


def _in_order(target: ast.expr, test: ast.expr) -> ast.expr:
    """A test with its variables called by their order, so that two that ask the same have the same text."""
    inner = (each.target for each in nodes_in(test) if isinstance(each, ast.comprehension))
    names = [each.id for of in (target, *inner) for each in nodes_in(of) if isinstance(each, ast.Name)]
    found = ast.parse(ast.unparse(test), mode="eval").body
    for each in nodes_in(found):
        if isinstance(each, ast.Name) and each.id in names:
            each.id = f"_{names.index(each.id)}"
    return found


def _holds_one(tests: Sequence[ast.expr], known: Mapping[str, bool]) -> bool:
    """Whether one of some tests holds, whatever what they ask comes to."""
    answers = [_outcome(each, known) for each in tests]
    unknown = next((each for each in answers if isinstance(each, str)), None)
    if True in answers or unknown is None:
        return True in answers
    return all(_holds_one(tests, {**known, unknown: outcome}) for outcome in (True, False))


def _outcome(test: ast.expr, known: Mapping[str, bool]) -> bool | str:
    """What a test comes to; the text of a part of it that decides, where that is not known.

    Parameters are taken to have gradients.
    """
    if asks_for_gradients(test):
        return True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        answer = _outcome(test.operand, known)
        return answer if isinstance(answer, str) else not answer
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.Or)
        answers = [_outcome(each, known) for each in test.values]
        unknown = next((each for each in answers if isinstance(each, str)), None)
        return decides if decides in answers else not decides if unknown is None else unknown
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        (by,), (other,) = test.ops, test.comparators
        if opposite := _OPPOSITES.get(type(by)):
            return _outcome(ast.UnaryOp(ast.Not(), ast.Compare(test.left, [opposite()], [other])), known)
        most = other.value if isinstance(other, ast.Constant) else None
        if isinstance(by, ast.Gt) and _is_count(test.left) and isinstance(most, int):
            test = ast.Compare(test.left, [ast.GtE()], [ast.Constant(most + 1)])
    text = ast.unparse(test)
    return known.get(text, text)
