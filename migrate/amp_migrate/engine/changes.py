"""What would change, in groups of files that change together or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.migrate import Outcome
from amp_migrate.engine.planner import FilePlan
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.change import FileChange


def changes_of(workspace: Workspace, outcome: Outcome) -> Iterator[tuple[FileChange, ...]]:
    """The changes of an outcome: files that import one another are one group, in order of name."""
    plans = {each.source: each for each in outcome.changed}
    for group in ImportGraph(workspace).groups(plans):
        yield tuple(_change(plans[source]) for source in sorted(group, key=lambda source: source.name))


def _change(each: FilePlan) -> FileChange:
    """The texts of the file itself: those of a notebook are its JSON."""
    source = each.source
    encoding = "utf-8-sig" if source.bom else source.encoding
    before, after = (source.encode(text).decode(encoding) for text in (source.text, each.after))
    return FileChange(source.name, before, after)
