"""Which files may import one of some: they call it, derive from its classes, or make what it is given."""

from __future__ import annotations

from pathlib import Path

from amp_migrate.engine.workspace import Workspace


def may_import(workspace: Workspace, known: set[Path]) -> list[Path]:
    """The other files that may import one of some, by the words in them, be it by way of a package that hands it on."""
    found: set[Path] = set()
    words = [path.parent.name if path.stem == "__init__" else path.stem for path in known]
    for word in filter(str.isidentifier, words):  # nothing else can be imported
        for path in workspace.may_mention("import", word):
            if path.stem != "__init__":
                found.add(path)
            elif path.parent.name not in words:
                words.append(path.parent.name)
    return sorted(found - known)
