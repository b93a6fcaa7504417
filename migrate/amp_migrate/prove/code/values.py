"""What a value may be, as far as precision goes: a scaler, its state, a context of autocast, or what names one.

A value is all that any store or call of the files may have put there, so that what is said of it holds on every way.
What has nothing to do with precision is `OTHER`, and so is what cannot be followed: neither is erased. Statements are
read only if they have a word that a value of interest goes by, so that what a run costs grows with what there is of it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

from amp_migrate.prove.code.arguments import arguments, bound, defaults, is_of_class, is_static, takes
from amp_migrate.prove.code.atoms import (
    CONTEXT,
    ENTERED,
    FACTORY,
    FP16_OPTIMIZER,
    HANDLE,
    MAKER,
    NONE,
    NOTHING,
    OTHER,
    OTHERS,
    SCALE,
    SCALER,
    STATE,
    Atom,
    Value,
    element,
    flat,
    is_carrier,
    is_interesting,
)
from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.public_names import (
    CONTEXTS,
    ENTERING,
    FP16_OPTIMIZERS,
    HALVES,
    NO_CONTEXTS,
    NOWHERE,
    OPTIMIZERS,
    SCALERS,
    WORDS,
    WRAPPERS,
    public,
)
from amp_migrate.prove.code.receivers import Receivers
from amp_migrate.prove.code.scopes import (
    DEFINITIONS,
    FUNCTIONS,
    Definition,
    Function,
    Scope,
    heads,
    last_word,
    member,
    parameters,
    place_of,
)
from amp_migrate.syntax import children, is_keeping, keeps_arguments, nodes_in
from amp_migrate.tables.star_names import BY_STAR, brings

# Where a value is: a name in a scope, an attribute of a class (None: of any), what a function returns.
Place: TypeAlias = "tuple[Any, str]"

_KNOWN = ("torch.", "apex.")  # packages that are not of the project
_STARS = frozenset({"apex", "amp_shim"})  # what a star import of these brings is known by its name
_RETURN = "return"
_STATE = "apex.amp._amp_state.loss_scalers"
_BUILTINS = frozenset(dir(builtins))
_ASKED_OF_SCALERS = (frozenset({"scale", "step", "update"}), frozenset({"scale", "get_scale"}))  # for a step, a penalty
_GOES_BACKWARD_SCALED = frozenset({"scale", "backward"})
_DEPTH = 6  # files that hand everything on
_SCALES = ("scale", "loss_scale")  # what the scale is in the state of a scaler, and of one of Apex's
_MOST = 12  # more that a value may be is as good as anything


class Values:
    """What everything in some files may be.

    Attributes:
        words: the names that something with precision goes by.
    """

    def __init__(
        self,
        files: Mapping[str, File],
        *,
        follows_constants: bool = False,
        follows_optimizers: bool = False,
        shared: Set[tuple[str, str, str]] = frozenset(),
    ) -> None:
        """
        Args:
            follows_constants: whether True and False are values of interest: where what is installed decides something.
            follows_optimizers: whether the calls that optimizers are made in are values of interest, too.
            shared: the parameters, each with its file and the place of its function, that are no scalers unless they
                are given one.
        """
        self.files = files
        self.words: set[str] = set()
        self._follows_optimizers = follows_optimizers
        self._shared = shared
        self._classes: dict[ast.ClassDef, Scope] = {}
        self._methods: dict[tuple[ast.ClassDef, str], Definition] = {}
        self._named: dict[str, list[tuple[Definition, Scope]]] = {}
        self._statements: list[tuple[ast.stmt, Scope]] = []
        self._by_word: dict[str, set[int]] = {}
        self._returns: dict[Function, set[int]] = {}
        self._function: dict[Scope, Definition] = {}
        self._scopes: dict[Function, Scope] = {}
        self._constants = follows_constants
        self._scaling: set[str] = set()
        self._importing: set[Atom] = set()
        self._decorating: set[ast.AST] = set()
        self._imported: dict[tuple[Scope, str], Value] = {}
        self._receivers = Receivers(self)
        self._asked: list[Place] = []  # the parameters that are used as scalers
        self._annotated: list[tuple[Place, ast.expr]] = []  # those that may be annotated as one
        for file in files.values():
            self._index(file)
        self._settled: Mapping[Place, set[Atom]] | None = None
        self._known: dict[Place, set[Atom]] = {}
        self._solve()
        self._settled, self._known = self._known, {}
        self._solve()
        self._cache: dict[int, Value] | None = {}

    def _index(self, file: File) -> None:
        for node, scope in file.scopes.functions:
            self._named.setdefault(node.name, []).append((node, scope))
            if isinstance(scope.node, ast.ClassDef):
                self._methods.setdefault((scope.node, node.name), node)
            if file.words_of(node) >= _GOES_BACKWARD_SCALED:  # whoever calls it may call it through a value
                self._scaling |= {node.name} | ({scope.node.name} if isinstance(scope.node, ast.ClassDef) else set())
            inner = self._scopes[node] = file.scopes.inside(node, scope)
            self._asked += [(inner, name) for name in _asked_as_scalers(node, file)]
            types = ((each.arg, each.annotation) for each in parameters(node.args) if each.annotation is not None)
            self._annotated += [((inner, name), kind) for name, kind in types if "Scaler" in ast.unparse(kind)]
            self._function[inner] = node
        for statement, scope in file.scopes.statements:
            if isinstance(statement, ast.ClassDef):
                self._classes[statement] = scope
            number = len(self._statements)
            self._statements.append((statement, scope))
            last = statement.end_lineno or statement.lineno
            body = getattr(statement, "body", None)
            if body:
                last = max(statement.lineno, body[0].lineno - (body[0].lineno > statement.lineno))
            first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
            for line in file.words[first - 1 : last]:
                for word in line:
                    self._by_word.setdefault(word, set()).add(number)
            if isinstance(statement, ast.Return):
                function = self._around(scope)
                if function is not None:
                    self._returns.setdefault(function, set()).add(number)

    def _around(self, scope: Scope) -> Definition | None:
        """The function that a scope is of."""
        around: Scope | None = scope
        while around is not None and around not in self._function:
            around = around.parent
        return None if around is None else self._function[around]

    # -- the solution: every statement that has a word of interest, until nothing new is found

    def _solve(self) -> None:
        self._cache = None
        self._due: set[int] = set()
        optimizers = ("optim", "optimizers") if self._follows_optimizers else ()
        for word in (*WORDS, *optimizers, *self.words, *sorted(self._scaling)):
            self._wake(word)
        for file in self.files.values():
            scopes = [file.scopes.module, *(file.scopes.inside(node, scope) for node, scope in file.scopes.functions)]
            for scope in scopes:
                for name, fulls in scope.imports.items():
                    if any(is_interesting(("name", public(full))) for full in fulls):
                        self._wake(name)
                for star in scope.stars:
                    for name in BY_STAR.get(public(star), ()):
                        self._wake(name)
        typed = (place for place, kind in self._annotated if self.name(kind, place[0]) in SCALERS)
        for place in (*self._asked, *typed):
            self._add(place, {SCALER})
        if self._constants:
            self._wake("True")
            self._wake("False")
        while self._due:
            due, self._due = sorted(self._due), set()
            for number in due:
                self._read(*self._statements[number])

    def _wake(self, word: str) -> None:
        self.words.add(word)
        self._due |= self._by_word.get(word, set())

    def _add(self, place: Place, value: Iterable[Atom]) -> None:
        """Add to what is known of a place; it is of interest with the first value that is."""
        found = self._known.get(place)
        if found is None:
            value = frozenset(value)
            is_old = self._settled is not None and place in self._settled
            if not is_old and not any(is_interesting(each, self._constants) for each in value):
                return
            found = self._known[place] = set()
        before = len(found)
        found.update(value)
        if len(found) > _MOST:
            found.clear()
            found.update((OTHER, *range(_MOST)))  # stays at its size: the value is settled
        if len(found) == before:
            return
        owner, name = place
        if name == _RETURN and isinstance(owner, FUNCTIONS):
            self._due |= self._returns.get(owner, set())
            name = getattr(owner, "name", "")
            self._wake(name or "lambda")
        self._wake(name)
        if isinstance(owner, Scope) and owner in self._function:  # a parameter: whoever calls the function fills it
            function = self._function[owner]
            self._wake(function.name)
            if isinstance(owner.parent, Scope) and isinstance(owner.parent.node, ast.ClassDef):
                self._wake(owner.parent.node.name)

    def _read(self, node: ast.stmt, scope: Scope) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._give(scope, target, self.of(node.value, scope))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._give(scope, node.target, self.of(node.value, scope))
        elif isinstance(node, ast.AugAssign):
            # A gradient divided by the scale is a gradient.
            self._give(scope, node.target, NOTHING if self.of(node.value, scope) == {SCALE} else OTHERS)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._give(scope, node.target, self._elements(node.iter, scope))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._give(scope, item.optional_vars, self._entered(item.context_expr, scope))
        elif isinstance(node, ast.Return) and node.value is not None:
            function = self._around(scope)
            if function is not None:
                self._add((function, _RETURN), self.of(node.value, scope))
        elif isinstance(node, DEFINITIONS):
            self._read_defaults(node, scope)
        for expression in heads(node):
            self._read_inside(expression, scope)

    def _read_defaults(self, node: Function, scope: Scope) -> None:
        inner = self.inside(node, scope)
        for name, default in defaults(node).items():
            if default is not None:
                self._add((inner, name), self.of(default, scope))

    def _read_inside(self, node: ast.expr, scope: Scope) -> None:
        """The calls inside an expression, and what it gives names to."""
        stack: list[tuple[ast.AST, Scope]] = [(node, scope)]
        while stack:
            each, at = stack.pop()
            at = self.inside(each, at)
            if isinstance(each, ast.Call):
                self._pass(at, each)
            elif isinstance(each, ast.NamedExpr):
                self._give(at, each.target, self.of(each.value, at))
            elif isinstance(each, ast.comprehension):
                self._give(at, each.target, self._elements(each.iter, at))
            elif isinstance(each, ast.Lambda):
                self._read_defaults(each, at.parent or at)
                self._add((each, _RETURN), self.of(each.body, at))
            stack += [(child, at) for child in children(each)]

    def _give(self, scope: Scope, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            found = scope.find(target.id)
            if found is not None:
                self._add((found, target.id), value)
        elif isinstance(target, ast.Attribute):
            self._add((self._owner(target.value, scope), target.attr), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, part in enumerate(target.elts):
                self._give(scope, part, element(value, index, len(target.elts)))
        elif isinstance(target, ast.Starred):
            self._give(scope, target.value, OTHERS)
        elif isinstance(target, ast.Subscript) and is_carrier(value):
            self._give(scope, target.value, frozenset({("items", value, _key(target))}))

    def _owner(self, node: ast.expr, scope: Scope) -> ast.ClassDef | None:
        """The class at the root of what an object inherits, where the object is `self`; None for any other."""
        at = scope.find(node.id) if isinstance(node, ast.Name) else None
        function = None if at is None else self._function.get(at)
        owner = None if at is None or not isinstance(node, ast.Name) else self._filled(at, node.id)
        return None if owner is None or function is None or is_static(function) else self._root(owner)

    def _filled(self, scope: Scope, name: str) -> ast.ClassDef | None:
        """The class of the method in whose scope a name is the parameter that a call fills by itself."""
        function = self._function.get(scope)
        owner = scope.parent.node if isinstance(scope.parent, Scope) else None
        first = None if function is None else next(iter((*function.args.posonlyargs, *function.args.args)), None)
        return owner if isinstance(owner, ast.ClassDef) and first is not None and first.arg == name else None

    def _root(self, node: ast.ClassDef) -> ast.ClassDef:
        for _ in range(10):
            above = next(self._above(node), None)
            if above is None or above is node:
                return node
            node = above
        return node

    def _above(self, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """The classes of the files that a class inherits from."""
        scope = self._classes[node]
        for base in node.bases:
            yield from (e[1] for e in self.of(base, scope) if isinstance(e, tuple) and e[0] == "class")

    def _pass(self, scope: Scope, call: ast.Call) -> None:
        for function, skipped, is_sure in self.called(call, scope):
            if not _may_take(function, call, skipped):
                continue  # it raises before the function has any of it
            inner = self.scope_of(function)
            for parameter, argument in bound(function, call, skipped):
                value = OTHERS if argument is None else self.of(argument, scope)
                if is_sure or is_carrier(value):  # a method of this name of any object may be meant
                    self._add((inner, parameter), value)
                if isinstance(argument, ast.Name) and self._takes_scaler((inner, parameter)):
                    self._ask(scope, argument.id)

    def _takes_scaler(self, place: Place) -> bool:
        found = (self._known if self._settled is None else self._settled).get(place, set())
        return SCALER in found and is_carrier(frozenset(found))

    def _ask(self, scope: Scope, name: str) -> None:
        """A parameter that is handed on where a scaler goes is one as well: nobody else may say so."""
        at = scope.find(name)
        function = None if at is None else self._function.get(at)
        if at is None or function is None or (at.file, place_of(at), name) in self._shared:
            return
        if name in {each.arg for each in parameters(function.args)}:
            self._add((at, name), {SCALER})

    def _entered(self, node: ast.expr, scope: Scope) -> Value:
        """What `as` gives a name to."""
        if isinstance(node, ast.IfExp):
            return self._entered(node.body, scope) | self._entered(node.orelse, scope)
        value = self.of(node, scope)
        if isinstance(node, ast.Call) and node.args and self.name(node.func, scope) in ENTERING:
            return self.of(node.args[0], scope)
        return value if is_carrier(value) else OTHERS

    def _elements(self, node: ast.expr, scope: Scope) -> Value:
        """What a loop goes through."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            inner = [self._elements(each, scope) for each in node.args]
            if node.func.id == "zip" and inner:
                return frozenset({("tuple", tuple(inner))})
            if node.func.id == "enumerate" and inner:
                return frozenset({("tuple", (OTHERS, inner[0]))})
            if node.func.id in ("list", "tuple", "reversed", "sorted") and len(inner) == 1:
                return inner[0]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr == "values":
                return self._elements(node.func.value, scope)
            if node.func.attr == "items":
                return frozenset({("tuple", (OTHERS, self._elements(node.func.value, scope)))})
        found: set[Atom] = set()
        for each in self.of(node, scope):
            if isinstance(each, tuple) and each[0] == "items":
                found |= each[1]
            elif isinstance(each, tuple) and each[0] == "tuple":
                found.update(*each[1])
            else:
                found.add(OTHER)
        return frozenset(found)

    # -- the value of an expression

    def of(self, node: ast.AST, scope: Scope) -> Value:
        """All that an expression may be where it stands."""
        if self._cache is None or self._importing:  # what is found on the way round a circle of imports is not all
            return self._of(node, scope)
        found = self._cache.get(id(node))
        if found is None:
            found = self._cache[id(node)] = self._of(node, scope)
        return found

    def _of(self, node: ast.AST, scope: Scope) -> Value:
        if isinstance(node, ast.Name):
            return self._of_name(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(node, scope)
        if isinstance(node, ast.Call):
            return self._of_call(node, scope)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return frozenset({("constant", node.value)})
            return frozenset({NONE}) if node.value is None else OTHERS
        if isinstance(node, ast.Subscript):
            return self._of_subscript(node, scope)
        if isinstance(node, ast.IfExp):
            return self.of(node.body, scope) | self.of(node.orelse, scope)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.of(each, scope) for each in node.values))
        if isinstance(node, (ast.NamedExpr, ast.Await)):
            return self.of(node.value, scope)
        if isinstance(node, ast.Lambda):
            self.inside(node, scope)
            return frozenset({("function", node)})
        if isinstance(node, ast.BinOp):
            left, right = self.of(node.left, scope), self.of(node.right, scope)
            is_one = isinstance(node.left, ast.Constant) and node.left.value == 1
            return frozenset({SCALE}) if right == {SCALE} and (is_one or left == {SCALE}) else OTHERS
        return self._of_container(node, scope)

    def _of_container(self, node: ast.AST, scope: Scope) -> Value:
        inside: list[ast.expr] = []
        if isinstance(node, ast.Tuple) and len(node.elts) < _MOST:
            if any(isinstance(each, ast.Starred) for each in node.elts):
                return OTHERS
            return frozenset({("tuple", tuple(flat(self.of(each, scope)) for each in node.elts))})
        if isinstance(node, (ast.List, ast.Set)):
            inside = node.elts
        elif isinstance(node, ast.Dict):
            inside = node.values
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            inside, scope = [node.elt], self.inside(node, scope)
        elif isinstance(node, ast.DictComp):
            inside, scope = [node.value], self.inside(node, scope)
        else:
            return OTHERS
        return frozenset({("items", flat(frozenset().union(*(self.of(each, scope) for each in inside))), None)})

    def _at(self, place: Place) -> Value:
        """What is known of a place: nothing so far, or nothing of interest."""
        found = self._known.get(place)
        if found is not None:
            return frozenset(found)
        return NOTHING if self._settled is None or place in self._settled else OTHERS

    def _of_name(self, name: str, scope: Scope) -> Value:
        found = scope.find(name)
        if found is None:
            return self._of_star(name, scope)
        value: set[Atom] = set()
        for full in found.imports.get(name, ()):
            value |= self._of_import(full, found)
        if value and name in found.nones:
            value.add(NONE)
        for node in found.definitions.get(name, ()):
            if isinstance(node, ast.ClassDef):
                value.add(("class", node))
            elif node in self._decorating:  # `@lr.setter` above `def lr`
                value.add(OTHER)
            else:
                self._decorating.add(node)
                is_kept = all(self._keeps(each, found) for each in node.decorator_list)
                self._decorating.discard(node)
                value.add(("function", node) if is_kept else OTHER)
        function = self._function.get(found)
        if function is not None and is_of_class(function) and (owner := self._filled(found, name)) is not None:
            value |= {("class", owner), OTHER}  # or one that derives from it
        known = self._known.get((found, name))
        if known is None and value and name in found.assigned:
            value.add(OTHER)  # `optim = optim.Adam(...)`: of no interest, and not what was imported
        return frozenset(value | known) if known is not None else frozenset(value) or self._at((found, name))

    def _keeps(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a function under a decorator is still called with the same arguments."""
        func = node.func if isinstance(node, ast.Call) else node
        if is_keeping(node) or self.name(func, scope) in (WRAPPERS | CONTEXTS):
            return True
        known = self.of(node, scope) if func is node else NOTHING
        return bool(known) and all(atom[0] == "function" and keeps_arguments(atom[1]) for atom in known)

    def _of_star(self, name: str, scope: Scope, depth: int = 0) -> Value:
        for module in scope.module.stars:
            full = public(member(module, name))
            if brings(public(module), name) or full in (SCALERS | CONTEXTS | WRAPPERS | HALVES | FP16_OPTIMIZERS):
                return frozenset({("name", full)})
            file = self.files[scope.file].locate(module)
            inner = None if file is None else self.files[file].scopes.module
            if inner is not None and name in inner.names:
                return self._of_name(name, inner)
            handed_on = self._of_star(name, inner, depth + 1) if inner is not None and depth < _DEPTH else OTHERS
            if any(is_interesting(each) for each in handed_on):
                return handed_on
        if name not in _BUILTINS:
            brought = (not depth and self.files[scope.file].by_star(name)) or ""
            if brought.partition(".")[0] == "torch":
                return frozenset({("name", public(brought))})
            # Python finds nothing here: it can only be what another function of the file imports.
            scopes = {each for _, each in self.files[scope.file].scopes.statements}
            meant = {public(full) for each in scopes for full in each.imports.get(name, ())}
            if meant or all(each.partition(".")[0] in _STARS for each in scope.module.stars):
                return frozenset({("name", full) for full in meant}) if len(meant) == 1 else OTHERS
        return frozenset({("name", name)})

    def _of_import(self, full: str, scope: Scope) -> Value:
        key = (scope, full)
        if key not in self._imported:
            module, _, name = full.rpartition(".")
            if not module.strip("."):
                module = full.removesuffix(name)  # `from . import engine`
            locate = self.files[scope.file].locate
            at = locate(module) if module else None
            whole = locate(full)
            origin = self.files[scope.file].handed_on(full) if at is None or whole is None else None
            is_bound = origin is not None and origin[1] in self.files[origin[0]].scopes.module.names
            if at is not None and name in self.files[at].scopes.module.names and at != scope.file:
                self._imported[key] = frozenset({("of", at, name)})
            elif whole is not None and not is_bound:  # what a package binds hides its module of that name
                self._imported[key] = frozenset({("module", whole, full)})
            else:
                of = None if origin is None else ("of", *origin)
                brought = (of is None and self.files[scope.file].of_torch(full)) or full
                self._imported[key] = frozenset({of or ("name", public(brought))})
        value = self._imported[key]
        for each in value:
            if each[0] == "of":
                if each in self._importing:
                    return NOTHING  # files that import one another
                self._importing.add(each)
                found = self._of_name(each[2], self.files[each[1]].scopes.module)
                self._importing.discard(each)
                return found
        return value

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        owner = self._owner(node.value, scope)
        if owner is not None:
            return self._of_own(scope.owner or owner, owner, node.attr)
        found: set[Atom] = set()
        for each in self.of(node.value, scope):
            if isinstance(each, tuple) and each[0] == "name":
                full = public(f"{each[1]}.{node.attr}")
                if full == f"{_STATE}._loss_scale":
                    found.add(SCALE)
                else:
                    found |= {("name", full)} if full.startswith(_KNOWN) else self._of_import(full, scope)
            elif isinstance(each, tuple) and each[0] == "module":
                module = self.files[each[1]].scopes.module
                found |= self._of_name(node.attr, module) if node.attr in module.names else OTHERS
            elif each in (SCALER, FP16_OPTIMIZER):
                found.add((each, node.attr))
            elif each == HANDLE and node.attr == "scale_loss":
                found.add(("name", "apex.amp.scale_loss"))
            elif each != NONE:
                found |= self._of_any(node.attr)
        # Where a package may be PyTorch's or Apex's, that which has no such name is not meant.
        missing = {each for each in found if isinstance(each, tuple) and each[1] in NOWHERE}
        return frozenset(found - missing or found)

    def _of_own(self, node: ast.ClassDef, root: ast.ClassDef, name: str) -> Value:
        """An attribute of `self`: a method, or what any method of a related class has put there."""
        method = self.method(node, name)
        if method is not None:
            if any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list):
                return self._at((method, _RETURN))
            return frozenset({("method", method)})
        places = ((root, name), (None, name))
        known = [self._known[place] for place in places if place in self._known]
        return frozenset().union(*known) if known else self._at((root, name)) & self._at((None, name))

    def _of_any(self, name: str) -> Value:
        """An attribute of an object whose class is not known: as all objects of the files have it."""
        known = [value for (owner, each), value in self._attributes(name)]
        if known:
            return frozenset().union(*known)
        is_old = self._settled is not None and any(True for _ in self._attributes(name, self._settled))
        return NOTHING if self._settled is None or is_old else OTHERS

    def _attributes(
        self, name: str, known: Mapping[Place, set[Atom]] | None = None
    ) -> Iterator[tuple[Place, set[Atom]]]:
        for place, value in (self._known if known is None else known).items():
            if place[1] == name and (place[0] is None or isinstance(place[0], ast.ClassDef)):
                yield place, value

    def method(self, node: ast.ClassDef, name: str, depth: int = 0) -> Definition | None:
        """A method of a class or of one that it inherits from."""
        if (node, name) in self._methods:
            return self._methods[node, name]
        above = self._above(node) if depth < 10 else ()
        found = (self.method(each, name, depth + 1) for each in above if each is not node)
        return next((each for each in found if each is not None), None)

    def _of_call(self, node: ast.Call, scope: Scope) -> Value:
        found: set[Atom] = set()
        for each in self.of(node.func, scope):
            if not isinstance(each, tuple):
                found.add({FACTORY: CONTEXT, MAKER: SCALER}.get(each, OTHER))
            elif each[0] == "name":
                found |= self._of_known(each[1], node, scope)
            elif each[0] in ("function", "method", "partial", "object"):
                for function, _, _ in self._runs(each):
                    found |= self._at((function, _RETURN))
            elif each[0] == "class" and self.method(each[1], "__call__") is not None:
                found.add(("object", each[1]))
            elif each[0] == SCALER:
                found |= self._of_scaler(each[1], node, scope)
            else:
                found.add(OTHER)
        return frozenset(found)

    def _of_scaler(self, method: str, node: ast.Call, scope: Scope) -> Value:
        if method == "scale" and len(node.args) == 1:
            return self.of(node.args[0], scope)
        return frozenset({{"state_dict": STATE, "get_scale": SCALE}.get(method, OTHER)})

    def _of_known(self, full: str, node: ast.Call, scope: Scope) -> Value:
        first = self.of(node.args[0], scope) if node.args else OTHERS
        if full in SCALERS:
            return frozenset({SCALER})
        if full in CONTEXTS or (full in NO_CONTEXTS and not node.args):
            return frozenset({CONTEXT})
        if full in ENTERING:
            return frozenset({ENTERED})
        if full == "functools.partial":
            if (filled := self._filled_by_partial(first, node)) is not None:
                return filled
            names = {e[1] if isinstance(e, tuple) and e[0] == "name" else "" for e in first}
            return frozenset({FACTORY}) if names <= CONTEXTS else frozenset({MAKER}) if names <= SCALERS else OTHERS
        if (full in WRAPPERS or full == "staticmethod") and len(node.args) == 1:
            return first
        if full in HALVES and node.args:
            return first
        if full in FP16_OPTIMIZERS and node.args:
            return frozenset({FP16_OPTIMIZER}) | (first - {OTHER})
        if full in ("apex.amp.state_dict", "apex.amp.init"):
            return frozenset({STATE if full.endswith("state_dict") else HANDLE})
        if full == "apex.amp.initialize":
            given = arguments(node, ("models", "optimizers"))
            parts = [flat(self.of(each, scope)) for each in given.values()]
            return parts[0] if len(parts) == 1 else frozenset({("tuple", tuple(parts))}) if parts else OTHERS
        if full == f"{_STATE}.loss_scale":
            return frozenset({SCALE})
        if self._follows_optimizers and full.startswith(OPTIMIZERS):
            return frozenset({("made", node)})
        return OTHERS

    def _filled_by_partial(self, first: Value, node: ast.Call) -> Value | None:
        """What `partial(function, x)` may call, with the parameters that are filled by then; None for anything else."""
        is_plain = not node.keywords and not any(isinstance(each, ast.Starred) for each in node.args)
        if not (first and is_plain and all(isinstance(e, tuple) and e[0] in ("function", "method") for e in first)):
            return None
        runs = (run for each in first for run in self._runs(each))
        return frozenset(("partial", function, skipped + len(node.args) - 1) for function, skipped, _ in runs)

    def _of_subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        index = _key(node)
        found: set[Atom] = set()
        for each in self.of(node.value, scope):
            if isinstance(each, tuple) and each[0] == "name" and each[1].startswith(_STATE):
                found.add(("name", each[1]))
            elif each == STATE and isinstance(index, str) and index.startswith(_SCALES):
                found.add(SCALE if index in _SCALES else STATE)
            elif isinstance(each, tuple) and each[0] == "tuple" and isinstance(index, int):
                found |= each[1][index] if -len(each[1]) <= index < len(each[1]) else OTHERS
            elif isinstance(each, tuple) and each[0] == "items" and not isinstance(node.slice, ast.Slice):
                found |= each[1] if index is None or each[2] in (None, index) else OTHERS
            else:
                found.add(OTHER)
        return frozenset(found)

    # -- questions

    def inside(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope inside a node."""
        found = self.files[scope.file].scopes.inside(node, scope)
        if isinstance(node, ast.Lambda):
            self._scopes[node] = found
        return found

    def scope_of(self, function: Function) -> Scope:
        """The scope that a function opens."""
        return self._scopes[function]

    def name(self, node: ast.expr, scope: Scope) -> str:
        """The public name of what an expression names; empty where it is none, or may be something else."""
        found = self.of(node, scope) - {NONE}
        each = next(iter(found)) if len(found) == 1 else None
        return str(each[1]) if isinstance(each, tuple) and each[0] == "name" else ""

    def constant(self, scope: Scope, name: str) -> bool | None:
        """The one truth value that a name has, or that a function returns; None where there is none."""
        found = self._of_name(name, scope)
        for each in found:
            if isinstance(each, tuple) and each[0] == "function":
                found = self._at((each[1], _RETURN))
        each = next(iter(found)) if len(found) == 1 else None
        return each[1] if isinstance(each, tuple) and each[0] == "constant" else None

    def outside(self, node: ast.expr, scope: Scope) -> Definition | None:
        """The function of a file that is the same on both sides which an expression names."""
        found = self._outside(node, scope)
        return found if isinstance(found, DEFINITIONS) else None

    def is_class_outside(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression names a class of a file that is the same on both sides, and inherits from none here."""
        found = self._outside(node, scope)
        own = {each.name for each in self._classes}
        return isinstance(found, ast.ClassDef) and own.isdisjoint(map(last_word, found.bases))

    def _outside(self, node: ast.expr, scope: Scope) -> Definition | ast.ClassDef | None:
        module, _, name = self.name(node, scope).rpartition(".")
        return self.files[scope.file].outside(module, name) if module else None

    def at(self, scope: Scope, name: str) -> Value:
        """All that a name may be."""
        return self._of_name(name, scope)

    def place(self, node: ast.expr, scope: Scope) -> Place:
        """Where the value of a name or of an attribute is; of None where that may be any object's."""
        if isinstance(node, ast.Name):
            return scope.find(node.id), node.id
        return (self._owner(node.value, scope), node.attr) if isinstance(node, ast.Attribute) else (None, "")

    def mentioning(self, word: str) -> Iterator[tuple[ast.stmt, Scope]]:
        """The statements that say a word, each with its scope."""
        return (self._statements[each] for each in sorted(self._by_word.get(word, ())))

    def called(self, call: ast.Call, scope: Scope) -> Iterator[tuple[Function, int, bool]]:
        """The functions of the files that a call may run, each with the parameters that it fills by itself (a number).

        Where the object of a method is not known, every method of that name may be meant that takes the arguments:
        these are not sure.
        """
        func = call.func
        of_classes = [*self._of_classes(func, scope)] if isinstance(func, ast.Attribute) else []
        if of_classes:  # `Trainer.__init__(self, ...)`
            yield from ((method, 1 if is_of_class(method) else 0, True) for method in of_classes)
            return
        values = self.of(func, scope)
        is_any = isinstance(func, ast.Attribute) and self._is_any(func.value, scope)
        for each in values:
            if isinstance(each, tuple) and each[0] in ("function", "class", "method", "partial", "object"):
                for function, skipped, _ in self._runs(each):
                    if not is_any or takes(function, call, skipped):
                        yield function, skipped, not is_any
        if isinstance(func, ast.Attribute) and self._owner(func.value, scope) is not None:
            for method in self._overriding(func.attr, scope.owner):
                skipped = 0 if is_static(method) else 1
                if takes(method, call, skipped):
                    yield method, skipped, True
        if isinstance(func, ast.Attribute) and not any(isinstance(e, tuple) and e[0] == "method" for e in values):
            owner = func.value
            if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
                yield from self._inherited(func.attr, scope)
                return
            made = self._receivers.made_by(owner, scope) if func.attr in self._named else None
            own = [self.method(each, func.attr) for each in made or ()]
            yield from ((each, 0 if is_static(each) else 1, True) for each in own if each is not None)
            for function, around in self._named.get(func.attr, ()) if made is None else ():
                skipped = 0 if is_static(function) else 1
                if _may_take(function, call, skipped) and isinstance(around.node, ast.ClassDef):
                    yield function, skipped, False

    def _overriding(self, name: str, owner: ast.ClassDef | None) -> Iterator[Definition]:
        """The methods that stand for one of a class in those that derive from it: `self` may be of any."""
        for method, around in self._named.get(name, ()):
            node = around.node if isinstance(around.node, ast.ClassDef) else None
            if owner is not None and node is not None and node is not owner and owner in self._lineage(node):
                yield method

    def _lineage(self, node: ast.ClassDef, depth: int = 0) -> Iterator[ast.ClassDef]:
        for each in self._above(node) if depth < 10 else ():
            yield each
            yield from self._lineage(each, depth + 1)

    def _of_classes(self, func: ast.Attribute, scope: Scope) -> Iterator[Definition]:
        """The methods that are named with their class."""
        for each in self.of(func.value, scope):
            method = self.method(each[1], func.attr) if isinstance(each, tuple) and each[0] == "class" else None
            if method is not None:
                yield method

    def _is_any(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an object may be any: what is known of its attributes is what others have."""
        known = self._owner(node, scope) is not None
        return not known and not any(isinstance(e, tuple) and e[0] in ("name", "module") for e in self.of(node, scope))

    def _runs(self, atom: Atom) -> Iterator[tuple[Function, int, bool]]:
        if atom[0] in ("class", "object"):
            method = self.method(atom[1], "__init__" if atom[0] == "class" else "__call__")
            if method is not None:
                yield method, 1, True
        elif atom[0] == "partial":
            yield atom[1], atom[2], True
        elif atom[0] == "method":
            yield atom[1], 0 if is_static(atom[1]) else 1, True
        else:
            yield atom[1], 0, True

    def _inherited(self, name: str, scope: Scope) -> Iterator[tuple[Function, int, bool]]:
        for each in self._above(scope.owner) if scope.owner is not None else ():
            method = self.method(each, name)
            if method is not None:
                yield method, 1, True


def _key(node: ast.Subscript) -> object:
    """The key or number that a subscript is written with; None for any other."""
    return node.slice.value if isinstance(node.slice, ast.Constant) else None


def _asked_as_scalers(function: Definition, file: File) -> Iterator[str]:
    """The parameters of a function of which everything is asked that only a scaler does."""
    if "scale" not in file.words_of(function):
        return
    asked: dict[str, set[str]] = {}
    for each in nodes_in(function):
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and isinstance(each.func.value, ast.Name)
        ):
            asked.setdefault(each.func.value.id, set()).add(each.func.attr)
    for each in parameters(function.args):
        if any(asked.get(each.arg, set()) >= those for those in _ASKED_OF_SCALERS):
            yield each.arg


def _may_take(function: Function, call: ast.Call, skipped: int) -> bool:
    """Whether a function can be called so, or what a decorator leaves of it, which may take anything."""
    return not all(map(is_keeping, getattr(function, "decorator_list", ()))) or takes(function, call, skipped)
