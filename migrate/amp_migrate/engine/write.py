"""Bytes onto the disk in one step: a file is the old one or the new one, never a part of either."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from amp_migrate.engine.source import Source

_SUFFIX = ".amp-migrate"


class WriteError(Exception):
    """A file that was not written; the message says why. The file is as it was."""


def replace(source: Source, after: str) -> None:
    """Give the file of `source` the text `after`.

    The new file has the old one's mode, owner where the user may set it, and extended attributes. A link is followed:
    its target is replaced.

    Raises:
        WriteError: the file changed since it was read, is read-only, or its folder cannot be written to.
    """
    target = Path(os.path.realpath(source.path))
    require_writable(source)
    try:
        swap(target, source.encode(after), source.encode(source.text))
    except OSError as error:
        raise WriteError(f"cannot be written: {_reason(error)}") from None


def require_writable(source: Source) -> None:
    """Find out before anything is written whether `replace` can be expected to go well.

    Raises:
        WriteError: the file changed since it was read, is read-only, or its folder cannot be written to.
    """
    target = Path(os.path.realpath(source.path))
    try:
        _require_unchanged(target, source.encode(source.text))
        # A rename needs no leave from the file itself, but the bits say what its owner wants.
        if not target.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise WriteError("read-only; make it writable and run again")
    except OSError as error:
        raise WriteError(f"cannot be written: {_reason(error)}") from None
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise WriteError("its folder cannot be written to")


def create(target: Path, data: bytes, like: Path | None = None) -> None:
    """Write a new file, its folders too, with the mode of `like`; a file that is there is replaced.

    Raises:
        WriteError: the file or a folder above it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(target, data, 0o666)
        try:
            if like is not None:
                shutil.copymode(like, temporary)
            os.replace(temporary, target)
        except BaseException:
            _discard(temporary)
            raise
    except OSError as error:
        raise WriteError(f"cannot be written: {_reason(error)}") from None


def swap(target: Path, data: bytes, expected: bytes) -> None:
    """Put `data` in the place of a file's bytes, which must be `expected`; mode, owner and attributes stay.

    The disk has the bytes when this returns, but the folder may still tell of the old ones after a power failure:
    see `sync_folder`.

    Raises:
        WriteError: the file holds something else.
        OSError: the file or its folder cannot be written to.
    """
    temporary = _temporary(target, data, 0o600)  # the old file may be private: its mode comes before its name
    try:
        _keep_metadata(target, temporary)
        # As late as can be: between here and the replace there is no room for an editor to save.
        _require_unchanged(target, expected)
        os.replace(temporary, target)
    except BaseException:
        _discard(temporary)
        raise


def write_through(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Make a new file and wait until the disk has its bytes; nothing is left of it if that fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _discard(path)
        raise


def remove_leftovers(target: Path) -> None:
    """Remove what a killed process left beside `target` on the way to replacing it."""
    for path in target.parent.glob(f"{_stem(target)}*{_SUFFIX}"):
        _discard(path)


def _temporary(target: Path, data: bytes, mode: int) -> Path:
    """A new file beside `target`, holding `data` and already on the disk."""
    path = target.with_name(f"{_stem(target)}{secrets.token_hex(4)}{_SUFFIX}")
    write_through(path, data, mode)
    return path


def _stem(target: Path) -> str:
    # Not the name itself, which may be as long as a name can be already.
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _keep_metadata(old: Path, new: Path) -> None:
    status = old.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):  # only root may give a file away; the group may still be settable
            os.chown(new, -1, status.st_gid)
        with suppress(PermissionError):
            os.chown(new, status.st_uid, -1)
    shutil.copystat(old, new)  # after chown, which clears the set-id bits
    os.utime(new)


def _require_unchanged(path: Path, expected: bytes) -> None:
    if path.read_bytes() != expected:
        raise WriteError("changed on disk since it was read; run again")


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, not only the bytes of its files."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
