"""What of a folder belongs to a run: patterns, and what git ignores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amp_migrate.engine.find.discover import discover
from amp_migrate.engine.find.selection import Selection

FILES = "a.py b.txt pkg/a.py pkg/b.py pkg/sub/c.py out/d.py".split()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".git").mkdir()
    return tmp_path


def names(root: Path, scope: Selection, below: Path | None = None) -> list[str]:
    return [found.path.relative_to(root).as_posix() for found in discover([below or root], scope).files]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), "a.py out/d.py pkg/a.py pkg/b.py pkg/sub/c.py"),
        ((), ("out/", "pkg/b.py"), "a.py pkg/a.py pkg/sub/c.py"),
        ((), ("a.py",), "out/d.py pkg/b.py pkg/sub/c.py"),
        ((), ("/a.py",), "out/d.py pkg/a.py pkg/b.py pkg/sub/c.py"),
        ((), ("pkg/*", "!pkg/sub"), "a.py out/d.py pkg/sub/c.py"),
        (("*.txt",), (), "b.txt"),
        (("/pkg/",), ("b.py",), "pkg/a.py pkg/sub/c.py"),
    ],
)
def test_patterns_choose(root: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: str) -> None:
    assert names(root, Selection(include=include, exclude=exclude, base=root)) == expected.split()


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        ({".gitignore": "out/\n"}, "a.py pkg/a.py pkg/b.py pkg/sub/c.py"),
        ({".gitignore": "*.py\n!/a.py\n"}, "a.py"),
        ({".gitignore": "pkg/\n!pkg/a.py\n"}, "a.py out/d.py"),
        ({".gitignore": "a.py\n", "pkg/.gitignore": "!a.py\nsub\n"}, "out/d.py pkg/a.py pkg/b.py"),
        ({"pkg/.gitignore": "/b.py\n"}, "a.py out/d.py pkg/a.py pkg/sub/c.py"),
        ({".git/info/exclude": "pkg\n"}, "a.py out/d.py"),
    ],
)
def test_what_git_ignores_is_passed_over(root: Path, ignored: dict[str, str], expected: str) -> None:
    for name, patterns in ignored.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(patterns)
    assert names(root, Selection()) == expected.split()
    assert len(names(root, Selection(gitignore=False))) == 5


def test_git_itself_says_the_same(root: Path) -> None:
    (root / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("# made\n*.py\n!/pkg/\n!pkg/**/*.py\npkg/b*\n\nout\n")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "*.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert names(root, Selection()) == sorted(listed.stdout.split()) == ["pkg/a.py", "pkg/sub/c.py"]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_what_git_tracks_it_does_not_ignore(root: Path, version: int) -> None:
    def git(*args: str, at: Path = root) -> str:
        return subprocess.run(["git", *args], cwd=at, capture_output=True, text=True, check=True).stdout

    (root / ".git").rmdir()
    for name in ("pkg/sub/d.py", "inner/e.py", "inner/f.py", "n\u00e4me.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    for at in (root, root / "inner"):
        git("init", "-q", at=at)
        git("config", "index.version", str(version), at=at)
    (root / ".gitignore").write_text("a.py\npkg/\nf.py\nn*.py\n")
    git("add", "-f", "a.py", "pkg/sub/c.py", "n\u00e4me.py")
    if version == 3:  # the flag of a file that is to be added makes one
        git("add", "-f", "-N", "pkg/b.py")
    git("add", "-f", "f.py", at=root / "inner")
    tracked = ["pkg/b.py"] if version == 3 else []
    assert names(root, Selection()) == sorted(
        ["a.py", "inner/e.py", "inner/f.py", "n\u00e4me.py", "out/d.py", *tracked, "pkg/sub/c.py"]
    )
    assert names(root, Selection(), below=root / "pkg/sub") == ["pkg/sub/c.py", "pkg/sub/d.py"]  # as it is named
    listed = git("-c", "core.quotePath=false", "ls-files", "*.py").splitlines()
    assert sorted(listed) == sorted(["a.py", *tracked, "pkg/sub/c.py", "n\u00e4me.py"])
    assert discover([root], Selection()).ignored == (3 - len(tracked), 0)


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\3rest", b"PACK\0\0\0\2\0\0\0\1"])
def test_an_index_that_cannot_be_read_tracks_nothing(root: Path, index: bytes) -> None:
    (root / ".git/index").write_bytes(index)
    (root / ".gitignore").write_text("pkg\na.py\n")
    assert names(root, Selection()) == ["out/d.py"]


def test_a_worktree_keeps_its_index_elsewhere(root: Path) -> None:
    def git(*args: str) -> None:
        me = ("-c", "user.name=me", "-c", "user.email=me@example.com")
        subprocess.run(["git", *me, *args], cwd=root, capture_output=True, check=True)

    (root / ".git").rmdir()
    git("init", "-q")
    (root / ".gitignore").write_text("a.py\nout\n")
    git("add", "-f", "a.py", "out/d.py", ".gitignore")
    git("commit", "-q", "-m", "all")
    git("worktree", "add", "-q", "out/tree")
    assert names(root / "out/tree", Selection()) == ["a.py", "out/d.py"]


def test_what_is_passed_over_is_counted(root: Path) -> None:
    (root / ".gitignore").write_text("a.py\nb.txt\n/pkg/sub\n__pycache__/\n")
    (root / "__pycache__").mkdir()
    assert discover([root], Selection()).ignored == (2, 1)
    assert discover([root], Selection(gitignore=False)).ignored == (0, 0)


def test_the_rules_of_the_repository_hold_in_a_folder_of_it(root: Path) -> None:
    (root / ".gitignore").write_text("b.py\n")
    assert names(root, Selection(), below=root / "pkg") == ["pkg/a.py", "pkg/sub/c.py"]


def test_a_folder_that_is_named_is_searched_even_if_git_ignores_it(root: Path) -> None:
    (root / ".gitignore").write_text("out/\n")
    assert names(root, Selection(), below=root / "out") == ["out/d.py"]


def test_a_gitignore_outside_of_any_repository_counts_from_its_folder_down(root: Path) -> None:
    (root / ".git").rmdir()
    (root / ".gitignore").write_text("b.py\n")
    assert "pkg/b.py" not in names(root, Selection())
    assert "pkg/b.py" in names(root, Selection(), below=root / "pkg")
