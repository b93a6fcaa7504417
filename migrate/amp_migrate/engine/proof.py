"""What a check of results asks about the files around them, answered by the workspace that they are in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amp_migrate.engine.workspace import Workspace
from amp_migrate.prove.check import Project
from amp_migrate.prove.code.program import Others
from amp_migrate.settings import NEWEST_TORCH
from amp_migrate.tables.signatures import Version


def project_of(workspace: Workspace, changed: Iterable[Path], torch: Version) -> Project:
    """What is around some files that change; each is known by its path, as a text.

    Args:
        torch: the oldest PyTorch that they are written for.
    """
    paths = frozenset(changed)

    def locate(dotted: str, importer: str) -> str | None:
        found = workspace.beside(dotted, Path(importer))
        return None if found is None else str(found)

    def text(dotted: str, importer: str) -> str | None:
        found = workspace.beside(dotted, Path(importer))
        if found is None:
            return workspace.text_not_given(dotted, Path(importer))
        source = None if found in paths else workspace.file(found)
        return None if source is None else source.text

    def mentions(word: str) -> bool:
        return any(source.path not in paths for source in workspace.mentioning(word))

    return Project(locate, Others(text, mentions), (torch, NEWEST_TORCH))
