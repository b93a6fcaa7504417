"""Bytes onto the disk: a file is the old one or the new one, never a part of either, and never somebody else's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from amp_migrate.engine.disk.exchange import aside, exchange
from amp_migrate.engine.disk.folder import Folder, reason
from amp_migrate.frozen import frozen

_SUFFIX = ".amp-migrate"


class WriteError(Exception):
    """A file that was not written; the message says why. The file is as it was, or as somebody else made it."""


@frozen
class Swap:
    """One file that gets other bytes.

    Attributes:
        parts: the names from the tree to the file.
        before: the bytes that it has.
        after: the bytes that it gets.
        temporary: the name of the file beside it that `after` is written to first.
    """

    parts: tuple[str, ...]
    before: bytes
    after: bytes
    temporary: str


class Swaps:
    """Files below one folder that get other bytes, all of them or, with nothing lost, none.

    `prepare` needs space and may fail; `put` and `take_back` only exchange names. What was taken out stays beside the
    file until `finish`, so that what somebody wrote into it at the last moment is found.
    """

    def __init__(self, tree: Folder) -> None:
        self.tree = tree
        self._prepared: list[Swap] = []
        self._put: list[Swap] = []

    @property
    def done(self) -> tuple[Swap, ...]:
        """The files that have their new bytes."""
        return tuple(self._put)

    def prepare(self, swap: Swap) -> None:
        """Write a file's new bytes beside it, with its mode, owner and attributes.

        Raises:
            WriteError: it holds something else than expected, or cannot be written to.
        """
        name = swap.parts[-1]
        with self._folder(swap, "cannot be written") as folder:
            _require(folder, name, swap.before)
            if not _holds(folder, swap.temporary, swap.after, like=name):
                folder.remove(swap.temporary)
                folder.create(swap.temporary, swap.after)  # closed to others: the old file may be private
            self._prepared.append(swap)
            folder.keep_metadata(name, swap.temporary)

    def discard(self, swap: Swap) -> None:
        """Remove what was prepared for a file, and was not put or is taken back."""
        if swap in self._prepared and swap not in self._put:
            self._prepared.remove(swap)
            remove_temporary(self.tree, swap.parts, swap.temporary)

    def put(self, swap: Swap) -> None:
        """Give a prepared file its new bytes.

        Raises:
            WriteError: somebody else has changed it; theirs is there.
        """
        with self._folder(swap, "cannot be written") as folder:
            _require(folder, swap.parts[-1], swap.before)
            _exchange(folder, swap, swap.before)
        self._put.append(swap)

    def take_back(self, swap: Swap) -> None:
        """Give a file that was put its old bytes, with what was written into them meanwhile.

        Raises:
            WriteError: somebody else has changed it; theirs is there.
        """
        with self._folder(swap, "cannot be put back") as folder:
            _exchange(folder, swap, swap.after)
        self._put.remove(swap)

    def take_all_back(self) -> list[tuple[Swap, str]]:
        """Give every file that was put its old bytes; those that keep the new ones, and why."""
        stuck = []
        for swap in reversed(self.done):
            try:
                self.take_back(swap)
            except WriteError as error:
                stuck.append((swap, str(error)))
        return stuck

    def edited(self) -> list[Swap]:
        """The files whose old bytes somebody wrote into while they were being replaced."""
        return [swap for swap in self._put if self._was_edited(swap)]

    def sync(self) -> None:
        """Wait until the disk has the names of the files as they are now."""
        for parts in {swap.parts[:-1] for swap in self._prepared}:
            with suppress(OSError), self.tree.below(parts) as folder:
                folder.sync()

    def finish(self) -> None:
        """Remove what stands beside the files."""
        for swap in self._prepared:
            remove_temporary(self.tree, swap.parts, swap.temporary)
        self._prepared.clear()

    def _was_edited(self, swap: Swap) -> bool:
        try:
            with self.tree.below(swap.parts[:-1]) as folder:
                return folder.read(swap.temporary) != swap.before
        except OSError:
            return False  # what was taken out is not to be had, and what was put is in its place

    @contextmanager
    def _folder(self, swap: Swap, failing: str) -> Iterator[Folder]:
        try:
            with self.tree.below(swap.parts[:-1]) as folder:
                yield folder
        except OSError as error:
            raise WriteError(f"{failing}: {reason(error)}") from None


def require_writable(tree: Folder, parts: tuple[str, ...], expected: bytes) -> None:
    """Find out before anything is written whether a file can be expected to take other bytes.

    Raises:
        WriteError: the file changed since it was read, is read-only, or its folder cannot be written to.
    """
    try:
        with tree.below(parts[:-1]) as folder:
            _require(folder, parts[-1], expected)
            # A rename needs no leave from the file itself, but the bits say what its owner wants.
            if not folder.status(parts[-1]).st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
                raise WriteError("read-only; make it writable and run again")
            if not folder.may_be_changed():
                raise WriteError("its folder cannot be written to")
    except OSError as error:
        raise WriteError(f"cannot be written: {reason(error)}") from None


def remove_temporary(tree: Folder, parts: tuple[str, ...], temporary: str) -> bool:
    """Whether there was something beside a file that a run had put there; it is gone now, if it can go."""
    found = False
    with suppress(OSError), tree.below(parts[:-1]) as folder:
        for name in (temporary, aside(temporary)):
            with suppress(OSError):
                found |= folder.remove(name)
    return found


def create(tree: Folder, parts: tuple[str, ...], data: bytes, temporary: str, mode: int) -> None:
    """Write a new file, its folders too; a file that is there is replaced, and no link followed.

    Raises:
        WriteError: the file or a folder above it cannot be written.
    """
    try:
        with tree.below_made(parts[:-1]) as folder:
            folder.create(temporary, data, mode, exactly=True)
            try:
                folder.rename(temporary, parts[-1])
            except BaseException:
                folder.remove(temporary)
                raise
    except OSError as error:
        raise WriteError(f"cannot be written: {reason(error)}") from None


def temporary_name(token: str, index: int) -> str:
    """The name of the file beside a file that its new bytes are written to; short, as the file's own may be long."""
    return f".{token}-{index}{_SUFFIX}"


def new_token() -> str:
    """What the temporary files of a run have in their names, and no other file."""
    return os.urandom(8).hex()


def _exchange(folder: Folder, swap: Swap, expected: bytes) -> None:
    """Exchange a file with what stands beside it, unless it holds something else than expected."""
    name = swap.parts[-1]
    exchange(folder, swap.temporary, name)
    if not _holds(folder, swap.temporary, expected):
        # Somebody wrote it between our look and our exchange: theirs goes back into its place.
        exchange(folder, swap.temporary, name)
        raise WriteError("changed on disk since it was read; run again")


def _require(folder: Folder, name: str, expected: bytes) -> None:
    if folder.read(name) != expected:
        raise WriteError("changed on disk since it was read; run again")


def _holds(folder: Folder, name: str, expected: bytes, like: str | None = None) -> bool:
    """Whether a name is that of a regular file with these bytes; and, with `like`, of the same owner as that file."""
    try:
        if like is not None and folder.status(name).st_uid != folder.status(like).st_uid:
            return False
        return folder.read(name) == expected
    except OSError:
        return False
