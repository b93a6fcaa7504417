"""Original bytes back into the files of a recorded run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from zipfile import ZipFile

from amp_migrate import interrupts
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.folder import Folder, reason
from amp_migrate.engine.disk.records import Entry, Record, digest
from amp_migrate.engine.disk.state import home
from amp_migrate.frozen import frozen


@frozen
class Restored:
    """What became of files that were to have their original bytes again.

    Attributes:
        files: those that have them now and had not before.
        refused: those that were left alone, and why.
        strays: how many files beside them were removed, which a killed process had left.
    """

    files: tuple[Path, ...] = ()
    refused: tuple[tuple[Path, str], ...] = ()
    strays: int = 0

    def __add__(self, other: Restored) -> Restored:
        return Restored(self.files + other.files, self.refused + other.refused, self.strays + other.strays)


@frozen
class Place:
    """Where something is to be restored.

    Attributes:
        paths: the real paths of files and folders; none of them for the project that the current folder is in.
    """

    paths: tuple[Path, ...] = ()

    def entries(self, record: Record, tree: Path) -> list[Entry]:
        """The files of a record that are meant; its tree is at `tree` today."""
        if self.paths:
            return [entry for entry in record.entries if any(map((tree / entry.path).is_relative_to, self.paths))]
        here = Path(os.path.realpath(os.curdir))
        # Who once named files from all over the disk does not mean them in every folder from then on.
        inside = here.is_relative_to(tree) and (here == tree or not home().is_relative_to(tree))
        below = any((tree / entry.path).is_relative_to(here) for entry in record.entries)
        return list(record.entries) if inside or below else []


def find_tree(record: Record) -> Path | None:
    """The folder that a record's tree is today; None where nothing says so.

    One that has moved is known again by its identity, in the current folder and above.
    """
    if os.path.isdir(record.tree):
        return Path(record.tree)
    here = Path(os.path.realpath(os.curdir))
    for folder in (here, *here.parents):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) == record.identity:
            return folder
    return None


def restore(tree: Folder, entries: Iterable[Entry], archive: ZipFile, kept_in: Path, *, asked: bool) -> Restored:
    """Give files below a tree their original bytes: those that still have the bytes that the run gave them.

    Where there is no space for all of them, none is touched. What a killed process left beside them goes.

    Args:
        archive: holds the original bytes.
        kept_in: where the archive is when all is done.
        asked: the user asked for it and may ask for the end; all is taken back then, and `Interrupted` raised.
    """
    entries = list(entries)
    refused: dict[str, str] = {}
    wanted = [swap for entry in entries if (swap := _swap(tree, entry, archive, refused)) is not None]
    strays = sum(_stands_beside(tree, entry) for entry in entries)
    swaps = write.Swaps(tree)
    try:
        _carry_out(swaps, wanted, refused, asked)
    except interrupts.Interrupted:
        stuck = swaps.take_all_back()
        kept = f"{len(stuck)} files were restored, and could not be taken back" if stuck else "nothing was restored"
        interrupts.stand(kept)
        raise
    finally:
        swaps.sync()
        swaps.finish()
    for entry in entries:
        write.remove_temporary(tree, entry.parts, entry.temporary)
    files = tuple(tree.path.joinpath(*swap.parts) for swap in swaps.done)
    left = (
        (tree.path / entry.path, f"{refused[entry.path]}; its original is {entry.original} in {kept_in}")
        for entry in entries
        if entry.path in refused
    )
    return Restored(files, tuple(left), strays)


def _swap(tree: Folder, entry: Entry, archive: ZipFile, refused: dict[str, str]) -> write.Swap | None:
    """What is to be done to a file; None where nothing is, or, with the reason among `refused`, nothing can be."""
    try:
        with tree.below(entry.parts[:-1]) as folder:
            now = folder.read(entry.parts[-1])
    except FileNotFoundError:
        refused[entry.path] = "is gone"
    except OSError as error:
        refused[entry.path] = f"cannot be restored: {reason(error)}"
    else:
        if digest(now) == entry.after:
            return write.Swap(entry.parts, now, archive.read(entry.original), entry.temporary)
        if digest(now) != entry.before:
            refused[entry.path] = "changed since it was migrated"
    return None


def _carry_out(swaps: write.Swaps, wanted: list[write.Swap], refused: dict[str, str], asked: bool) -> None:
    for swap in wanted:
        _check(asked)
        try:
            swaps.prepare(swap)
        except write.WriteError as error:
            told = f"not restored, because {'/'.join(swap.parts)} {error}"
            refused.update({"/".join(each.parts): told for each in wanted})
            refused["/".join(swap.parts)] = str(error)
            return
    for swap in wanted:
        _check(asked)
        try:
            swaps.put(swap)
        except write.WriteError as error:
            refused["/".join(swap.parts)] = str(error)
    for swap in swaps.edited():
        refused["/".join(swap.parts)] = "changed on disk while it was restored"
        with suppress(write.WriteError):  # somebody is at work on it at this moment: theirs stays
            swaps.take_back(swap)


def _check(asked: bool) -> None:
    if asked:
        interrupts.check()


def _stands_beside(tree: Folder, entry: Entry) -> bool:
    try:
        with tree.below(entry.parts[:-1]) as folder:
            folder.status(entry.temporary)
    except OSError:
        return False
    return True
