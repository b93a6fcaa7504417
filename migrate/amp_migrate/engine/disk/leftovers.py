"""What killed processes left: files changed half-way, and files beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from amp_migrate import interrupts
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.folder import Folder
from amp_migrate.engine.disk.lock import Busy
from amp_migrate.engine.disk.records import (
    COPY,
    DAMAGED,
    DONE,
    OPEN,
    PUT,
    UNDO,
    UNFINISHED,
    Kept,
    Record,
    RecordError,
    Records,
    kept_records,
)
from amp_migrate.engine.disk.restore import Place, Restored, find_tree, restore
from amp_migrate.engine.disk.state import StateError
from amp_migrate.frozen import frozen


@frozen
class Leftovers:
    """What a run that changes no file finds.

    Attributes:
        strays: how many temporary files were removed.
        half_way: the trees in which files are changed half-way.
    """

    strays: int = 0
    half_way: tuple[Path, ...] = ()


def recover(root: Path) -> Restored:
    """Put back what killed processes left half done below a folder."""
    try:
        with kept_records() as records:
            if records is None:
                return Restored()
            with interrupts.held():
                restored = put_back(records, Place((root,)))
                if restored.files:
                    count = len(restored.files)
                    interrupts.stand(f"no file was changed; {count} that a killed run had left half-way were put back")
                return restored
    except (OSError, StateError):
        return Restored()  # where no records can be kept there are none; who is about to write will hear of it


def tidy(root: Path) -> Leftovers:
    """Remove the temporary files of killed processes below a folder, and change no other file."""
    strays = 0
    half_way = []
    try:
        with kept_records(wait=False) as records:
            for left in [] if records is None else _left(records, Place((root,))):
                strays += left.remove_strays()
                if left.is_half_way:
                    half_way.append(left.tree.path)
    except (OSError, StateError, Busy):
        pass
    return Leftovers(strays, tuple(dict.fromkeys(half_way)))


def put_back(records: Records, place: Place) -> Restored:
    """Put back what killed processes left half done at a place; the lock is held."""
    for unfinished in records.all(UNFINISHED):
        records.remove(unfinished)
    restored = Restored()
    for left in _left(records, place):
        restored += left.put_back() if left.is_half_way else Restored(strays=left.remove_strays())
    return restored


@frozen
class _Left:
    """One record that was not finished, and its tree."""

    records: Records
    kept: Kept
    record: Record
    archive: ZipFile
    tree: Folder

    @property
    def is_half_way(self) -> bool:
        return self.kept.state in (OPEN, UNDO)

    def put_back(self) -> Restored:
        """Give the files their original bytes; the record stays for those that cannot have them."""
        finished = self.kept.turned(DONE)
        intended = self.records.intended(self.kept) if self.kept.state == UNDO else None
        entries = [entry for entry in self.record.entries if intended is None or entry.path in intended]
        restored = restore(self.tree, entries, self.archive, self.records.path(finished), asked=False)
        if self.kept.state == OPEN:
            self.records.turn(self.kept, DONE)  # what is refused is not tried again by itself; `--undo` may
        refused = {path for path, _ in restored.refused}
        gone = [entry.path for entry in entries if self.tree.path / entry.path not in refused]
        self.records.shorten(finished, gone)
        if self.kept.state == UNDO:
            self.records.remove(self.kept)
        return restored

    def remove_strays(self) -> int:
        """Remove what stands beside the files, and the record where it says that nothing else is to be done."""
        entries = self.record.entries
        strays = sum(write.remove_temporary(self.tree, entry.parts, entry.temporary) for entry in entries)
        if self.kept.state == PUT:
            self.records.turn(self.kept, DONE)
        elif self.kept.state == COPY:
            self.records.remove(self.kept)
        return strays


def _left(records: Records, place: Place) -> Iterator[_Left]:
    """The unfinished records with files at a place; and those of copies, wherever they were made."""
    for kept in records.all(OPEN, PUT, COPY, UNDO):
        described = kept.turned(DONE) if kept.state == UNDO else kept
        try:
            record, archive = records.load(described)
        except RecordError:
            records.turn(kept, DAMAGED)
            continue
        tree = find_tree(record)
        if tree is None or not (kept.state == COPY or place.entries(record, tree)):
            continue
        with Folder.open(tree) as folder:
            yield _Left(records, kept, record, archive, folder)
