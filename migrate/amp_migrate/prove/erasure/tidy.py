"""Takes out of two erased programs what only one of them has, and nothing depends on any more.

A name that a migration adds, or takes away, carried precision if its values have no effect and nobody reads them once
the precision is gone. Names that only put a part of an expression into a line of its own go back where they are read.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from amp_migrate.prove.code.scopes import FUNCTIONS, Function
from amp_migrate.prove.code.trees import Same, dump, is_quiet
from amp_migrate.prove.erasure.simplify import simplified
from amp_migrate.syntax import children, nodes_in
from amp_migrate.tables import operators as table

Program = Mapping[str, ast.Module]
_ROUNDS = 6


def tidied(before: Program, after: Program, is_used_elsewhere: Callable[[str], bool]) -> None:
    """Take out of both programs, in place, what only one has and nobody reads.

    Args:
        is_used_elsewhere: whether a file that is the same on both sides has a word.
    """
    for _ in range(_ROUNDS):
        sides = [{name: _Names(tree) for name, tree in program.items()} for program in (before, after)]
        attributes = [sum((each.attributes for each in side.values()), Counter[str]()) for side in sides]
        changed = False
        for index, program in enumerate((before, after)):
            given: set[tuple[str, str]] = set()
            for name, tree in program.items():
                names, others = sides[index][name], sides[1 - index][name]
                dead = {
                    key
                    for key in names.stores
                    if names.is_dead(key, attributes[index])
                    and not names.is_kept(others, key)
                    and not (index == 0 and key[0] in _SHARED and key[1] != "_" and is_used_elsewhere(key[1]))
                }
                given |= {(key[1].partition(" ")[0], key[1].partition(" ")[2]) for key in dead if key[0] == "parameter"}
                moved = {name for kind, name in names.stores if kind in _NAMES and not names.is_as_often(others, name)}
                is_less = _Back(moved).put(tree)
                is_less |= bool(dead) and _Without(dead).run(tree)
                if is_less:
                    simplified(tree)
                changed |= is_less
            for tree in program.values() if given else ():
                _WithoutArguments(given).visit(tree)
        if not changed:
            return


_NAMES = ("name", "local")
_SHARED = ("name", "attribute", "option")  # what other files may read
Key = tuple[str, str]  # what kind of place a value has, and its name


class _Names:
    """Where the names of a file are stored and read."""

    def __init__(self, tree: ast.Module) -> None:
        self.stores: dict[Key, list[ast.AST]] = {}
        self.reads: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self._is_inside = False
        self._constructors: dict[ast.AST, str] = {}  # each with the name that it is called by
        self.quiet: set[Key] = set()
        self._visit(tree)

    def is_kept(self, other: _Names, key: Key) -> bool:
        """Whether what is stored under a name is to be compared, although nobody in the files reads it."""
        kind, name = key
        if kind == "local" or name == "_":
            return False
        mine, theirs = self.stores.get(key, []), other.stores.get(key, [])
        is_alike = len(mine) == len(theirs) and sorted(map(dump, mine)) == sorted(map(dump, theirs))
        return is_alike or (kind in _SHARED and bool(theirs))

    def is_as_often(self, other: _Names, name: str) -> bool:
        """Whether another program stores something under a name as often."""
        return all(len(self.stores.get((kind, name), ())) == len(other.stores.get((kind, name), ())) for kind in _NAMES)

    def is_dead(self, key: Key, attributes: Counter[str]) -> bool:
        """Whether nobody reads a name, and nothing is lost with its values.

        Args:
            attributes: how often each attribute is read in all files.
        """
        if key[0] == "parameter":
            return key in self.quiet
        reads = attributes if key[0] in ("attribute", "option") else self.reads
        return not reads[key[1]] and key in self.quiet

    @property
    def _kind(self) -> str:
        """What a name is here: one that other files can see, or not."""
        return "local" if self._is_inside else "name"

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef):
            self._constructors.update((each, node.name) for each in node.body if _is_constructor(each))
        if isinstance(node, Same):
            names, others = node.reads
            self.reads.update(names)
            self.attributes.update(others)
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            is_quiet_value = node.value is not None and is_quiet(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    self._note((self._kind, target.id), node, is_loud=not is_quiet_value)
                elif isinstance(target, ast.Attribute):
                    # An attribute of anything else may be a switch: `torch.backends.cudnn.benchmark = True`.
                    is_loud = not (is_quiet_value and _is_own(target))
                    self._note(("attribute", target.attr), node, is_loud=is_loud)
        elif isinstance(node, ast.Call):
            option = option_of(node)
            if option is not None:
                self._note(("option", option), node, is_loud=False)
        if isinstance(node, FUNCTIONS):
            self._visit_function(node)
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.reads[node.id] += 1
        elif isinstance(node, ast.Attribute):
            self.attributes[node.attr] += isinstance(node.ctx, ast.Load)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            self.attributes[node.value] += 1  # `getattr(args, "amp")`, `config["amp"]`
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.reads.update(node.names)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.reads[node.target.id] += 1
        for child in children(node):
            self._visit(child)

    def _visit_function(self, node: Function) -> None:
        around, self._is_inside, reads = self._is_inside, True, self.reads.copy()
        for child in children(node):
            self._visit(child)
        self._is_inside = around
        for each in (*node.args.args, *node.args.kwonlyargs):
            is_read = self.reads[each.arg] > reads[each.arg]
            name = self._constructors.get(node, getattr(node, "name", ""))
            self._note(("parameter", f"{name} {each.arg}"), each, is_loud=is_read)

    def _note(self, key: Key, node: ast.AST, *, is_loud: bool) -> None:
        self.stores.setdefault(key, []).append(node)
        if not is_loud:
            self.quiet.add(key)


def option_of(node: ast.Call) -> str | None:
    """The attribute that a call of `add_argument` gives an option to; None for any other call."""
    is_option = isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
    if not is_option or not node.args or not isinstance(node.args[0], ast.Constant):
        return None
    given = next((k.value.value for k in node.keywords if k.arg == "dest" and isinstance(k.value, ast.Constant)), None)
    names = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    long = next((each for each in names if each.startswith("--")), names[0] if names else "")
    return str(given or long.lstrip("-").replace("-", "_"))


def _click_option(node: ast.expr) -> str | None:
    """The parameter that a decorator of click fills; None for any other decorator."""
    is_option = isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)) and bool(node.args)
    if not is_option or not isinstance(node, ast.Call) or not isinstance(node.args[0], ast.Constant):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id  # type: ignore[attr-defined]
    if name.rpartition(".")[2] != "option":
        return None
    return str(node.args[0].value).partition("/")[0].lstrip("-").replace("-", "_")


def _is_constructor(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


class _Without(ast.NodeTransformer):
    """Takes away everything that only stores dead names."""

    def __init__(self, dead: set[Key]) -> None:
        self._dead = dead
        self._found = False
        self._constructors: dict[ast.AST, str] = {}

    def run(self, tree: ast.Module) -> bool:
        """Whether there was anything to take away."""
        self.visit(tree)
        return self._found

    def visit(self, node: ast.AST) -> Any:
        found = super().visit(node)
        self._found |= found is None
        return found

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        return None if is_quiet(node.value) and all(map(self._is_dead, node.targets)) else node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self._constructors.update((each, node.name) for each in node.body if _is_constructor(each))
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: Any) -> Any:
        self._parameters(node)
        self.generic_visit(node)
        return node

    def _parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Take away parameters that nobody reads."""
        args = node.args
        for each in [*args.args, *args.kwonlyargs]:
            if ("parameter", f"{self._constructors.get(node, node.name)} {each.arg}") not in self._dead:
                continue
            self._found = True
            node.decorator_list = [e for e in node.decorator_list if _click_option(e) != each.arg]
            if each in args.kwonlyargs:
                del args.kw_defaults[args.kwonlyargs.index(each)]
                args.kwonlyargs.remove(each)
                continue
            place = args.args.index(each) - (len(args.args) - len(args.defaults))
            if place >= 0:
                del args.defaults[place]
            args.args.remove(each)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Expr(self, node: ast.Expr) -> Any:
        option = option_of(node.value) if isinstance(node.value, ast.Call) else None
        if option is not None and ("option", option) in self._dead:
            return None
        self.generic_visit(node)
        return node

    def _is_gone(self, name: str) -> bool:
        return ("name", name) in self._dead or ("local", name) in self._dead

    def _is_dead(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Name):
            return self._is_gone(target.id)
        return isinstance(target, ast.Attribute) and _is_own(target) and ("attribute", target.attr) in self._dead


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


