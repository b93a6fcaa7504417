"""Where the files of a project call what leads into installed packages, whose own places nobody changes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.events import Event
from amp_migrate.flow.source import Code, Site, site_of
from amp_migrate.flow.task import Task


class CallsOfPackages:
    """Answers by which calls a program that has been interpreted comes to what happens in packages."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def leading_to(self, event: Event) -> dict[Site, ast.AST]:
        """The calls in files of the project that lead to something without another of these between, in order."""
        found: dict[Site, ast.AST] = {}
        todo = [each for each in event.seen_by if isinstance(each, Task)]
        met = {*todo}
        while todo:
            task = todo.pop()
            for caller in (each for each in task.callers if each not in met):
                if self._analysis.files.is_installed(caller.code.file):
                    met.add(caller)
                    todo.append(caller)
                else:
                    found |= self._calls[caller.code, task.code]
        return dict(sorted(found.items(), key=lambda each: each[0]))

    @cached_property
    def _calls(self) -> defaultdict[tuple[Code, Code], dict[Site, ast.AST]]:
        """By which calls a function of the project runs one of a package."""
        found: defaultdict[tuple[Code, Code], dict[Site, ast.AST]] = defaultdict(dict)
        for node, code in self._own_nodes:
            for callee in self._analysis.callees.get(node, ()):
                if self._analysis.files.is_installed(callee.file):
                    found[code, callee][site_of(code.file, node)] = node
        return found

    @property
    def _own_nodes(self) -> Iterator[tuple[ast.AST, Code]]:
        for module in self._analysis.modules.values():
            if module is not None and not self._analysis.files.is_installed(module.file):
                yield from module.nodes()
