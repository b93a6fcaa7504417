"""Modules that `nn.DataParallel` runs, one replica to a GPU, in threads of their own.

It carries into those threads whether autocast is on, and not its dtype, so that each replica computes in the default:
float16 on a GPU.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import Project
from amp_migrate.tables.torch_names import DATA_PARALLEL, HANDS_BACK, MODULE_WRAPPERS
from amp_migrate.trees.nodes import walk_own
from amp_migrate.trees.own_calls import named_arguments

_PARAMETERS = ("module", "device_ids", "output_device", "dim")


class Replicas:
    """Finds where a module gets its replicas, through names, wrappers, arguments and functions that return it."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._found: dict[cst.CSTNode, tuple[File, cst.Call] | None] = {}

    def of(self, file: File, module: cst.BaseExpression, depth: int = 0) -> tuple[File, cst.Call] | None:
        """The call of `nn.DataParallel` that a module comes out of, and its file; None where none is seen."""
        if depth > MAX_HOPS or not self._exist:
            return None
        if module not in self._found:
            self._found[module] = None  # what comes back to itself is decided by its other values
            self._found[module] = self._look(file, module, depth)
        return self._found[module]

    @cached_property
    def _exist(self) -> bool:
        return any(True for _ in self._project.library.mentioning("DataParallel"))

    def _look(self, file: File, node: cst.BaseExpression, depth: int) -> tuple[File, cst.Call] | None:
        if isinstance(node, cst.Call):
            return self._of_call(file, node, depth)
        if isinstance(node, cst.IfExp):
            return self.of(file, node.body, depth + 1) or self.of(file, node.orelse, depth + 1)
        for binding in object_bindings(file, node):
            value = binding.value if binding.value is not None else binding.source
            given = [(file, value)] if value is not None else []
            if isinstance(binding.node, cst.Param):
                given = list(passed_values(self._project, file, binding.node))
            for where, each in given:
                found = self.of(where, each, depth + 1)
                if found is not None:
                    return found
        return None

    def _of_call(self, file: File, call: cst.Call, depth: int) -> tuple[File, cst.Call] | None:
        full = file.names.callee(call)
        made = self._project.definition(file, call.func)
        is_replicated = full in DATA_PARALLEL or (
            made is not None
            and isinstance(made[1], cst.ClassDef)
            and any(made[0].names.full(base.value) in DATA_PARALLEL for base in made[1].bases)
        )
        if is_replicated:
            return None if _has_one_device(call) else (file, call)
        if full in MODULE_WRAPPERS and call.args:
            return self.of(file, call.args[0].value, depth + 1)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in HANDS_BACK:
            return self.of(file, call.func.value, depth + 1)
        function = self._project.called(file, call)
        if function is None:
            return None
        for statement in walk_own(function.node.body):
            if isinstance(statement, cst.Return) and statement.value is not None:
                found = self.of(function.file, statement.value, depth + 1)
                if found is not None:
                    return found
        return None


def _has_one_device(call: cst.Call) -> bool:
    """Whether the text says that there is one GPU only: the module is then called as it is, in the same thread."""
    devices = (named_arguments(call, _PARAMETERS) or {}).get("device_ids")
    return isinstance(devices, (cst.List, cst.Tuple)) and len(devices.elements) == 1
