"""Scalers that a function makes under an option, and hands to one that scales a loss wherever there is one.

    scaler = GradScaler() if args.amp else None
    train_batch(model, x, scaler)
    pose_optimizer.step()

What comes behind such a call is under the scale wherever the scaler is made, unless tests that may ask the same lead
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.flow.domain.atoms import Obj
from amp_migrate.flow.events import Act, Event
from amp_migrate.frozen import frozen
from amp_migrate.hazards.seen.flowing import Flowing
from amp_migrate.trees.nodes import Block, walk

_LEAVING = (cst.Return, cst.Continue, cst.Break, cst.Raise)
_TESTED = (cst.If, cst.IfExp, cst.While)


@frozen
class OptionalScalers:
    """Knows of scalers by what decides about them, in the words of the function that makes them."""

    project: Project
    flowing: Flowing

    def is_come_to(self, file: File, step: cst.CSTNode, scaler: Obj) -> bool:
        """Whether something in the function that makes a scaler is come to whether there is one or not.

        That is seen only where all that goes backward by the scaler stands in functions that this one calls itself, and
        is decided about by what they are given.
        """
        made = self.flowing.interpreted.place(scaler.site)
        function = file.tree.function(step)
        if made is None or made[0] is not file or file.tree.function(made[1]) is not function:
            return False
        both = file.tree.common_block([made[1], step])
        deciding = {*_paths(file, _tests_of(file, made[1], both)), *_targets(file, made[1])}
        for event in self.flowing.questions.events(Act.BACKWARD):
            found = self._deciding(file, function, event) if scaler in event.scaler else frozenset()
            if found is None:
                return False
            deciding |= found
        asked = {*_paths(file, _tests_of(file, step, both)), *_paths(file, _leaving_before(file, step))}
        return not any(_overlap(one, other) for one in asked for other in deciding)

    def _deciding(self, file: File, function: cst.FunctionDef | None, backward: Event) -> frozenset[str] | None:
        """What decides whether a function scales a loss, in the words of the one that calls it; None if unseen."""
        place = self.flowing.interpreted.place(backward.site)
        calls = [*self.flowing.calls_of(backward.code)]
        if (
            place is None
            or not calls
            or any((where, where.tree.function(at)) != (file, function) for where, at in calls)
        ):
            return None
        tests = [*_tests_of(*place), *_leaving_before(*place)]
        found = {*_paths(file, (test for _, at in calls for test in _tests_of(file, at)))}
        for node in (each for test in tests for each in _objects(test)):
            bindings = object_bindings(place[0], node)
            only = bindings[0] if len(bindings) == 1 else None
            if only is None or only.kind is not BindingKind.PARAMETER or not isinstance(only.node, cst.Param):
                return None
            given = [*passed_values(self.project, place[0], only.node)]
            if not all(where is file for where, _ in given):
                return None
            found |= {path for _, value in given for path in _paths(file, [value])}
        return frozenset(found)


def _tests_of(file: File, node: cst.CSTNode, within: Block | None = None) -> Iterator[cst.BaseExpression]:
    """The tests around a place, up to its function, or to a block."""
    for around in file.tree.ancestors(node):
        if around is within or isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(around, _TESTED):
            yield around.test


def _leaving_before(file: File, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests above a place, in its function, on one side of which that may be left."""
    tree, function = file.tree, file.tree.function(node)
    for branch in tree.every(cst.If):
        if (
            tree.function(branch) is function
            and tree.order[branch] < tree.order[node]
            and any(isinstance(each, _LEAVING) for each in walk(branch))
        ):
            yield branch.test


def _targets(file: File, node: cst.CSTNode) -> Iterator[str]:
    """What the statement that makes a scaler gives it to."""
    statement = file.tree.statement(node)
    targets = [each.target for each in statement.targets] if isinstance(statement, cst.Assign) else []
    yield from filter(None, map(dotted, targets))


def _objects(expression: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The names that an expression reads, with their attributes: `args.amp`."""
    path = dotted(expression) if isinstance(expression, (cst.Name, cst.Attribute)) else None
    if path is not None and isinstance(expression, (cst.Name, cst.Attribute)):
        if path not in ("None", "True", "False"):
            yield expression
    else:
        for child in expression.children:
            yield from _objects(child)


def _paths(file: File, expressions: Iterable[cst.BaseExpression], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The objects that some expressions depend on, as far as assignments tell."""
    for node in (each for expression in expressions for each in _objects(expression)):
        path = dotted(node) or ""
        yield path
        if path not in seen:
            values = (each.value for each in object_bindings(file, node) if each.value is not None)
            yield from _paths(file, values, seen | {path})


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
