"""Records of runs: the original bytes of what each changed, one ZIP file a run, in the user's state folder.

The name of a record says how far its run came: `000007-TREE.tmp` while it is being written, `.open` while files are
being changed, `.put` when all of them are, `.zip` when nothing of the run stands beside them any more; `.copy` where
copies are written elsewhere and no file is changed. Beside a `.zip`, `.undo` names the files that are being given their
original bytes again. Each step is one rename, so that what a killed process leaves tells what it was about to do. TREE
stands for the folder that all files of the run are in.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any

from amp_migrate.engine.disk.folder import Folder, require_plain
from amp_migrate.engine.disk.lock import locked
from amp_migrate.engine.disk.state import open_state
from amp_migrate.frozen import frozen, frozen_in_order

UNFINISHED, OPEN, PUT, DONE, COPY, UNDO, DAMAGED = ".tmp", ".open", ".put", ".zip", ".copy", ".undo", ".damaged"
KEPT_OF_A_TREE, KEPT = 10, 200
_MANIFEST = "manifest.json"
_VERSION = 2
_NAME = re.compile(r"(\d{6,})-([0-9a-f]{16})(\.[a-z]+)")


class RecordError(Exception):
    """A record that cannot be read, or says what no run of this tool would have said."""


@frozen
class Entry:
    """One file of a run.

    Attributes:
        path: where it is below the record's tree, with forward slashes.
        before: the SHA-256 of its original bytes.
        after: the SHA-256 of what the run made of it.
        original: the member of the ZIP file that holds the original bytes; empty where there are none.
        temporary: the name of the file beside it that new bytes are written to first.
        group: files of one number belong together.
    """

    path: str
    before: str
    after: str
    original: str
    temporary: str
    group: int = 0

    @property
    def parts(self) -> tuple[str, ...]:
        """The names from the tree to the file."""
        return PurePosixPath(self.path).parts


@frozen
class Record:
    """What there is to know about a run.

    Attributes:
        tree: the real path of the folder that all files of the run are below.
        identity: device and inode of that folder, by which it is known again when it has moved.
        made: when, in UTC, as ISO 8601.
        machine: the network name of the machine that the run was on.
        entries: the files.
    """

    tree: str
    identity: tuple[int, int]
    made: str
    machine: str
    entries: tuple[Entry, ...]

    @classmethod
    def now(cls, tree: Folder, entries: Iterable[Entry]) -> Record:
        """The record of a run that begins."""
        status = tree.status()
        made = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return cls(str(tree.path), (status.st_dev, status.st_ino), made, platform.node(), tuple(entries))

    def without(self, paths: Iterable[str]) -> Record:
        """The record without the files at `paths`."""
        gone = frozenset(paths)
        return replace(self, entries=tuple(entry for entry in self.entries if entry.path not in gone))


@frozen_in_order
class Kept:
    """One record in the folder: its number, the digest of its tree's path, and its state."""

    number: int
    tree: str
    state: str

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.number:06}-{self.tree}{self.state}"

    def turned(self, state: str) -> Kept:
        """The same record in another state."""
        return replace(self, state=state)


