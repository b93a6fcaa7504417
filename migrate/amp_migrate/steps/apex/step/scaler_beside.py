"""Finds the scaler at a place of an Apex script that names no optimizer, as `amp.state_dict()` does not."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import Binding
from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.steps.model.route import Route
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.trees.nodes import method_of

_METHODS = ("load_state_dict", "state_dict", "step", "zero_grad")


def scaler_at(traveller: Traveller, file: File, place: cst.CSTNode, *, for_nobody: bool = True) -> str | None:
    """The scaler as code: one of the scopes around, or of a parameter; None where there is no way to one.

    Args:
        for_nobody: whether a function that nothing here calls may be given a parameter for it, or one that gives the
            optimizer to who makes the scaler.
    """
    for node in file.tree.ancestors(place):
        known = traveller.ways.creations.get(node)
        if known is not None:
            return known.target
        inherited = traveller.scaler_of(file, node) if isinstance(node, cst.ClassDef) else None
        if inherited is not None:
            return inherited
        parameter = traveller.ways.parameters.get(node)
        if parameter is not None:
            return parameter.name
    function = file.tree.function(place)
    if function is None:
        return None
    for name in file.scopes.inside(function).bindings:
        uses = [u for u in file.uses.get(name, ()) if file.tree.function(u) is function]
        if uses and is_optimizer(file, uses[0]):
            route = traveller.reach(file, [uses[0]], create=False)
            if isinstance(route, Route):
                traveller.ways.add(route)
                return route.scaler
    for call in file.calls:  # `solver.optimizer.step()`; or what only saves and restores `self.optimizer`
        func = call.func if file.tree.function(call) is function else None
        if isinstance(func, cst.Attribute) and func.attr.value in _METHODS and is_optimizer(file, func.value):
            route = traveller.reach(file, [func.value], create=False)
            if not isinstance(route, Route):
                route = traveller.kept_beside(file, func.value)
            if isinstance(route, Route):
                traveller.ways.add(route)
                return route.scaler
    given = (traveller.for_maker(file, place) or traveller.for_nobody(file, place)) if for_nobody else None
    if given is None:
        return None
    traveller.ways.add(given)
    return given.scaler


def scaler_of_object(traveller: Traveller, file: File, place: cst.CSTNode) -> str | None:
    """The only scaler there is, as one of an object that has it once it is made, before a place: `trainer.scaler`."""
    scalers = [*traveller.ways.creations.values()]
    owner = scalers[0].file.tree.owner_class(scalers[0].home) if len(scalers) == 1 else None
    if owner is None or scalers[0].file.tree.function(scalers[0].home) is not method_of(owner, "__init__"):
        return None

    def makes(binding: Binding) -> bool:
        made = binding.value.func if isinstance(binding.value, cst.Call) else None
        found = None if made is None else traveller.project.definition(file, made)
        return found is not None and found[1] is owner

    tree, around = file.tree, {*file.tree.ancestors(place)}
    for name, bindings in file.scopes.of(place).bindings.items():
        first = bindings[0].node
        is_before = tree.order[first] < tree.order[place] and tree.block(tree.statement(first)) in around
        if is_before and all(map(makes, bindings)):
            return f"{name}.{scalers[0].target.removeprefix('self.')}"
    return None
