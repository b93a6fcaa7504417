"""An outcome onto the disk: in place, or as a copy of the tree somewhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from amp_migrate import interrupts
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.folder import Folder, reason
from amp_migrate.engine.disk.journal import Change, copying, recording, undo_command
from amp_migrate.engine.outcome import FilePlan, Outcome, together, without_refused
from amp_migrate.engine.problems import refused
from amp_migrate.engine.source import display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding
from amp_migrate.report.plain import plain


def apply_in_place(workspace: Workspace, outcome: Outcome, root: Path) -> Outcome:
    """Write every changed file, on record first; the result tells what is on the disk.

    Whether all files can be written is found out first. Where one cannot, then or later, the files that belong with
    it are not written either, or are put back.

    Args:
        root: the real path of the folder that all of them are in.
    """
    outcome = without_refused(workspace, outcome, _unwritable(outcome.changed, root))
    if not outcome.changed:
        return outcome
    groups = together(workspace, outcome.changed)
    group_of = {each.source.path: number for number, group in enumerate(groups) for each in group}
    try:
        changes = [
            Change(_parts(each, root), _before(each), each.source.encode(each.after), group_of[each.source.path])
            for each in outcome.changed
        ]
        with recording(root, changes) as (swaps, wanted):
            writing = _Writing(workspace, outcome, root, swaps, wanted)
            writing.carry_out()
            return writing.outcome
    except write.WriteError as error:
        wrong = {each.source.path: refused(each.source.name, str(error)) for each in outcome.changed}
        return without_refused(workspace, outcome, wrong)


class _Writing:
    """The changed files of an outcome on their way to the disk."""

    def __init__(
        self, workspace: Workspace, outcome: Outcome, root: Path, swaps: write.Swaps, wanted: Sequence[write.Swap]
    ) -> None:
        self._workspace = workspace
        self._root = root
        self._swaps = swaps
        self._plans = {each.source.path: each for each in outcome.changed}
        self._wanted = dict(zip(self._plans, wanted, strict=True))
        self._left = set(self._plans)
        self.outcome = outcome

    def carry_out(self) -> None:
        """Write all aside, which takes space, and exchange only then, which takes none."""
        self._each(self._swaps.prepare)
        self._each(self._swaps.put)
        edited = self._swaps.edited()
        for path in [path for path, swap in self._wanted.items() if swap in edited]:
            self._drop(path, "changed on disk while it was being written; run again")

    def _each(self, step: Callable[[write.Swap], None]) -> None:
        for path, swap in self._wanted.items():
            interrupts.check()
            if path in self._left:  # and has not fallen with another
                try:
                    step(swap)
                except write.WriteError as error:
                    self._drop(path, str(error))

    def _drop(self, path: Path, why: str) -> None:
        """Leave a file, and those that belong with it, as they were."""
        wrong = {path: refused(self._plans[path].source.name, why)}
        self.outcome = without_refused(self._workspace, self.outcome, wrong)
        left = {each.source.path for each in self.outcome.changed}
        fallen, self._left = self._left - left, left
        for other in sorted(fallen):
            swap = self._wanted[other]
            if swap in self._swaps.done:
                try:
                    self._swaps.take_back(swap)
                except write.WriteError as error:
                    self._keep(other, str(error))
            self._swaps.discard(swap)

    def _keep(self, path: Path, why: str) -> None:
        """Tell that a file has its new bytes and cannot have its old ones."""
        plan = self._plans[path]
        hint = f"it is changed, other than the files that it belongs with; `{undo_command(self._root)}` takes it back"
        plans = tuple(plan if each.source.path == path else each for each in self.outcome.plans)
        self.outcome = replace(
            self.outcome,
            plans=plans if plan in plans else (*plans, plan),
            problems=(*self.outcome.problems, refused(plan.source.name, f"cannot be put back: {why}", hint)),
        )


def _unwritable(changed: Iterable[FilePlan], root: Path) -> dict[Path, Finding]:
    """A finding for each file that cannot be written."""
    wrong: dict[Path, Finding] = {}
    try:
        with Folder.open(root) as tree:
            for each in changed:
                try:
                    write.require_writable(tree, _parts(each, root), _before(each))
                except write.WriteError as error:
                    wrong[each.source.path] = refused(each.source.name, str(error))
    except OSError as error:
        told = f"cannot be written: {display_name(root)}: {reason(error)}"
        wrong = {each.source.path: refused(each.source.name, told) for each in changed}
    return wrong


def _parts(each: FilePlan, root: Path) -> tuple[str, ...]:
    """The names from the root to a file, links resolved.

    Raises:
        WriteError: it is not below the root, as it was when the run began.
    """
    real = Path(os.path.realpath(each.source.path))
    if not real.is_relative_to(root):
        raise write.WriteError("cannot be written: a link to it has been changed since it was read; run again")
    return real.relative_to(root).parts


def _before(each: FilePlan) -> bytes:
    return each.source.encode(each.source.text)


def apply_elsewhere(workspace: Workspace, outcome: Outcome, paths: Sequence[Path], output: str) -> Outcome:
    """Write a copy of every file of the workspace, migrated or as it is, to `output`; the originals are not touched.

    Below `output`, no link is followed; `output` may be a link, unless it came with what is copied.

    Args:
        paths: what the user named. One file goes to the file `output`, or into the folder `output` if that is one or
            ends in a slash; anything else is mirrored below `output`, from the folder that all `paths` have in common.
        output: the file or folder to write.
    """
    after = {each.source.path: each.source.encode(each.after) for each in outcome.changed}
    targets = {path: _target(path, paths, output) for path in workspace.files}
    single = any(target == Path(output) for target in targets.values())
    base = Path(output).parent if single else Path(output)
    there = plain(display_name(base))
    interrupts.stand(f"the originals are as they were; not all copies in {there} were written")
    failed: list[Finding] = []
    try:
        _require_no_link_of(paths, base)
        base.mkdir(parents=True, exist_ok=True)
        places = [targets[path].relative_to(base).parts for path in targets]
        with copying(Path(os.path.realpath(base)), places) as (tree, temporaries):
            for path, place, temporary in zip(targets, places, temporaries, strict=True):
                try:
                    data = after[path] if path in after else path.read_bytes()
                    mode = stat.S_IMODE(path.stat().st_mode)
                except OSError:
                    continue  # cannot be read: that is among the problems already
                try:
                    write.create(tree, place, data, temporary, mode)
                except write.WriteError as error:
                    failed.append(refused(display_name(targets[path]), str(error)))
    except OSError as error:
        failed.append(refused(display_name(base), f"cannot be written: {reason(error)}"))
    interrupts.stand(f"the originals are as they were; the copies are in {there}")
    return replace(outcome, problems=(*outcome.problems, *failed))


def _require_no_link_of(paths: Sequence[Path], base: Path) -> None:
    """Raise OSError where a folder to write to is a link that lies in one of the folders that are copied."""
    place = Path(os.path.realpath(base.parent), base.name)
    if place.is_symlink() and any(place.is_relative_to(os.path.realpath(path)) for path in paths):
        raise OSError(0, "it is a link that lies in what is to be copied; name a folder of your own")


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
