"""A run that is killed or interrupted at any moment loses nothing, and what is said of the files is so.

A step is a moment. With more files there are more of them: `make nightly` has ten, and counts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
COMMANDS = [["."], ["--undo"]]
Snapshot: TypeAlias = "dict[Path, bytes]"
COUNT = int(os.environ.get("AMP_MIGRATE_KILL_FILES", "3"))
OLD, NEW, EDIT = b"amp, old_amp = 1, 2\n", b"amp, new_amp = 1, 2\n", b"amp = 'mine'\n"
PROGRAM = Path(__file__).with_name("killed.py")


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code, negative for the signal that killed it, and what it said."""

    code: int
    said: str


class Files:
    """Some files in a folder, and commands that work on them in processes of their own."""

    def __init__(self, tree: Path, records: Path, forks: subprocess.Popen[str]) -> None:
        self.tree = tree
        self.records = records
        self.forks = forks
        self.paths = [tree / f"{number}.py" for number in range(COUNT)]
        self.said = tree.parent / "said"
        self.disturbed = 0

    def run(
        self, *args: str, signals: Sequence[tuple[int, int]] = (), edits: Sequence[tuple[int, str, str, str]] = ()
    ) -> Done:
        """`amp-migrate ARGS` in a process of its own, with `signals` and `edits` as `killed.py` takes them."""
        self.disturbed += bool(signals)
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        print(json.dumps([args, str(self.said), signals, edits]), file=self.forks.stdin, flush=True)
        code = int(self.forks.stdout.readline())
        text = self.said.read_text()
        assert "Traceback" not in text, text
        return Done(code, text)

    def steps(self, *args: str) -> int:
        """How many steps a command takes that nobody disturbs."""
        done = self.run(*args)
        assert done.code == 0, done.said
        return int(done.said.split("steps ")[1]) + 1

    @property
    def changed(self) -> int:
        """How many of the files are changed; each must be the old or the new one as a whole."""
        contents = [path.read_bytes() for path in self.paths]
        assert set(contents) <= {OLD, NEW}
        return contents.count(NEW)

    @property
    def strays(self) -> int:
        """How many files are in the folder that do not belong there."""
        return len(set(self.tree.iterdir()) - set(self.paths))

    def snapshot(self) -> Snapshot:
        """Everything as it is now."""
        return {path: path.read_bytes() for folder in (self.tree, self.records) for path in folder.iterdir()}

    def reset(self, snapshot: Snapshot) -> None:
        """Everything as it was."""
        for folder in (self.tree, self.records):
            for path in set(folder.iterdir()) - set(snapshot):
                path.unlink()
        for path, data in snapshot.items():
            path.write_bytes(data)


@pytest.fixture
def files(tree: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Files]:
    for number in range(COUNT):
        (tree / f"{number}.py").write_bytes(OLD)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    forks = subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, handler)
    with forks:
        assert forks.stdout is not None
        assert forks.stdout.readline() == "ready\n"
        files = Files(tree, state, forks)
        yield files
    if COUNT > 3:
        with capsys.disabled():
            print(f"\n{files.disturbed} runs over {COUNT} files were killed or interrupted")


def after_a_kill(files: Files, kind: Sequence[str]) -> None:
    """The next run says what it finds, and finishes."""
    changed, strays = files.changed, files.strays
    done = files.run(*kind)
    told = re.findall(r"removed (\d+) temporary", done.said)
    assert [int(each) for each in told] == ([strays] if strays else []), done.said
    assert files.strays == 0
    if kind[0] in ("--check", "--diff"):
        assert files.changed == changed
    elif kind[0] == "--undo":
        assert files.changed == 0 or "nothing to undo" in done.said
    else:
        assert files.changed == COUNT
        put_back = re.findall(r"killed half-way; (\d+) of its files w", done.said)
        # Killed after the last file, a run is one that was finished.
        assert put_back == ([str(changed)] if put_back else []), done.said
        assert put_back or changed in (0, COUNT)


def before(files: Files, command: list[str]) -> tuple[Snapshot, int]:
    """The state that a command begins in, and how many steps it takes from there."""
    if command == ["--undo"]:
        assert files.run(".").code == 0
    snapshot = files.snapshot()
    return snapshot, files.steps(*command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_killed_between_any_two_steps(files: Files, command: list[str]) -> None:
    snapshot, total = before(files, command)
    half_way = 0
    for step in range(total):
        files.reset(snapshot)
        assert files.run(*command, signals=[(step, signal.SIGKILL)]).code == -signal.SIGKILL
        half_way += 0 < files.changed < COUNT
        kind = ([["."], ["--check", "."], ["--undo"], ["--diff", "."]])[step % 4]
        after_a_kill(files, kind)
    # Every file is read, written aside and put in place; some of the kills leave work half done.
    assert total > 40
    assert half_way >= COUNT - 1


def words(files: Files, done: Done) -> str:
    """What an interrupted command says about the files, which must be so."""
    said = re.findall(r"^interrupted: (.*)$", done.said, re.M)
    if not said:
        assert done.code == 0
        return "done"
    (text,) = said
    assert done.code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    expected = {
        "no file was changed": 0,
        "the files are as they were": 0,
        f"{COUNT} files are changed; `amp-migrate --undo {files.tree}` takes that back": COUNT,
        "nothing was restored": COUNT,
        f"{COUNT} files were restored": 0,
    }
    assert files.changed == expected[text], done.said
    assert files.strays == 0
    return str(text)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_interrupted_between_any_two_steps(files: Files, command: list[str], times: int) -> None:
    snapshot, total = before(files, command)
    heard = Counter[str]()
    for step in range(0, total, times):
        files.reset(snapshot)
        asking = [signal.SIGINT, signal.SIGTERM][step // times % 2]
        signals = [(step + again * (1 + step % 7), asking) for again in range(times)]
        heard[words(files, files.run(*command, signals=signals))] += 1
        if step % 5 == 0 and files.changed:  # the record is where it should be
            assert files.run("--undo").code == 0
            assert files.changed == 0
    del heard["done"]
    assert len(heard) == (3 if command == ["."] else 2), heard


@pytest.mark.parametrize("edit", ["in_place", "by_rename"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_somebody_else_writes_between_any_two_steps_is_kept(files: Files, command: list[str], edit: str) -> None:
    snapshot, total = before(files, command)
    found = 0
    for step in range(0, total, 2):
        files.reset(snapshot)
        path = files.paths[step // 2 % COUNT]
        said = files.run(*command, edits=[(step, edit, str(path), EDIT.decode())]).said
        assert path.read_bytes() == EDIT, said
        contents = [each.read_bytes() for each in files.paths]
        ((changed, restored),) = re.findall(r"read, (\d+) changed|^(\d+) restored", said, re.M)
        others = contents.count(NEW if command == ["."] else OLD)
        # The file itself counts where it was edited only after it had been written.
        assert int(changed or restored) in (others, others + 1), said
        found += path.name in said and "changed on disk" in said
    assert found >= COUNT
