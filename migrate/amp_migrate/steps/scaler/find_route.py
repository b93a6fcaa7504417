"""Where the scaler lives and how it gets to a step: the way the optimizer goes.

The scaler is created where the optimizer is, and follows it: as a variable of the same scope, as an attribute of the
same object, or as an argument beside it through every call on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import parameter, passed
from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.arguments.spread import spread
from amp_migrate.analysis.bindings import Binding, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.scopes import Scope
from amp_migrate.analysis.objects import Class
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.route import SCALER_NAMES, Creation, NewArgument, NewParameter, Route, Ways
from amp_migrate.steps.read.value_calls import CalledTogether, ValueCalls, is_of_list
from amp_migrate.steps.scaler.as_last_argument import hand_on
from amp_migrate.steps.scaler.callers import (
    changed_by,
    every_call,
    hands_all_on,
    is_offered,
    is_uncalled,
    is_unused,
    with_overriding,
)
from amp_migrate.steps.scaler.lives_for_a_batch import adapts_a_copy, lives_for_a_batch
from amp_migrate.steps.scaler.optimizer_origin import (
    container,
    displayed,
    is_anew,
    is_display,
    is_made_anew,
    is_parameter,
    is_same_object,
    makes,
    other_names,
)
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees.nodes import (
    LOOP_TYPES,
    Statement,
    arms,
    block_of,
    find,
    is_constant,
    method_of,
    start_of,
    statements,
)


@frozen
class Lent:
    """What a call passes for a scaler whose optimizers none of the scalers here steps, as code.

    Attributes:
        may_be_none: whether that may be None when it is called.
    """

    code: str
    may_be_none: bool = False


# What is lent to a call; None where some scaler here may step its optimizers.
Spare: TypeAlias = "Callable[[CallSite, list[cst.BaseExpression]], Lent | None]"
_OF_ANOTHER = "another optimizer has a scaler of its own here"


class Traveller:
    """Finds the ways of scalers through a project.

    Args:
        homes: statements that a scaler is to be created at instead of where the optimizer is made, by the scope they
            stand in (Apex's `initialize`).
        values: knows who calls functions that are handed on as values.
        gives: whether an object that is given its optimizer is given the scaler with it, and does not make one.
        spare: says what calls pass that share a function with those which have scalers, and have none of these.
        names: what a scaler may be called.
        is_own: whether a scaler serves one optimizer alone, and not whatever is beside that.
    """

    def __init__(
        self,
        project: Project,
        homes: dict[cst.CSTNode, Statement],
        values: ValueCalls | None = None,
        *,
        gives: bool = False,
        spare: Spare | None = None,
        names: Sequence[str] = SCALER_NAMES,
        is_own: bool = False,
    ) -> None:
        self.project = project
        self.homes = homes
        self._values = values
        self._gives = gives
        self._spare = spare
        self.names = names
        self._served: dict[cst.CSTNode, list[str]] | None = {} if is_own else None  # by where it lives, or is given
        self._spared: set[cst.CSTNode] = set()  # functions and classes that may be given None beside an optimizer
        self._lent: dict[cst.Call, Lent] = {}
        self._left_out: dict[cst.CSTNode, str] = {}  # functions that may be given no optimizer, by its parameter
        self._given: set[cst.ClassDef] = set()
        self._taking: dict[cst.CSTNode, str] = {}  # functions that are being given a scaler, by that name
        self._uncalled: set[cst.CSTNode] = set()  # which pass a scaler on that nobody gives them
        self.dead: dict[cst.CSTNode, FunctionRef] = {}  # which nobody calls, and which take a scaler for whoever does
        self.ways = Ways()

    def reach(self, file: File, optimizers: list[cst.BaseExpression], *, create: bool = True) -> Route | Refusal:
        """The way of the scaler to the place where `optimizers` are used together.

        Args:
            create: whether a scaler may be made; otherwise one that is already on its way must be met.
        """
        route = self._reach(file, optimizers, create, ())
        if isinstance(route, Refusal):
            longer = None if self._served is not None else self._before_loop(file, optimizers[0], create)
            return longer or route
        made = route.creations[0] if len(route.creations) == 1 and not route.parameters else None
        if made is None or made.home in self.homes.values() or not lives_for_a_batch(self.project, made, optimizers[0]):
            return route
        each_time = "for every batch" if any(made.file.tree.loops(made.home)) else "in every call"
        why = f"`{file.tree.quote(optimizers[0])}` is made anew {each_time}, and its scaler would be"
        if self._served is not None:
            return lost(file, optimizers[0], why)
        # That a method is called but once here does not make its copy the one that goes on.
        longer = self._of_its_object(file, optimizers[0]) if adapts_a_copy(self.project, made) else None
        longer = longer or self._before_loop(file, optimizers[0], create) or self._of_its_object(file, optimizers[0])
        return longer or self._from_before_loops(file, optimizers[0]) or lost(file, optimizers[0], why)

    def _from_before_loops(self, file: File, at: cst.CSTNode) -> Route | None:
        """A scaler that is made before the loops that call a function, and handed to it."""
        node = file.tree.function(at)
        function = None if node is None else self.project.reference(file, node)
        sites = () if function is None else every_call(self.project, function, ())
        if function is None or isinstance(sites, str):
            return None
        made = [(site, self._before_loop(site.file, site.call.func, True)) for site in sites]
        handed = [(site, route) for site, route in made if route is not None]
        route = hand_on(function, {function: handed}) if len(handed) == len(made) else None
        if not isinstance(route, Route):
            return None
        return replace(route, creations=tuple(each for _, way in handed for each in way.creations))

    def _of_its_object(self, file: File, at: cst.CSTNode) -> Route | None:
        """A scaler that an object has from the start, for an optimizer that a method of it makes at times."""
        function = file.tree.function(at)
        owner = None if function is None else self.project.reference(file, function).owner
        init = None if owner is None else method_of(owner, "__init__")
        name = None if owner is None or init is None else self._free_attribute(file, owner, file)
        if function is None or init is None or name is None or not _has_object(function):
            return None
        return Route(name, (Creation(file, statements(block_of(init))[-1], name),))

    def _before_loop(self, file: File, at: cst.BaseExpression, create: bool) -> Route | None:
        """A scaler that is made before the outermost loop round a step, where that loop is run but once."""
        function = file.tree.function(at)
        known = self.ways.creations.get(function or file.tree.module)
        if not create:
            return Route(known.target) if known is not None and isinstance(known.home, LOOP_TYPES) else None
        loops = [each for each in _repeating(file, at) if isinstance(each, LOOP_TYPES)]
        if not loops or (function is not None and not self._runs_once(file, function, ())):
            return None
        name = known.target if known is not None else file.scopes.free(self.names)
        return None if name is None else Route(name, (Creation(file, loops[-1], name, before=True),))

    def _runs_once(self, file: File, node: cst.FunctionDef, seen: tuple[cst.CSTNode, ...]) -> bool:
        """Whether every call of a function is known, and none is in a loop."""
        function = self.project.reference(file, node)
        sites = every_call(self.project, function, seen)
        if isinstance(sites, str) or any(True for _ in self.project.possible_calls(function)):
            return False
        callers = [(site.file, site.file.tree.function(site.call)) for site in sites]
        return not any(_repeating(site.file, site.call) for site in sites) and all(
            caller is None or self._runs_once(where, caller, (*seen, node)) for where, caller in callers
        )

    def _reach(
        self, file: File, optimizers: list[cst.BaseExpression], create: bool, seen: tuple[cst.CSTNode, ...]
    ) -> Route | Refusal:
        optimizers = [inner for each in optimizers for inner in displayed(each)]
        at = optimizers[0]
        paths = [dotted(container(each)) for each in optimizers]
        if any(path is None for path in paths):
            return lost(file, at, f"`{file.tree.quote(at)}` is not a plain name or an attribute")
        names = [path for path in paths if path is not None]
        own = [name for name in names if name.startswith("self.")]
        if own:  # an object's scaler serves the optimizers that one of its methods makes for itself, too
            return self._from_self(file, at, own, create)
        held = self._held(file, optimizers)
        if held is not None:
            return self._of_object(*held, create)
        found = [file.scopes.of(at).find(name) for name in names]
        scope = found[0]
        if scope is None or any(each is not scope for each in found):
            return lost(file, at, "the optimizers of this step come from different places")
        bindings = [scope.bindings.get(name) or _of_its_object(scope, name) for name in names]
        others = [other_names(name, each) for name, each in zip(names, bindings, strict=True)]
        if any(others):
            return self._from_other_names(file, at, optimizers, others, create, seen)
        initialized = scope.node in self.homes
        if isinstance(scope.node, cst.FunctionDef) and any(map(is_parameter, bindings)) and not initialized:
            made = next((name for name, each in zip(names, bindings, strict=True) if not is_parameter(each)), None)
            if made is not None:
                given = next(name for name, each in zip(names, bindings, strict=True) if is_parameter(each))
                return lost(file, at, f"`{given}` comes from a caller, and `{made}` is made here")
            replaced = not all(is_same_object(name, each) for name, each in zip(names, bindings, strict=True))
            another = lost(file, at, f"`{file.tree.quote(at)}` is a parameter that may be given another value")
            if replaced and not all(map(is_made_anew, bindings)):
                return another
            route = self._from_caller(file, scope.node, names, create, seen)
            # Beside an optimizer that no caller gives, there is no scaler either, for the one that is made for it.
            lacks = replaced and isinstance(route, Route) and any(each.value == "None" for each in route.arguments)
            lacks |= replaced and (scope.node in self._left_out or scope.node in self._spared)
            return another if lacks else route
        if not self._is_served(scope.node, names, create):
            return lost(file, at, _OF_ANOTHER)
        route = self._from_scope(file, at, scope, bindings, create)
        if not seen and isinstance(route, Route) and any(is_anew(each, at) for each in route.creations):
            return lost(file, at, f"`{file.tree.quote(at)}` is made or fetched anew for every step")
        return route

    def _held(
        self, file: File, optimizers: list[cst.BaseExpression]
    ) -> tuple[File, cst.BaseExpression, str, Class, list[str]] | None:
        """The object that makes some optimizers for itself, `solver` of `solver.optimizer`: name, class, attributes."""
        held = [each for each in map(container, optimizers) if isinstance(each, cst.Attribute)]
        names = {dotted(each.value) or "" for each in held}
        made = self._class_of(file, held[0].value, ()) if len(held) == len(optimizers) and len(names) == 1 else None
        attributes = [f"self.{each.attr.value}" for each in held]
        found = None if made is None else self._assigning_class(*made, attributes)
        return None if found is None else (file, optimizers[0], names.pop(), found, attributes)

    def holder_of(self, file: File, optimizer: cst.BaseExpression) -> tuple[str, Class] | None:
        """The object that makes what somebody else has of it, `solver` of `solver.optimizer`, with its class."""
        held = self._held(file, displayed(optimizer))
        return None if held is None else (held[2], held[3])

    def _class_of(self, file: File, holder: cst.BaseExpression, seen: tuple[cst.CSTNode, ...]) -> Class | None:
        """The class of a variable that is made by calling it, or is given such a one by all callers."""
        path = dotted(holder)
        bindings = [] if path is None or path == "self" else file.scopes.of(holder).lookup(path)
        only = bindings[0] if len(bindings) == 1 else None
        if only is None:
            return None
        if isinstance(only.value, cst.Call):
            return self._made_by(file, only.value)
        node = only.node if is_parameter(bindings) else None
        function = None if node is None else file.tree.function(node)
        if not isinstance(node, cst.Param) or function is None or node in seen:
            return None
        if isinstance(every_call(self.project, self.project.reference(file, function), ()), str):
            return None
        classes = {
            self._made_by(where, value) if isinstance(value, cst.Call) else self._class_of(where, value, (*seen, node))
            for where, value in passed_values(self.project, file, node)
        }
        return classes.pop() if len(classes) == 1 else None

    def _made_by(self, file: File, call: cst.Call) -> Class | None:
        found = self.project.definition(file, call.func)
        return (found[0], found[1]) if found is not None and isinstance(found[1], cst.ClassDef) else None

    def _of_object(
        self, file: File, at: cst.BaseExpression, holder: str, made: Class, names: list[str], create: bool
    ) -> Route | Refusal:
        """The way to the scaler of an object that makes its optimizers, where others step them."""
        route = self._from_class(file, at, made, names, create)
        if isinstance(route, Refusal):
            return route
        return replace(route, scaler=f"{holder}.{route.scaler.removeprefix('self.')}")

    def _from_self(self, file: File, at: cst.CSTNode, names: list[str], create: bool) -> Route | Refusal:
        inner = file.tree.owner_class(at)
        keepers = [_keeper(name) for name in names]
        behind = [] if inner is None else [self._behind_property(file, inner, name) for name in names]
        for kept in (names, keepers, behind):
            found = None if inner is None else self._assigning_class(file, inner, kept)
            if found is not None:
                return self._from_class(file, at, found, kept, create)
        return lost(file, at, f"`{keepers[0]}` is not assigned in this class")

    def _from_class(self, file: File, at: cst.CSTNode, made: Class, names: list[str], create: bool) -> Route | Refusal:
        where, owner = made
        if not self._is_served(owner, names, create):
            return lost(file, at, _OF_ANOTHER)
        known = self.ways.creations.get(owner)
        if known is not None and not create:
            return Route(known.target)
        if not create:
            return lost(file, at, "no scaler belongs to this optimizer")
        free = self._free_attribute(where, owner, file)
        if free is None:
            return lost(file, at, f"the names {', '.join(self.names)} are all taken")
        prepared = [self.homes[each] for each in find(owner.body, cst.FunctionDef) if each in self.homes]
        if prepared:  # another method may prepare one that it keeps for itself
            own = (each for each in prepared if not reads([each]).isdisjoint(names))
            return Route(free, (Creation(where, next(own, prepared[0]), free),))
        if self._gives:
            return self._given_with(where, owner, names, free)
        nodes = [node for name in names for node in where.class_attribute(owner, name)]
        if method_of(owner, "__init__") is None and len(_makers(where, owner)) > 1:
            why = f"{owner.name.value} makes its optimizers in several methods, none of which runs first"
            return lost(file, at, why)
        method = where.tree.function(nodes[0])
        homes = [node for node in nodes if where.tree.function(node) is method]
        return Route(free, (Creation(where, self._home(where, [homes]), free),))

    def kept_beside(self, file: File, optimizer: cst.BaseExpression) -> Route | Refusal:
        """The way of a scaler to an object that keeps an optimizer which it is given, and does not step it."""
        name, inner = dotted(container(optimizer)), file.tree.owner_class(optimizer)
        found = None if inner is None or name is None else self._assigning_class(file, inner, [name])
        free = None if found is None else self._free_attribute(*found, file)
        if found is None or name is None or free is None:
            return lost(file, optimizer, f"`{file.tree.quote(optimizer)}` is not given to its object")
        return self._given_with(*found, [name], free, create=False)

    def _given_with(
        self, file: File, owner: cst.ClassDef, names: list[str], free: str, *, create: bool = True
    ) -> Route | Refusal:
        """The way of a scaler that an object is given with its optimizers: `self.optimizer = optimizer`."""
        init = method_of(owner, "__init__")
        given = {} if init is None else {name: file.scopes.inside(init).bindings.get(name, []) for name in names}
        values = [each.value for found in given.values() for each in found]
        if init is None or len(values) < len(names) or not all(isinstance(each, cst.Name) for each in values):
            return lost(file, owner, f"`{names[0]}` is not given to its object")
        if any(len(file.class_attribute(owner, name)) > 1 for name in names):
            return lost(file, owner, f"`{names[0]}` may be given another value")
        if owner in self._given:  # an object that makes another one gives it its own
            return Route(free)
        self._given.add(owner)
        route = self._reach(file, [each for each in values if each is not None], create, ())
        self._given.discard(owner)
        if init in self._spared:
            self._spared.add(owner)
        if isinstance(route, Refusal) or not route.parameters:
            return route if isinstance(route, Refusal) else lost(file, owner, f"`{names[0]}` is made in its object")
        homes = [cst.ensure_type(each.node, cst.Assign) for found in given.values() for each in found]
        kept = Creation(file, self._home(file, [[each] for each in homes]), free, given=route.scaler)
        return replace(route, scaler=free, creations=(*route.creations, kept))

    def _free_attribute(self, where: File, owner: cst.ClassDef, file: File) -> str | None:
        """A name for the scaler of a class' objects, with which no class of theirs keeps something else.

        Args:
            file: where it is used, too.
        """
        family = (*self.project.lineage(where, owner), *self.project.with_derived([(where, owner)]))
        files = {file, *(each for each, _ in family)}
        names = (f"self.{each}" for each in self.names)
        return next((name for name in names if all(each.scopes.free([name]) for each in files)), None)

    def scaler_of(self, file: File, owner: cst.ClassDef) -> str | None:
        """The scaler that objects of a class have, where they have one: their own, or that of a base class."""
        made = (self.ways.creations.get(each) for _, each in self.project.lineage(file, owner))
        return next((each.target for each in made if each is not None), None)

    def may_be_none(self, file: File, at: cst.CSTNode, scaler: str) -> bool:
        """Whether a scaler that has come to a place may be None, for an optimizer that none of the scalers steps."""
        around = () if scaler.startswith("self.") else file.tree.ancestors(at)
        functions = (node for node in around if isinstance(node, cst.FunctionDef))
        return self.is_spared(file, at, scaler) or any(self._is_left_out(file, at, node) for node in functions)

    def is_spared(self, file: File, at: cst.CSTNode, scaler: str) -> bool:
        """Whether a scaler that has come to a place may be None though there is an optimizer."""
        is_kept, around = scaler.startswith("self."), file.tree.ancestors(at)
        if not is_kept:
            return any(isinstance(node, cst.FunctionDef) and node in self._spared for node in around)
        owners = (node for node in around if isinstance(node, cst.ClassDef))
        return any(each in self._spared for owner in owners for _, each in self.project.lineage(file, owner))

    def lends(self, call: cst.Call) -> Lent | None:
        """What a call passes of the scalers here."""
        given = None if call in self._lent else self.ways.arguments.get(call)
        if given is None or given.value == "None":
            return None
        return Lent(given.value, self.may_be_none(given.site.file, call, given.value))

    def is_fed(self, route: Route) -> bool:
        """Whether one of the scalers here comes along a way: what nobody calls has none, nor what is lent one."""
        taking = {new.function.node for new in route.parameters}
        own = [each.site for each in route.arguments if each.value != "None" and each.site.call not in self._lent]
        return not taking or any(site.file.tree.function(site.call) not in taking for site in own)

    def is_lent(self, route: Route) -> bool:
        """Whether a scaler of others comes along a way."""
        return any(each.value != "None" and each.site.call in self._lent for each in route.arguments)

    def _is_left_out(self, file: File, at: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether a function may be given no optimizer, and a place in it does not ask whether there is one."""
        tests = (each.test for each in file.tree.ancestors(at) if isinstance(each, cst.If))
        return function in self._left_out and self._left_out[function] not in reads(tests)

    def _assigning_class(self, file: File, owner: cst.ClassDef, names: list[str]) -> Class | None:
        """The class that gives an object its attributes: its own, or the first of those it derives from."""
        lineage = self.project.lineage(file, owner)
        return next((each for each in lineage if any(each[0].class_attribute(each[1], name) for name in names)), None)

    def _behind_property(self, file: File, owner: cst.ClassDef, name: str) -> str:
        """The attribute that a property gives, `self._optimizer` for `self.optimizer`; the name itself for others."""
        lineage = self.project.lineage(file, owner)
        getter = next(filter(None, (method_of(each, name.removeprefix("self.")) for _, each in lineage)), None)
        if getter is None or [dotted(each.decorator) for each in getter.decorators] != ["property"]:
            return name
        kept = {None if each.value is None else dotted(each.value) for each in find(getter.body, cst.Return)}
        path = kept.pop() if len(kept) == 1 else None
        return path if path is not None and path.startswith("self.") else name

    def _from_other_names(
        self,
        file: File,
        at: cst.BaseExpression,
        optimizers: list[cst.BaseExpression],
        others: list[list[cst.BaseExpression]],
        create: bool,
        seen: tuple[cst.CSTNode, ...],
    ) -> Route | Refusal:
        """The way to what `optimizer = self.optimizer` takes its optimizer from: the scaler is kept there, too."""
        if any(other in seen for each in others for other in each):
            return lost(file, at, f"where `{file.tree.quote(at)}` is made cannot be seen")
        behind = [other for given, each in zip(optimizers, others, strict=True) for other in each or [given]]
        return self._reach(file, behind, create, (*seen, *(other for each in others for other in each)))

    def _from_scope(
        self, file: File, at: cst.CSTNode, scope: Scope, bindings: list[list[Binding]], create: bool
    ) -> Route | Refusal:
        owner = scope.node if isinstance(scope.node, cst.FunctionDef) else None
        made = [[b.node for b in each if makes(b) and file.tree.function(b.node) is owner] for each in bindings]
        declared = None if all(made) or self.homes or owner is not None else _declared(file, bindings)
        key = scope.node if declared is None else declared
        known, given = self.ways.creations.get(key), self.ways.parameters.get(key)
        if not create and known is not None:
            return Route(known.target)
        if not create and given is not None:
            return Route(given.name)
        if not create:
            return lost(file, at, "no scaler belongs to this optimizer")
        if declared is not None:
            made = [[b.node for b in each if makes(b)] for each in bindings]
        # `config["optimizer"]`: the scaler is made with what Apex initializes, whatever that is put into.
        # So it is for what the function is given beside what Apex initializes in it.
        is_prepared = owner in self.homes and (
            all(map(is_display, bindings))
            or (any(made) and all(own or is_parameter(each) for own, each in zip(made, bindings, strict=True)))
        )
        if not (all(made) or is_prepared) or scope.is_class:
            return lost(file, at, f"where `{file.tree.quote(at)}` is made cannot be seen")
        # What is global, and made elsewhere, has another name.
        others = {each.target for each in self.ways.creations.values() if owner is None and _is_global(file, each)}
        name = known.target if known is not None else file.scopes.free(e for e in self.names if e not in others)
        if name is None:
            return lost(file, at, f"the names {', '.join(self.names)} are all taken")
        home = self.homes[owner] if is_prepared and owner is not None else self._home(file, made)
        return Route(name, (Creation(file, home, name, declared=declared),))

    def _from_caller(
        self,
        file: File,
        node: cst.FunctionDef,
        names: list[str],
        create: bool,
        seen: tuple[cst.CSTNode, ...],
    ) -> Route | Refusal:
        known = self.ways.parameters.get(node)
        if not self._is_served(node, names, create or known is None):
            return lost(file, node, _OF_ANOTHER)
        if known is not None or node in self._taking:
            return Route(self._taking[node] if known is None else known.name)
        function = self.project.reference(file, node)
        last = max(names, key=lambda each: list(file.scopes.inside(node).bindings).index(each))
        together = self._called_with(function, seen, last, create)
        if isinstance(together, str):
            return lost(file, node, together)
        name = file.scopes.free(self.names)
        taken = {each: last if each.node is node else _beside(each, function, last, together) for each in together}
        for each, beside in taken.items():
            is_taking = each.node is node or self._is_served(each.node, [beside], create)
            is_free = name is not None and each.file.scopes.free(self.names) == name
            if not is_taking or not is_free or parameter(each.node, beside) is None:
                return lost(each.file, each.node, f"{each.name}() cannot take a scaler beside {beside or last}")
        assert name is not None
        route = Route(name, parameters=tuple(NewParameter(each, beside, name) for each, beside in taken.items()))
        calls = [(each, site) for each, sites in together.items() for site in sites]
        idle = {site.file.tree.function(site.call): self._is_idle(site, each, taken[each]) for each, site in calls}
        if node in self._uncalled or not all(idle.values()):
            self._uncalled.update(each for each, is_idle in idle.items() if each is not None and is_idle)
        is_first = not self._taking
        overriding = (each.node for each in taken if len(taken) > 1 and each.owner is not None)
        # What calls itself has it there already.
        taking: dict[cst.CSTNode, str] = dict.fromkeys((node, *overriding), name)
        for each, site in calls:
            own = names if each.node is node else [taken[each]]
            self._taking.update(taking)
            step = self._through(site, each, own, taken[each], name, create, (*seen, node))
            for other in taking:
                self._taking.pop(other, None)
            if isinstance(step, Refusal):
                return step
            route = Route(
                name,
                route.creations + step.creations,
                route.parameters + step.parameters,
                route.arguments + step.arguments,
            )
        if calls and all(argument.value == "None" for argument in route.arguments) and not route.creations:
            return lost(file, node, f"no call of {function.name}() passes an optimizer")
        if is_first and self._is_closed(route):
            return lost(file, node, f"{function.name}() calls itself, and nothing else here does")
        return route

    def _is_closed(self, route: Route) -> bool:
        """Whether functions are given a scaler by each other alone."""
        taking = {new.function.node for new in route.parameters}
        callers = {each.site.file.tree.function(each.site.call) for each in route.arguments}
        is_closed = bool(callers) and callers <= taking and not route.creations
        return is_closed and taking.isdisjoint((*self.dead, *self._uncalled))

    def _is_served(self, home: cst.CSTNode, names: list[str], create: bool) -> bool:
        """Whether a scaler may serve what some optimizers are, by their names, where it lives or is given."""
        if self._served is None:
            return True
        if create:
            self._served.setdefault(home, names)
        return self._served.get(home) == names

    def _is_idle(self, site: CallSite, function: FunctionRef, optimizer: str) -> bool:
        """Whether a call passes on what its function is given, which nobody calls."""
        name = dotted(function.given(site.call, optimizer, site.filled))
        is_given = name is not None and is_parameter(site.file.scopes.of(site.call).lookup(name))
        return (is_given or hands_all_on(site)) and is_uncalled(self.project, site)

    def _is_dead(self, function: FunctionRef) -> bool:
        """Whether nobody calls a function or may do so from elsewhere: what Apex prepares here gets no way there."""
        return (
            not self.project.call_sites(function)
            and is_unused(self.project, function)
            and not is_offered(self.project, function)
        )

    def for_maker(self, file: File, place: cst.CSTNode) -> Route | None:
        """The scaler of a place in a function that gives the optimizer to who makes the scaler: a parameter of it.

        It is made before each call, then, and not behind.
        """
        node, name = file.tree.function(place), file.scopes.free(self.names)
        required = [] if node is None else [each.name.value for each in node.params.params if each.default is None]
        if node is None or name is None or not required:
            return None
        function = self.project.reference(file, node)
        sites = self.project.call_sites(function) or ()
        is_known = function.owner is None and not any(True for _ in self.project.possible_calls(function))
        if not sites or not is_known or changed_by(self.project, function) is not None:
            return None
        arguments: list[NewArgument] = []
        for site in sites:
            found = passed(node, site.call, required[-1], bound=site.filled)
            made = next(
                (e for e in self.ways.creations.values() if e.home is site.file.tree.statement(site.call)), None
            )
            if found is None or found.argument is None or made is None or made.given is not None or "." in made.target:
                return None
            arguments.append(NewArgument(site, found.index, name, found.by_keyword, made.target))
        return Route(name, parameters=(NewParameter(function, required[-1], name),), arguments=tuple(arguments))

    def for_nobody(self, file: File, place: cst.CSTNode) -> Route | None:
        """The scaler of a place that nothing here runs: a parameter of its function, or of its object, for who does."""
        node, owner = file.tree.function(place), file.tree.owner_class(place)
        init = None if owner is None else method_of(owner, "__init__")
        taking, name = init or node, file.scopes.free(self.names)
        required = [] if taking is None else [each for each in taking.params.params if each.default is None]
        function = None if taking is None or not required else self.project.reference(file, taking)
        if function is None or name is None or not self._is_dead(function):
            return None
        way = Route(name, parameters=(NewParameter(function, required[-1].name.value, name, is_annotated=True),))
        if init is not None and owner is not None:
            free = self._free_attribute(file, owner, file)
            if free is None:
                return None
            home, is_before = start_of(init)
            way = replace(way, scaler=free, creations=(Creation(file, home, free, before=is_before, given=name),))
        self.dead[function.node] = function
        return way

    def _called_with(
        self, function: FunctionRef, seen: tuple[cst.CSTNode, ...], optimizer: str, create: bool
    ) -> CalledTogether | str:
        """A function with all its calls, and the others that these may run; or why they are not known.

        For what only keeps a scaler (not `create`), nothing is handed to all functions of a list: a checkpoint is told.
        """
        if function.node in self._uncalled:
            return {function: self.project.call_sites(function) or ()}
        sites = every_call(self.project, function, seen, optimizer)
        changed = None if isinstance(sites, str) else changed_by(self.project, function)
        if changed is not None:
            return changed
        if self.homes and isinstance(sites, str) and self._is_dead(function):
            self.dead[function.node] = function
            return {function: ()}
        overriding = with_overriding(self.project, function)
        if len(overriding) > 1 and (not isinstance(sites, str) or not self.project.call_sites(function)):
            return overriding
        if not isinstance(sites, str):
            return {function: sites}
        found = None if self._values is None or function.node in seen else self._values.together(function)
        is_listed = found is not None and any(
            is_of_list(each.file, each.call) for own in found.values() for each in own
        )
        return sites if found is None or (is_listed and not create) else found

    def _through(
        self,
        site: CallSite,
        function: FunctionRef,
        names: list[str],
        last: str,
        name: str,
        create: bool,
        seen: tuple[cst.CSTNode, ...],
    ) -> Route | Refusal:
        """The way through one call: what is passed beside the optimizer, and how it got there."""
        given = [
            passed(function.node, site.call, each, bound=function.is_bound + site.filled)
            or spread(site.file, site.call, each, name)
            for each in names
        ]
        beside = given[names.index(last)]
        if beside is None and hands_all_on(site) and site.file.tree.function(site.call) in self._uncalled:
            return Route("None")
        if beside is None or any(each is None for each in given):
            return lost(site.file, site.call, "the optimizer may be among starred arguments")
        if beside.argument is None:  # the optimizer is left to its default, and so is the scaler
            param = parameter(function.node, last)
            if param is not None and not is_constant(param.default, "None"):
                return lost(site.file, site.call, f"the optimizer is what {function.name}() has for a default")
            self._left_out[function.node] = last
            return Route("None")
        values = [each.argument.value for each in given if each is not None and each.argument is not None]
        optimizers = [arm for value in values if not is_constant(value, "None") for arm in arms(value)]
        lent = None if create or not optimizers or self._spare is None else self._spare(site, optimizers)
        route: Route | Refusal
        if not optimizers:
            self._left_out[function.node] = last
            route = Route("None")
        elif lent is not None:
            self._lent[site.call] = lent
            route = Route(lent.code)
        elif len(optimizers) == 1 and _makes_optimizer(site.file, optimizers[0]):
            route = self._beside_call(site, create)
        else:
            route = self._reach(site.file, optimizers, create, seen)
        if isinstance(route, Refusal):
            return route
        is_none = route.scaler == "None" if lent is None else lent.may_be_none
        if optimizers and (is_none or self.may_be_none(site.file, site.call, route.scaler)):
            self._spared.add(function.node)
        argument = NewArgument(site, beside.index, name, beside.by_keyword, route.scaler)
        return Route(route.scaler, route.creations, route.parameters, (*route.arguments, argument))

    def _beside_call(self, site: CallSite, create: bool) -> Route | Refusal:
        """A scaler that is made before a call which makes the optimizer as its argument: `train(model, SGD(...))`."""
        file, statement = site.file, site.file.tree.statement(site.call)
        name = file.scopes.free(self.names)
        if not create or name is None:
            return lost(file, site.call, "the optimizer has no name of its own")
        return Route(name, (Creation(file, statement, name, before=True),))

    def _home(self, file: File, made: list[list[cst.CSTNode]]) -> Statement:
        """The statement after which all optimizers of a step exist.

        Args:
            made: for each optimizer, the statements that assign it: one that may stand in branches, or the first of
                several.
        """
        tree = file.tree
        found: list[Statement] = []
        for nodes in made:
            scope = tree.function(nodes[0]) or tree.module
            if scope in self.homes:
                return self.homes[scope]
            block = tree.common_block(nodes)
            found.append(min((tree.lift(node, block) for node in nodes), key=lambda each: tree.order[each]))
        return max(found, key=lambda each: tree.order[each])


def _beside(other: FunctionRef, function: FunctionRef, name: str, together: CalledTogether) -> str:
    """The parameter of another function that is given what one has by a name, in all calls that may run either."""
    found: set[str] = set()
    runs = {site.call: site for site in together[other]}
    for site in (each for each in together[function] if each.call in runs):
        here = passed(function.node, site.call, name, bound=function.is_bound + site.filled)
        for each in find(other.node.params, cst.Param):
            bound = other.is_bound + runs[site.call].filled
            there = passed(other.node, site.call, each.name.value, bound=bound)
            if here is not None and there is not None and here.argument is there.argument is not None:
                found.add(each.name.value)
    return found.pop() if len(found) == 1 else ""


def _repeating(file: File, node: cst.CSTNode) -> list[cst.CSTNode]:
    """What may run a place more than once in one call of its function, the innermost first."""
    inside = takewhile(lambda each: not isinstance(each, (cst.FunctionDef, cst.ClassDef)), file.tree.ancestors(node))
    return [each for each in inside if isinstance(each, (*LOOP_TYPES, cst.BaseComp, cst.Lambda))]


def _has_object(method: cst.FunctionDef) -> bool:
    """Whether a method names its object `self`."""
    params = (*method.params.posonly_params, *method.params.params)
    return bool(params) and params[0].name.value == "self" and not method.decorators


def _makers(file: File, owner: cst.ClassDef) -> set[cst.FunctionDef | None]:
    """The methods of a class that give its objects their optimizers."""
    methods = find(owner.body, cst.FunctionDef)
    attributes = (each for method in methods for each in find(method, cst.Attribute) if dotted(each.value) == "self")
    paths = {f"self.{each.attr.value}" for each in attributes if is_optimizer(file, each)}
    return {file.tree.function(node) for path in paths for node in _given(file, owner, path)}


def _given(file: File, owner: cst.ClassDef, path: str) -> Iterator[cst.CSTNode]:
    """The statements in the methods of a class that give an attribute another value than None."""
    for binding in file.attribute_bindings(owner, path):
        if not is_constant(binding.value, "None") and not isinstance(binding.node, cst.Del):
            yield binding.node


def _is_global(file: File, creation: Creation) -> bool:
    return creation.file is file and (creation.declared is not None or file.tree.function(creation.home) is None)


def _declared(file: File, bindings: list[list[Binding]]) -> cst.Global | None:
    """Where the one function that gives some variables of a file another value than None says what is global in it."""
    given = (each for own in bindings for each in own if not is_constant(each.value, "None"))
    makers = {file.tree.function(each.node) for each in given}
    function = makers.pop() if len(makers) == 1 else None
    declaring = () if function is None else find(function.body, cst.Global)
    return next((each for each in declaring if file.tree.function(each) is function), None)


def _of_its_object(scope: Scope, path: str) -> list[Binding]:
    """Where an object is made that a method gives its optimizer: a scaler may be as old, `net` for `net.optimizer`."""
    made = scope.bindings.get(path.partition(".")[0], []) if "." in path else []
    return [] if is_parameter(made) or not any(map(makes, made)) else made


def _keeper(path: str) -> str:
    """The attribute of an object by which it has an optimizer: `self.net` for the `self.net.optimizer` of a network.

    A scaler that is as old as that serves the optimizers of several such attributes, which one loss may train.
    """
    return ".".join(path.split(".")[:2])


def _makes_optimizer(file: File, value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and file.names.callee(value).startswith("torch.optim.")


def lost(file: File, node: cst.CSTNode, why: str) -> Refusal:
    return Refusal(
        file,
        node,
        f"no way for a loss scaler to this step: {why}",
        "create a torch.amp.GradScaler beside the optimizer by hand, or run with --dtype bf16, which needs no scaler",
    )
