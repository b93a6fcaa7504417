"""What a run changed can be taken back, and what a killed run left is put back."""

from __future__ import annotations

import os
import signal
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.journal import Change, copying, recording
from amp_migrate.engine.disk.leftovers import Leftovers, recover, tidy
from amp_migrate.engine.disk.records import KEPT_OF_A_TREE
from amp_migrate.engine.disk.restore import Restored
from amp_migrate.engine.disk.tree import find_root
from amp_migrate.engine.disk.undo import preview, undo


def make(tree: Path, **texts: str) -> list[Change]:
    changes = []
    for name, text in texts.items():
        path = tree / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        changes.append(Change((f"{name}.py",), text.encode(), text.replace("old", "new").encode()))
    return changes


def carry_out(tree: Path, changes: list[Change]) -> None:
    with recording(tree, changes) as (swaps, wanted):
        for swap in wanted:
            swaps.prepare(swap)
            swaps.put(swap)


def texts(tree: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in tree.glob("*.py")}


def taken_back(*paths: Path) -> Restored:
    done = undo(paths)
    assert done is not None
    return done.restored


def test_undo_gives_the_original_bytes_back(tree: Path) -> None:
    changes = make(tree, a="old\n", b="old")
    (tree / "a.py").chmod(0o750)
    carry_out(tree, changes)
    assert texts(tree) == {"a": "new\n", "b": "new"}
    assert taken_back(tree) == Restored((tree / "a.py", tree / "b.py"))
    assert (tree / "a.py").read_bytes() == b"old\n"
    assert (tree / "a.py").stat().st_mode & 0o777 == 0o750
    assert undo([tree]) is None


def test_nothing_is_left_in_the_tree(tree: Path) -> None:
    carry_out(tree, make(tree, a="old"))
    assert os.listdir(tree) == ["a.py"]
    taken_back(tree)
    assert os.listdir(tree) == ["a.py"]


def test_undo_goes_back_run_by_run(tree: Path) -> None:
    carry_out(tree, make(tree, a="old"))
    carry_out(tree, [Change(("a.py",), b"new", b"newer")])
    taken_back(tree)
    assert texts(tree) == {"a": "new"}
    taken_back(tree)
    assert texts(tree) == {"a": "old"}


def test_a_file_that_changed_since_is_refused_and_can_be_undone_later(tree: Path) -> None:
    carry_out(tree, make(tree, a="old a", b="old b", c="old c"))
    (tree / "a.py").write_text("edited")
    (tree / "b.py").unlink()
    restored = taken_back(tree)
    assert restored.files == (tree / "c.py",)
    assert [path.stem for path, _ in restored.refused] == ["a", "b"]
    assert texts(tree) == {"a": "edited", "c": "old c"}
    member, archive = restored.refused[0][1].split("its original is ")[1].split(" in ")
    assert zipfile.ZipFile(archive).read(member) == b"old a"
    (tree / "a.py").write_text("new a")
    taken_back(tree)
    assert texts(tree)["a"] == "old a"


def test_undo_of_a_file_restores_that_file_only_and_says_what_belongs_with_it(tree: Path) -> None:
    a, b, c = make(tree, a="old a", b="old b", c="old c")
    together = [Change(each.parts, each.before, each.after, group=1) for each in (a, b)]
    carry_out(tree, [*together, c])
    done = undo([tree / "a.py"])
    assert done is not None
    assert (done.restored.files, done.parted) == ((tree / "a.py",), ((tree / "b.py", tree / "a.py"),))
    assert texts(tree) == {"a": "old a", "b": "new b", "c": "new c"}
    done = undo([tree / "b.py"])
    assert done is not None
    assert (done.restored.files, done.parted) == ((tree / "b.py",), ())
    assert taken_back(tree).files == (tree / "c.py",)
    assert undo([tree]) is None


def test_undo_of_a_file_takes_the_latest_run_that_changed_it(tree: Path) -> None:
    carry_out(tree, make(tree, a="old a"))
    carry_out(tree, make(tree, b="old b"))
    assert taken_back(tree / "a.py").files == (tree / "a.py",)
    assert texts(tree) == {"a": "old a", "b": "new b"}
    assert undo([tree / "a.py"]) is None