class Records:
    """The records in one folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def all(self, *states: str) -> list[Kept]:
        """The records in these states, oldest first."""
        found = (_NAME.fullmatch(name) for name in self.folder.names())
        kept = (Kept(int(match[1]), match[2], match[3]) for match in found if match is not None)
        return sorted(each for each in kept if each.state in states)

    def path(self, kept: Kept) -> Path:
        """Where a record is."""
        return self.folder.path / kept.name

    def add(self, record: Record, originals: Mapping[str, bytes], state: str) -> Kept:
        """Keep a new record; `originals` by the entries' names for them."""
        number = max((each.number for each in self.all(UNFINISHED, OPEN, PUT, DONE, COPY, DAMAGED)), default=0) + 1
        kept = Kept(number, digest(record.tree.encode("utf-8", "surrogateescape"))[:16], UNFINISHED)
        self.folder.create(kept.name, _packed(record, originals))
        return self.turn(kept, state)

    def turn(self, kept: Kept, state: str) -> Kept:
        """Take a record to another state."""
        self.folder.rename(kept.name, kept.turned(state).name)
        with suppress(OSError):  # it has its name; whether that survives a power failure is the system's to say
            self.folder.sync()
        return kept.turned(state)

    def remove(self, kept: Kept) -> None:
        """Forget a record."""
        self.folder.remove(kept.name)

    def load(self, kept: Kept) -> tuple[Record, zipfile.ZipFile]:
        """A record, and the archive with its originals.

        Raises:
            RecordError: it is damaged, or names files that are not below its tree.
        """
        try:
            archive = zipfile.ZipFile(io.BytesIO(self.folder.read(kept.name)))
            record = _parsed(json.loads(archive.read(_MANIFEST)))
            for entry in record.entries:
                if entry.original and digest(archive.read(entry.original)) != entry.before:
                    raise ValueError(f"{entry.original} is damaged")
            return record, archive
        except (OSError, zipfile.BadZipFile, ValueError, LookupError, TypeError, AttributeError) as error:
            raise RecordError(f"the record {self.path(kept)} cannot be used: {error}") from None

    def shorten(self, kept: Kept, gone: Iterable[str]) -> None:
        """Take files out of a finished record; one that names no file any more goes."""
        record, archive = self.load(kept)
        rest = record.without(gone)
        if not rest.entries:
            self.remove(kept)
        elif rest != record:
            originals = {entry.original: archive.read(entry.original) for entry in rest.entries}
            new = kept.turned(UNFINISHED)
            self.folder.create(new.name, _packed(rest, originals))
            self.turn(new, kept.state)

    def intend(self, kept: Kept, paths: Iterable[str]) -> None:
        """Write down that these files of a finished record are being restored."""
        unfinished = kept.turned(UNFINISHED)
        self.folder.create(unfinished.name, json.dumps(sorted(paths)).encode())
        self.turn(unfinished, UNDO)

    def intended(self, undo: Kept) -> frozenset[str]:
        """The files that `intend` named."""
        try:
            return frozenset(json.loads(self.folder.read(undo.name)))
        except (OSError, ValueError, TypeError) as error:
            raise RecordError(f"{self.path(undo)} cannot be used: {error}") from None

    def forget_oldest(self, of: Kept) -> None:
        """Keep the latest records of a tree, and of all trees."""
        of_the_tree = [each for each in self.all(DONE) if each.tree == of.tree]
        for old in {*of_the_tree[:-KEPT_OF_A_TREE], *self.all(OPEN, PUT, DONE, COPY, DAMAGED)[:-KEPT]}:
            self.remove(old)


@contextmanager
def new_records() -> Iterator[Records]:
    """The user's records, with the lock that lets one process at a time write any of them.

    Raises:
        StateError: there is no folder that they can be kept in.
        OSError: it cannot be written to.
    """
    with open_state() as state, state.below_made(["undo"], 0o700) as folder, locked(folder):
        yield Records(folder)


@contextmanager
def kept_records(*, wait: bool = True) -> Iterator[Records | None]:
    """Like `new_records`, without making anything; None where there are no records.

    Raises:
        Busy: another process is writing, and `wait` is false.
    """
    try:
        state = open_state(make=False)
    except FileNotFoundError:
        yield None
        return
    with state:
        try:
            folder = state.below(["undo"])
        except FileNotFoundError:
            yield None
            return
        with folder, locked(folder, wait=wait):
            yield Records(folder)


def digest(data: bytes) -> str:
    """The SHA-256 of bytes, as hexadecimal digits."""
    import hashlib  # most runs write nothing, and a part of it is OpenSSL

    return hashlib.sha256(data).hexdigest()


def _packed(record: Record, originals: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in originals.items():
            archive.writestr(name, data)
        archive.writestr(_MANIFEST, json.dumps({"version": _VERSION, **asdict(record)}, indent=1))
    return content.getvalue()


def _parsed(fields: Mapping[str, object]) -> Record:
    """Raises ValueError, LookupError or TypeError where this is no record."""
    known: dict[str, Any] = dict(fields)
    if known.pop("version") != _VERSION:
        raise ValueError("made by another version")
    entries = tuple(Entry(**each) for each in known.pop("entries"))
    device, inode = known.pop("identity")
    record = Record(**known, entries=entries, identity=(device, inode))
    if not os.path.isabs(record.tree):
        raise ValueError("its tree is no absolute path")
    for entry in record.entries:
        for name in (*entry.parts, entry.temporary):
            require_plain(name)
        if not entry.parts or not entry.temporary.startswith("."):
            raise ValueError(f"{entry.path!r} is no file below a tree")
    return record
