"""What the statements of a function do to gradients and to scalers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.hazards.seen.scalers import Scalers
from amp_migrate.tables.torch_names import GRADIENT_FUNCTIONS
from amp_migrate.trees.nodes import Block, Statement, find, header, last_word, nested_statements, walk, walk_own
from amp_migrate.trees.own_calls import calls_of


class Act(Enum):
    """What happens."""

    SCALED_BACKWARD = "backward of a scaled loss"
    BACKWARD = "backward of a loss that is not scaled"
    READ = "gradients are clipped, or read where their size matters"
    UNSCALE = "unscale_"
    SCALER_STEP = "the scaler's step"
    STEP = "an optimizer's own step"
    UPDATE = "update"
    HANDED_ON = "the scaler goes where nobody follows it"


@dataclass(frozen=True, eq=False)
class Event:
    """One thing that happens in a statement.

    Attributes:
        node: the call, or the read of a gradient.
        scaler: the scaler that does it; empty where it is not a scaler's doing.
        optimizer: the optimizer as it is written; empty where none is named.
    """

    act: Act
    node: cst.Call | cst.Attribute | cst.Name
    statement: Statement
    scaler: str = ""
    optimizer: str = ""


# Scaler methods that leave gradients and stages alone.
_HARMLESS = frozenset(
    (
        "scale get_scale is_enabled state_dict load_state_dict get_growth_factor get_backoff_factor "
        "get_growth_interval set_growth_factor set_backoff_factor set_growth_interval"
    ).split()
)
_CLIP_NAME = re.compile(r"clip_?grad", re.IGNORECASE)
# Methods of a gradient whose result means something else when the gradient is scaled.
_SIZE_MATTERS = frozenset(
    "abs add_ clamp clamp_ histc item max mean min norm numpy pow square std sub_ sum tolist var".split()
)
_SIZE_MATTERS_TO = frozenset("add_histogram clamp histogram norm print vector_norm".split())
_SAME_SIZE = frozenset("clone cpu data detach flatten float view".split())
_ANY_SIZE = frozenset("isfinite isinf isnan".split())


def events_in(file: File, roles: Roles, scalers: Scalers, body: Block) -> Iterator[Event]:
    """Everything that a function, or a module's own code, does to gradients and scalers, in source order."""
    for statement in nested_statements(body):
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        for part in header(statement):
            for node in walk_own(part):
                yield from _event(file, roles, scalers, statement, node)


def _event(file: File, roles: Roles, scalers: Scalers, statement: Statement, node: cst.CSTNode) -> Iterator[Event]:
    if type(node) is cst.Call:
        yield from _call(file, roles, scalers, statement, node)
    elif type(node) is cst.Attribute and node.attr.value == "grad" and _size_matters(file, node):
        yield Event(Act.READ, node, statement)
    if type(node) in (cst.Name, cst.Attribute):
        node = cast("cst.Name | cst.Attribute", node)
        scaler = scalers.path(node)
        if scaler is not None and _is_handed_on(file, node):
            yield Event(Act.HANDED_ON, node, statement, scaler)


def _call(file: File, roles: Roles, scalers: Scalers, statement: Statement, call: cst.Call) -> Iterator[Event]:
    if isinstance(call.func, cst.Attribute):
        owner, method = call.func.value, call.func.attr.value
        scaler = scalers.path(owner)
        if scaler is not None:
            yield from _scaler_call(file, scaler, method, statement, call)
            return
        if method == "backward" and not file.names.full(call.func):
            yield _backward(file, scalers, statement, call, owner)
            return
        if method == "step" and not call.args and is_optimizer(file, owner):
            yield Event(Act.STEP, call, statement, optimizer=file.tree.code(owner))
            return
    if _may_use(file, scalers, call):
        yield Event(Act.HANDED_ON, call, statement)
    elif file.names.callee(call) in GRADIENT_FUNCTIONS or _CLIP_NAME.search(last_word(call.func)):
        yield Event(Act.READ, call, statement)


def _scaler_call(file: File, scaler: str, method: str, statement: Statement, call: cst.Call) -> Iterator[Event]:
    first = file.tree.code(call.args[0].value) if call.args else ""
    if method == "unscale_":
        yield Event(Act.UNSCALE, call, statement, scaler, first)
    elif method == "step":
        yield Event(Act.SCALER_STEP, call, statement, scaler, first)
    elif method == "update":
        yield Event(Act.UPDATE, call, statement, scaler)
    elif method not in _HARMLESS:
        yield Event(Act.HANDED_ON, call, statement, scaler)


