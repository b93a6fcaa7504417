"""What it takes to bring a scaler to the places that need it: creations, parameters, arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.frozen import frozen
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.trees.nodes import Statement
from amp_migrate.trees.tree import Tree

# What a scaler may be called.
SCALER_NAMES = ("scaler", "grad_scaler", "amp_scaler")


_OPTIMIZER = re.compile(r"optimi[sz]er|optim|opt", re.IGNORECASE)


def own_names(path: str) -> tuple[str, ...]:
    """What the scaler of one optimizer may be called, by how that is written: `judge_scaler` for `judge_optimizer`."""
    path = path.removeprefix("self.").replace(".", "_")
    name = _OPTIMIZER.sub("scaler", path, count=1) if _OPTIMIZER.search(path) else f"{path}_scaler"
    return (name, *(f"{beside}_{name}" for beside in ("grad", "amp")))


@frozen
class Creation:
    """A scaler is made after the statement that makes the optimizer (or in place of it, for Apex's `initialize`).

    An object may keep the one that it is given with its optimizer, instead.

    Attributes:
        before: whether it is made before the statement, because that passes the optimizer on at once.
        arguments: what it is made with, beside its device.
        enabled: the condition under which it scales, if there is one.
        given: the parameter that an object keeps; None where a scaler is made.
        declared: where a function makes it that says its optimizer is global, the statement by which it does.
    """

    file: File
    home: Statement
    target: str
    arguments: tuple[str, ...] = ()
    enabled: str | None = None
    before: bool = False
    given: str | None = None
    declared: cst.Global | None = None


@frozen
class NewParameter:
    """A function takes the scaler, directly after one of its parameters.

    Attributes:
        is_annotated: whether it says that it is one, where that parameter says nothing of itself: nobody passes it yet.
    """

    function: FunctionRef
    after: str
    name: str
    is_annotated: bool = False


@frozen
class NewArgument:
    """A call passes the scaler, directly after one of its arguments, or as its only one."""

    site: CallSite
    after: int
    name: str
    by_keyword: bool
    value: str


@frozen
class Route:
    """How the code at one place writes the scaler, and what it takes to get it there."""

    scaler: str
    creations: tuple[Creation, ...] = ()
    parameters: tuple[NewParameter, ...] = ()
    arguments: tuple[NewArgument, ...] = ()


@frozen
class ScaledStep:
    """A step, or a part of one, with the way of its scaler; None where it goes without one."""

    step: TrainingStep
    route: Route | None


@dataclass(eq=False)
class Ways:
    """All that has been decided so far; routes that share a part of the way share it here too."""

    creations: dict[cst.CSTNode, Creation] = field(default_factory=dict)
    parameters: dict[cst.CSTNode, NewParameter] = field(default_factory=dict)
    arguments: dict[cst.Call, NewArgument] = field(default_factory=dict)

    @classmethod
    def of(cls, routes: Iterable[Route]) -> Ways:
        """The ways that some routes take together."""
        ways = cls()
        for route in routes:
            ways.add(route)
        return ways

    def add(self, route: Route) -> None:
        for creation in route.creations:
            known = self.creations.get(_home_key(creation))
            order = creation.file.tree.order
            if known is None or order[creation.home] < order[known.home]:  # made before any step that uses it
                arguments = creation.arguments or (known.arguments if known is not None else ())
                self.creations[_home_key(creation)] = replace(creation, arguments=arguments)
            elif creation.arguments:
                self.creations[_home_key(creation)] = replace(known, arguments=creation.arguments)
        for new in route.parameters:
            self.parameters.setdefault(new.function.node, new)
        for argument in route.arguments:
            self.arguments.setdefault(argument.site.call, argument)
        for node, given in self.parameters.items():
            made = self.creations.get(node)
            if made is not None and made.target == given.name and not self._may_be_spared(given):
                del self.creations[node]  # what a function is given serves what it makes for itself, too

    def _may_be_spared(self, given: NewParameter) -> bool:
        """Whether some call passes no scaler."""
        return any(each.name == given.name and each.value == "None" for each in self.arguments.values())

    @property
    def trees(self) -> frozenset[Tree]:
        """The files that they go through."""
        files = (
            *(each.file for each in self.creations.values()),
            *(each.function.file for each in self.parameters.values()),
            *(each.site.file for each in self.arguments.values()),
        )
        return frozenset(file.tree for file in files)

    def crosses(self, other: Ways) -> bool:
        """Whether both make a scaler in one place, or go through one function."""
        own, others = ({*each.creations, *each.parameters, *each.arguments} for each in (self, other))
        return not own.isdisjoint(others)

    def enable(self, conditions: Mapping[cst.CSTNode, str]) -> None:
        """Give scalers conditions, by the statements that they are made behind."""
        for key, creation in self.creations.items():
            self.creations[key] = replace(creation, enabled=conditions.get(creation.home))


def _home_key(creation: Creation) -> cst.CSTNode:
    """Scalers are told apart by the class, function or module that they live in; global ones by who makes them."""
    tree = creation.file.tree
    if creation.target.startswith("self."):
        owner = tree.owner_class(creation.home)
        assert owner is not None
        return owner
    return creation.declared or tree.function(creation.home) or tree.module
