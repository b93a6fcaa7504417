"""`amp-migrate --compare OLD NEW`: whether two scripts, or folders, are the same program but for precision."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from amp_migrate.command.output import shown
from amp_migrate.engine.problems import UNREADABLE
from amp_migrate.engine.results.proof import project_of
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace
from amp_migrate.prove.check import CHECKS, Change, faults
from amp_migrate.report.plain import plain
from amp_migrate.settings import Settings


def execute(old: Path, new: Path, settings: Settings) -> int:
    """Compare two files, or two folders file by file, and say what differs; the exit code.

    Returns:
        0 where they are the same program but for precision, 1 where they are not, 2 where something cannot be read.
    """
    if old.is_dir() != new.is_dir():
        sys.stderr.write(f"{shown(old)} and {shown(new)} cannot be compared: name two files or two folders\n")
        return 2
    before, after = Workspace.open([old]), Workspace.open([new])
    texts, others = _sources(before, old), _sources(after, new)
    changed = {name for name in texts.keys() & others.keys() if texts[name].text != others[name].text}
    for name in changed:
        before.parse(texts[name])
        after.parse(others[name])
    problems = [each for each in (*before.problems, *after.problems) if each.code == UNREADABLE]
    for problem in problems:
        place = f":{problem.line}" if problem.line else ""
        sys.stderr.write(f"{plain(problem.path)}{place}: {plain(problem.message)}\n")
    if problems:
        return 2
    wrong = 0
    for name in sorted(texts.keys() ^ others.keys()):
        here, there = (old, new) if name in texts else (new, old)
        print(f"{shown(here / name)}: there is no such file in {shown(there)}")
        wrong += 1
    project = project_of(before, [texts[name].path for name in changed], settings.target_torch)
    changes = [Change(str(texts[name].path), texts[name].text, others[name].text) for name in sorted(changed)]
    found = faults(changes, project)
    for name in sorted(changed):
        fault = found.get(str(texts[name].path))
        if fault is None:
            print(f"{shown(others[name].path)}: the same program but for precision (checked: {', '.join(CHECKS)})")
            continue
        wrong += 1
        lines = (_place(texts[name], fault.line_before), _place(others[name], fault.line_after))
        print(f"{' -> '.join(filter(None, lines)) or shown(others[name].path)}: {plain(fault.message)}")
    same = len(texts.keys() & others.keys()) - len(changed)
    print(f"{len(changed)} compared, {same} not changed at all, {wrong} not the same program.")
    return 1 if wrong else 0


def _sources(workspace: Workspace, top: Path) -> Mapping[Path, Source]:
    """The files by their names below a folder; of a file, by no name at all."""
    found = {path.relative_to(top): workspace.file(path) for path in workspace.files}
    return {name: source for name, source in found.items() if source is not None}


def _place(source: Source, line: int) -> str:
    return f"{shown(source.path)}:{source.place(line)[0]}" if line else ""
