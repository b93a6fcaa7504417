"""Files are replaced whole, keep what they were, and are not touched when something is off."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from amp_migrate.engine import write
from amp_migrate.engine.source import Source


def read(path: Path) -> Source:
    return Source.decode(path.read_bytes(), path)


def put(path: Path, data: bytes = b"old\n", mode: int = 0o644) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_the_file_gets_the_new_text_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py")
    write.replace(read(path), "new\n")
    assert path.read_bytes() == b"new\n"
    assert os.listdir(tmp_path) == ["a.py"]


def test_encoding_byte_order_mark_and_line_ends_are_the_files_own(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py", b"\xef\xbb\xbfold = '\xc3\xa9'\r\n")
    source = read(path)
    write.replace(source, source.text.replace("old", "new"))
    assert path.read_bytes() == b"\xef\xbb\xbfnew = '\xc3\xa9'\r\n"


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o4711, 0o222])
def test_the_mode_stays(tmp_path: Path, mode: int) -> None:
    path = put(tmp_path / "a.py")
    source = read(path)
    path.chmod(mode)
    if not os.access(path, os.R_OK):
        pytest.skip("only root reads a file without the bit")
    write.replace(source, "new\n")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py")
    os.chown(path, 1234, 2345)
    write.replace(read(path), "new\n")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    target = put(tmp_path / "target.py")
    link = tmp_path / "link.py"
    link.symlink_to("target.py")
    write.replace(read(link), "new\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"new\n"


def test_a_file_that_changed_since_it_was_read_is_not_touched(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py")
    source = read(path)
    path.write_bytes(b"edited\n")
    with pytest.raises(write.WriteError, match="changed on disk"):
        write.replace(source, "new\n")
    assert path.read_bytes() == b"edited\n"


def test_a_change_at_the_last_moment_is_seen_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.py")
    source = read(path)
    fsync = os.fsync

    def edit_meanwhile(descriptor: int) -> None:
        path.write_bytes(b"edited\n")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", edit_meanwhile)
    with pytest.raises(write.WriteError, match="changed on disk"):
        write.replace(source, "new\n")
    assert path.read_bytes() == b"edited\n"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_read_only_file_is_not_touched(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py", mode=0o444)
    with pytest.raises(write.WriteError, match="read-only; make it writable"):
        write.replace(read(path), "new\n")
    assert path.read_bytes() == b"old\n"


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    path = put(tmp_path / "a.py")
    source = read(path)
    path.unlink()
    with pytest.raises(write.WriteError, match="cannot be written: no such file"):
        write.replace(source, "new\n")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.py")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(write.WriteError, match="no space left on device"):
        write.replace(read(path), "new\n")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old\n", ["a.py"])


def test_a_folder_that_cannot_be_written_to_is_found_out_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = read(put(tmp_path / "a.py"))
    write.require_writable(source)
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere, whatever the bits
    with pytest.raises(write.WriteError, match="its folder cannot be written to"):
        write.require_writable(source)


def test_a_copy_makes_its_folders_and_takes_the_mode_of_the_original(tmp_path: Path) -> None:
    original = put(tmp_path / "a.py", mode=0o750)
    write.create(tmp_path / "x/y/a.py", b"new\n", like=original)
    assert (tmp_path / "x/y/a.py").read_bytes() == b"new\n"
    assert stat.S_IMODE((tmp_path / "x/y/a.py").stat().st_mode) == 0o750


def test_a_copy_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    put(tmp_path / "x")
    with pytest.raises(write.WriteError, match="cannot be written: "):
        write.create(tmp_path / "x/a.py", b"new\n")
