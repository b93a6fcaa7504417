"""Functions and classes across the files of a project: which one a call means, and who calls it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, tee

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import fits, passed, single_parameters
from amp_migrate.analysis.bindings import Binding, BindingKind, dotted, module_and_name
from amp_migrate.analysis.definitions import Definitions
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.library import Library
from amp_migrate.analysis.objects import Class, Method, Objects
from amp_migrate.analysis.values.recursion import Runs
from amp_migrate.analysis.values.tensors import is_computed
from amp_migrate.frozen import frozen
from amp_migrate.tables.torch_names import MODULE_BASES
from amp_migrate.trees.nodes import block_of, find, is_constant, method_of, statements, walk

_COMMON_METHODS = frozenset("forward __call__ step update backward train eval run fit get to".split())
# What the operators of Python call, of the object on either side.
_OPERATORS = frozenset(
    f"__{side}{name}__"
    for side in ("", "r", "i")
    for name in "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or neg pos abs invert".split()
) | {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__torch_function__"}
# What gives a class nothing but what every object has.
_PLAIN = frozenset(("abc.ABC", "object"))
_WITHOUT_OPERATORS = MODULE_BASES | _PLAIN
# What gives an object's parameters, or whatever it is asked for.
_PARAMETERS = frozenset(("parameters", "__getattr__", "__getattribute__"))


@frozen
class FunctionRef:
    """A function of the project: the file it is in, its node, and the class it is a method of."""

    file: File
    node: cst.FunctionDef
    owner: cst.ClassDef | None

    @property
    def name(self) -> str:
        return self.node.name.value

    @property
    def is_bound(self) -> bool:
        """Whether a call through an object fills its first parameter."""
        decorators = {dotted(each.decorator) for each in self.node.decorators}
        return self.owner is not None and "staticmethod" not in decorators

    @property
    def is_to_be_filled_in(self) -> bool:
        """Whether a method only says that those who derive from its class are to write it."""
        *said, last = statements(block_of(self.node))
        is_abstract = any((dotted(each.decorator) or "").endswith("abstractmethod") for each in self.node.decorators)
        is_empty = isinstance(last, cst.Raise) or (is_abstract and isinstance(last, (cst.Expr, cst.Pass)))
        return is_empty and all(isinstance(each, cst.Expr) for each in said)

    def given(self, call: cst.Call, name: str, filled: int = 0) -> cst.BaseExpression | None:
        """The value that a call of it passes for a parameter; None where it passes none, or nobody can tell.

        Args:
            filled: how many parameters are filled beside those that the call and its object fill.
        """
        found = passed(self.node, call, name, bound=self.is_bound + filled)
        return None if found is None or found.argument is None else found.argument.value

    def receiving(self, call: cst.Call, argument: cst.Arg) -> cst.Param | None:
        """The parameter that an argument of a call of it goes into; None where nobody can tell."""
        given = (
            (each, passed(self.node, call, each.name.value, bound=self.is_bound))
            for each in single_parameters(self.node)
        )
        return next((each for each, found in given if found is not None and found.argument is argument), None)


@frozen
class CallSite:
    """A call of a function of the project.

    Attributes:
        filled: how many parameters are filled beside those that the call and its object fill, as `functools.partial`
            does; one less where a method is called with its object as an argument.
    """

    file: File
    call: cst.Call
    filled: int = 0


class Project:
    """Answers questions that reach beyond one file.

    Attributes:
        calls_by_value: gives all calls that may run a function which is handed on as a value, with the functions that
            they may run besides; None where any is in doubt. It is the analysis of values that knows.
        holds_computed: whether what an expression gives is no tensor, but holds what is computed: so does that, too.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.calls_by_value: Callable[[FunctionRef], Mapping[FunctionRef, tuple[CallSite, ...]] | None] = lambda _: None
        self.holds_computed: Callable[[File, cst.BaseExpression], bool] = lambda *_: False
        self._running: dict[cst.FunctionDef, tuple[CallSite, ...] | None] = {}
        self._of_several: set[cst.CSTNode] = set()
        self._definitions = Definitions(library)
        self._objects = Objects(self._definitions.of)
        self._references: dict[cst.FunctionDef, tuple[CallSite, ...] | None] = {}
        self._methods: dict[str, list[cst.FunctionDef]] = {}
        self._named: dict[tuple[str, str, frozenset[str] | None], Iterator[FunctionRef]] = {}
        self._called: dict[cst.Call, FunctionRef | None] = {}
        self._having: dict[tuple[cst.ClassDef, frozenset[str]], bool] = {}
        self._handed_on: dict[File, tuple[tuple[cst.BaseExpression, FunctionRef], ...]] = {}

    def reference(self, file: File, node: cst.FunctionDef) -> FunctionRef:
        """The function a definition makes."""
        parent = file.tree.parents[node]
        while not isinstance(parent, (cst.ClassDef, cst.FunctionDef, cst.Module)):
            parent = file.tree.parents[parent]
        return FunctionRef(file, node, parent if isinstance(parent, cst.ClassDef) else None)

    def definition(self, file: File, name: cst.CSTNode) -> tuple[File, cst.CSTNode] | None:
        """The function or class that a name stands for, in whichever file it is defined; None if that is in doubt."""
        return self._definitions.of(file, name)

    def called(self, file: File, call: cst.Call) -> FunctionRef | None:
        """The function of the project that a call runs, where there is exactly one candidate."""
        if call not in self._called:
            self._called[call] = self._find_called(file, call)
        return self._called[call]

    def _find_called(self, file: File, call: cst.Call) -> FunctionRef | None:
        method = self.own_method(file, call) or self._init_of_own_class(file, call)
        if method is not None:
            return method
        found = self.definition(file, call.func)
        if found is None:
            return self._method_of_object(file, call)
        where, node = found
        if isinstance(node, cst.ClassDef):
            init = method_of(node, "__init__")
            return None if init is None else self.reference(where, init)
        return self.reference(where, node) if isinstance(node, cst.FunctionDef) else None

    def _init_of_own_class(self, file: File, call: cst.Call) -> FunctionRef | None:
        """The `__init__` that `cls(...)` runs in a class method; one of a derived class may have another."""
        owner = file.tree.owner_class(call) if isinstance(call.func, cst.Name) else None
        init = None if owner is None else method_of(owner, "__init__")
        function = None if init is None else FunctionRef(file, init, owner)
        is_own = function is not None and owner is not None and call in _calls_of_own_class(file, owner)
        return function if is_own else None

    def _method_of_object(self, file: File, call: cst.Call) -> FunctionRef | None:
        """The method that a call runs on an object whose class can be seen: `model = Net()`, then `model.loss(x)`."""
        if not isinstance(call.func, cst.Attribute):
            return None
        methods = self._methods_of(file, call.func)
        if methods is None or len({method for _, method in methods}) > 1:
            return None
        return self.reference(*methods[0])

    def _methods_of(self, file: File, node: cst.Attribute) -> list[Method] | None:
        """The methods that `object.name` may mean; None where some class of the object cannot be seen."""
        name, owner = node.attr.value, file.tree.owner_class(node)
        if dotted(node.value) == "self" and owner is not None:
            method = self._objects.method(file, owner, name)
            return None if method is None else [method]
        return self._objects.methods(file, node.value, name)

    def may_call(
        self, file: File, call: cst.Call, about: str, idle: frozenset[str] | None = None
    ) -> Iterator[FunctionRef]:
        """The functions a call may run: the one it means, or methods of that name where the object is unknown.

        Files are parsed as they are come to: who needs no more of them parses no more.

        Args:
            about: a word that a file must contain for its methods to count.
            idle: functions as `len`, methods as `.reset`; methods that call nothing else may be left out.
        """
        function = self.called(file, call)
        if function is not None:
            return iter((function,))
        if not isinstance(call.func, cst.Attribute) or file.names.full(call.func):
            return iter(())
        return self._methods_named(call.func.attr.value, about, idle)

    def run(self, file: File, call: cst.Call) -> tuple[File, Runs] | None:
        """The function of the project, or the lambda of its own file, that a call runs: the only one that it may."""
        function = self.called(file, call)
        if function is not None:
            return function.file, function.node
        bindings = object_bindings(file, call.func)
        value = bindings[0].value if len(bindings) == 1 else None
        return (file, value) if isinstance(value, cst.Lambda) else None

    def meant(self, file: File, call: cst.Call, about: str) -> FunctionRef | None:
        """The function that a call runs, or the only method that one on an unknown object may; `about` as above."""
        function = self.called(file, call)
        found = [] if function is not None else list(islice(self.may_call(file, call, about), 2))
        return found[0] if len(found) == 1 and self.is_only_method(found[0]) else function

    def method_of_given(self, file: File, call: cst.Call, *, is_passed: bool = False) -> FunctionRef | None:
        """The method that a call runs on a parameter of a function, where all that callers pass has that one.

        What nobody passes is of the one class that has the methods which the function calls of it.

        Args:
            is_passed: whether callers are to be seen that pass it: it takes no more of the project's files.
        """
        func = call.func
        if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
            return None
        found = self._methods_given(file, func.value, func.attr.value, 0, is_passed)
        return self.reference(*found.pop()) if found is not None and len(found) == 1 else None

    def _methods_given(
        self, file: File, value: cst.BaseExpression, name: str, depth: int, is_passed: bool
    ) -> set[Method] | None:
        """The methods of a name that a parameter may have, by what callers pass; None where some of that is unknown."""
        node = file.tree.function(value)
        if not isinstance(value, cst.Name) or node is None or depth > MAX_HOPS:
            return None
        function = self.reference(file, node)
        bindings = file.scopes.of(value).lookup(value.value)
        if [each.kind for each in bindings] != [BindingKind.PARAMETER] or function.owner is not None:
            return None
        sites, found = self.call_sites(function), set[Method]()
        for where, owner in self._having_all(file, node, value.value) if sites == () and not is_passed else ():
            method = self._objects.method(where, owner, name)
            found.update(() if method is None else (method,))
        for site in sites or ():
            own = function.given(site.call, value.value)
            known = None if own is None else self._objects.methods(site.file, own, name)
            inner = None if own is None or known else self._methods_given(site.file, own, name, depth + 1, is_passed)
            if not known and not inner:
                return None
            found.update(known or inner or ())
        return found

    def _having_all(self, file: File, node: cst.FunctionDef, name: str) -> set[Class]:
        """The classes that have each method of a name of its own which a function calls of a variable."""
        found: list[set[Class]] = []
        for call in find(node.body, cst.Call):
            func = call.func
            if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == name:
                named = [*self._methods_named(func.attr.value, func.attr.value, None)]
                fitting = (each for each in named if fits(each.node, call, bound=each.is_bound))
                found += [{(each.file, each.owner) for each in fitting if each.owner is not None}] if named else []
        return set.intersection(*found) if found else set()

    def _methods_named(self, name: str, about: str, idle: frozenset[str] | None) -> Iterator[FunctionRef]:
        """The methods of the project's classes that have a name of their own, not one that everything has."""
        if name in _COMMON_METHODS:
            return iter(())
        key = (name, about, idle)
        if key not in self._named:
            files = self.library.defining(name, about, idle=idle)
            self._named[key] = (self.reference(file, each) for file in files for each in file.methods.get(name, ()))
        self._named[key], found = tee(self._named[key])  # each goes on where nobody has looked yet
        return found

    def is_only_method(self, function: FunctionRef) -> bool:
        """Whether a method is the only one of its name in the project, and it is known that each call means it."""
        if function.owner is None or self._first_methods(function.name) != [function.node]:
            return False
        if function.name not in _COMMON_METHODS:
            return True
        sites = self.call_sites(function)  # where not everything has it: `loss.backward()` is no `backward(loss)`
        known = (
            isinstance(each.call.func, cst.Attribute) and self._methods_of(each.file, each.call.func) is not None
            for each in sites or ()
        )
        return bool(sites) and all(known)

    def call_sites(self, function: FunctionRef) -> tuple[CallSite, ...] | None:
        """Every call of a function in the project; None where it is used other than by calling it."""
        if function.node not in self._references:
            self._references[function.node] = self._find_call_sites(function)
        return self._references[function.node]

    def running(self, function: FunctionRef) -> tuple[CallSite, ...] | None:
        """Every call that runs a function, be it with others by a value; None where one is in doubt.

        That is for who asks what comes before a function, and what it is given: who changes one, changes those others.
        """
        if function.node not in self._running:
            sites = self.call_sites(function)
            if sites is None:
                together = self.calls_by_value(function) or {}
                found = Counter(site.call for own in together.values() for site in own)
                self._of_several.update(call for call, count in found.items() if count > 1)
                sites = together.get(function)
                sites = None if sites is None or any(each.filled for each in sites) else sites
            self._running[function.node] = sites
        return self._running[function.node]

    def is_of_several(self, call: cst.CSTNode) -> bool:
        """Whether a call that `running` gave may run another function as well."""
        return call in self._of_several

    def users(self, function: FunctionRef) -> set[File]:
        """The files that use a function of a module, be it otherwise than by calling it."""
        uses = ((file, self.definition(file, node)) for file, node in self._uses(function.name))
        return {file for file, found in uses if found is not None and found[1] is function.node}

    def handed_on(self, file: File) -> tuple[tuple[cst.BaseExpression, FunctionRef], ...]:
        """Where a file hands on a function that it imports, for others to call: `Monitor(validate)`."""
        if file not in self._handed_on:
            self._handed_on[file] = tuple(self._find_handed_on(file))
        return self._handed_on[file]

    def _find_handed_on(self, file: File) -> Iterator[tuple[cst.BaseExpression, FunctionRef]]:
        for name in (node for nodes in file.uses.values() for node in nodes if isinstance(node, cst.BaseExpression)):
            parent = file.tree.parents[name]
            is_called = isinstance(parent, cst.Call) and parent.func is name
            if is_called or not file.names.full(name):
                continue
            where, node = self.definition(file, name) or (file, None)
            if isinstance(node, cst.FunctionDef) and where is not file and not is_asked(file, name):
                yield name, self.reference(where, node)

    def possible_calls(self, function: FunctionRef) -> Iterator[CallSite]:
        """The calls that may be of a method, though another class has one of that name and the object's is unknown.

        Those of a function are by a name that may be something else by then: imported, and defined behind it.
        """
        if function.owner is None:
            yield from self._calls_by_shared_name(function)
            return
        if function.name == "__init__" or len(self._first_methods(function.name)) < 2:
            return
        for file, node in self._doubtful_uses(function):
            call = file.tree.parents[node]
            if isinstance(call, cst.Call) and call.func is node:
                yield CallSite(file, call)

    def is_called_by_its_name(self, function: FunctionRef) -> bool:
        """Whether the class of each object is seen on which a method may be called, and each such call runs it alone.

        What nobody calls so is called otherwise, as `__call__` is.
        """
        sites = () if function.owner is None else self.call_sites(function) or ()
        if not sites or any(True for _ in self._doubtful_uses(function)):
            return False
        named = [(each.file, each.call.func) for each in sites if isinstance(each.call.func, cst.Attribute)]
        own = ([node for _, node in self._methods_of(*each) or ()] for each in named)
        return len(named) == len(sites) and all(each == [function.node] for each in own)

    def may_be_of_unseen(self, function: FunctionRef) -> bool:
        """Whether a method may be called, or handed on, of an object whose class cannot be seen."""
        return function.owner is not None and any(True for _ in self._doubtful_uses(function))

    def _doubtful_uses(self, function: FunctionRef) -> Iterator[tuple[File, cst.Attribute]]:
        """Where a method may be called, or handed on, of an object whose class cannot be seen."""
        for file in self.library.using_own(function.name, is_method=True):
            for node in file.uses.get(function.name, ()):
                if (
                    isinstance(node, cst.Attribute)
                    and self._methods_of(file, node) is None
                    and not self._is_foreign(file, node.value, function)
                    and _may_be(function, node, file.tree.parents[node])
                ):
                    yield file, node

    def _calls_by_shared_name(self, function: FunctionRef) -> Iterator[CallSite]:
        for file, node in self._uses(function.name):
            call = file.tree.parents[node]
            if not isinstance(call, cst.Call) or call.func is not node or not fits(function.node, call, bound=False):
                continue
            if self._definitions.may_be(file, node, function.node):
                yield CallSite(file, call)

    def overriding(self, function: FunctionRef) -> tuple[FunctionRef, ...]:
        """The other methods that a call of one may run, by the class of its object: what overrides it, or it overrides.

        A class that calls a method which it does not have itself has it from those that derive from it.
        """
        if function.owner is None or function.name.startswith("__"):
            return ()
        above = self.lineage(function.file, function.owner)
        found = self.with_derived((file, each) for file, each in above if _has_or_calls(each, function.name))
        methods = ((file, owner, method_of(owner, function.name)) for file, owner in found)
        return tuple(
            FunctionRef(file, method, owner) for file, owner, method in methods if method not in (None, function.node)
        )

    def written(self, function: FunctionRef) -> tuple[FunctionRef, ...]:
        """What runs where a method is called that only says what one is to do; any other function itself."""
        if not function.is_to_be_filled_in or function.owner is None:
            return (function,)
        return tuple(each for each in self.overriding(function) if not each.is_to_be_filled_in)

    def methods(self, file: File, node: cst.BaseExpression, name: str) -> tuple[FunctionRef, ...]:
        """The methods of a name that an object has, by all classes it is made from; none where one cannot be seen."""
        return tuple(self.reference(*each) for each in self._objects.methods(file, node, name) or ())

    def is_missing(self, file: File, node: cst.Attribute) -> bool:
        """Whether an object has no such attribute for certain, by the classes that it is made from."""
        return self._objects.is_missing(file, node)

    def lineage(self, file: File, owner: cst.ClassDef) -> Iterator[Class]:
        """A class, and those that it derives from, the first that Python asks first."""
        return self._objects.lineage(file, owner)

    def unseen_bases(self, file: File, owner: cst.ClassDef) -> Iterator[tuple[File, cst.BaseExpression]]:
        """What a class, and those that it derives from, inherit from that is not of the project."""
        bases = ((where, base.value) for where, each in self.lineage(file, owner) for base in each.bases)
        return ((where, base) for where, base in bases if self.definition(where, base) is None)

    def derived(self, where: File, owner: cst.ClassDef) -> Iterator[Class]:
        """The classes that name one among their bases."""
        for file, node in self._uses(owner.name.value):
            around = file.tree.parents[file.tree.parents[node]]
            if isinstance(around, cst.ClassDef) and self.definition(file, node) == (where, owner):
                yield file, around

    def with_derived(self, classes: Iterable[Class]) -> list[Class]:
        """Some classes, and all that derive from them, however far."""
        found = list(classes)
        seen = {each for _, each in found}
        for file, owner in found:  # grows while it is gone through
            new = [each for each in self.derived(file, owner) if each[1] not in seen]
            found += new
            seen.update(each for _, each in new)
        return found

    def module_of(self, file: File, full: str) -> File | None:
        """The project's file that an imported name is taken from."""
        return self._definitions.module_of(file, full)

    def _find_call_sites(self, function: FunctionRef) -> tuple[CallSite, ...] | None:
        if function.name == "__init__" and function.owner is not None:
            return self._constructor_calls(function.file, function.owner)
        found: list[CallSite] = []
        for file, node in self._uses(function.name, is_method=function.owner is not None):
            if function.owner is not None:
                target = self._method_named(file, node, function)
            else:
                definition = self.definition(file, node)
                target = definition is not None and definition[1] is function.node
            if not target:
                continue
            parent = file.tree.parents[node]
            if isinstance(parent, cst.Call):
                found.append(CallSite(file, parent))
            elif not is_asked(file, node) and not (function.owner is None and _names_anew(file, node)):
                return None
        return tuple(found)

    def _uses(self, name: str, *, is_method: bool = False) -> Iterator[tuple[File, cst.CSTNode]]:
        """The uses of something of a name, in all files that may mean one of the project's."""
        for file in self.library.using_own(name, is_method=is_method):
            yield from ((file, use) for local in file.local_names(name) for use in file.uses.get(local, ()))

    def _constructor_calls(self, where: File, owner: cst.ClassDef) -> tuple[CallSite, ...] | None:
        """Every call of the constructor of a class: its own, and those of classes that derive from it."""
        own = [*_calls_of_own_class(where, owner)]
        found = [CallSite(where, call) for call in own]
        if any(isinstance(call.func, cst.Attribute) for call in own):
            return None  # `self.__class__(...)` may be of any class that derives from this one
        for file, node in self._uses(owner.name.value):
            definition = self.definition(file, node)
            if definition is None or definition[1] is not owner:
                continue
            parent = file.tree.parents[node]
            around = file.tree.parents[parent]
            if isinstance(parent, cst.Call):
                found.append(CallSite(file, parent))
            elif isinstance(around, cst.ClassDef) and parent in around.bases:
                calls = self._calls_of_derived(file, around)
                if calls is None or own:  # `cls(...)` may be of the derived class
                    return None
                found += calls
            elif isinstance(around, cst.Call) and isinstance(parent, cst.Attribute) and parent.attr.value == "__init__":
                found.append(CallSite(file, around, -1))
            elif not is_asked(file, node):
                return None
        return tuple(found)

    def _calls_of_derived(self, file: File, derived: cst.ClassDef) -> tuple[CallSite, ...] | None:
        """The calls that a class makes of the constructor it inherits; None where it may inherit another one."""
        if len(derived.bases) > 1 or derived.keywords or method_of(derived, "__new__") is not None:
            return None
        if method_of(derived, "__init__") is None:
            return self._constructor_calls(file, derived)
        calls = (each for each in walk(derived.body) if isinstance(each, cst.Call))
        return tuple(CallSite(file, each) for each in calls if _is_inherited_init(each))

    def own_method(self, file: File, call: cst.Call) -> FunctionRef | None:
        """`self.f(...)` inside a class that defines `f`."""
        path = dotted(call.func)
        if path is None or not path.startswith("self.") or path.count(".") != 1:
            return None
        owner = file.tree.owner_class(call)
        method = None if owner is None else method_of(owner, path.removeprefix("self."))
        return None if method is None else FunctionRef(file, method, owner)

    def _method_named(self, file: File, node: cst.CSTNode, function: FunctionRef) -> bool:
        """Whether `object.name` means the given method: on `self` of its class, or where no other class defines it.

        A call that the method does not take is one of something else that has such a method: `model.train()`.
        """
        if not isinstance(node, cst.Attribute):
            return False
        methods = self._methods_of(file, node)
        if methods is not None:
            return any(method is function.node for _, method in methods)
        if self._first_methods(function.name) != [function.node] or self._is_foreign(file, node.value, function):
            return False
        call = file.tree.parents[node]
        if not isinstance(call, cst.Call) or self._is_class(file, node.value):
            return True
        return fits(function.node, call, bound=function.is_bound)

    def _is_foreign(self, file: File, node: cst.BaseExpression, function: FunctionRef) -> bool:
        """Whether an object is none with a method of the project.

        It is from outside: imported, `tf` in `tf.train`, one of `torch.optim`. Or it is computed, and no object of a
        class with that method is what an operator gives. Or it is asked for parameters, which such an object has not.
        """
        full = file.names.full(node)
        if not full or full.startswith("."):
            if is_of_torch_optim(file, object_bindings(file, node)):
                return True
            is_foreign = is_computed(file, node) and not self._may_have(function, _OPERATORS, _WITHOUT_OPERATORS)
            return is_foreign or (_has_parameters(file, node) and not self._may_have(function, _PARAMETERS, _PLAIN))
        modules = filter(None, (full, module_and_name(full)[0]))
        return not any(self.library.module(each, file) or self.library.text_not_given(each, file) for each in modules)

    def _may_have(self, function: FunctionRef, names: frozenset[str], lacking: frozenset[str]) -> bool:
        """Whether objects that have a method may have another of some names, too.

        Their class defines one, or one above or below it does, or inherits from a class out of sight.

        Args:
            lacking: the classes that are known to have none.
        """
        owner = function.owner
        if owner is None:
            return False
        if (owner, names) not in self._having:
            unseen = self.unseen_bases(function.file, owner)
            self._having[owner, names] = any(file.names.full(base) not in lacking for file, base in unseen) or any(
                method.name.value in names
                for _, each in self.with_derived(self.lineage(function.file, owner))
                for method in find(each.body, cst.FunctionDef)
            )
        return self._having[owner, names]

    def _is_class(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether an object is a class, of whose methods the first argument is an object: `Trainer.fit(self, x)`."""
        found = self.definition(file, node)
        return found is not None and isinstance(found[1], cst.ClassDef)

    def _first_methods(self, name: str) -> list[cst.FunctionDef]:
        """The first two methods of a name: whether it is the only one takes no more of the project's files."""
        if name not in self._methods:
            methods = (method for file in self.library.defining(name) for method in file.methods.get(name, ()))
            self._methods[name] = list(islice(methods, 2))
        return self._methods[name]


def _may_be(function: FunctionRef, node: cst.Attribute, around: cst.CSTNode) -> bool:
    """Whether a use of a method's name may be one of it: it is handed on, or called as it can be."""
    if isinstance(around, cst.Call) and around.func is node:
        return fits(function.node, around, bound=function.is_bound)
    return True


def _has_parameters(file: File, node: cst.BaseExpression) -> bool:
    """Whether an object is asked for its parameters in the same class, or function."""
    path, tree = dotted(node), file.tree
    scope = tree.owner_class(node) or tree.function(node)
    asked = (each for each in file.uses.get("parameters", ()) if isinstance(each, cst.Attribute))
    return path is not None and any(
        dotted(each.value) == path and (tree.owner_class(each) or tree.function(each)) is scope for each in asked
    )


def _has_or_calls(owner: cst.ClassDef, name: str) -> bool:
    """Whether a class has a method, or calls it on `self`."""
    calls = (each.func for each in walk(owner.body) if isinstance(each, cst.Call))
    return method_of(owner, name) is not None or any(dotted(each) == f"self.{name}" for each in calls)


def _calls_of_own_class(file: File, owner: cst.ClassDef) -> Iterator[cst.Call]:
    """The calls by which the methods of a class make objects without its name: `cls(...)`, `self.__class__(...)`."""
    tree, uses = file.tree, file.uses
    named = [node for node in uses.get("__class__", ()) if owner in tree.ancestors(node)]
    for method in find(owner.body, cst.FunctionDef):
        params = (*method.params.posonly_params, *method.params.params)
        if params and "classmethod" in {dotted(each.decorator) for each in method.decorators}:
            named += [node for node in uses.get(params[0].name.value, ()) if method in tree.ancestors(node)]
    parents = ((node, tree.parents[node]) for node in named)
    yield from (call for node, call in parents if isinstance(call, cst.Call) and call.func is node)


def _is_inherited_init(call: cst.Call) -> bool:
    """`super().__init__(...)`."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "__init__" or not isinstance(func.value, cst.Call):
        return False
    return isinstance(func.value.func, cst.Name) and func.value.func.value == "super"


def is_of_torch_optim(file: File, bindings: Iterable[Binding]) -> bool:
    """Whether what is bound is an optimizer or a schedule that a class of PyTorch makes, if anything."""
    values = [each.value for each in bindings]
    made = [each for each in values if each is None or not is_constant(each, "None")]
    return bool(made) and all(each is not None and file.names.callee(each).startswith("torch.optim.") for each in made)


def _names_anew(file: File, node: cst.CSTNode) -> bool:
    """Whether a function is only given a second name, of which all uses are known."""
    parent = file.tree.parents[node]
    return parent in file.second_names or file.tree.parents.get(parent) in file.second_names


def is_asked(file: File, node: cst.CSTNode) -> bool:
    """Whether a function or class is only asked something.

    An attribute of its own (`train.steps = 0`), though none through which it is called; whether it is there; what is
    made of it (`isinstance(each, Trainer)`, an annotation).
    """
    parent = file.tree.parents[node]
    if isinstance(parent, cst.Attribute):
        return parent.value is node and parent.attr.value != "__call__"
    call = file.tree.parents[parent]
    if isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and isinstance(call.func, cst.Name):
        return call.func.value in ("isinstance", "issubclass", "super")
    if any(isinstance(each, cst.Annotation) for each in file.tree.ancestors(node)):
        return True
    while isinstance(parent, cst.BooleanOperation):  # one of its values, which may be the function
        node, parent = parent, file.tree.parents[parent]
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Not)
    return isinstance(parent, (cst.If, cst.While, cst.IfExp, cst.Assert)) and parent.test is node
