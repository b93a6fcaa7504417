"""The latest run taken back, as a whole or for the files that are named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from zipfile import ZipFile

from amp_migrate import interrupts
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.folder import Folder, reason
from amp_migrate.engine.disk.leftovers import put_back
from amp_migrate.engine.disk.records import DONE, UNDO, Entry, Kept, Record, RecordError, Records, digest, kept_records
from amp_migrate.engine.disk.restore import Place, Restored, find_tree, restore
from amp_migrate.frozen import frozen


@frozen
class Run:
    """A recorded run, as a user knows it again.

    Attributes:
        tree: the folder that it was on.
        made: when it was, in UTC, as ISO 8601.
        machine: the name of the machine that it was on.
        record: where its record is, or was before all of it was taken back.
        files: how many files it changed that have not been restored since.
    """

    tree: Path
    made: str
    machine: str
    record: Path
    files: int


@frozen
class Undone:
    """What was taken back.

    Attributes:
        restored: the files.
        run: the run that they are of; None for one that was killed half-way and is put back.
        parted: files that still are as the run made them, each with one that was restored and belongs with it.
    """

    restored: Restored
    run: Run | None = None
    parted: tuple[tuple[Path, Path], ...] = ()


def undo(paths: Sequence[Path]) -> Undone | None:
    """Take back the latest run that changed a file at or below `paths`, for these files; None where there is none.

    Without paths, the latest run in the project that the current folder is in, as a whole. Where a process was killed
    half-way, what it left is put back instead, as a whole. Files that changed since stay as they are, and on record.

    Raises:
        WriteError: it cannot be written down what is about to be done; no file was touched.
        StateError: the records cannot be believed.
    """
    place = Place(tuple(Path(os.path.realpath(path)) for path in paths))
    interrupts.stand("nothing was restored")
    with kept_records() as records:
        if records is None:
            return None
        with interrupts.held():
            killed = put_back(records, place)
            done = Undone(killed) if killed.files or killed.refused else _undo_latest(records, place, killed)
            if done is not None:
                interrupts.stand(f"{len(done.restored.files)} files were restored")
            return done


def preview(paths: Sequence[Path]) -> tuple[Run, list[tuple[Path, bytes, bytes]]] | None:
    """The run that `undo` would take back, and the bytes of each file now and then; nothing is written."""
    place = Place(tuple(Path(os.path.realpath(path)) for path in paths))
    with kept_records() as records:
        if records is None:
            return None
        with _latest(records, place) as chosen:
            return None if chosen is None else (chosen.run, list(chosen.changes()))


@frozen
class _Chosen:
    """A finished record, and which of its files are meant."""

    kept: Kept
    run: Run
    record: Record
    archive: ZipFile
    tree: Folder
    entries: list[Entry]

    def changes(self) -> Iterator[tuple[Path, bytes, bytes]]:
        """The files that would be restored: their bytes now, and then."""
        for entry in self.entries:
            now = self.bytes_of(entry)
            if now is not None and digest(now) == entry.after:
                yield self.tree.path / entry.path, now, self.archive.read(entry.original)

    def parted(self, restored: Restored) -> Iterator[tuple[Path, Path]]:
        """The files that are as the run made them, each with one that was restored and belongs with it."""
        back = {entry.group: path for entry in self.entries if (path := self.tree.path / entry.path) in restored.files}
        for entry in self.record.entries:
            path = self.tree.path / entry.path
            if entry.group in back and path not in restored.files:
                now = self.bytes_of(entry)
                if now is not None and digest(now) != entry.before:
                    yield path, back[entry.group]

    def bytes_of(self, entry: Entry) -> bytes | None:
        """What a file of the record holds; None where it cannot be read."""
        try:
            with self.tree.below(entry.parts[:-1]) as folder:
                return folder.read(entry.parts[-1])
        except OSError:
            return None


def _undo_latest(records: Records, place: Place, killed: Restored) -> Undone | None:
    with _latest(records, place) as chosen:
        if chosen is None:
            return None if killed == Restored() else Undone(killed)
        kept, entries = chosen.kept, chosen.entries
        try:
            records.intend(kept, [entry.path for entry in entries])
        except OSError as error:
            raise write.WriteError(f"nothing was restored: {records.folder.path}: {reason(error)}") from None
        try:
            restored = restore(chosen.tree, entries, chosen.archive, records.path(kept), asked=True)
            refused = {path for path, _ in restored.refused}
            with suppress(OSError):  # without space for a shorter record, the longer one stays
                records.shorten(kept, [each.path for each in entries if chosen.tree.path / each.path not in refused])
        finally:
            records.remove(kept.turned(UNDO))
        return Undone(killed + restored, chosen.run, tuple(chosen.parted(restored)))


@contextmanager
def _latest(records: Records, place: Place) -> Iterator[_Chosen | None]:
    for kept in reversed(records.all(DONE)):
        try:
            record, archive = records.load(kept)
        except RecordError:
            continue
        at = find_tree(record)
        entries = [] if at is None else place.entries(record, at)
        if at is not None and entries:
            run = Run(at, record.made, record.machine, records.path(kept), len(record.entries))
            with Folder.open(at) as tree:
                yield _Chosen(kept, run, record, archive, tree, entries)
            return
    yield None
