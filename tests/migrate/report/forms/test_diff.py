"""A diff that git applies, whatever the file looks like inside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amp_migrate.report.forms.diff import unified
from hypothesis import given, settings
from hypothesis import strategies as st


def git_apply(folder: Path, diff: bytes) -> None:
    (folder / "change.diff").write_bytes(diff)
    result = subprocess.run(["git", "apply", "change.diff"], cwd=folder, capture_output=True, check=False)
    assert result.returncode == 0, (result.stderr + diff).decode("latin-1")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\nc\r", b"a\r\nB\nc\r"),
        (b"a\nb", b"a\nB"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        (b"# coding: latin-1\n'\xe9'\n", b"# coding: latin-1\n'\xe8'\n"),
        (b"a\n\x0cb\x0b\x1c\n", b"a\n\x0cB\x0b\x1c\n"),
        ("a\u2028b\u0085\nc\n".encode(), "a\u2028b\u0085\nC\n".encode()),
        (b"--- x\n+++ y\n", b"--- x\n+++ z\n"),
    ],
)
def test_git_applies_it(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "train.py").write_bytes(before)
    git_apply(tmp_path, unified(before, after, "train.py"))
    assert (tmp_path / "train.py").read_bytes() == after


@pytest.mark.parametrize(
    "name", ["my train.py", 'a"b.py', "a\\b.py", "a\tb.py", "d\u00e9j\u00e0.py", "pkg/deep/train.py"]
)
def test_git_finds_the_file_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"a\n")
    git_apply(tmp_path, unified(b"a\n", b"b\n", name))
    assert (tmp_path / name).read_bytes() == b"b\n"


@given(st.binary(max_size=40), st.binary(max_size=40))
@settings(max_examples=25, deadline=None)
def test_git_applies_any_change_of_text(tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes) -> None:
    before, after = (b"x\n" + data.replace(b"\0", b"") for data in (before, after))
    folder = tmp_path_factory.mktemp("tree")
    (folder / "train.py").write_bytes(before)
    diff = unified(before, after, "train.py")
    assert bool(diff) == (before != after)
    if diff:
        git_apply(folder, diff)
    assert (folder / "train.py").read_bytes() == after


def test_nothing_changed_is_nothing() -> None:
    assert unified(b"a\n", b"a\n", "train.py") == b""
