"""On a disk that is full, files that belong together change together or not at all, and the report is of the disk."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.disk.folder import Folder
from click.testing import CliRunner

pytestmark = pytest.mark.usefixtures("toy_planner")
OLD, NEW = "amp, old_amp = 1, 2\n", "amp, new_amp = 1, 2\n"
TEXTS = {
    "engine.py": OLD + "# e\n" * 100,
    "main.py": "import engine\n" + OLD + "# m\n" * 200,
    "other.py": OLD + "# o\n" * 50,
}


def sizes(tree: Path) -> int:
    return sum(path.stat().st_size for path in tree.iterdir())


@pytest.fixture
def disk(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the tree's disk have so many bytes; None is left of a file that does not fit."""
    create = Folder.create
    room = [1 << 30]

    def filling(folder: Folder, name: str, data: bytes, *args: int, **options: bool) -> None:
        if folder.path == tree and sizes(tree) + len(data) > room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        create(folder, name, data, *args, **options)

    monkeypatch.setattr(Folder, "create", filling)
    monkeypatch.chdir(tree)
    for name, text in TEXTS.items():
        (tree / name).write_text(text)
    return lambda size: room.__setitem__(0, size)


def now(tree: Path) -> dict[str, bool]:
    """Whether each file is changed; nothing else may be in the folder."""
    texts = {path.name: path.read_text() for path in tree.iterdir()}
    assert texts.keys() == TEXTS.keys()
    for name, text in texts.items():
        assert text in (TEXTS[name], TEXTS[name].replace(OLD, NEW))
    return {name: texts[name] != TEXTS[name] for name in sorted(texts)}


def restore(tree: Path) -> None:
    for name, text in TEXTS.items():
        (tree / name).write_text(text)


def test_every_size_of_disk(tree: Path, disk: Callable[[int], None]) -> None:
    used = sizes(tree)
    seen = set()
    for more in range(0, used + 200, 40):
        restore(tree)
        disk(used + more)
        result = CliRunner().invoke(command, ["--format", "json", "."])
        changed = now(tree)
        report = json.loads(result.stdout)
        assert sorted(report["changed"]) == sorted(name for name in changed if changed[name]), more
        assert report["summary"]["changed"] == sum(changed.values())
        assert changed["main.py"] == changed["engine.py"]  # it imports it
        full = [each["path"] for each in report["findings"] if "no space left" in each["message"]]
        assert (result.exit_code == 0) == all(changed.values()) == (full == [])
        seen.add(tuple(changed.values()))
    assert len(seen) == 4  # none, the one that stands alone, the two that belong together, and all


def test_undo_on_every_size_of_disk(tree: Path, disk: Callable[[int], None]) -> None:
    CliRunner().invoke(command, ["."])
    used = sizes(tree)
    seen = set()
    for more in range(0, used + 200, 40):
        for name, text in TEXTS.items():
            (tree / name).write_text(text.replace(OLD, NEW))
        disk(used + more)
        result = CliRunner().invoke(command, ["--undo"])
        changed = now(tree)
        assert set(changed.values()) in ({True}, {False})
        told = re.search(r"^(\d) restored, (\d) left", result.stdout, re.M)
        assert told is not None
        assert [int(each) for each in told.groups()] == [3 - sum(changed.values()), sum(changed.values())]
        if changed["main.py"]:
            assert "no space left on device" in result.stdout
            assert result.exit_code == 2
        else:
            break
        seen.add(more)
    assert seen


def test_a_disk_that_fills_up_after_all_was_reserved_stops_nothing(
    tree: Path, disk: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Putting files in place, and taking them back, needs no space."""
    from amp_migrate.engine.disk import write

    put = write.Swaps.put

    def full_from_here(swaps: write.Swaps, swap: write.Swap) -> None:
        disk(0)
        if swap.parts == ("main.py",):
            (tree / "main.py").write_text(TEXTS["main.py"] + "# edited\n")
        put(swaps, swap)

    monkeypatch.setattr(write.Swaps, "put", full_from_here)
    result = CliRunner().invoke(command, ["."])
    assert result.exit_code == 2
    assert "1 changed" in result.stdout
    texts = {path.name: path.read_text() for path in tree.iterdir()}
    assert texts == {
        "engine.py": TEXTS["engine.py"],
        "main.py": TEXTS["main.py"] + "# edited\n",
        "other.py": TEXTS["other.py"].replace(OLD, NEW),
    }


def test_a_state_folder_without_space_stops_the_run_before_it_writes(
    tree: Path, disk: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Folder.create

    def full(folder: Folder, name: str, data: bytes, *args: int, **options: bool) -> None:
        if folder.path != tree:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        create(folder, name, data, *args, **options)

    monkeypatch.setattr(Folder, "create", full)
    result = CliRunner().invoke(command, ["."])
    assert result.exit_code == 2
    assert "no record to undo by can be kept: no space left on device" in result.stdout
    assert not any(now(tree).values())


def test_a_real_disk_of_every_size(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tree)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root mounts a small disk")
    try:
        monkeypatch.chdir(tree)
        page = os.sysconf("SC_PAGE_SIZE")
        texts = {name: text + f"# {'x' * page}\n" for name, text in TEXTS.items()}  # two pages each
        for free in range(8):
            for path in tree.iterdir():
                path.unlink()
            for name, text in texts.items():
                (tree / name).write_text(text)
            room = os.statvfs(tree)
            (tree / "ballast").write_bytes(b"x" * max(0, (room.f_bavail - free) * room.f_frsize))
            result = CliRunner().invoke(command, ["--format", "json", "."])
            changed = {name: (tree / name).read_text() != text for name, text in texts.items()}
            assert sorted(json.loads(result.stdout)["changed"]) == sorted(name for name in changed if changed[name])
            assert changed["main.py"] == changed["engine.py"]
            assert {path.name for path in tree.iterdir()} == {*texts, "ballast"}
        assert all(changed.values())
    finally:
        os.chdir("/")
        subprocess.run(["umount", str(tree)], check=True)
