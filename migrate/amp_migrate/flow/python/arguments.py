"""The arguments of a call, and how a function's parameters get them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from amp_migrate.flow.domain.atoms import NEVER, Atom, Opaque, Value, join, join_all, many, one, tup
from amp_migrate.flow.python import containers
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import FUNCTIONS, Code, Site
from amp_migrate.tables.signatures import parameters


@dataclass
class Arguments:
    """What a call passes.

    Attributes:
        positional: by place.
        rest: what any further positional one may be, where `*args` has an unknown length.
        keywords: by name.
        others: what any keyword may be that `**kwargs` gives.
        nodes: the expressions behind the positional ones, None where there is none.
        keyword_nodes: those behind the keywords.
    """

    positional: list[Value] = field(default_factory=list)
    rest: Value = NEVER
    keywords: dict[str, Value] = field(default_factory=dict)
    others: Value = NEVER
    nodes: list[ast.expr | None] = field(default_factory=list)
    keyword_nodes: dict[str, ast.expr] = field(default_factory=dict)

    @classmethod
    def read(cls, frame: Frame, call: ast.Call, evaluate: Callable[[Frame, ast.expr], Value]) -> Arguments:
        """The arguments of a call, evaluated."""
        found = cls()
        for each in call.args:
            if isinstance(each, ast.Starred):
                given, rest = containers.sequence(frame, evaluate(frame, each.value), each)
                if found.rest:
                    found.rest = join_all((found.rest, rest, *given))
                else:
                    found.positional += given
                    found.nodes += [None] * len(given)
                    found.rest = rest
            elif found.rest:
                found.rest = join(found.rest, evaluate(frame, each))
            else:
                found.positional.append(evaluate(frame, each))
                found.nodes.append(each)
        for keyword in call.keywords:
            value = evaluate(frame, keyword.value)
            if keyword.arg is not None:
                found.keywords[keyword.arg] = value
                found.keyword_nodes[keyword.arg] = keyword.value
                continue
            for name, given_value in containers.keyword_pairs(frame, value):
                if name:
                    found.keywords[name] = given_value
                else:
                    found.others = join(found.others, given_value)
        return found

    def get(self, position: int, name: str) -> Value | None:
        """The argument at a place, or of a name; None where it is not given."""
        if name and name in self.keywords:
            return self.keywords[name]
        if 0 <= position < len(self.positional):
            return self.positional[position]
        found = join(self.rest if position >= 0 else NEVER, self.others)
        return found or None

    def of(self, function: str, name: str) -> Value | None:
        """The argument of a name in a call of a function of PyTorch's; None where it is not given."""
        taken = parameters(function)
        return self.get(taken.index(name) if name in taken else -1, name)

    def node(self, position: int, name: str) -> ast.expr | None:
        """The expression behind an argument."""
        if name in self.keyword_nodes:
            return self.keyword_nodes[name]
        return self.nodes[position] if 0 <= position < len(self.nodes) else None

    def all(self) -> Iterator[Value]:
        """Every argument."""
        yield from self.positional
        yield from self.keywords.values()
        yield from (each for each in (self.rest, self.others) if each)

    def behind(self, first: Value) -> Arguments:
        """These arguments with one more before them, as a method gets its object."""
        return Arguments(
            [first, *self.positional], self.rest, self.keywords, self.others, [None, *self.nodes], self.keyword_nodes
        )

    def joined(self, other: Arguments) -> Arguments:
        """These or others; of others in number or by name, any may be anywhere."""
        if len(self.positional) != len(other.positional) or self.keywords.keys() != other.keywords.keys():
            either = join_all((*self.all(), *other.all()))
            return Arguments(rest=either, others=either)
        positional = [join(*each) for each in zip(self.positional, other.positional, strict=True)]
        keywords = {name: join(value, other.keywords[name]) for name, value in self.keywords.items()}
        rest, others = join(self.rest, other.rest), join(self.others, other.others)
        return Arguments(positional, rest, keywords, others, self.nodes, self.keyword_nodes)

    def without_first(self) -> Arguments:
        """These arguments without the first one."""
        return Arguments(self.positional[1:], self.rest, self.keywords, self.others, self.nodes[1:], self.keyword_nodes)


DEFAULT = "default "
KEYWORDS = "**"


def some_keywords(site: Site, name: str) -> Value:
    """What nobody in sight gives by names that nobody knows."""
    return one(Opaque((site, KEYWORDS + name)))


def _called(others: Value, name: str) -> Value:
    """What is given by names that nobody knows, where it has one: it is told from the rest by that."""
    return frozenset(
        Opaque((each.path[0], name))
        if isinstance(each, Opaque) and len(each.path) == 2 and str(each.path[1]).startswith(KEYWORDS)
        else each
        for each in others
    )


def bind(frame: Frame, code: Code, function: Atom, args: Arguments, node: ast.AST) -> dict[str, Value] | None:
    """What the parameters of a function get from a call; None where the call does not fit.

    What a dictionary gives (`**args`) may have been taken out of it before: it is left out where it does not fit.

    Args:
        function: the function, under which its defaults are stored.
    """
    assert isinstance(code.node, FUNCTIONS)
    spec = code.node.args
    names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
    positional = list(args.positional)
    given: dict[str, Value] = dict(zip(names, positional, strict=False))
    extra = positional[len(names) :]
    if extra and spec.vararg is None:
        return None
    keywords = dict(args.keywords)
    named = {*names[len(spec.posonlyargs) :], *(each.arg for each in spec.kwonlyargs)}
    for name in list(keywords):
        if name in named:
            value = keywords.pop(name)
            if name in given and name in args.keyword_nodes:
                return None
            given.setdefault(name, value)
    if spec.kwarg is None and not keywords.keys().isdisjoint(args.keyword_nodes):
        return None
    for name in (*names, *(each.arg for each in spec.kwonlyargs)):
        if name in given:
            continue
        default = frame.analysis.heap.read(function, DEFAULT + name, frame.task)
        loose = join(args.rest if name in names else NEVER, _called(args.others, name))
        if not default and not loose:
            return None
        given[name] = join(default, loose)
    if spec.vararg is not None:
        given[spec.vararg.arg] = many(join_all((*extra, args.rest))) if args.rest else tup(extra)
    if spec.kwarg is not None:
        is_whole = not args.others and keywords.keys() <= args.keyword_nodes.keys()
        # Of each call its own: what one gives by name, the next one may leave out.
        made = containers.new(frame, node, containers.DICT, length=len(keywords) if is_whole else None)
        (owner,) = made
        for name, value in keywords.items():
            frame.write(owner, f"[{name!r}]", value)  # type: ignore[arg-type]
        if args.others:
            containers.put(frame, owner, args.others)  # type: ignore[arg-type]
        given[spec.kwarg.arg] = made
    return given
