"""Which files a path stands for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from amp_migrate.engine.find.discover import Discovery, discover
from amp_migrate.engine.find.selection import Selection
from amp_migrate.report.finding import Kind


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def names(*paths: Path, below: Path, scope: Selection | None = None) -> list[str]:
    return [found.path.relative_to(below).as_posix() for found in discover(paths, scope).files]


def test_a_folder_stands_for_the_python_files_below_it_in_order_of_name(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/z.py", "a/b/c.pyw", "a.py", "notes.txt", "a/stub.pyi", "script")
    assert names(tmp_path, below=tmp_path) == ["a.py", "a/b/c.pyw", "a/z.py", "b.py"]


def test_folders_of_other_peoples_code_are_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "a.py", ".venv/lib/x.py", "node_modules/x.py", "build/x.py", ".git/x.py", "pkg/__pycache__/x.py")
    assert names(tmp_path, below=tmp_path) == ["a.py"]


def test_a_folder_that_is_named_is_searched_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, "build/x.py")
    assert names(tmp_path / "build", below=tmp_path) == ["build/x.py"]


def test_a_file_that_is_named_is_taken_whatever_its_suffix(tmp_path: Path) -> None:
    make(tmp_path, "train")
    assert names(tmp_path / "train", below=tmp_path) == ["train"]


def test_each_file_comes_once_under_the_name_it_was_first_met_by(tmp_path: Path) -> None:
    make(tmp_path, "pkg/a.py")
    (tmp_path / "pkg/link.py").symlink_to("a.py")
    assert names(tmp_path, tmp_path / "pkg", tmp_path / "pkg/a.py", below=tmp_path) == ["pkg/a.py"]
    assert names(tmp_path / "pkg/link.py", tmp_path, below=tmp_path) == ["pkg/link.py"]


def test_links_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    make(tmp_path, "outside/far.py", "root/a.py", "outside/venv/b.py")
    (tmp_path / "root/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "root/file.py").symlink_to(tmp_path / "outside/far.py")
    (tmp_path / "root/loop").symlink_to(tmp_path / "root")
    assert names(tmp_path / "root", below=tmp_path) == ["root/a.py"]


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    make(tmp_path, "outside/far.py")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file.py").symlink_to(tmp_path / "outside/far.py")
    assert names(tmp_path / "root/file.py", below=tmp_path) == ["root/file.py"]


def test_a_part_of_a_tree_can_be_kept_out(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "out/a.py", "outer/a.py")
    assert names(tmp_path, below=tmp_path, scope=Selection(without=tmp_path / "out")) == ["a.py", "outer/a.py"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.py", "no such file or folder"),
        ("goood.py", "no such file or folder; did you mean {}/good.py?"),
        ("dangling.py", "a link to nothing: gone.py"),
        ("pipe.py", "not a regular file"),
        ("loop.py", "cannot be read: too many levels of symbolic links"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_the_others_go_on(tmp_path: Path, name: str, message: str) -> None:
    make(tmp_path, "good.py")
    (tmp_path / "dangling.py").symlink_to("gone.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    os.mkfifo(tmp_path / "pipe.py")
    discovery = discover([tmp_path / name, tmp_path / "good.py"])
    assert [(problem.path, problem.code, problem.message) for problem in discovery.problems] == [
        ((tmp_path / name).as_posix(), "AMP001", message.format(tmp_path.as_posix()))
    ]
    assert [found.path.name for found in discovery.files] == ["good.py"]


def test_what_cannot_be_read_in_a_folder_is_told_too(tmp_path: Path) -> None:
    make(tmp_path, "good.py")
    (tmp_path / "dangling.py").symlink_to("gone.py")
    os.mkfifo(tmp_path / "pipe.py")
    problems = discover([tmp_path]).problems
    assert sorted(Path(problem.path).name for problem in problems) == ["dangling.py", "pipe.py"]


def test_a_folder_without_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "good.py", "closed/x.py")
    scandir = os.scandir

    def guarded(path: Path) -> object:  # chmod stops everybody but root, who may be running this
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", guarded)
    discovery = discover([tmp_path])
    assert [problem.message for problem in discovery.problems] == ["folder cannot be read: permission denied"]
    assert [found.path.name for found in discovery.files] == ["good.py"]


SETUP = 'from setuptools import setup\nsetup(name="apex", packages=["apex"])\n'


def copy_of_apex(folder: Path) -> None:
    make(folder, "apex/__init__.py", "apex/amp/__init__.py", "examples/main.py", "tests/L0/test_amp.py")
    (folder / "setup.py").write_text(SETUP)


def of_apex(found: Discovery, below: Path) -> list[str]:
    return [each.path.relative_to(below).as_posix() for each in found.files if each.is_apex]


def test_a_copy_of_apex_is_told_once_whatever_its_folder_is_called(tmp_path: Path) -> None:
    make(tmp_path, "train.py", "libs.py")
    copy_of_apex(tmp_path / "libs")
    found = discover([tmp_path])
    inside = ["apex/__init__.py", "apex/amp/__init__.py", "examples/main.py", "setup.py", "tests/L0/test_amp.py"]
    assert of_apex(found, tmp_path) == [f"libs/{each}" for each in inside]
    assert [(each.code, each.kind) for each in found.problems] == [("AMP393", Kind.NOTE)]


def test_the_project_of_others_is_no_copy_of_apex_for_the_package_in_it(tmp_path: Path) -> None:
    copy_of_apex(tmp_path / "mine")
    (tmp_path / "mine/setup.py").write_text(SETUP.replace('name="apex"', 'name="mine"'))
    copy_of_apex(tmp_path / "plain")
    (tmp_path / "plain/setup.py").unlink()
    make(tmp_path, "apex/train.py")
    (tmp_path / "apex/setup.py").write_text(SETUP)
    found = discover([tmp_path])
    assert of_apex(found, tmp_path) == []
    assert found.problems == ()


def test_a_copy_of_apex_that_is_named_is_searched(tmp_path: Path) -> None:
    copy_of_apex(tmp_path)
    assert of_apex(discover([tmp_path]), tmp_path) == []
    assert discover([tmp_path]).problems == ()
