"""Which files may import one of some: they call it, derive from its classes, or make what it is given."""

from __future__ import annotations

from pathlib import Path

from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


def may_import(workspace: Workspace, known: set[Path]) -> list[Source]:
    """The other files that may import one of some, by the words in them, be it by way of a package that hands it on."""
    found: dict[Path, Source] = {}
    words = [path.parent.name if path.stem == "__init__" else path.stem for path in known]
    for word in filter(str.isidentifier, words):  # nothing else can be imported
        for source in workspace.mentioning("import", word):
            if source.path.stem != "__init__":
                found[source.path] = source
            elif source.path.parent.name not in words:
                words.append(source.path.parent.name)
    return [source for path, source in sorted(found.items()) if path not in known]
