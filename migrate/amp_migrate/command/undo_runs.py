"""`amp-migrate --undo`: what would be taken back, or what was, in words."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from amp_migrate.command.output import note, print_changes, shown
from amp_migrate.engine.disk.state import StateError
from amp_migrate.engine.disk.undo import Run, preview, undo
from amp_migrate.engine.disk.write import WriteError
from amp_migrate.engine.source import display_name
from amp_migrate.report.plain import plain


def execute(paths: Sequence[Path], *, diff: bool) -> int:
    """Take back the latest run that changed a file among `paths`, or show what that would do; the exit code."""
    try:
        done = _show(paths) if diff else _undo(paths)
    except (WriteError, StateError, OSError) as error:
        sys.stderr.write(f"nothing was restored: {error}\n")
        return 2
    if done is None:
        where = " or ".join(map(shown, paths)) or f"the project that {plain(display_name(Path.cwd()))} is in"
        sys.stderr.write(f"nothing to undo in {where}; name a file or folder that was migrated\n")
        return 2
    return done


def _undo(paths: Sequence[Path]) -> int | None:
    done = undo(paths)
    if done is None:
        return None
    if done.restored.strays:
        note(f"removed {done.restored.strays} temporary files of a run that was killed")
    for path in done.restored.files:
        print(f"{shown(path)}: restored")
    for path, why in done.restored.refused:
        print(f"{shown(path)}: left as it is: {plain(why)}")
    for path, other in done.parted:
        print(f"{shown(path)}: still migrated, and {shown(other)} belongs with it; --undo takes it back as well")
    of = _words(done.run) if done.run is not None else "of a run that was killed half-way"
    print(f"{len(done.restored.files)} restored, {len(done.restored.refused)} left as they are, {of}.")
    return 2 if done.restored.refused else 0


def _show(paths: Sequence[Path]) -> int | None:
    coming = preview(paths)
    if coming is None:
        return None
    run, changes = coming
    print_changes((path, display_name(path), before, after) for path, before, after in changes)
    sys.stderr.write(f"{len(changes)} of {run.files} would be restored, {_words(run)}.\n")
    return 0


def _words(run: Run) -> str:
    when = datetime.fromisoformat(run.made).astimezone().strftime("%Y-%m-%d %H:%M")
    on = "" if run.machine == platform.node() else f", made on {plain(run.machine)}"
    return f"of the run of {when} in {shown(run.tree)} (record: {plain(str(run.record))}{on})"