def test_undo_of_a_folder_restores_what_is_in_it(tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub/x.py").write_text("old x")
    carry_out(tree, [*make(tree, a="old a"), Change(("sub", "x.py"), b"old x", b"new x")])
    assert taken_back(tree / "sub").files == (tree / "sub/x.py",)
    assert texts(tree) == {"a": "new a"}


@pytest.mark.parametrize("here", [".", "deep/er", ".."])
def test_undo_without_a_path_is_of_the_project_that_one_stands_in(
    tree: Path, monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    carry_out(tree, make(tree, a="old"))
    (tree / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tree / here)
    assert taken_back().files == (tree / "a.py",)


def test_undo_without_a_path_is_not_of_another_project(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out(tree, make(tree, a="old"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert undo([]) is None
    assert undo([tmp_path / "other"]) is None


def test_a_preview_tells_what_undo_would_do_and_writes_nothing(tree: Path, state: Path) -> None:
    carry_out(tree, make(tree, a="old", b="old"))
    (tree / "b.py").write_text("edited")
    before = sorted(os.listdir(state))
    coming = preview([tree])
    assert coming is not None
    run, changes = coming
    assert (run.tree, run.files, run.record) == (tree, 2, state / before[0])
    assert changes == [(tree / "a.py", b"new", b"old")]
    assert (texts(tree), sorted(os.listdir(state))) == ({"a": "new", "b": "edited"}, before)


def test_a_tree_that_was_moved_is_known_again(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out(tree, make(tree, a="old"))
    moved = tree.rename(tmp_path / "moved")
    monkeypatch.chdir(moved)
    assert taken_back().files == (moved / "a.py",)
    assert texts(moved) == {"a": "old"}


def test_a_run_that_ends_by_an_exception_is_taken_back_at_once(tree: Path) -> None:
    changes = make(tree, a="old", b="old")

    def interrupted() -> None:
        with recording(tree, changes) as (swaps, (a, b)):
            swaps.prepare(a)
            swaps.prepare(b)
            swaps.put(a)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert texts(tree) == {"a": "old", "b": "old"}
    assert os.listdir(tree.parent / "state/amp-migrate/undo") == ["lock"]
    assert sorted(os.listdir(tree)) == ["a.py", "b.py"]


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


def half(tree: Path, changes: list[Change]) -> None:
    """Change the first of the files, and prepare the second."""
    with recording(tree, changes) as (swaps, wanted):
        for swap in wanted:
            swaps.prepare(swap)
        swaps.put(wanted[0])
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def killed(tree: Path) -> Path:
    changes = make(tree, a="old", b="old")
    in_a_killed_process(lambda: half(tree, changes))
    assert texts(tree) == {"a": "new", "b": "old"}
    assert len(os.listdir(tree)) == 4
    return tree


def test_what_a_killed_run_left_is_put_back(killed: Path) -> None:
    assert recover(killed) == Restored((killed / "a.py",), strays=2)
    assert texts(killed) == {"a": "old", "b": "old"}
    assert sorted(os.listdir(killed)) == ["a.py", "b.py"]
    assert recover(killed) == Restored()


def test_undo_after_a_killed_run_puts_it_back_as_a_whole(killed: Path) -> None:
    assert taken_back(killed / "b.py") == Restored((killed / "a.py",), strays=2)
    assert undo([killed]) is None


def test_undo_after_a_killed_run_finds_its_record_from_anywhere_in_the_project(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (killed / "deep").mkdir()
    monkeypatch.chdir(killed / "deep")
    assert taken_back().files == (killed / "a.py",)


def test_a_run_that_writes_nothing_removes_strays_and_tells_of_the_rest(killed: Path) -> None:
    assert tidy(killed) == Leftovers(2, (killed,))
    assert texts(killed) == {"a": "new", "b": "old"}
    assert sorted(os.listdir(killed)) == ["a.py", "b.py"]
    assert tidy(killed) == Leftovers(0, (killed,))
    assert recover(killed) == Restored((killed / "a.py",))


def test_a_run_elsewhere_leaves_a_killed_run_alone(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert recover(tmp_path / "other") == Restored()
    assert tidy(tmp_path / "other") == Leftovers()
    assert texts(killed) == {"a": "new", "b": "old"}


def test_a_run_that_is_still_at_work_is_not_taken_for_a_killed_one(tree: Path) -> None:
    with recording(tree, make(tree, a="old")) as (swaps, wanted):
        swaps.prepare(wanted[0])
        assert tidy(tree) == Leftovers()
        swaps.put(wanted[0])
    assert texts(tree) == {"a": "new"}


def test_copies_that_were_not_finished_leave_no_file_beside_them(tree: Path) -> None:
    def killed_in_between() -> None:
        with copying(tree, [("a.py",), ("b.py",)]) as (_, names):
            (tree / names[1]).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    in_a_killed_process(killed_in_between)
    assert len(os.listdir(tree)) == 1
    assert tidy(tree.parent) == Leftovers(1)
    assert os.listdir(tree) == []


def test_an_undo_that_was_killed_is_finished(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out(tree, make(tree, a="old", b="old", c="old"))
    put = write.Swaps.put

    def dying(swaps: write.Swaps, swap: write.Swap) -> None:
        if swap.parts == ("b.py",):
            os.kill(os.getpid(), signal.SIGKILL)
        put(swaps, swap)

    def undone() -> None:
        monkeypatch.setattr(write.Swaps, "put", dying)
        undo([tree / "a.py", tree / "b.py"])

    in_a_killed_process(undone)
    assert texts(tree) == {"a": "old", "b": "new", "c": "new"}
    assert recover(tree) == Restored((tree / "b.py",), strays=2)
    assert texts(tree) == {"a": "old", "b": "old", "c": "new"}
    assert taken_back(tree).files == (tree / "c.py",)


def test_a_second_writer_waits_for_the_first(tree: Path) -> None:
    changes = make(tree, a="old", b="old")
    order = []

    def second() -> None:
        with recording(tree, changes[1:]):
            order.append("second")

    with recording(tree, changes[:1]):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_only_the_latest_runs_are_kept(tree: Path, state: Path) -> None:
    for number in range(KEPT_OF_A_TREE + 3):
        carry_out(tree, [*make(tree, a=f"old {number}")])
    numbers = [int(name[:6]) for name in sorted(os.listdir(state)) if name.endswith(".zip")]
    assert numbers == list(range(4, KEPT_OF_A_TREE + 4))


def test_without_a_record_nothing_is_written(tree: Path, state: Path) -> None:
    changes = make(tree, a="old")
    state.parent.mkdir(parents=True, mode=0o700)
    state.write_text("in the way")
    with pytest.raises(write.WriteError, match="no record to undo by"):
        carry_out(tree, changes)
    assert texts(tree) == {"a": "old"}


def test_a_name_that_is_no_text_is_recorded_and_restored(tree: Path) -> None:
    path = tree / os.fsdecode(b"\xff.py")
    path.write_bytes(b"old")
    carry_out(tree, [Change((path.name,), b"old", b"new")])
    assert taken_back(tree).files == (path,)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("marks", "paths", "root"),
    [
        (["pyproject.toml"], ["pkg/sub/a.py"], "."),
        (["pyproject.toml", "pkg/.git"], ["pkg/sub"], "pkg"),
        (["pyproject.toml", "pkg/.git"], ["pkg/sub", "other"], "."),
        ([], ["pkg/sub/a.py"], "."),
        ([], ["../elsewhere/b.py"], "../elsewhere"),
        ([], ["link.py"], "../elsewhere"),
    ],
)
def test_the_project_is_the_nearest_folder_that_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marks: list[str], paths: list[str], root: str
) -> None:
    here = tmp_path / "here"
    for name in ["here/pkg/sub/a.py", "here/other/b.py", "elsewhere/b.py", *(f"here/{mark}" for mark in marks)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (here / "link.py").symlink_to("../elsewhere/b.py")
    monkeypatch.chdir(here)
    assert find_root([Path(path) for path in paths]) == Path(os.path.abspath(root))


def test_a_home_folder_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    assert find_root([Path("a.py")]) == tmp_path / "code"
