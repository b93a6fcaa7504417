"""Which files a file needs, and which files therefore stand or fall together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace

_COMMENT = re.compile(r"#[^\n]*")
_AS = re.compile(r"\s+as\s")
# At the start of a line, or after `;` or the `:` of a clause on one line.
_IMPORT = re.compile(
    r"""(?:^|[;:])[ \t\f\ufeff]*
        (?: from\b(?P<origin>(?:[\w \t.]|\\\r?\n)*?)\bimport\b | import\b )
        (?:[ \t]|\\\r?\n)*(?P<names> \((?:[^)\#]|\#[^\n]*)*\) | (?:[^\n;\#(\\]|\\\r?\n)* )""",
    re.VERBOSE | re.MULTILINE,
)


class ImportGraph:
    """Who imports whom in a workspace, found out as far as it is asked for."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._direct: dict[Path, tuple[Source, ...]] = {}

    def reachable(self, source: Source) -> dict[Path, Source]:
        """`source` and every file that it imports, directly or through others."""
        found = {source.path: source}
        stack = [source]
        while stack:
            for module in self._imports(stack.pop()):
                if module.path not in found:
                    found[module.path] = module
                    stack.append(module)
        return found

    def groups(self, sources: Iterable[Source]) -> list[list[Source]]:
        """`sources` in groups: one that reaches another is in the other's group."""
        groups: list[list[Source]] = []
        for source in sources:
            joined, apart = [source], []
            for group in groups:
                if any(other.path in self.reachable(source) or source.path in self.reachable(other) for other in group):
                    joined += group
                else:
                    apart.append(group)
            groups = [*apart, joined]
        return groups

    def _imports(self, source: Source) -> tuple[Source, ...]:
        if source.path not in self._direct:
            modules = (self._workspace.module(dotted, source) for dotted in imported_modules(source.text))
            self._direct[source.path] = tuple(module for module in modules if module is not None)
        return self._direct[source.path]


def imported_modules(text: str) -> tuple[str, ...]:
    """The modules that a text may name in its import statements, relative ones with their dots.

    `from a import b` names both `a` and `a.b`, because `b` may be a module. What only looks like an import, in a
    docstring, counts as well: one file too many is looked at, and that is cheaper than parsing them all.
    """
    found: dict[str, None] = {}
    for match in _IMPORT.finditer(text):
        names = [_name(part) for part in _COMMENT.sub("", match["names"]).strip("() \t\r\n").split(",")]
        if match["origin"] is None:
            found.update(dict.fromkeys(filter(None, names)))
            continue
        base = _name(match["origin"])
        separator = "" if base.endswith(".") else "."
        found[base] = None
        found.update(dict.fromkeys(f"{base}{separator}{name}" for name in names if name))
    return tuple(found)


def _name(text: str) -> str:
    """A dotted name as it stands in an import, without its `as` and the blanks that may stand around its dots."""
    return "".join(_AS.split(text.replace("\\", " ").strip(), maxsplit=1)[0].split())
