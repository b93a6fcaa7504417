"""An outcome onto the disk: in place, or as a copy of the tree somewhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from amp_migrate.engine import write
from amp_migrate.engine.journal import Change, Journal
from amp_migrate.engine.migrate import Outcome, without_refused
from amp_migrate.engine.planner import FilePlan
from amp_migrate.engine.problems import refused
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding


def apply_in_place(workspace: Workspace, outcome: Outcome, journal: Journal) -> Outcome:
    """Write every changed file, its original bytes first to `journal`; the result tells what was really done.

    Whether all files can be written is found out first. Where one cannot, then or later, the files that belong with
    it are not written either, or are put back.
    """
    wrong: dict[Path, Finding] = {}
    for each in outcome.changed:
        try:
            write.require_writable(each.source)
        except write.WriteError as error:
            wrong[each.source.path] = refused(each.source.name, str(error))
    outcome = without_refused(workspace, outcome, wrong)
    if not outcome.changed:
        return outcome
    changes = [
        Change(each.source.path, each.source.encode(each.source.text), each.source.encode(each.after))
        for each in outcome.changed
    ]
    try:
        with journal.recording(changes):
            return _write_all(workspace, outcome)
    except write.WriteError as error:
        wrong = {each.source.path: refused(each.source.name, str(error)) for each in outcome.changed}
        return without_refused(workspace, outcome, wrong)


def _write_all(workspace: Workspace, outcome: Outcome) -> Outcome:
    written: dict[Path, FilePlan] = {}
    for each in outcome.changed:
        if each not in outcome.changed:  # fell with one that failed before it
            continue
        try:
            write.replace(each.source, each.after)
            written[each.source.path] = each
        except write.WriteError as error:
            outcome = without_refused(workspace, outcome, {each.source.path: refused(each.source.name, str(error))})
            for path in set(written) - {other.source.path for other in outcome.changed}:
                back = written.pop(path)
                with suppress(write.WriteError):  # somebody else has it already: theirs is the last word
                    write.replace(back.source.with_text(back.after), back.source.text)
    return outcome


def apply_elsewhere(workspace: Workspace, outcome: Outcome, paths: Sequence[Path], output: str) -> Outcome:
    """Write a copy of every file of the workspace, migrated or as it is, to `output`; the originals are not touched.

    Args:
        paths: what the user named. One file goes to the file `output`, or into the folder `output` if that is one or
            ends in a slash; anything else is mirrored below `output`, from the folder that all `paths` have in common.
        output: the file or folder to write.
    """
    after = {each.source.path: each.source.encode(each.after) for each in outcome.changed}
    failed: list[Finding] = []
    for path in workspace.files:
        try:
            target = _target(path, paths, output)
            data = after[path] if path in after else path.read_bytes()
            write.create(target, data, like=path)
        except write.WriteError as error:
            failed.append(refused(str(target), str(error)))
        except OSError:
            continue  # cannot be read: that is among the problems already
    return replace(outcome, problems=(*outcome.problems, *failed))


def is_original(paths: Sequence[Path], output: str) -> bool:
    """Whether `output` would put a copy in the place of one of the originals."""
    return any(os.path.realpath(_target(path, paths, output)) == os.path.realpath(path) for path in paths)


def _target(path: Path, paths: Sequence[Path], output: str) -> Path:
    single = len(paths) == 1 and not paths[0].is_dir()
    if single and not output.endswith(("/", os.sep)) and not os.path.isdir(output):
        return Path(output)
    tops = [each if each.is_dir() else each.parent for each in paths]
    base = os.path.commonpath([os.path.abspath(top) for top in tops])
    return Path(output, os.path.relpath(os.path.abspath(path), base))
