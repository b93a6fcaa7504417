from __future__ import annotations

import os
from pathlib import Path

import pytest
from amp_migrate.verify.runs import folders
from amp_migrate.verify.usage import UsageError


def tree(folder: Path) -> Path:
    (folder / "pkg").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / ".git").mkdir()
    (folder / "train.py").write_text("old train")
    (folder / "util.py").write_text("util")
    (folder / "pkg" / "loop.py").write_text("old loop")
    (folder / "pkg" / "other.py").write_text("other")
    (folder / "data" / "x.txt").write_text("data")
    (folder / ".git" / "config").write_text("git")
    return folder


def test_an_overlay_holds_the_changed_files_and_links_to_all_others(tmp_path: Path) -> None:
    source, there = tree(tmp_path / "a"), tmp_path / "b"
    folders.overlay(source, {Path("train.py"): b"new train", Path("pkg/loop.py"): b"new loop"}, there)
    assert (there / "train.py").read_text() == "new train"
    assert (there / "pkg" / "loop.py").read_text() == "new loop"
    assert (there / "pkg" / "other.py").read_text() == "other"
    assert (there / "data" / "x.txt").read_text() == "data"
    assert not (there / "train.py").is_symlink()
    assert (there / "util.py").is_symlink()


def test_an_overlay_leaves_the_source_as_it_was(tmp_path: Path) -> None:
    source = tree(tmp_path / "a")
    folders.overlay(source, {Path("train.py"): b"new", Path("pkg/loop.py"): b"new"}, tmp_path / "b")
    assert (source / "train.py").read_text() == "old train"
    assert (source / "pkg" / "loop.py").read_text() == "old loop"


def test_a_copy_is_real_and_leaves_repositories_and_caches_out(tmp_path: Path) -> None:
    source, there = tree(tmp_path / "a"), tmp_path / "b"
    (source / "link").symlink_to("util.py")
    folders.copy(source, there, without=source / "data")
    (there / "train.py").write_text("changed")
    assert (source / "train.py").read_text() == "old train"
    assert not (there / ".git").exists()
    assert not (there / "data").exists()
    assert (there / "link").resolve() == source / "util.py"


def test_a_folder_with_too_many_bytes_or_files_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tree(tmp_path / "a")
    assert folders.copyable(source)
    monkeypatch.setattr(folders, "COPY_FILES", 4)
    assert not folders.copyable(source)
    monkeypatch.undo()
    monkeypatch.setattr(folders, "COPY_BYTES", 10)
    assert not folders.copyable(source)


def test_a_file_that_cannot_be_copied_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tree(tmp_path / "a")

    def refuse(entry: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(entry))

    monkeypatch.setattr("shutil.copy2", refuse)
    with pytest.raises(UsageError, match=r"--isolate: .*x\.txt: Permission denied; use --isolate never"):
        folders.copy(source, tmp_path / "b", without=tmp_path)


def test_a_copy_stands_among_links_to_its_neighbours(tmp_path: Path) -> None:
    source = tree(tmp_path / "home" / "work")
    (tmp_path / "home" / "data").mkdir()
    (tmp_path / "home" / "data" / "x.txt").write_text("outside")
    there = folders.copy_beside(source, tmp_path / "run", without=tmp_path, changed={})
    assert there.name == "work"
    assert (there / ".." / "data" / "x.txt").read_text() == "outside"
    (there / "train.py").write_text("changed")
    assert (source / "train.py").read_text() == "old train"


def test_a_copy_of_a_folder_within_a_repository_finds_what_is_above_it_with_its_changes(tmp_path: Path) -> None:
    root = tree(tmp_path / "home")
    work = root / "tools" / "deep"
    work.mkdir(parents=True)
    (work / "main.py").write_text("old main")
    (tmp_path / "new").write_text("new")
    changed = dict.fromkeys((root / "pkg" / "loop.py", work / "main.py", tmp_path / "else.py"), tmp_path / "new")
    there = folders.copy_beside(work, tmp_path / "run", without=tmp_path, changed=changed)
    above = there / ".." / ".."
    assert (there / "main.py").read_text() == "new"
    assert (above / "pkg" / "loop.py").read_text() == "new"
    assert (above / "pkg" / "other.py").read_text() == "other"
    assert (above / "util.py").is_symlink()
    assert (work / "main.py").read_text() == "old main"
    assert (root / "pkg" / "loop.py").read_text() == "old loop"


def test_a_pipe_in_the_working_folder_is_not_copied(tmp_path: Path) -> None:
    source = tree(tmp_path / "a")
    os.mkfifo(source / "pipe")
    folders.copy(source, tmp_path / "b", without=tmp_path)
    assert (tmp_path / "b" / "util.py").read_text() == "util"
    assert not (tmp_path / "b" / "pipe").exists()
    assert folders.copyable(source)


def test_a_folder_of_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    assert [folders.new(tmp_path / "runs", "timing").name for _ in range(3)] == ["timing", "timing-2", "timing-3"]
    assert len(list((tmp_path / "runs").iterdir())) == 3