def _backward(
    file: File, scalers: Scalers, statement: Statement, call: cst.Call, receiver: cst.BaseExpression
) -> Event:
    scaled = scaled_by(scalers, receiver)
    if scaled is not None:
        return Event(Act.SCALED_BACKWARD, call, statement, scaled)
    path = dotted(receiver)
    bindings = [] if path is None else file.scopes.of(receiver).lookup(path)
    makers = [None if each.value is None else scaled_by(scalers, each.value) for each in bindings]
    if makers and makers[0] is not None and all(each == makers[0] for each in makers):
        return Event(Act.SCALED_BACKWARD, call, statement, makers[0])
    if any(each is not None for each in makers) or _may_scale(call):
        return Event(Act.HANDED_ON, call, statement)
    return Event(Act.BACKWARD, call, statement)


def scaled_by(scalers: Scalers, loss: cst.BaseExpression) -> str | None:
    """The scaler of `scaler.scale(loss)`, also in a sum or behind an index; None for other expressions."""
    for node in walk(loss):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "scale":
            scaler = scalers.path(node.func.value)
            if scaler is not None:
                return scaler
    return None


def _may_scale(call: cst.Call) -> bool:
    """Whether a `backward` gets the loss as an argument, and so is a wrapper's own: `accelerator.backward(loss)`."""
    return any(arg.keyword is None for arg in call.args)


def _is_handed_on(file: File, node: cst.Name | cst.Attribute) -> bool:
    """Whether a scaler is passed, returned or stored whole, rather than asked for something."""
    parent = file.tree.parents[node]
    if isinstance(parent, cst.Call):  # a wrapper that is called to do the step
        return parent.func is node
    return isinstance(parent, (cst.Arg, cst.Return, cst.Yield, cst.Element, cst.DictElement))


def _may_use(file: File, scalers: Scalers, call: cst.Call) -> bool:
    """Whether a call runs code that has a scaler without being given one: a closure, or a method of its holder."""
    if isinstance(call.func, cst.Name):
        bindings = file.scopes.of(call.func).lookup(call.func.value)
        return any(isinstance(each.node, cst.FunctionDef) and _names_scaler(each.node) for each in bindings)
    holders = [path for path in map(dotted, _receivers(call)) if path is not None]
    if not any(path.startswith(f"{holder}.") for holder in holders for path in scalers.paths):
        return False
    owner = file.tree.owner_class(call)
    if owner is None or not isinstance(call.func, cst.Attribute) or holders != ["self"]:
        return True
    own = [method for method in find(owner.body, cst.FunctionDef) if method.name.value == last_word(call.func)]
    return not own or any(map(_names_scaler, own))


def _receivers(call: cst.Call) -> list[cst.BaseExpression]:
    """The objects that a call gets whole: the one that it is a method of, and its arguments."""
    owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    return [*owner, *(arg.value for arg in call.args)]


def _names_scaler(function: cst.FunctionDef) -> bool:
    return any(isinstance(node, cst.Name) and "scaler" in node.value.lower() for node in walk(function.body))


def _size_matters(file: File, gradient: cst.Attribute) -> bool:
    """Whether something is made of a gradient that depends on how large it is."""
    tree = file.tree
    node: cst.CSTNode = gradient
    while True:
        parent = tree.parents[node]
        if isinstance(parent, cst.Attribute) and parent.value is node:
            word, called = parent.attr.value, isinstance(tree.parents[parent], cst.Call)
            if called and word in _SIZE_MATTERS:
                return not _only_finite(file, parent)
            if word not in _SAME_SIZE:
                return False
            node = tree.parents[parent] if called else parent
        elif isinstance(parent, cst.Arg):
            call = tree.parents[parent]
            return (
                isinstance(call, cst.Call) and last_word(call.func) in _SIZE_MATTERS_TO and not _only_finite(file, call)
            )
        else:
            return False


def _only_finite(file: File, node: cst.CSTNode) -> bool:
    """Whether what is made is only asked whether it is finite, which no scale changes."""
    statement = file.tree.statement(node)
    return any(last_word(call.func) in _ANY_SIZE for call in calls_of(statement))
