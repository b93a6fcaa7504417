"""What the callers of a function pass for its parameters, across files."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project


def passed_values(project: Project, file: File, parameter: cst.Param) -> Iterator[tuple[File, cst.BaseExpression]]:
    """What each call that can be seen passes for a parameter, with the file of the call."""
    owner = file.tree.function(parameter)
    if owner is None:  # that of a lambda
        return
    function = project.reference(file, owner)
    for site in project.call_sites(function) or ():
        value = function.given(site.call, parameter.name.value)
        if value is not None:
            yield site.file, value
