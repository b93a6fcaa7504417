"""Where the files of a project call what leads into installed packages, whose own places nobody changes."""

from __future__ import annotations

from amp_migrate.flow.events import Event
from amp_migrate.flow.source import Site
from amp_migrate.flow.task import Task


def calls_of_packages(event: Event) -> list[Site]:
    """The calls in files of the project that lead to something in a package, in order."""
    found: set[Site] = set()
    todo = [each for each in event.seen_by if isinstance(each, Task)]
    met = {*todo}
    while todo:
        task = todo.pop()
        for caller in task.callers:
            found |= task.called_from.get(caller, set())
            if caller not in met and caller not in task.called_from:
                met.add(caller)
                todo.append(caller)
    return sorted(found)
