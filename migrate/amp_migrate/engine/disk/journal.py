"""What a run changes is on record before it is changed, so that it can be taken back and survives being killed.

A record is believed because of where it is: in this user's own folder (`state`), never in the tree. What it names is
looked for below the run's tree, through no link, and gets its original bytes only where it has the very bytes that the
run gave it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from amp_migrate import interrupts
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.folder import Folder, reason
from amp_migrate.engine.disk.records import COPY, DONE, OPEN, PUT, Entry, Kept, Record, Records, digest, new_records
from amp_migrate.engine.disk.state import StateError
from amp_migrate.engine.source import display_name
from amp_migrate.frozen import frozen
from amp_migrate.report.plain import plain


@frozen
class Change:
    """One file that is about to change.

    Attributes:
        parts: the names from the tree to the file.
        before: its bytes now.
        after: its bytes afterwards.
        group: files of one number belong together.
    """

    parts: tuple[str, ...]
    before: bytes
    after: bytes
    group: int = 0


@contextmanager
def recording(root: Path, changes: Sequence[Change]) -> Iterator[tuple[write.Swaps, list[write.Swap]]]:
    """Record `changes` to files below `root`, a real path; the caller makes them, by the swaps that it gets.

    The user's lock is held, and no signal comes in between. When the block ends well, what was put can be undone. When
    it ends by an exception, everything is taken back at once.

    Raises:
        WriteError: the record cannot be written, and no file was touched.
    """
    with ExitStack() as stack:
        try:
            records = stack.enter_context(new_records())
            stack.enter_context(interrupts.held())
            tree = stack.enter_context(Folder.open(root))
            token = write.new_token()
            wanted = [
                write.Swap(change.parts, change.before, change.after, write.temporary_name(token, index))
                for index, change in enumerate(changes)
            ]
            kept = _record(records, tree, changes, wanted)
        except (OSError, StateError) as error:
            told = reason(error) if isinstance(error, OSError) else str(error)
            raise write.WriteError(f"no record to undo by can be kept: {told}") from None
        swaps = write.Swaps(tree)
        try:
            yield swaps, wanted
            swaps.sync()
            kept = records.turn(kept, PUT)
        except BaseException:
            _take_back(root, records, kept, swaps)
            raise
        swaps.finish()
        _finish(records, kept, swaps)
        interrupts.stand(_changed(root, len(swaps.done)))


@contextmanager
def copying(root: Path, targets: Iterable[tuple[str, ...]]) -> Iterator[tuple[Folder, list[str]]]:
    """The folder `root`, a real path, and a name for the temporary file of each target below it.

    The names are on record, where there is a folder for that, so that the next run finds what a killed one left.
    """
    token = write.new_token()
    names = [write.temporary_name(token, index) for index, _ in enumerate(targets)]
    with ExitStack() as stack:
        tree = stack.enter_context(Folder.open(root))
        with suppress(OSError, StateError):  # nothing is promised of copies but that each is whole
            records = stack.enter_context(new_records())
            entries = [Entry("/".join(parts), "", "", "", name) for parts, name in zip(targets, names, strict=True)]
            stack.callback(records.remove, records.add(Record.now(tree, entries), {}, COPY))
        yield tree, names


def _record(records: Records, tree: Folder, changes: Sequence[Change], swaps: Sequence[write.Swap]) -> Kept:
    entries, originals = [], {}
    for index, (change, swap) in enumerate(zip(changes, swaps, strict=True)):
        member = f"{index:05}-{re.sub(r'[^A-Za-z0-9_.-]', '_', change.parts[-1])}"
        originals[member] = change.before
        path = "/".join(change.parts)
        before, after = digest(change.before), digest(change.after)
        entries.append(Entry(path, before, after, member, swap.temporary, change.group))
    return records.add(Record.now(tree, entries), originals, OPEN)


def _take_back(root: Path, records: Records, kept: Kept, swaps: write.Swaps) -> None:
    stuck = swaps.take_all_back()
    swaps.sync()
    swaps.finish()
    if not stuck:
        records.remove(kept)
        interrupts.stand("the files are as they were")
        return
    _finish(records, kept, swaps)
    told = "; ".join(f"{plain(display_name(root.joinpath(*swap.parts)))}: {why}" for swap, why in stuck)
    interrupts.stand(f"the files are as they were, but for {len(stuck)} that could not be put back: {told}")


def _finish(records: Records, kept: Kept, swaps: write.Swaps) -> None:
    """Leave the files that have their new bytes on record, and no others."""
    done = {"/".join(swap.parts) for swap in swaps.done}
    with suppress(OSError):  # a state is enough to go on from
        record, _ = records.load(kept)
        records.shorten(kept, [entry.path for entry in record.entries if entry.path not in done])
        if done:
            records.turn(kept, DONE)
            records.forget_oldest(kept)


def _changed(root: Path, count: int) -> str:
    if not count:
        return "no file was changed"
    return f"{'1 file is' if count == 1 else f'{count} files are'} changed; `{undo_command(root)}` takes that back"


def undo_command(root: Path) -> str:
    """The command that takes back the latest run below a folder."""
    return f"amp-migrate --undo {plain(shlex.quote(display_name(root)))}"
