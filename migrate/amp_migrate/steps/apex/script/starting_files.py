"""The files without Apex that have a script's own initialize it: `trainer = Trainer(model, args)`.

What such a file calls behind that ran in mixed precision as well, since Apex patched the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize


def starting_files(project: Project, files: Collection[File], initializes: Iterable[Initialize]) -> tuple[File, ...]:
    """The other files that call what initializes Apex in a script's, however deep, by their names."""
    found: set[File] = set()
    seen = set()
    todo = [*_around(project, [CallSite(each.file, each.call) for each in initializes])]
    while todo:
        function = todo.pop()
        if function.node not in seen:
            seen.add(function.node)
            sites = project.call_sites(function) or ()
            found.update(site.file for site in sites if site.file not in files)
            todo += _around(project, sites)
    return tuple(sorted(found, key=lambda each: each.name))


def _around(project: Project, sites: Iterable[CallSite]) -> Iterator[FunctionRef]:
    """The functions that some calls stand in."""
    for site in sites:
        node = site.file.tree.function(site.call)
        if node is not None:
            yield project.reference(site.file, node)
