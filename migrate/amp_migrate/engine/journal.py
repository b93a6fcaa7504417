"""The original bytes of what a run changes, kept so that it can be undone and survives being killed.

A run's record is one ZIP file in `.amp-migrate/undo/`. It goes through three names, each step one rename: `000007.tmp`
while it is being written, `000007.open` while the files are being changed, `000007.zip` when all of them are. What a
killed run leaves `open` is put back before the next one begins, so that no project stays half migrated.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from amp_migrate.engine import write
from amp_migrate.engine.lock import locked

FOLDER = ".amp-migrate"
KEPT_RUNS = 10
UNFINISHED, OPEN, DONE = ".tmp", ".open", ".zip"
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Change:
    """One file that is about to change.

    Attributes:
        path: where it is.
        before: its bytes now.
        after: its bytes afterwards.
    """

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Entry:
    """One file of a recorded run.

    Attributes:
        path: where it is, relative to the project's folder.
        before: the SHA-256 of its original bytes.
        after: the SHA-256 of what the run made of it.
        original: the member of the ZIP file that holds the original bytes.
    """

    path: str
    before: str
    after: str
    original: str


@dataclass(frozen=True)
class Restored:
    """What became of the files of a run that was taken back.

    Attributes:
        files: those that have their original bytes again.
        refused: those that were left alone, and why.
    """

    files: tuple[Path, ...]
    refused: tuple[tuple[Path, str], ...]


class Journal:
    """The recorded runs of one project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = root / FOLDER
        self._runs = self._folder / "undo"

    @contextmanager
    def recording(self, changes: Sequence[Change]) -> Iterator[None]:
        """Record `changes`, and hold the project's lock while the caller writes them.

        When the block ends well the run can be undone; when it ends by an exception, it is taken back at once.

        Raises:
            WriteError: the record cannot be written; the block is not entered.
        """
        with ExitStack() as stack:
            try:
                self._make_folder()
                stack.enter_context(self._locked())
                self._recover()
                run = self._record(changes)
            except OSError as error:
                message = f"no record to undo by can be kept in {self._folder}: {error.strerror}"
                raise write.WriteError(message) from None
            try:
                yield
            except BaseException:
                self._recover()
                raise
            _sync_folders(change.path for change in changes)
            os.rename(run, run.with_suffix(DONE))
            for old in self._records(DONE)[:-KEPT_RUNS]:
                old.unlink()

    @property
    def interrupted(self) -> bool:
        """Whether a run was killed while it changed files, and has not been put back."""
        return bool(self._records(OPEN))

    def recover(self) -> Restored:
        """Put back what a killed run changed."""
        if not self.interrupted:
            return Restored((), ())
        with self._locked():
            return self._recover()

    def undo(self) -> Restored | None:
        """Take back the latest run, or what a killed one changed; None where there is nothing to take back.

        Files that changed since stay as they are, and the record stays for another try.
        """
        if not self._records(OPEN) and not self._records(DONE):
            return None
        with self._locked():
            if not self.interrupted:
                latest = self._records(DONE)[-1]
                os.rename(latest, latest.with_suffix(OPEN))  # if this is killed, the next run finishes it
            return self._recover()

    def _recover(self) -> Restored:
        files: list[Path] = []
        refused: list[tuple[Path, str]] = []
        for run in self._records(UNFINISHED):
            run.unlink()
        for run in self._records(OPEN):
            restored = _restore(run, self.root)
            files += restored.files
            refused += restored.refused
            if restored.refused:
                os.rename(run, run.with_suffix(DONE))  # not tried again by itself; `undo` may
            else:
                run.unlink()
        return Restored(tuple(files), tuple(refused))

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self._folder / "lock")

    def _make_folder(self) -> None:
        self._runs.mkdir(parents=True, exist_ok=True)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("# made by amp-migrate, to undo what it did\n*\n")

    def _record(self, changes: Sequence[Change]) -> Path:
        number = max((int(run.stem) for run in self._records(DONE)), default=0) + 1
        content = io.BytesIO()
        entries = []
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for index, change in enumerate(changes):
                path = os.path.relpath(os.path.realpath(change.path), os.path.realpath(self.root))
                entry = Entry(path, _digest(change.before), _digest(change.after), f"{index:05}-{change.path.name}")
                archive.writestr(entry.original, change.before)
                entries.append(asdict(entry))
            archive.writestr(_MANIFEST, json.dumps({"version": 1, "files": entries}, indent=1))
        run = self._runs / f"{number:06}{UNFINISHED}"
        write.write_through(run, content.getvalue())
        opened = run.with_suffix(OPEN)
        os.rename(run, opened)
        write.sync_folder(self._runs)
        return opened

    def _records(self, state: str) -> list[Path]:
        """The records in one of the three states, oldest first."""
        try:
            names = sorted(os.listdir(self._runs))
        except FileNotFoundError:
            return []
        return [self._runs / name for name in names if re.fullmatch(r"\d{6}" + re.escape(state), name)]


def find_root(paths: Sequence[Path]) -> Path:
    """The folder of the project that `paths` belong to.

    It is the nearest folder at or above all of them with a record, a repository or a pyproject.toml in it; without
    one, the current folder if they are below it, or the folder that they share.
    """
    tops = [path if path.is_dir() else path.parent for path in (Path(os.path.abspath(path)) for path in paths)]
    common = Path(os.path.commonpath(tops))
    for folder in [common, *common.parents]:
        if any((folder / mark).exists() for mark in (FOLDER, ".git", "pyproject.toml")):
            return folder
    return Path.cwd() if common.is_relative_to(Path.cwd()) else common


def _restore(run: Path, root: Path) -> Restored:
    files: list[Path] = []
    refused: list[tuple[Path, str]] = []
    with zipfile.ZipFile(run) as archive:
        for entry in (Entry(**each) for each in json.loads(archive.read(_MANIFEST))["files"]):
            path = root / entry.path
            place = f"its original is {entry.original} in {run.with_suffix(DONE)}"
            try:
                if _restore_file(path, entry, archive):
                    files.append(path)
            except FileNotFoundError:
                refused.append((path, f"is gone; {place}"))
            except OSError as error:
                refused.append((path, f"cannot be restored: {error.strerror}; {place}"))
            except write.WriteError as error:
                refused.append((path, f"{error}; {place}"))
    _sync_folders(files)
    return Restored(tuple(files), tuple(refused))


def _restore_file(path: Path, entry: Entry, archive: zipfile.ZipFile) -> bool:
    """Whether the file had to be restored; it may have its original bytes already."""
    write.remove_leftovers(path)
    now = path.read_bytes()
    if _digest(now) == entry.before:
        return False
    if _digest(now) != entry.after:
        raise write.WriteError("changed since it was migrated")
    write.swap(path, archive.read(entry.original), expected=now)
    return True


def _sync_folders(paths: Iterable[Path]) -> None:
    for folder in sorted({Path(os.path.realpath(path)).parent for path in paths}):
        write.sync_folder(folder)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
