"""A file as the interpreter sees it: Python's own tree, and which names each of its functions binds."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

from amp_migrate.syntax import blocks, children, nodes_in
from amp_migrate.tables.torch_names import BANNED_LOSS_CLASS, BANNED_LOSS_FUNCTION, takes_gradients

ScopeNode: TypeAlias = "ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
_Node = TypeVar("_Node", bound=ast.AST)
# What programs ask for by its kind: less than a fifth of all that is in a file.
_ASKED_FOR = (ast.Call, ast.Assign, ast.Return, ast.IfExp)
_GIVING = frozenset(("add_", "copy_", "sub_", "set_", "fill_"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_REFUSED = frozenset(each.rpartition(".")[2] for each in (BANNED_LOSS_CLASS, BANNED_LOSS_FUNCTION))

DEVICE_WORD = re.compile(r"cuda|device|xpu|hpu|mtia|accelerat|gpu|\b(mps|npu)\b", re.IGNORECASE)


def word_called(call: ast.Call) -> str:
    """The last word of what a call names: a function's, or a method's; empty for anything else."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _given(call: ast.Call) -> list[ast.expr]:
    """All that a call is given."""
    return [*call.args, *(each.value for each in call.keywords)]


class Site(NamedTuple):
    """A place in a text, as Python's parser gives it: lines from 1, columns in bytes of UTF-8 from 0."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


def site_of(file: str, node: ast.AST) -> Site:
    """Where a node stands; the whole file for a module."""
    if not isinstance(node, (ast.expr, ast.stmt, ast.excepthandler, ast.arg, ast.keyword, ast.alias)):
        return Site(file, 0, 0, 0, 0)
    return Site(file, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


@dataclass(eq=False, repr=False)
class Code:
    """A module, class body, function or lambda, with the names that are its own.

    Attributes:
        bound: the names that it binds, parameters included; none that it declares global or nonlocal.
        bound_anew: those that it binds in more than one place.
        names: all names that stand in it, and in no function or class inside.
        asked: the attributes that it asks for there.
        inner: the functions and classes that are defined in it.
    """

    file: str
    node: ScopeNode
    parent: Code | None
    name: str
    bound: set[str] = field(default_factory=set)
    bound_anew: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    inner: list[Code] = field(default_factory=list)
    is_generator: bool = False

    def binds(self, name: str) -> None:
        """Note a place where it binds a name."""
        (self.bound_anew if name in self.bound else self.bound).add(name)

    @cached_property
    def site(self) -> Site:
        """Where it is defined."""
        return site_of(self.file, self.node)

    @cached_property
    def stored_anew(self) -> frozenset[str]:
        """The attributes of its variables that it stores in more than one place, as they are written."""
        nodes = (each for each in nodes_in(self.node) if isinstance(each, ast.Attribute))
        stored = Counter(ast.unparse(each) for each in nodes if isinstance(each.ctx, ast.Store))
        return frozenset(each for each, times in stored.items() if times > 1)

    @property
    def is_function(self) -> bool:
        """Whether it is a function, and not the body of a module or class."""
        return isinstance(self.node, FUNCTIONS)

    @property
    def is_static_as(self) -> str:
        """`staticmethod` or `classmethod`, where a decorator says so; empty for a method of an object."""
        words = {each.id for each in getattr(self.node, "decorator_list", ()) if isinstance(each, ast.Name)}
        return next((each for each in ("staticmethod", "classmethod") if each in words), "")

    def has(self, site: Site) -> bool:
        """Whether a place is within it."""
        own = self.site
        return site.file == self.file and (self.parent is None or (own[1:3] <= site[1:3] and site[3:] <= own[3:]))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes in it, and in what is defined in it."""
        return frozenset(self.asked).union(*(each.attributes for each in self.inner))

    @cached_property
    def words(self) -> frozenset[str]:
        """All names that stand in it, and in what is defined in it, those of attributes included."""
        return frozenset(self.names | self.asked).union(*(each.words for each in self.inner))

    @cached_property
    def reads_gradients(self) -> bool:
        """Whether the gradient of something, what clips some, or is called with them, is named in it.

        It may be a part of a step.
        """
        return any(each == "grad" or "clip_grad" in each or takes_gradients(each) for each in self.words)

    @cached_property
    def names_refused_loss(self) -> bool:
        """Whether it, or the class that it is a method of, names a loss that autocast refuses."""
        if self.is_function and self.parent is not None and isinstance(self.parent.node, ast.ClassDef):
            return self.parent.names_refused_loss
        return not self.words.isdisjoint(_REFUSED)

    @cached_property
    def gives_gradients(self) -> bool:
        """Whether a gradient is given a value in it by hand: `p.grad = g`, `p.grad.data.add_(g)`."""
        calls = (each.func for each in nodes_in(self.node) if isinstance(each, ast.Call))
        changed = (each for each in calls if isinstance(each, ast.Attribute) and each.attr in _GIVING)
        owners = (ast.unparse(each.value).removesuffix(".data") for each in changed)
        return bool(self.stores("grad")) or any(each.endswith(".grad") for each in owners)

    @cached_property
    def is_abstract(self) -> bool:
        """Whether a method only raises `NotImplementedError`, or a class has such a method, for derived classes."""
        if not self.is_function:
            return any(each.is_abstract for each in self.inner if each.is_function)
        *before, last = self.body
        if not isinstance(last, ast.Raise) or not all(isinstance(each, ast.Expr) for each in before):
            return False
        kind = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
        return isinstance(kind, ast.Name) and kind.id == "NotImplementedError"

    @cached_property
    def captured(self) -> frozenset[str]:
        """The names bound here that a function inside reads or rebinds."""
        return frozenset(self.bound & self._free_inside) if self.is_function else frozenset()

    @cached_property
    def rebound(self) -> frozenset[str]:
        """The names bound here that a function inside rebinds."""
        return frozenset(self.bound & self._nonlocal_inside) if self.is_function else frozenset()

    @cached_property
    def _nonlocal_inside(self) -> set[str]:
        return set().union(*(each.nonlocal_names | each._nonlocal_inside for each in self.inner))

    @cached_property
    def _free_inside(self) -> set[str]:
        found: set[str] = set()
        for each in self.inner:
            own = each.bound if each.is_function else set()
            found |= (each.used | each.nonlocal_names | each._free_inside) - (own - each.nonlocal_names)
        return found

    def home(self, name: str) -> Code | None:
        """The function around this one whose variable a name is; None for a name of the module, or of nobody."""
        code = self.parent
        while code is not None:
            if code.is_function and name in code.bound:
                return code
            code = code.parent
        return None

    @cached_property
    def bound_again(self) -> frozenset[str]:
        """The names, and those of attributes, that are given a value in more than one place of it."""
        names = {*self._stores, *(each.arg for each in self.parameters)}
        own = Counter(each.arg for each in self.parameters)
        return frozenset(name for name in names if own[name] + len(self.stores(name)) > 1)

    def stores(self, name: str) -> list[int]:
        """The lines in which a name, or an attribute of that name, is given a value in it."""
        return self._stores.get(name, [])

    @cached_property
    def _stores(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in nodes_in(self.node):
            if isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Store):
                found.setdefault(each.id if isinstance(each, ast.Name) else each.attr, []).append(each.lineno)
        return found

    @cached_property
    def parameters(self) -> tuple[ast.arg, ...]:
        """All parameters of a function, the starred ones included, in the order in which they are bound."""
        if not isinstance(self.node, FUNCTIONS):
            return ()
        a = self.node.args
        stars = [each for each in (a.vararg, a.kwarg) if each is not None]
        return (*a.posonlyargs, *a.args, *a.kwonlyargs, *stars)

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements; a lambda returns its only expression."""
        if isinstance(self.node, ast.Lambda):
            given = ast.Return(self.node.body)
            return [ast.copy_location(given, self.node.body)]
        return self.node.body


@dataclass(eq=False)
class Module:
    """A parsed file.

    Attributes:
        codes: the functions, lambdas and classes of the file by their nodes, and the module itself.
        rebound: the names of the module that functions rebind, by `global`.
        owners: the names of which attributes are taken.
        import_statements: those of all its code.
    """

    file: str
    tree: ast.Module
    lines: int
    codes: dict[ast.AST, Code]
    rebound: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    import_statements: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    _read_by_calls: dict[Code, tuple[str, ...]] = field(default_factory=dict)
    _held_under: dict[ast.Name, tuple[ast.expr, ...]] = field(default_factory=dict)
    _sites: dict[ast.AST, Site] = field(default_factory=dict)

    @property
    def code(self) -> Code:
        """The module's own code."""
        return self.codes[self.tree]

    def site(self, node: ast.AST) -> Site:
        """Where a node stands, worked out once."""
        found = self._sites.get(node)
        if found is None:
            found = self._sites[node] = site_of(self.file, node)
        return found

    def nodes(self) -> Iterator[tuple[ast.AST, Code]]:
        """Everything in it, with the function that it is in; what stands in nothing else comes first."""
        waiting: deque[tuple[ast.AST, Code]] = deque([(self.tree, self.code)])
        while waiting:
            node, code = waiting.popleft()
            yield node, code
            waiting.extend((each, self.codes.get(each, code)) for each in children(node))

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[tuple[Any, Code]]]:
        found: dict[type[ast.AST], list[tuple[Any, Code]]] = {kind: [] for kind in _ASKED_FOR}
        for each in self.nodes():
            if (known := found.get(type(each[0]))) is not None:
                known.append(each)
        return found

    def every(self, kind: type[_Node]) -> list[tuple[_Node, Code]]:
        """All of a kind in it, as `nodes` gives them, for all programs that it is part of: one of `_ASKED_FOR`."""
        return self._by_kind[kind]

    @cached_property
    def calls(self) -> dict[ast.Call, Code]:
        """The function that each of its calls is in."""
        return dict(self.every(ast.Call))

    @cached_property
    def constructing(self) -> frozenset[Code]:
        """The functions that define others, call what is named like a class, or call such a function.

        So do those that choose from the keywords of their calls, which differ from one to the next.
        """
        called: dict[Code, set[str]] = {}
        found: set[Code] = set()
        for code in self.codes.values():
            names: set[str] = set()
            stack: list[ast.AST] = list(code.body)
            while stack:
                node = stack.pop()
                if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    continue
                if isinstance(node, ast.Call):
                    names.add(word_called(node))
                elif isinstance(node, ast.DictComp) and isinstance(code.node, FUNCTIONS) and code.node.args.kwarg:
                    found.add(code)
                stack.extend(children(node))
            called[code] = names
            if code.inner or any(name[:1].isupper() for name in names):
                found.add(code)
        names_of = {code.name for code in found}
        while True:
            more = {code for code, names in called.items() if code not in found and names & names_of}
            if not more:
                return frozenset(found)
            found |= more
            names_of |= {code.name for code in more}

    def held_under(self, key: ast.Name, body: Iterable[ast.AST]) -> tuple[ast.expr, ...]:
        """What a name is the key of where it is bound, `optimizers` in `optimizers[key]`.

        Args:
            body: what it is bound for: always the same for one place of a name.
        """
        if key not in self._held_under:
            subscripts = (each for part in body for each in nodes_in(part) if isinstance(each, ast.Subscript))
            self._held_under[key] = tuple(
                each.value
                for each in subscripts
                if isinstance(each.slice, ast.Name) and each.slice.id == key.id
                if isinstance(each.value, (ast.Name, ast.Attribute))
            )
        return self._held_under[key]

    def behind(self, code: Code, end: ast.stmt) -> Iterator[ast.stmt]:
        """The statements of a function, or of the file, that would run behind one of them, the next one first."""
        for block, index in reversed(list(_path(code.body, end))):
            yield from block[index + 1 :]

    @cached_property
    def followed(self) -> frozenset[ast.stmt]:
        """The statements that stand in no other, and that another such one follows."""
        return frozenset(self.tree.body[:-1])

    @cached_property
    def binds_in_sight(self) -> bool:
        """Whether all its names are bound where a reader sees it, be it by a star; `globals()[name]` only reads."""
        nodes = list(nodes_in(self.tree))
        names = Counter(each.id for each in nodes if isinstance(each, ast.Name))
        reads = (each.value for each in nodes if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Load))
        harmless = sum(isinstance(each, ast.Call) and ast.unparse(each.func) == "globals" for each in reads)
        is_plain = names.keys().isdisjoint(("exec", "setattr", "__path__")) and names["globals"] <= harmless
        return is_plain and "__getattr__" not in self.code.bound

    @cached_property
    def listed(self) -> frozenset[str]:
        """What a file has for others: the names in `__all__`, where that is written out; empty if nothing says so."""
        given = (each for each in self.tree.body if isinstance(each, ast.Assign) and "__all__" not in self._bound_anew)
        lists = [each.value for each in given if [getattr(name, "id", "") for name in each.targets] == ["__all__"]]
        names = [getattr(each, "value", None) for listed in lists for each in getattr(listed, "elts", ())]
        return frozenset(each for each in names if isinstance(each, str))

    @cached_property
    def names_gradients(self) -> bool:
        """Whether the gradient of something is named anywhere in it, or what clears gradients."""
        return not self.code.attributes.isdisjoint(("grad", "zero_grad"))

    @cached_property
    def may_name_device(self) -> bool:
        """Whether anything in it may be a word for a device, or move a tensor to what a variable says."""
        nodes = [*nodes_in(self.tree)]
        moving = [each for each in nodes if isinstance(each, ast.Attribute) and each.attr == "to"]
        calls = (each for each in nodes if isinstance(each, ast.Call) and each.func in moving)
        # No word for a device is an attribute of torch that is none itself: these are dtypes.
        casts = [each for each in calls if {ast.unparse(given)[:6] for given in _given(each)} == {"torch."}]
        return len(casts) < len(moving) or DEVICE_WORD.search(ast.unparse(self.tree)) is not None

    @cached_property
    def imports(self) -> tuple[str, ...]:
        """What it imports, as it is written: of `a.b`, `a` as well, and of `from a import b` both `a` and `a.b`."""
        found: dict[str, None] = {}
        for node in self.import_statements:
            if isinstance(node, ast.Import):
                steps = (each.name.split(".") for each in node.names)
                found.update({".".join(of[:end]): None for of in steps for end in range(1, len(of) + 1)})
            else:
                base = "." * node.level + (node.module or "")
                inside = base if base.endswith(".") else f"{base}."
                found.update(dict.fromkeys((base, *(inside + alias.name for alias in node.names))))
        return tuple(found)

    @cached_property
    def relative_imports(self) -> frozenset[str]:
        """The files of its own package that it imports from, as they are written."""
        imports = (each for each in self.import_statements if isinstance(each, ast.ImportFrom) and each.level)
        return frozenset("." * each.level + each.module for each in imports if each.module)

    def told_by_caller(self, code: Code) -> tuple[str, ...]:
        """The names that the file binds in several places, and a call of a function may read: when it is made matters.

        What the call may come to is found by names. A generator runs later than it is called.
        """
        if not self._bound_anew or code.is_generator:
            return ()
        if code not in self._read_by_calls:
            seen, stack = set(), [code]
            while stack:
                each = stack.pop()
                if each not in seen:
                    seen.add(each)
                    stack += each.inner
                    stack += (found for name in each.used | each.attributes for found in self._defining.get(name, ()))
            free = (each.used - each.bound if each.is_function else each.used for each in seen)
            self._read_by_calls[code] = tuple(sorted(self._bound_anew.intersection(set().union(*free))))
        return self._read_by_calls[code]

    @cached_property
    def _bound_anew(self) -> set[str]:
        return self.code.bound_anew - self.rebound

    @cached_property
    def _defining(self) -> dict[str, list[Code]]:
        found: dict[str, list[Code]] = {}
        for each in self.codes.values():
            found.setdefault(each.name, []).append(each)
        return found

    @property
    def functions(self) -> Iterator[Code]:
        """Every function of the file, and no lambda, in source order."""
        return (each for each in self.codes.values() if isinstance(each.node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def read_module(file: str, text: str) -> Module | None:
    """Parse a file; None where the running Python cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    module = Module(file, tree, text.count("\n") + 1, {tree: Code(file, tree, None, "")})
    _scan(module)
    return module


def _scan(module: Module) -> None:
    """Note which names the code that a node belongs to binds and uses, and that of all functions inside."""
    codes = module.codes
    # With the code that binds what it binds, and the one in whose text it stands: they differ for a decorator.
    stack: list[tuple[ast.AST, Code, Code]] = [(module.tree, module.code, module.code)]
    while stack:
        node, code, holder = stack.pop()
        if isinstance(node, ast.Name):
            holder.names.add(node.id)
            if isinstance(node.ctx, ast.Load):
                code.used.add(node.id)
            else:
                code.binds(node.id)
            continue
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            if not isinstance(node, ast.Lambda):
                code.binds(name)
            inside = codes[node] = Code(module.file, node, code, name)
            code.inner.append(inside)
            outer: list[ast.AST]
            if isinstance(node, FUNCTIONS):
                inside.bound |= {each.arg for each in inside.parameters}
                outer = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
                outer += [each.annotation for each in inside.parameters if each.annotation is not None]
                outer += [] if isinstance(node, ast.Lambda) else node.decorator_list
            else:
                outer = [*node.decorator_list, *node.bases, *node.keywords]
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            stack += [(each, inside, inside) for each in reversed(body)]
            stack += [(each, code, inside) for each in reversed(outer)]
            continue
        if isinstance(node, ast.Attribute):
            holder.asked.add(node.attr)
            if isinstance(node.value, ast.Name):
                module.owners.add(node.value.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module.import_statements.append(node)
            for each in node.names:
                code.binds(each.asname or each.name.partition(".")[0])
        elif isinstance(node, ast.Global):
            code.global_names |= set(node.names)
        elif isinstance(node, ast.Nonlocal):
            code.nonlocal_names |= set(node.names)
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
        ):
            code.binds(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            code.binds(node.rest)
        elif isinstance(node, (ast.Yield, ast.YieldFrom)):
            code.is_generator = True
        stack += [(each, code, holder) for each in reversed(children(node))]
    for one_of in codes.values():
        one_of.bound -= one_of.global_names | one_of.nonlocal_names
    module.rebound |= {name for code in codes.values() if code.is_function for name in code.global_names}


def _path(block: list[ast.stmt], wanted: ast.stmt) -> Iterator[tuple[list[ast.stmt], int]]:
    """The blocks that a statement stands in, the outermost first, each with its place in it."""
    place = (wanted.lineno, wanted.col_offset)
    ends = ((each.end_lineno or 0, each.end_col_offset or 0) for each in block)
    index = next((at for at, end in enumerate(ends) if place <= end), None)
    if index is not None:
        yield block, index
        inner = block[index]
        for each in blocks(inner) if inner is not wanted else ():
            if each[0].lineno <= wanted.lineno <= (each[-1].end_lineno or 0):
                yield from _path(each, wanted)
                return
