"""What a run changed can be taken back, and what a killed run left is."""

from __future__ import annotations

import os
import signal
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.engine import write
from amp_migrate.engine.journal import FOLDER, KEPT_RUNS, Change, Journal, find_root


def make(root: Path, **texts: str) -> list[Change]:
    changes = []
    for name, text in texts.items():
        path = root / f"{name}.py"
        path.write_text(text)
        changes.append(Change(path, text.encode(), text.replace("old", "new").encode()))
    return changes


def carry_out(journal: Journal, changes: list[Change]) -> None:
    with journal.recording(changes):
        for change in changes:
            write.swap(change.path, change.after, expected=change.before)


def texts(root: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in root.glob("*.py")}


def test_undo_gives_the_original_bytes_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    changes = make(tmp_path, a="old\n", b="old")
    (tmp_path / "a.py").chmod(0o750)
    carry_out(journal, changes)
    assert texts(tmp_path) == {"a": "new\n", "b": "new"}
    restored = journal.undo()
    assert restored is not None
    assert restored.files == (tmp_path / "a.py", tmp_path / "b.py")
    assert (tmp_path / "a.py").read_bytes() == b"old\n"
    assert (tmp_path / "a.py").stat().st_mode & 0o777 == 0o750
    assert journal.undo() is None


def test_undo_goes_back_run_by_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    carry_out(journal, make(tmp_path, a="old"))
    carry_out(journal, [Change(tmp_path / "a.py", b"new", b"newer")])
    journal.undo()
    assert texts(tmp_path) == {"a": "new"}
    journal.undo()
    assert texts(tmp_path) == {"a": "old"}


def test_a_file_that_changed_since_is_refused_and_can_be_undone_later(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    carry_out(journal, make(tmp_path, a="old a", b="old b", c="old c"))
    (tmp_path / "a.py").write_text("edited")
    (tmp_path / "b.py").unlink()
    restored = journal.undo()
    assert restored is not None
    assert restored.files == (tmp_path / "c.py",)
    assert [path.stem for path, _ in restored.refused] == ["a", "b"]
    assert texts(tmp_path) == {"a": "edited", "c": "old c"}
    member, archive = restored.refused[0][1].split("its original is ")[1].split(" in ")
    assert zipfile.ZipFile(archive).read(member) == b"old a"
    (tmp_path / "a.py").write_text("new a")
    journal.undo()
    assert texts(tmp_path)["a"] == "old a"


def test_a_run_that_ends_by_an_exception_is_taken_back_at_once(tmp_path: Path) -> None:
    changes = make(tmp_path, a="old", b="old")
    journal = Journal(tmp_path)

    def interrupted() -> None:
        with journal.recording(changes):
            write.swap(changes[0].path, changes[0].after, expected=changes[0].before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert texts(tmp_path) == {"a": "old", "b": "old"}
    assert not journal.interrupted


def in_a_killed_process(work: Callable[[], None]) -> None:
    """Run `work` in a child that kills itself at the end of it, as hard as `kill -9`."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_what_a_killed_run_left_is_put_back(tmp_path: Path) -> None:
    changes = make(tmp_path, a="old", b="old")
    journal = Journal(tmp_path)

    def half() -> None:
        with journal.recording(changes):
            write.swap(changes[0].path, changes[0].after, expected=changes[0].before)
            os.kill(os.getpid(), signal.SIGKILL)

    in_a_killed_process(half)
    assert texts(tmp_path) == {"a": "new", "b": "old"}
    assert journal.interrupted
    assert journal.recover().files == (tmp_path / "a.py",)
    assert texts(tmp_path) == {"a": "old", "b": "old"}
    assert not journal.interrupted


def test_an_undo_that_was_killed_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    carry_out(journal, make(tmp_path, a="old", b="old"))
    swap = write.swap

    def dying(target: Path, data: bytes, expected: bytes) -> None:
        if target.stem == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        swap(target, data, expected)

    def undo() -> None:
        monkeypatch.setattr(write, "swap", dying)
        journal.undo()

    in_a_killed_process(undo)
    assert texts(tmp_path) == {"a": "old", "b": "new"}
    journal.recover()
    assert texts(tmp_path) == {"a": "old", "b": "old"}


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    changes = make(tmp_path, a="old", b="old")
    order = []

    def second() -> None:
        with Journal(tmp_path).recording(changes[1:]):
            order.append("second")

    with Journal(tmp_path).recording(changes[:1]):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_git_does_not_see_the_record(tmp_path: Path) -> None:
    carry_out(Journal(tmp_path), make(tmp_path, a="old"))
    assert (tmp_path / FOLDER / ".gitignore").read_text().splitlines()[-1] == "*"


def test_only_the_latest_runs_are_kept(tmp_path: Path) -> None:
    changes = make(tmp_path, a="old")
    for _ in range(KEPT_RUNS + 3):
        with Journal(tmp_path).recording(changes):
            pass
    names = sorted(path.name for path in (tmp_path / FOLDER / "undo").iterdir())
    assert names == [f"{number:06}.zip" for number in range(4, KEPT_RUNS + 4)]


def test_without_a_record_nothing_is_written(tmp_path: Path) -> None:
    changes = make(tmp_path, a="old")
    (tmp_path / FOLDER).write_text("in the way")
    with pytest.raises(write.WriteError, match="no record to undo by"):
        carry_out(Journal(tmp_path), changes)
    assert texts(tmp_path) == {"a": "old"}


def test_files_outside_of_the_project_are_restored_too(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    journal = Journal(root)
    carry_out(journal, make(tmp_path, a="old"))
    journal.undo()
    assert texts(tmp_path) == {"a": "old"}


@pytest.mark.parametrize(
    ("marks", "paths", "root"),
    [
        (["pyproject.toml"], ["pkg/sub/a.py"], "."),
        (["pyproject.toml", "pkg/.git"], ["pkg/sub"], "pkg"),
        (["pyproject.toml", "pkg/.git"], ["pkg/sub", "other"], "."),
        ([], ["pkg/sub/a.py"], "."),
        ([], ["../elsewhere/b.py"], "../elsewhere"),
    ],
)
def test_the_project_is_the_nearest_folder_that_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marks: list[str], paths: list[str], root: str
) -> None:
    here = tmp_path / "here"
    for name in ["here/pkg/sub/a.py", "here/other/b.py", "elsewhere/b.py", *(f"here/{mark}" for mark in marks)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(here)
    assert find_root([Path(path) for path in paths]) == Path(os.path.abspath(root))
