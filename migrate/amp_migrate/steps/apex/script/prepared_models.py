"""Which models Apex prepared, of a script that had nothing else in low precision: O2 and O3 cast no functions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.flow.domain.atoms import NEVER, External, Obj, Value
from amp_migrate.flow.events import Act
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.read.interpreted import Interpreted
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.regions.kept_apart import runs_module_kept_apart
from amp_migrate.tables.apex_names import INITIALIZE
from amp_migrate.trees.own_calls import named_arguments


class PreparedModels:
    """Knows what calls run that Apex never prepared.

    Args:
        values: knows which models an expression may be.
    """

    def __init__(self, roles: Roles, initializes: Sequence[Initialize], values: ValueCalls) -> None:
        self._roles, self._initializes, self._values = roles, initializes, values
        self._found: dict[cst.Call, bool] = {}

    @cached_property
    def _given(self) -> list[tuple[File, cst.BaseExpression]] | None:
        """The models that Apex is given, with the files of the calls; None if one call does not show any."""
        named = ((each.file, named_arguments(each.call, INITIALIZE) or {}) for each in self._initializes)
        given = [(file, arguments["models"]) for file, arguments in named if "models" in arguments]
        return given if len(given) == len(self._initializes) else None

    def is_apart(self, file: File, call: cst.Call) -> bool:
        """Whether a call runs a module that has nothing of one which Apex prepared: it computed in float32."""
        if call not in self._found:
            is_apart = runs_module_kept_apart(self._roles, file, call)
            self._found[call] = is_apart or (self._roles.calls_module(file, call) and self._is_other(file, call))
        return self._found[call]

    def _is_other(self, file: File, call: cst.Call) -> bool:
        """Whether all that a call may run the module of is known, and is none that Apex may have been given."""
        if self._given is None or (program := self._values.program(file, call)) is None:
            return False
        ran = _value(program, file, call.func)
        if isinstance(call.func, cst.Attribute) and not all(isinstance(each, Obj) for each in ran):
            ran = _value(program, file, call.func.value)  # `model.generate(x)`
        prepared = [_value(program, file, models) for file, models in self._given]
        if not all(value and all(isinstance(each, Obj) for each in value) for value in (ran, *prepared)):
            return False
        halved = [each.subject for each in program.questions.events(Act.HALVED)]
        objects_in = program.questions.analysis.heap.objects_in
        low = objects_in(NEVER.union(*prepared, *halved))
        return not any(each in low or _is_copied(program, each, low) for each in objects_in(ran))


def _is_copied(program: Interpreted, made: Obj, low: Collection[Obj]) -> bool:
    """Whether an object may have the weights of some others, as a copy has, or what they were saved in."""
    call = program.questions.node_at(made.site)
    if not isinstance(call, ast.Call):
        return True
    values = program.questions.analysis.values
    is_loaded = any(isinstance(each, External) and each.name == "torch.load" for each in values.get(call.func, NEVER))
    given = [values.get(each, NEVER) for each in (*call.args, *(each.value for each in call.keywords))]
    return is_loaded or not program.questions.analysis.heap.objects_in(NEVER.union(*given)).isdisjoint(low)


def _value(program: Interpreted, file: File, node: cst.CSTNode) -> Value:
    """What an expression may be; nothing where the program never comes to it."""
    found = program.counterparts(file).back(node)
    return program.questions.analysis.values.get(found, NEVER) if isinstance(found, ast.expr) else NEVER