class _WithoutArguments(ast.NodeTransformer):
    """Takes away what is passed by keyword to parameters that are gone."""

    def __init__(self, gone: set[tuple[str, str]]) -> None:
        self._gone = gone

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        name = name.rpartition(".")[2]
        node.keywords = [
            each for each in node.keywords if (name, each.arg) not in self._gone or not is_quiet(each.value)
        ]
        return node


@dataclass
class _Back:
    """Puts what has a name of its own back where the name is read."""

    names: set[str]
    _pure: set[str] = field(default_factory=set)

    def put(self, tree: ast.Module) -> bool:
        """Whether anything in a file went back."""
        if not self.names:
            return False
        self._pure = set(_losses(tree))
        return sum(self._body(function.body, function) for function in _functions(tree)) > 0

    def _body(self, body: list[ast.stmt], function: ast.AST) -> bool:
        changed = False
        for index in range(len(body) - 1, -1, -1):
            statement = body[index]
            for inner in _bodies(statement):
                changed |= self._body(inner, function)
            name = _only_name(statement)
            if name in self.names and not _reads(function, name):
                assert isinstance(statement, ast.Assign)
                body[index] = ast.copy_location(ast.Expr(statement.value), statement)
                changed = True
            elif name in self.names and self._goes_back(body, index, name, function):
                del body[index]
                changed = True
        return changed

    def _goes_back(self, body: list[ast.stmt], index: int, name: str, function: ast.AST) -> bool:
        statement = body[index]
        assert isinstance(statement, ast.Assign)
        ends = [i for i in range(index + 1, len(body)) if _only_name(body[i]) == name]
        end = ends[0] + 1 if ends else len(body)
        run = body[index + 1 : end]
        reads = sum(_reads(each, name) for each in run)
        if not reads or reads != _reads_of_store(function, statement, name):
            return False
        if any(_reads_unseen(each, name) for each in run):
            return False
        if any(_changes(each, {name}) for each in (run[:-1] if ends else run)):
            return False  # what is read behind may be another value
        last = max(i for i, each in enumerate(run) if _reads(each, name))
        if is_quiet(statement.value):
            roots = {each.id for each in nodes_in(statement.value) if isinstance(each, ast.Name)}
            if any(_changes(each, roots) for each in run[: last + 1]):
                return False
        elif reads > 1 or last > 0 or not _is_first(run[0], name, self._pure):
            return False
        for each in run[: last + 1]:
            _Replace(name, statement.value).visit(each)
        return True


