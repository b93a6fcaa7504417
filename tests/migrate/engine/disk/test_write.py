"""Files are replaced whole, keep what they were, and are not touched when something is off."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from amp_migrate.engine.disk import exchange as exchanging
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.folder import Folder

OLD, NEW = b"old\n", b"new\n"


@pytest.fixture(params=["in one step", "by hard links", "by copies"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways in which two files exchange their names, the second and third for file systems that know no better."""
    if request.param != "in one step":
        monkeypatch.setattr(exchanging, "_system_call", lambda: None)
    if request.param == "by copies":

        def unable(*_: object) -> None:
            raise PermissionError(1, "no hard links here")

        monkeypatch.setattr(Folder, "link", unable)
    return str(request.param)


def put(path: Path, data: bytes = OLD, mode: int = 0o644) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


@contextmanager
def swapping(path: Path, after: bytes = NEW) -> Iterator[tuple[write.Swaps, write.Swap]]:
    with Folder.open(path.parent) as tree:
        swaps = write.Swaps(tree)
        yield swaps, write.Swap((path.name,), path.read_bytes(), after, ".x.amp-migrate")
        swaps.finish()


def replace(path: Path, after: bytes = NEW) -> None:
    with swapping(path, after) as (swaps, swap):
        swaps.prepare(swap)
        swaps.put(swap)


@pytest.mark.usefixtures("way")
def test_the_file_gets_the_new_bytes_and_nothing_else_is_left_behind(tree: Path) -> None:
    path = put(tree / "a.py")
    replace(path)
    assert path.read_bytes() == NEW
    assert os.listdir(tree) == ["a.py"]


@pytest.mark.usefixtures("way")
def test_what_was_put_is_taken_back(tree: Path) -> None:
    path = put(tree / "a.py")
    with swapping(path) as (swaps, swap):
        swaps.prepare(swap)
        swaps.put(swap)
        assert (path.read_bytes(), swaps.done) == (NEW, (swap,))
        swaps.take_back(swap)
        assert swaps.done == ()
    assert (path.read_bytes(), os.listdir(tree)) == (OLD, ["a.py"])


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o4711, 0o222])
def test_the_mode_stays(tree: Path, mode: int) -> None:
    path = put(tree / "a.py")
    path.chmod(mode)
    if not os.access(path, os.R_OK):
        pytest.skip("only root reads a file without the bit")
    replace(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tree: Path) -> None:
    path = put(tree / "a.py")
    os.chown(path, 1234, 2345)
    replace(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes are asked for by handle on Linux only")
def test_extended_attributes_stay(tree: Path) -> None:
    path = put(tree / "a.py")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has none")
    replace(path)
    assert os.getxattr(path, "user.note") == b"mine"


def test_a_file_that_changed_since_it_was_read_is_not_touched(tree: Path) -> None:
    path = put(tree / "a.py")
    with swapping(path) as (swaps, swap):
        path.write_bytes(b"edited\n")
        with pytest.raises(write.WriteError, match="changed on disk"):
            swaps.prepare(swap)
    assert (path.read_bytes(), os.listdir(tree)) == (b"edited\n", ["a.py"])


def test_a_file_that_is_gone_is_not_made_again(tree: Path) -> None:
    path = put(tree / "a.py")
    with swapping(path) as (swaps, swap):
        swaps.prepare(swap)
        path.unlink()
        with pytest.raises(write.WriteError, match="cannot be written: no such file"):
            swaps.put(swap)
    assert os.listdir(tree) == []


def test_a_full_disk_leaves_the_file_and_no_rubbish(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tree / "a.py")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(write.WriteError, match="no space left on device"):
        replace(path)
    assert (path.read_bytes(), os.listdir(tree)) == (OLD, ["a.py"])


def test_a_read_only_file_is_found_out_beforehand(tree: Path) -> None:
    put(tree / "a.py", mode=0o444)
    with Folder.open(tree) as folder, pytest.raises(write.WriteError, match="read-only; make it writable"):
        write.require_writable(folder, ("a.py",), OLD)


def test_a_folder_that_cannot_be_written_to_is_found_out_beforehand(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tree / "a.py")
    with Folder.open(tree) as folder:
        write.require_writable(folder, ("a.py",), OLD)
        # Root may write anywhere, whatever the bits.
        monkeypatch.setattr("os.access", lambda *_, **__: False)
        with pytest.raises(write.WriteError, match="its folder cannot be written to"):
            write.require_writable(folder, ("a.py",), OLD)


def test_a_copy_makes_its_folders_and_has_the_mode_that_is_asked_for(tree: Path) -> None:
    with Folder.open(tree) as folder:
        write.create(folder, ("x", "y", "a.py"), NEW, ".x.amp-migrate", 0o757)
    assert (tree / "x/y/a.py").read_bytes() == NEW
    assert stat.S_IMODE((tree / "x/y/a.py").stat().st_mode) == 0o757
    assert os.listdir(tree / "x/y") == ["a.py"]


def test_a_copy_that_cannot_be_made_says_why(tree: Path) -> None:
    put(tree / "x")
    (tree / "y").mkdir()
    with Folder.open(tree) as folder:
        for parts in [("x", "a.py"), ("y",)]:
            with pytest.raises(write.WriteError, match="cannot be written: "):
                write.create(folder, parts, NEW, ".x.amp-migrate", 0o644)
    assert sorted(os.listdir(tree)) == ["x", "y"]
