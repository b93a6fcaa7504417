"""`apex.amp` as an argument: `train(model, optimizer, amp)`, or `amp if args.fp16 else None`.

A parameter stands for what all callers pass. Natively there is nothing to pass: the scaler travels by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.tables.apex_names import AMP, SHIM
from amp_migrate.trees.nodes import is_constant

_PACKAGES = (AMP, f"{SHIM}.amp")


def read_handed(project: Project, files: Sequence[File]) -> None:
    """Let each file know which of its parameters stand for `apex.amp`, or for what answers for it."""
    waiting = list(files)
    while waiting:
        file = waiting.pop(0)
        for call, arg, full in _passing(file):
            function = project.called(file, call)
            taken = None if function is None else function.receiving(call, arg)
            if function is None or taken is None or taken in function.file.names.given:
                continue
            if _always_given(project, function, taken.name.value):
                function.file.read_given(taken, full)
                waiting.append(function.file)


def handed_arguments(project: Project, file: File) -> Iterator[tuple[File, cst.Arg]]:
    """The arguments by which a file passes `apex.amp` to such a parameter, each with the file of that."""
    for call, arg, _ in _passing(file):
        function = project.called(file, call)
        if function is not None and function.receiving(call, arg) in function.file.names.given:
            yield function.file, arg


def _passing(file: File) -> Iterator[tuple[cst.Call, cst.Arg, str]]:
    """The arguments of a file that are `apex.amp`, or None where the script is told to do without."""
    for node in file.uses.get("amp", ()):
        arg = file.tree.parents[node]
        if isinstance(arg, cst.IfExp):
            arg = file.tree.parents[arg]
        call = file.tree.parents[arg]
        if isinstance(arg, cst.Arg) and not arg.star and isinstance(call, cst.Call):
            full = _handed(file, arg.value)
            if full is not None:
                yield call, arg, full


def _handed(file: File, value: cst.BaseExpression) -> str | None:
    """What a value is that is `apex.amp` or None; None for any other."""
    if isinstance(value, cst.IfExp):
        arms = (value.body, value.orelse)
        value = next((each for each in arms if not is_constant(each, "None")), value)
        if not any(is_constant(each, "None") for each in arms):
            return None
    return next((each for each in _PACKAGES if each in file.names.meanings(value)), None)


def _always_given(project: Project, function: FunctionRef, name: str) -> bool:
    """Whether every call of a function is seen, and passes `apex.amp` for a parameter."""
    sites = project.call_sites(function)
    if not sites or any(True for _ in project.possible_calls(function)):
        return False
    return all(_gives(function, site, name) for site in sites)


def _gives(function: FunctionRef, site: CallSite, name: str) -> bool:
    value = function.given(site.call, name)
    return value is not None and _handed(site.file, value) is not None