def _functions(tree: ast.Module) -> Iterator[Any]:
    yield tree
    yield from (each for each in nodes_in(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement that are of the same function."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for name in ("body", "orelse", "finalbody"):
        yield from filter(None, [getattr(node, name, [])])
    for handler in getattr(node, "handlers", ()):
        yield handler.body


def _only_name(node: ast.stmt) -> str:
    is_one = isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    return node.targets[0].id if is_one else ""  # type: ignore[attr-defined]


def _reads(node: ast.AST, name: str) -> int:
    """How often a name is read below a node."""
    return sum(_is_read(each, name) for each in nodes_in(node)) + _reads_unseen(node, name)


def _reads_unseen(node: ast.AST, name: str) -> int:
    """How often a name is read below a node by what both sides have, into which nothing can be put."""
    return sum(each.reads[0].count(name) for each in nodes_in(node) if isinstance(each, Same))


def _is_read(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _reads_of_store(function: ast.AST, statement: ast.Assign, name: str) -> int:
    """How many reads of a name one of its stores may serve: all those that no other store of it serves alone.

    A store above a block that the one in question stands in serves alone what is read before that block.
    """
    total = _reads(function, name)
    for body in _all_bodies(function):
        for index, other in enumerate(body):
            if other is statement or _only_name(other) != name:
                continue
            run = range(index + 1, len(body))
            ends = [i + 1 for i in run if _only_name(body[i]) == name]
            ends += [i for i in run if any(each is statement for inner in _all_bodies(body[i]) for each in inner)]
            total -= sum(_reads(each, name) for each in body[index + 1 : min(ends, default=len(body))])
    return total


def _all_bodies(node: Any) -> Iterator[list[ast.stmt]]:
    for body in _bodies(node) if isinstance(node, ast.stmt) and not isinstance(node, FUNCTIONS) else [node.body]:
        yield body
        for each in body:
            yield from _all_bodies(each) if any(_bodies(each)) else ()


def _changes(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement stores any of some names."""
    nodes = nodes_in(node.node if isinstance(node, Same) else node)
    return any(isinstance(e, ast.Name) and e.id in names and isinstance(e.ctx, ast.Store) for e in nodes)


def _losses(tree: ast.Module) -> Iterator[str]:
    """The names that only ever stand for losses of torch, which do nothing but compute."""
    nodes = [n for each in nodes_in(tree) for n in (nodes_in(each.node) if isinstance(each, Same) else [each])]
    stores = Counter(each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    for each in nodes:
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and isinstance(each.targets[0], ast.Name):
            name, made = each.targets[0].id, dump(each.value.func).removeprefix("torch.")
            if stores[name] == 1 and made.startswith("nn.") and made.endswith("Loss"):
                yield name


def _is_first(node: ast.stmt, name: str, pure: set[str]) -> bool:
    """Whether a statement reads a name before it does anything.

    Args:
        pure: the names of functions that do nothing but compute.
    """
    for each in _in_order(node):
        if _is_read(each, name):
            return True
        if isinstance(each, (ast.stmt, ast.comprehension)) or (isinstance(each, ast.Call) and not _is_pure(each, pure)):
            return False
    return False


def _is_pure(node: ast.Call, pure: set[str]) -> bool:
    is_cast = isinstance(node.func, ast.Attribute) and node.func.attr == "float" and not node.args
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return is_cast or name in pure or _only_computes(name, node) or is_quiet(node)


def _only_computes(name: str, call: ast.Call) -> bool:
    """Whether a call is an operator of torch that changes nothing: no tensor, and no state that it draws from."""
    operator = name.rpartition(".")[2]
    is_known = name.startswith("torch.") and (operator in table.RESULT or operator in table.LIKE)
    changes = operator in table.RANDOM or operator in table.WEIGHTED or operator in table.STORES
    return is_known and not changes and all(each.arg not in (None, "out", "inplace") for each in call.keywords)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Expressions in the order in which they are evaluated, each behind its parts."""
    fields = [node.value, *node.targets] if isinstance(node, ast.Assign) else children(node)
    for child in fields:
        yield from _in_order(child)
    yield node


class _Replace(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self._name = name
        self._value = value

    def visit_Name(self, node: ast.Name) -> Any:
        return deepcopy(self._value) if _is_read(node, self._name) else node
